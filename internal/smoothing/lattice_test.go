package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/law/lawtest"
)

var one = big.NewRat(1, 1)

func latticeNoise(t testing.TB, l Lattice, sigma float64, mean, std []float64) *LatticeNoise {
	t.Helper()
	return lawNoise(t, law.Gaussian, l, sigma, mean, std)
}

// lawNoise returns lattice noise with the given law and scale.
func lawNoise(t testing.TB, of law.Additive, l Lattice, scale float64, mean, std []float64) *LatticeNoise {
	t.Helper()
	table, err := NewLawTable(of, scale, l.Step)
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewLatticeNoise(l, table, mean, std)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// bytesLattice is the lattice of byte images.
func bytesLattice() Lattice { return Lattice{Step: big.NewRat(1, 255), Low: 0, High: 255} }

// Every value must be the float32 nearest to (g·k − mean)/std, where g is the lattice's step and k an integer.
func TestValuesAreNearest(t *testing.T) {
	mean, std := []float64{0.4914, 0, 0.5}, []float64{0.2023, 1, 0.25}
	n := latticeNoise(t, bytesLattice(), 0.25, mean, std)
	if len(n.values) != 3*n.width {
		t.Fatalf("%d values, width %d", len(n.values), n.width)
	}
	distance := func(v float32, x *big.Rat) *big.Rat {
		d := new(big.Rat).SetFloat64(float64(v))
		return d.Abs(d.Sub(d, x))
	}
	for i, v := range n.values {
		c, k := i/n.width, int64(i%n.width+n.table.First)
		x := new(big.Rat).Sub(big.NewRat(k, 255), new(big.Rat).SetFloat64(mean[c]))
		x.Quo(x, new(big.Rat).SetFloat64(std[c]))
		d := distance(v, x)
		for _, neighbour := range []float32{math.Nextafter32(v, -100), math.Nextafter32(v, 100)} {
			if distance(neighbour, x).Cmp(d) < 0 {
				t.Errorf("channel %d, k = %d: %v, but %v is nearer", c, k, v, neighbour)
			}
		}
	}
	for k := range 256 {
		if v := n.values[n.width+k-n.table.First]; v != float32(k)/255 {
			t.Errorf("%d/255 is %v", k, v)
		}
	}
}

// Perturb must follow its definition. For a coordinate with the clean integer i, it must return the value of the
// integer i + J. The coordinate's random word determines the noise J. Clean must return the value of i.
func TestPerturbIsTheDefinition(t *testing.T) {
	mean, std := []float64{0.4914, 0.48}, []float64{0.2023, 0.21}
	for _, sigma := range []float64{0.12, 1} {
		n := latticeNoise(t, bytesLattice(), sigma, mean, std)
		const d = 1000
		channel := func(j int) int { return j % 2 }
		integers := make([]int32, d)
		for j := range integers {
			integers[j] = int32(j * 7 % 256)
		}
		input, err := n.Input(slices.Clone(integers), channel)
		if err != nil {
			t.Fatal(err)
		}
		value := func(j, k int) float32 {
			x := new(big.Rat).Sub(big.NewRat(int64(k), 255), new(big.Rat).SetFloat64(mean[j%2]))
			v, _ := x.Quo(x, new(big.Rat).SetFloat64(std[j%2])).Float32()
			return v
		}
		s := NewStream(5, 17, Estimation)
		words, got := make([]uint64, d), make([]float32, d+1)
		for _, sample := range []int64{0, 12, 1<<31 - 1} {
			s.Words(words, sample)
			for _, size := range []int{0, 1, 2, 999, 1000} {
				got[size] = 42
				LatticeInput{n, input.places[:size]}.Perturb(got[:size], s, sample)
				for j := range size {
					if want := value(j, int(integers[j])+n.table.Integer(words[j])); got[j] != want {
						t.Fatalf("σ = %v, sample %d, coordinate %d: %v, want %v", sigma, sample, j, got[j], want)
					}
				}
				if got[size] != 42 {
					t.Fatalf("length %d: wrote past the end", size)
				}
			}
		}
		input.Clean(got[:d])
		for j := range d {
			if want := value(j, int(integers[j])); got[j] != want {
				t.Fatalf("clean coordinate %d: %v, want %v", j, got[j], want)
			}
		}
	}
}

// Let k be the smallest or the largest lattice point of the data, and let j be any integer of the table. The model
// input for the lattice point k + j must be right. The method Input must refuse a lattice point below the smallest one
// or above the largest one.
func TestPlacesReachTheEnds(t *testing.T) {
	n := latticeNoise(t, bytesLattice(), 0.12, []float64{0, 0}, []float64{1, 1})
	for _, k := range []int32{0, 255} {
		for c := range 2 {
			input, err := n.Input([]int32{k, k}, func(int) int { return c })
			if err != nil {
				t.Fatal(err)
			}
			for label := range n.table.Last - n.table.First + 1 {
				want := float32(float64(int(k)+n.table.First+label) / 255)
				if got := n.values[int(input.places[0])+label]; got != want {
					t.Fatalf("channel %d: %d + %d is %v, want %v", c, k, n.table.First+label, got, want)
				}
			}
		}
	}
	for _, k := range []int32{-1, 256} {
		if _, err := n.Input([]int32{3, k}, func(int) int { return 0 }); err == nil {
			t.Errorf("%d is a byte", k)
		}
	}
}

// The noisy inputs must have the same bytes on every platform. The expected hash was computed on amd64.
func TestLatticeBytes(t *testing.T) {
	const want = "8d4dd99a3f23f17fe791ddec4cfc82870b4385070e014cb7f06d2bcd6e8bd31e"
	hash := sha256.New()
	for i, sigma := range []float64{0.12, 0.25, 0.5, 1} {
		n := latticeNoise(t, bytesLattice(), sigma, []float64{0.4914}, []float64{0.2023})
		noisy := make([]float32, 1000)
		integers := make([]int32, len(noisy))
		for j := range integers {
			integers[j] = int32(j % 256)
		}
		input := placed(t, n, integers)
		buf := make([]byte, 4*len(noisy))
		for k := range 250 {
			input.Perturb(noisy, NewStream(uint64(i), k, Phase(k&1)), int64(k))
			for d, v := range noisy {
				binary.LittleEndian.PutUint32(buf[4*d:], math.Float32bits(v))
			}
			hash.Write(buf)
		}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the first million noisy values hash to %s, want %s", got, want)
	}
}

func TestRefine(t *testing.T) {
	for _, c := range []struct {
		den   int64
		sigma float64
		s     int
		ok    bool
	}{
		{255, 0.12, 1, true}, {255, 0.118, 1, true}, {255, 0.117, 2, true}, {255, 0.01, 12, true},
		{255, 14, 1, true},
		{255, 14.5, 1, false}, {65535, 0.05, 1, true}, {65535, 0.25, 1, false}, {1, 0.25, 120, true},
		{256, 0.5, 1, true},
		{1, 1e-9, 1, false}, {255, 0, 1, false}, {255, math.Inf(1), 1, false},
	} {
		l := Lattice{Step: big.NewRat(1, c.den), Low: -3, High: 200}
		fine, s, ok := l.Refine(law.Gaussian, c.sigma)
		if s != c.s || ok != c.ok {
			t.Errorf("step 1/%d, σ = %v: s = %d, %v, want %d, %v", c.den, c.sigma, s, ok, c.s, c.ok)
		}
		if ok && (fine.Step.Cmp(big.NewRat(1, c.den*int64(s))) != 0 || fine.Low != -3*s || fine.High != 200*s) {
			t.Errorf("step 1/%d, σ = %v: %+v", c.den, c.sigma, fine)
		}
		if _, err := NewLawTable(law.Gaussian, c.sigma, fine.Step); ok != (err == nil) && c.sigma != 1e-9 {
			t.Errorf("step 1/%d, σ = %v: refined %v, table %v", c.den, c.sigma, ok, err)
		}
	}
}

func TestLatticeNoiseRefuses(t *testing.T) {
	table := gaussianTable(t, 30, 1)
	for name, f := range map[string]func() (*LatticeNoise, error){
		"no channel": func() (*LatticeNoise, error) { return NewLatticeNoise(Lattice{one, 0, 1}, table, nil, nil) },
		"one mean, two std": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 0, 1}, table, []float64{0}, []float64{1, 1})
		},
		"std 0": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 0, 1}, table, []float64{0}, []float64{0})
		},
		"NaN": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 0, 1}, table, []float64{math.NaN()}, []float64{1})
		},
		"beyond float32": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 0, 1}, table, []float64{0}, []float64{1e-37})
		},
		"too wide": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 0, 1 << 24}, table, []float64{0}, []float64{1})
		},
		"upside down": func() (*LatticeNoise, error) {
			return NewLatticeNoise(Lattice{one, 1, 0}, table, []float64{0}, []float64{1})
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Quantise returns a deduction, the amount that must be subtracted from every radius at x. The deduction must be an
// upper bound on the norm ‖|x − q(x)| + g/2‖ in exact arithmetic. The deduction may exceed this norm by a factor of at
// most 1 + 1e-7.
func TestQuantiseDeduction(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		sigma := math.Exp(4*rng.Float64() - 3)
		q, err := NewQuantiser(law.Gaussian, sigma, -3, 5)
		if err != nil {
			t.Fatal(err)
		}
		x, k := make([]float32, 1+rng.IntN(100)), make([]int32, 100)
		for d := range x {
			x[d] = 8*rng.Float32() - 3
		}
		got := q.Quantise(k, x)
		step := new(big.Rat).SetFloat64(q.step)
		sum := new(big.Rat)
		for d, v := range x {
			moved := new(big.Rat).SetFloat64(float64(v))
			moved.Sub(moved, new(big.Rat).Mul(step, big.NewRat(int64(k[d]), 1)))
			moved.Abs(moved)
			if most := new(big.Rat).Mul(step, new(big.Rat).SetFloat64(.5+0x1p-28)); moved.Cmp(most) > 0 {
				t.Fatalf("%v goes to %d steps of %v", v, k[d], q.step)
			}
			moved.Add(moved, new(big.Rat).Mul(step, big.NewRat(1, 2)))
			sum.Add(sum, moved.Mul(moved, moved))
		}
		square := new(big.Rat).SetFloat64(got)
		square.Mul(square, square)
		ratio, _ := square.Quo(square, sum).Float64()
		if ratio < 1 || ratio > 1+2e-7 {
			t.Errorf("σ = %v, %d values: deduction² is %.12f of the norm²", sigma, len(x), ratio)
		}
	}
}

// Under a law that certifies in the L1 norm, the deduction must be the sum of the coordinates' terms |x_c − q(x)| +
// g/2, where x_c is x clamped to the range.
func TestQuantiseInL1(t *testing.T) {
	q, err := NewQuantiser(lawtest.Logistic, 0.5, -3, 5)
	if err != nil {
		t.Fatal(err)
	}
	x, k, want := []float32{0.3, -1.7, 9, 2.25}, make([]int32, 4), 0.0
	got := q.Quantise(k, x)
	for d, v := range x {
		want += math.Abs(min(float64(v), 5)-float64(k[d])*q.step) + q.step/2
	}
	if got < want || got > want*(1+1e-6) {
		t.Errorf("%v is taken off, want %v", got, want)
	}
}

// The deduction includes allowances for rounding errors. The test recomputes these allowances. For each coordinate, the
// allowance for the computed quotient is g·2⁻²⁷, and the quotient's error has an effect of at most g·2⁻²⁸. The
// allowance for all other roundings of the coordinate is (|x_c|+g)·2⁻⁵¹, and their error is at most (|x_c|+g)·2⁻⁵². For
// the sum of n coordinates, the relative allowance is (n+4)·2⁻⁵¹, and the relative rounding error is at most
// (n+2)·2⁻⁵².
func TestQuantiseRounding(t *testing.T) {
	q, err := NewQuantiser(law.Gaussian, 0.5, -3, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 7, 784} {
		x := slices.Repeat([]float32{0.3}, n)
		k := make([]int32, n)
		got := q.Quantise(k, x)
		moved := math.Abs(float64(x[0])-float64(float64(k[0])*q.step)) + float64(float64(x[0])+q.step)*0x1p-51 + q.step*(0.5+0x1p-27)
		sum := 0.0
		for range n {
			sum += float64(moved * moved)
		}
		if want := math.Sqrt(sum) * (1 + float64(n+4)*0x1p-51); got != want {
			t.Errorf("%d values: deduction %v, want %v", n, got, want)
		}
	}
}

// The test checks ‖q(x+δ) − q(x)‖ ≤ ‖δ‖ + deduction for many x, each with a δ that is chosen to be close to the worst
// one. A cell is the set of the values that round to the same lattice point. The δ pushes most coordinates just over
// the edge of a cell. Some δ come close to the bound, so a much smaller deduction would be wrong.
func TestQuantiseAdversary(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	worst := 0.
	for range 2000 {
		q, err := NewQuantiser(law.Gaussian, 1, -1, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := 1 + rng.IntN(64)
		x, moved := make([]float32, n), make([]float32, n)
		from, to := make([]int32, n), make([]int32, n)
		for d := range x {
			x[d] = 2*rng.Float32() - 1
		}
		deduction := q.Quantise(from, x)
		far := 100 * rng.Float64()
		for d, v := range x {
			// Each coordinate moves away from q(x), to a point just beyond the edge of a cell. The deduction is the
			// amount that must be subtracted from every radius at x. It is the norm of the vector with the coordinates
			// |x_d − q(x)_d| + g/2, where g is the step. The test chooses the edges so that the shift of x is nearly a
			// multiple of this vector, up to signs.
			off := float64(v) - float64(from[d])*q.step
			away := math.Copysign(1, off)
			wish := far*(math.Abs(off)+q.step/2) + math.Abs(off)
			edge := (float64(from[d]) + away*(.5+math.Round(wish/q.step-.5))) * q.step
			moved[d] = math.Nextafter32(float32(edge), float32(2*away))
			if rng.IntN(50) == 0 {
				moved[d] = float32(away) * 3 // far outside the range
			}
		}
		q.Quantise(to, moved)
		var delta, distance float64
		for d := range x {
			delta += float64(moved[d]-x[d]) * float64(moved[d]-x[d])
			distance += float64(to[d]-from[d]) * float64(to[d]-from[d]) * q.step * q.step
		}
		excess := (math.Sqrt(distance) - math.Sqrt(delta)) / deduction
		worst = max(worst, excess)
		if excess > 1 {
			t.Fatalf("q moves %v, x %v, and the deduction is only %v", math.Sqrt(distance), math.Sqrt(delta), deduction)
		}
	}
	if worst < 0.9 {
		t.Errorf("the adversary came only to %.2f of the deduction", worst)
	}
	t.Logf("the adversary came to %.3f of the deduction", worst)
}

// With σ/g = 3640 the deduction must be about 0.0017σ for 64 values, 0.0117σ for CIFAR's 3,072 values and 0.0817σ for
// ImageNet's 150,528.
func TestQuantiseCost(t *testing.T) {
	for n, want := range map[int]float64{64: 0.0017, 3072: 0.0117, 150528: 0.0817} {
		q, err := NewQuantiser(law.Gaussian, 0.5, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, n)
		rng := rand.New(rand.NewPCG(11, 12))
		for d := range x {
			x[d] = rng.Float32()
		}
		if got := q.Quantise(make([]int32, n), x) / 0.5; math.Abs(got/want-1) > 0.05 {
			t.Errorf("%d values cost %.5fσ, want about %v", n, got, want)
		}
	}
}

// Quantise must replace a value outside the range by the nearest end of the range.
func TestQuantiseClamps(t *testing.T) {
	q, err := NewQuantiser(law.Gaussian, 0.5, -3, 5)
	if err != nil {
		t.Fatal(err)
	}
	ends, outside := make([]int32, 2), make([]int32, 2)
	a, b := q.Quantise(ends, []float32{-3, 5}), q.Quantise(outside, []float32{-4, 7})
	if a != b || !slices.Equal(ends, outside) {
		t.Errorf("%v costs %g, and %v from outside %g", ends, a, outside, b)
	}
	if l := q.Lattice(); int(ends[0]) != l.Low || int(ends[1]) != l.High {
		t.Errorf("the ends are %d, and the lattice is from %d to %d", ends, l.Low, l.High)
	}
}

func TestQuantiserRefuses(t *testing.T) {
	for _, c := range []struct {
		sigma     float64
		low, high float32
	}{{0, 0, 1}, {-1, 0, 1}, {math.NaN(), 0, 1}, {1, 1, 0}, {1e-4, 0, 1}, {1, float32(math.NaN()), 1}} {
		if _, err := NewQuantiser(law.Gaussian, c.sigma, c.low, c.high); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

func BenchmarkLatticeNoise(b *testing.B) {
	const d = 3 * 32 * 32
	s := NewStream(1, 0, Estimation)
	dst := make([]float32, d)
	integers := make([]int32, d)
	for j := range integers {
		integers[j] = int32(j * 7 % 256)
	}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/d, "ns/coordinate")
	}
	for _, ratio := range []float64{30, 100, 200, 400, 900, 1800, greatestRatio} {
		l := Lattice{Step: big.NewRat(1, 255), Low: 0, High: 255}
		n := latticeNoise(b, l, ratio/255, []float64{0.4914, 0.4822, 0.4465}, []float64{0.2023, 0.1994, 0.2010})
		input, err := n.Input(slices.Clone(integers), func(j int) int { return j / 1024 })
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n.table.Entries(), " entries"), func(b *testing.B) {
			for i := range b.N {
				input.Perturb(dst, s, int64(i))
			}
			report(b)
		})
	}
	b.Run("float", func(b *testing.B) {
		base, scale := make([]float32, d), make([]float32, d)
		for i := range b.N {
			FloatInput{base, scale}.Perturb(dst, s, int64(i))
		}
		report(b)
	})
}
