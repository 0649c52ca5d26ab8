package smoothing

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/big"
	"os"
	"testing"

	"github.com/rscert/rscert/internal/dataset"

	"github.com/rscert/rscert/internal/law"
)

// readsLowBits computes the output of the model of shared/data/float-attack (Jin et al. 2022; Voráček and Hein 2023).
// Like the model, it uses the operations Mul, Floor, Sub and Max in float32. It returns class 1 if some coordinate is
// not a multiple of 2⁻³².
func readsLowBits(x []float32) int {
	most := float32(0)
	for _, v := range x {
		scaled := v * (1 << 32)
		most = max(most, scaled-float32(math.Floor(float64(scaled))))
	}
	if most > 0 {
		return 1
	}
	return 0
}

// attackPoints returns the points 2⁻⁸·(1, …, 1) and 0 in 3,072 dimensions. Their distance is 0.2165, as in
// shared/data/float-attack.
func attackPoints() [2][]float32 {
	points := [2][]float32{make([]float32, 3072), make([]float32, 3072)}
	for d := range points[0] {
		points[0][d] = 0x1p-8
	}
	return points
}

// The function 'placed' returns the LatticeInput of an example that has the given integers and only one channel.
func placed(t *testing.T, n *LatticeNoise, integers []int32) LatticeInput {
	t.Helper()
	input, err := n.Input(integers, func(int) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	return input
}

// With floating-point noise, the votes at two points with distance 0.43σ contradict each other. If class 0 gets all
// 1,000 votes at one point, its probability there is almost certainly at least 0.99, because 0.99¹⁰⁰⁰ is 4.3e-5. A
// correct certificate would then imply that class 0 has at least the probability Φ(Φ⁻¹(0.99) − 0.44) > 0.97 at the
// other point. But class 0 gets almost no votes there. With lattice noise on a lattice that contains both points, every
// noisy input is a lattice point. So the low bits of a noisy input do not reveal which of the two points received the
// noise.
func TestFloatAttack(t *testing.T) {
	const sigma, n = 0.5, 1000
	points := attackPoints()
	noisy := make([]float32, 3072)
	scale := make([]float32, len(noisy))
	for d := range scale {
		scale[d] = sigma
	}
	votes := func(perturb func(point int, s Stream, sample int64)) (counts [2]int) {
		for point := range points {
			s := NewStream(1, point, Estimation)
			for sample := range int64(n) {
				perturb(point, s, sample)
				counts[point] += 1 - readsLowBits(noisy)
			}
		}
		return counts
	}
	floats := votes(func(point int, s Stream, sample int64) {
		FloatInput{Values: points[point], Scale: scale}.Perturb(noisy, s, sample)
	})
	if floats[0] != n || floats[1] > n/20 {
		t.Errorf("float noise: class 0 has %d votes of %d at x and %d at 0, so the attack fails", floats, n, n)
	}
	for _, c := range []struct {
		law law.Additive
		den int64
	}{
		{law.Gaussian, 256}, {law.Gaussian, 512}, {law.Gaussian, 4096},
		{law.Laplace, 256}, {law.Laplace, 1024}, {law.Uniform, 256}, {law.Uniform, 4096},
	} {
		den := c.den
		l := Lattice{Step: big.NewRat(1, den), Low: 0, High: int(den / 256)}
		noise := lawNoise(t, c.law, l, sigma, []float64{0}, []float64{1})
		var inputs [2]LatticeInput
		for point, x := range points {
			integers := make([]int32, len(x))
			for d, v := range x {
				integers[d] = int32(v * float32(den))
			}
			inputs[point] = placed(t, noise, integers)
		}
		lattice := votes(func(point int, s Stream, sample int64) { inputs[point].Perturb(noisy, s, sample) })
		// All points of these lattices are multiples of 2⁻³², so the model returns the same class at all these points.
		if lattice != [2]int{n, n} {
			t.Errorf("%s noise on steps of 1/%d: class 0 has %d votes of %d", c.law.Name(), den, lattice, n)
		}
	}
	// A quantiser with the step σ/3640 rounds the two points to its own lattice. Most points of this lattice are not
	// multiples of 2⁻³², so the model returns class 1 for the noisy inputs of both points.
	q, err := NewQuantiser(law.Gaussian, sigma, 0, 0x1p-8)
	if err != nil {
		t.Fatal(err)
	}
	noise := latticeNoise(t, q.Lattice(), sigma, []float64{0}, []float64{1})
	var inputs [2]LatticeInput
	for point, x := range points {
		integers := make([]int32, len(x))
		q.Quantise(integers, x)
		inputs[point] = placed(t, noise, integers)
	}
	lattice := votes(func(point int, s Stream, sample int64) { inputs[point].Perturb(noisy, s, sample) })
	if lattice[0] > n/100 || lattice[1] > n/100 {
		t.Errorf("noise on steps of σ/3640: class 0 has %d votes of %d", lattice, n)
	}
}

// The points of attackPoints must equal the points in the shared files. rscert must recognise their lattice.
func TestFloatAttackData(t *testing.T) {
	const path = "../../../shared/data/float-attack/two-points.npz"
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the shared data are not here")
	}
	d, err := dataset.Open(context.Background(), path, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i, want := range attackPoints() {
		e, err := d.Example(i)
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range e.Values {
			if v != want[j] || e.Label != i {
				t.Fatalf("point %d: label %d, coordinate %d is %v", i, e.Label, j, v)
			}
		}
	}
	l, err := d.Lattice(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if l.Kind != dataset.BinaryLattice || l.Step.Cmp(big.NewRat(1, 256)) != 0 {
		t.Errorf("the points are recognised as: %v", l)
	}
}
