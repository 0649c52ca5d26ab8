package dataset

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/x448/float16"
)

func latticeOf(values ...float32) Lattice {
	var r recogniser
	r.add(values)
	return r.lattice()
}

// TestBytesInFloats writes k/255 in every form that rscert recognises. Index must return k, and the field 'rounding'
// must bound the error of the written values.
func TestBytesInFloats(t *testing.T) {
	inverse := float32(1) / 255
	for name, c := range map[string]struct {
		write    func(k int) float32
		rounding float64
	}{
		"divided":    {func(k int) float32 { return float32(k) / 255 }, 0x1p-25},
		"multiplied": {func(k int) float32 { return float32(k) * inverse }, 0x1p-25 + 255*0x1p-32},
		"float16": {
			func(k int) float32 { return float16.Fromfloat32(float32(k) / 255).Float32() },
			0x1p-12 + 0x1p-25,
		},
	} {
		var all []float32
		worst := 0.
		for k := range 256 {
			x := c.write(k)
			all = append(all, x)
			miss := new(big.Rat).Sub(new(big.Rat).SetFloat64(float64(x)), big.NewRat(int64(k), 255))
			m, _ := miss.Abs(miss).Float64()
			worst = max(worst, m)
		}
		l := latticeOf(all...)
		if l.Kind != ByteLattice || l.Step.Cmp(big.NewRat(1, 255)) != 0 || l.Low != 0 || l.rounding != c.rounding {
			t.Errorf("%s: %+v", name, l)
		}
		for k, x := range all {
			if l.Index(x) != k {
				t.Errorf("%s: %v is byte %d, want %d", name, x, l.Index(x), k)
			}
		}
		if worst > l.rounding || worst < l.rounding/2 {
			t.Errorf("%s: misses by %g, and %g is said", name, worst, l.rounding)
		}
	}
	// FileRounding must be 3.3e-6 for the size of CIFAR images and 2.3e-5 for the size of ImageNet images.
	l := latticeOf(float32(1) / 255)
	if a, b := l.FileRounding(3072), l.FileRounding(150528); math.Abs(a-3.3e-6) > 1e-8 || math.Abs(b-2.3e-5) > 2e-7 {
		t.Errorf("rounding in the file costs %g and %g", a, b)
	}
}

// The test checks each kind of lattice. If a single value is not a lattice point but the float32 next to one, the data
// are not on this lattice.
func TestLatticeKinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var words, halves, floats []float32
	for range 1000 {
		words = append(words, float32(rng.IntN(65536))/65535)
		halves = append(halves, float16.Fromfloat32(float32(4*rng.Float64()-2+0x1p-4)).Float32())
		floats = append(floats, rng.Float32())
	}
	for i, h := range halves {
		if math.Abs(float64(h)) < 0x1p-5 {
			halves[i] = 1
		}
	}
	third := float32(1) / 255
	const none = "values are on no lattice"
	for _, c := range []struct {
		name     string
		values   []float32
		kind     LatticeKind
		exponent int
		text     string
	}{
		{"nothing", nil, NoLattice, 0, none},
		{"zeros", []float32{0, 0}, ByteLattice, 0, "values are bytes k/255"},
		{"0 and 1", []float32{0, 1}, ByteLattice, 0, "values are bytes k/255"},
		{"a byte and its neighbour", []float32{1, third, math.Nextafter32(third, 1)}, NoLattice, 0, none},
		{"below 0", []float32{-third, 0}, NoLattice, 0, none},
		{"above 1", []float32{256. / 255, 1}, NoLattice, 0, none},
		{"words", words, WordLattice, 0, "values are 16-bit integers k/65535"},
		{"words and a neighbour", append(words[:999:999], math.Nextafter32(words[0], 0)), NoLattice, 0, none},
		{"2⁻⁸", []float32{0, 0x1p-8}, BinaryLattice, -8, "values are multiples of 2^-8"},
		{"integers", []float32{-7, 12, 100}, BinaryLattice, 0, "values are multiples of 2^0"},
		{"even integers", []float32{-6, 12, 100}, BinaryLattice, 1, "values are multiples of 2^1"},
		{"far integers", []float32{1, 1 << 20}, NoLattice, 0, none},
		{"not so far integers", []float32{1, 1<<20 - 1}, BinaryLattice, 0, "values are multiples of 2^0"},
		{"floats", floats, NoLattice, 0, none},
	} {
		l := latticeOf(c.values...)
		if l.Kind != c.kind || l.exponent != c.exponent || l.String() != c.text {
			t.Errorf("%s: %v, %v", c.name, l.Kind, l)
		}
		if (l.Step == nil) != (c.kind == NoLattice) {
			t.Errorf("%s: step %v", c.name, l.Step)
		}
		if c.kind != ByteLattice && c.kind != WordLattice && l.FileRounding(100) != 0 {
			t.Errorf("%s: a rounding of %g", c.name, l.FileRounding(100))
		}
	}
	for i, k := range words {
		if got := latticeOf(words...).Index(k); float32(got)/65535 != words[i] {
			t.Errorf("%v is word %d", k, got)
		}
		if i > 20 {
			break
		}
	}
	l := latticeOf(halves...)
	if l.Kind != BinaryLattice || l.exponent != -15 {
		t.Errorf("float16: %v", l)
	}
	for _, x := range halves {
		if float32(math.Ldexp(float64(l.Index(x)), l.exponent)) != x {
			t.Errorf("float16: %v is %d steps", x, l.Index(x))
		}
	}
}

func TestLatticeOfDatasets(t *testing.T) {
	floats := npyFile("<f4", "2, 3", []float32{.1, .2, .3, .4, .5, .7})
	steps := npyFile("<f4", "2, 3", []float32{.125, .25, 0, 1.5, -3, .75})
	labels := npyFile("<i8", "2,", []int64{0, 1})
	dir := t.TempDir()
	for path, want := range map[string]LatticeKind{
		"../../testdata/mnist": ByteLattice,
		write(t, filepath.Join(dir, "floats.npz"), npz(t, 0, "x", floats, "y", labels)): NoLattice,
		write(t, filepath.Join(dir, "steps.npz"), npz(t, 0, "x", steps, "y", labels)):   BinaryLattice,
	} {
		l, err := mustOpen(t, path).Lattice(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind != want {
			t.Errorf("%s: %v", path, l)
		}
		if want == BinaryLattice && (l.exponent != -3 || l.Low != -3 || l.High != 1.5) {
			t.Errorf("%s: %+v", path, l)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := mustOpen(t, "../../testdata/mnist").Lattice(ctx); err == nil {
		t.Error("no error when cancelled")
	}
}

// An example changes the lattice of a dataset if the dataset without this example has another lattice. In every
// dataset, at most LatticeChanges examples may change the lattice.
func TestLatticeChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	kinds := []func() float32{
		func() float32 { return float32(random.IntN(2)) },
		func() float32 { return float32(random.IntN(256)) / 255 },
		func() float32 { return float16.Fromfloat32(float32(random.IntN(256)) / 255).Float32() },
		func() float32 { return float32(random.IntN(65536)) / 65535 },
		func() float32 { return .5 + float32(math.Ldexp(1, -random.IntN(20))) },
		func() float32 { return float32(math.Ldexp(1, random.IntN(24)-22)) },
	}
	changes := func(values []float32) (n int) {
		all := latticeOf(values...)
		for i := range values {
			l := latticeOf(slices.Delete(slices.Clone(values), i, i+1)...)
			if l.Kind != NoLattice && (l.Kind != all.Kind || l.Step.Cmp(all.Step) != 0) {
				n++
			}
		}
		return n
	}
	if n := changes([]float32{0, 1, 0, 1, .5 + 0x1p-10, float32(100) / 255}); n != 2 {
		t.Errorf("%d of the examples change the lattice, want 2", n)
	}
	most := 0
	for range 20_000 {
		values := []float32{kinds[0](), kinds[random.IntN(len(kinds))]()}
		for range 3 + random.IntN(3) {
			values = append(values, kinds[random.IntN(len(kinds))]())
		}
		most = max(most, changes(values))
	}
	if most < 2 || most > LatticeChanges {
		t.Errorf("up to %d examples change the lattice", most)
	}
}
