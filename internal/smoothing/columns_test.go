package smoothing

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// twoScales returns noise on columns in different units, with a frozen column (a column without noise) between them.
func twoScales(t *testing.T, l law.Additive, scales ...float64) *ColumnNoise {
	t.Helper()
	var columns []Column
	var of []int
	for i, s := range scales {
		columns = append(columns, Column{Name: "c", Scale: s, Std: 1, Low: float32(-20 * s), High: float32(20 * s)})
		of = append(of, i)
	}
	n, err := NewColumnNoise(l, columns, of)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// All quantised columns share one table. The random word of a coordinate selects an integer from this table. In a noisy
// input, the coordinate must be its lattice point plus this integer times the step. A frozen coordinate must keep its
// bits.
func TestColumnsDraw(t *testing.T) {
	for _, l := range law.Additives() {
		scales := []float64{.5, 0, 12, .02}
		n := twoScales(t, l, scales...)
		table, err := ColumnTable(l, 1, nil)
		if err != nil || len(n.Tables) != 1 || n.Tables.Digest() != table.Digest() || n.Tables.Eta() != table.Eta {
			t.Fatalf("%s: tables %s, want %s (%v)", l.Name(), n.Tables.Name(), table.Name(), err)
		}
		if name := n.Tables.Name(); name != quantisedName(l) {
			t.Errorf("%s: the table is called %s, want %s", l.Name(), name, quantisedName(l))
		}
		x := []float32{.3, math.Nextafter32(1e9, 2e9), -7.5, .011}
		input, _, err := n.Input(x, x, false)
		if err != nil {
			t.Fatal(err)
		}
		got, words := make([]float32, len(x)), make([]uint64, len(x))
		stream := NewStream(7, 3, Estimation)
		for sample := range int64(50) {
			input.Perturb(got, stream, sample)
			stream.Words(words, sample)
			for d, v := range got {
				want := x[d]
				if g := ColumnStep(l, scales[d]); scales[d] > 0 {
					k := math.RoundToEven(float64(x[d])/g) + float64(table.Integer(words[d]))
					want = float32(k * g)
				}
				if v != want {
					t.Fatalf("%s: sample %d, coordinate %d is %v, want %v", l.Name(), sample, d, v, want)
				}
			}
		}
		input.Clean(got)
		if got[1] != x[1] || math.Abs(float64(got[0]-x[0])) > scales[0]/float64(l.Ratios().Greatest) {
			t.Errorf("%s: without noise %v, want about %v", l.Name(), got, x)
		}
	}
}

// The scale of the drawn noise must be at least the scale that was passed to ColumnStep.
func TestColumnStep(t *testing.T) {
	for _, l := range law.Additives() {
		greatest := big.NewRat(l.Ratios().Greatest, 1)
		for _, scale := range []float64{.1, .3, 1, 7e-9, 1e12, math.Pi} {
			step := ColumnStep(l, scale)
			most := new(big.Rat).SetFloat64(step)
			most.Mul(most, greatest)
			if most.Cmp(new(big.Rat).SetFloat64(scale)) < 0 || step > scale/float64(l.Ratios().Greatest)*(1+1e-15) {
				t.Errorf("%s of %v: step %v", l.Name(), scale, step)
			}
		}
	}
}

// linearShare returns the exact probability of w·x + b > 0 under Gaussian noise on the lattices of two quantised
// columns. The weight w[1] must be positive.
func linearShare(n *ColumnNoise, x [2]float64, w [2]float64, b float64) float64 {
	const greatest = 3640
	var k [2]float64
	for d := range k {
		k[d] = n.columns[d].quantise.round(float32(x[d]))
	}
	phi := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	g := [2]float64{n.columns[0].step, n.columns[1].step}
	share := 0.
	for j := -9. * greatest; j <= 9*greatest; j++ {
		mass := phi((j+.5)/greatest) - phi((j-.5)/greatest)
		// Suppose that the noise of column 0 is the integer j. Then the score w·x + b is positive if and only if the
		// noise of column 1 is an integer above 'least'.
		least := (-b-w[0]*g[0]*(k[0]+j))/(w[1]*g[1]) - k[1]
		share += mass * phi(-(math.Floor(least)+.5)/greatest)
	}
	return share
}

// For a linear classifier, the certified radius is almost tight. The inputs have two columns in different units. At
// each input, the test computes the exact probability p of the class. The certified radius is Φ⁻¹(p) minus the
// deduction that Input returns. A perturbation whose length is the certified radius must keep the class in every
// direction that the test tries. In the worst direction, a perturbation of length 1.001·(radius + 2·deduction) must
// change the class.
func TestColumnsCertifyLinearClassifiers(t *testing.T) {
	scales := [2]float64{.5, 12}
	n := twoScales(t, law.Gaussian, scales[:]...)
	w, b := [2]float64{1.3, .07}, -.4
	for _, x := range [][2]float64{{1, 20}, {.7, -3}, {.2, 30.03}, {1.11111, 5.55}} {
		_, off, err := n.Input([]float32{float32(x[0]), float32(x[1])}, make([]float32, 2), false)
		if err != nil {
			t.Fatal(err)
		}
		x = [2]float64{float64(float32(x[0])), float64(float32(x[1]))}
		radius := law.Gaussian.Quantile(linearShare(n, x, w, b)) - off
		if radius < .2 {
			t.Fatalf("%v: radius %v", x, radius)
		}
		length := math.Hypot(w[0]*scales[0], w[1]*scales[1])
		at := func(r, angle float64) float64 {
			worst := [2]float64{-w[0] * scales[0] / length, -w[1] * scales[1] / length}
			u := [2]float64{worst[0]*math.Cos(angle) - worst[1]*math.Sin(angle), worst[0]*math.Sin(angle) + worst[1]*math.Cos(angle)}
			return linearShare(n, [2]float64{x[0] + r*u[0]*scales[0], x[1] + r*u[1]*scales[1]}, w, b)
		}
		for _, angle := range []float64{0, .05, -.05, .5, -1, 2, math.Pi} {
			if p := at(radius, angle); p < .5 {
				t.Errorf("%v: at the radius %v and the angle %v the class has probability %v", x, radius, angle, p)
			}
		}
		if p := at((radius+2*off)*1.001, 0); p > .5 {
			t.Errorf("%v: beyond the radius %v the class still has probability %v", x, radius, p)
		}
	}
}

// The deduction that Input returns must cover the largest distance that rounding can add to a perturbation, in units of
// the scales. The test compares the deduction with the formula in the comment of Input. It also checks, for many
// perturbations, that the lattice points move by at most the length of the perturbation plus the deduction.
func TestColumnReduction(t *testing.T) {
	scales := []float64{.5, 0, 12}
	for _, l := range law.Additives() {
		n := twoScales(t, l, scales...)
		x := []float32{.30001, 5, -7.7777}
		input, off, err := n.Input(x, x, false)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.
		for _, d := range []int{0, 2} {
			g := ColumnStep(l, scales[d])
			sum = l.Norm().Add(sum, (math.Abs(float64(x[d])-g*float64(input.points[d]))+g/2)/scales[d])
		}
		want := l.Norm().Length(sum)
		if off < want || off > want*(1+1e-6) {
			t.Errorf("%s: reduction %v, want %v", l.Name(), off, want)
		}
		if _, more, _ := n.Input(x, x, true); more <= off || more > off+1e-3 {
			t.Errorf("%s: reduction %v for rounded numbers, %v without", l.Name(), more, off)
		}
		for i := range 2000 {
			y := slices.Clone(x)
			y[0] += float32(math.Sin(float64(i))) * 2
			y[2] += float32(math.Cos(float64(3*i))) * 50
			moved, _, err := n.Input(y, y, false)
			if err != nil {
				t.Fatal(err)
			}
			points, real := 0., 0.
			for _, d := range []int{0, 2} {
				points = l.Norm().Add(points, ColumnStep(l, scales[d])*float64(moved.points[d]-input.points[d])/scales[d])
				real = l.Norm().Add(real, float64(y[d]-x[d])/scales[d])
			}
			if a, b := l.Norm().Length(points), l.Norm().Length(real)+off; a > b {
				t.Fatalf("%s: the points move by %v, the values by %v less the reduction", l.Name(), a, b)
			}
		}
	}
}

// Noise with a scale for each column must resist the float attack. Given two close points, the low bits of a noisy
// input must not reveal which point received the noise.
func TestFloatAttackOnColumns(t *testing.T) {
	points := attackPoints()
	scales := make([]float64, 8)
	for i := range scales {
		scales[i] = .25 * float64(i+1)
	}
	n := twoScales(t, law.Gaussian, scales...)
	var votes [2]int
	for i := range points {
		x := points[i][:len(scales)]
		input, _, err := n.Input(x, x, false)
		if err != nil {
			t.Fatal(err)
		}
		noisy := make([]float32, len(x))
		for sample := range int64(2000) {
			input.Perturb(noisy, NewStream(1, i, Estimation), sample)
			votes[i] += readsLowBits(noisy)
		}
	}
	// The two points are less than 0.02 apart, in units of the scales. So class 1 must get nearly as many votes at one
	// point as at the other.
	if d := votes[0] - votes[1]; d > 150 || d < -150 {
		t.Errorf("%v of 2000 votes at the two points", votes)
	}
}

// Columns whose noise is on the lattice of the data have different tables if their scales differ.
func TestColumnsOnLattice(t *testing.T) {
	bytes := Lattice{Step: big.NewRat(1, 255), Low: 0, High: 255}
	column := func(scale float64) Column {
		return Column{Name: "c", Scale: scale, Std: .5, Mean: .1, Lattice: &bytes, Index: func(x float32) int { return int(math.RoundToEven(255 * float64(x))) }}
	}
	n, err := NewColumnNoise(law.Gaussian, []Column{column(.25), column(.5), column(.25)}, []int{0, 0, 1, 1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	if n.Tables.Name() != "gaussian 255/4, gaussian 255/2" {
		t.Errorf("tables %s", n.Tables.Name())
	}
	all, err := NewColumnTables(law.Gaussian, []float64{.25, .5, .25}, []*big.Rat{bytes.Step, bytes.Step, bytes.Step})
	if err != nil || all.Digest() != n.Tables.Digest() || all.Entries() != n.Tables.Entries() {
		t.Errorf("tables %s, want %s (%v)", all.Name(), n.Tables.Name(), err)
	}
	x := []float32{0, 1, 3. / 255, 1, .2, 0}
	input, off, err := n.Input(x, x, true)
	if err != nil || off != 0 {
		t.Fatalf("reduction %v, %v", off, err)
	}
	noisy, words := make([]float32, 6), make([]uint64, 6)
	NewStream(1, 1, Selection).Words(words, 4)
	input.Perturb(noisy, NewStream(1, 1, Selection), 4)
	for d, v := range noisy {
		k := math.RoundToEven(255*float64(x[d])) + float64(n.Tables[[]int{0, 0, 1, 1, 0, 0}[d]].Integer(words[d]))
		if want := (k/255 - .1) / .5; math.Abs(float64(v)-want) > 1e-6 {
			t.Errorf("coordinate %d: %v, want %v", d, v, want)
		}
	}
	if _, _, err := n.Input([]float32{0, 2, 0, 0, 0, 0}, x, false); !errors.Is(err, errOffRange) {
		t.Errorf("a value off the range: %v", err)
	}
}

// If a column's range of values is too wide, the error must name the column.
func TestColumnTooWide(t *testing.T) {
	_, err := NewColumnNoise(law.Gaussian, []Column{{Name: "year", Scale: .5, Std: 1, Low: 1990, High: 2026}}, []int{0})
	var wide *RangeError
	if !errors.As(err, &wide) || wide.Column != "year" {
		t.Errorf("error %v", err)
	}
}
