//go:build goexperiment.simd && amd64 && go1.26 && !go1.27

package smoothing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func needVectors(t testing.TB) {
	if vectorBits == 0 {
		t.Skip("no AVX2 here")
	}
}

// with runs f as on a processor with vectors of so many bits at most.
func with(bits int, f func()) {
	defer func(had int) { vectorBits = had }(vectorBits)
	vectorBits = min(vectorBits, bits)
	f()
}

func withoutVectors(f func()) { with(0, f) }

// eachWidth runs a test for each kind of vectors that there is here.
func eachWidth(t *testing.T, f func(t *testing.T)) {
	needVectors(t)
	for bits := 256; bits <= vectorBits; bits *= 2 {
		with(bits, func() { t.Run(fmt.Sprint(bits, " bits"), f) })
	}
}

// What the tests of noise.go say of the noise holds for the scalar code too,
// which they do not reach where there are vectors.
func TestScalarNoise(t *testing.T) {
	needVectors(t)
	withoutVectors(func() {
		t.Run("golden", TestNoiseGolden)
		t.Run("bytes", TestNoiseBytes)
		t.Run("pure", TestNoiseIsPure)
	})
}

// samePaths compares Fill and Perturb of a sample by both paths, bit for bit.
// They may not touch what follows the n values.
func samePaths(t *testing.T, s Stream, sample int64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(s.key, uint64(sample)))
	base, scale := make([]float32, n), make([]float32, n)
	for i := range base {
		base[i], scale[i] = rng.Float32(), float32(math.Exp(rng.NormFloat64()))
	}
	noise := func() [3][]float32 {
		var out [3][]float32
		for i := range out {
			out[i] = make([]float32, n+1)
			out[i][n] = 42
		}
		copy(out[2], base)
		s.Fill(out[0][:n], sample)
		s.Perturb(out[1][:n], base, scale, sample)
		s.Perturb(out[2][:n], out[2][:n], scale, sample) // in place
		return out
	}
	got := noise()
	var want [3][]float32
	withoutVectors(func() { want = noise() })
	for i, name := range []string{"Fill", "Perturb", "Perturb in place"} {
		for d := range n + 1 {
			if g, w := math.Float32bits(got[i][d]), math.Float32bits(want[i][d]); g != w {
				t.Fatalf("key %016x, sample %d: value %d of %s of %d is %08x with vectors, %08x without", s.key, sample, d, name, n, g, w)
			}
		}
	}
}

func TestVectorsChangeNothing(t *testing.T) { eachWidth(t, vectorsChangeNothing) }

func vectorsChangeNothing(t *testing.T) {
	for n := range 2*block + 40 {
		samePaths(t, NewStream(uint64(n), 3*n, Phase(n&1)), int64(n), n)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	streams := 3000
	if testing.Short() {
		streams = 100
	}
	for range streams {
		s := NewStream(rng.Uint64(), int(rng.Int64N(1<<56)), Phase(rng.IntN(2)))
		samePaths(t, s, rng.Int64N(1<<31), rng.IntN(3073))
	}
	samePaths(t, NewStream(math.MaxUint64, 1<<56-1, Estimation), 1<<31-1, 3*224*224)
}

func FuzzVectorsChangeNothing(f *testing.F) {
	f.Add(uint64(1), uint64(0), true, int64(0), uint16(3072))
	f.Add(uint64(math.MaxUint64), uint64(1<<56-1), false, int64(1<<31-1), uint16(block+17))
	f.Fuzz(func(t *testing.T, seed, example uint64, estimation bool, sample int64, n uint16) {
		needVectors(t)
		phase := Selection
		if estimation {
			phase = Estimation
		}
		for _, bits := range []int{256, 512} {
			with(bits, func() { samePaths(t, NewStream(seed, int(example>>8), phase), sample&math.MaxInt32, int(n)) })
		}
	})
}

// Words that streams are not likely to make: every place in the tables, and the
// ends of every interval.
func TestVectorsOfRareWords(t *testing.T) { eachWidth(t, vectorsOfRareWords) }

func vectorsOfRareWords(t *testing.T) {
	var b buffer
	var want [block]float32
	filled := 0
	compare := func() {
		b.boxMuller(block / 16)
		boxMuller(want[:], b.words[:])
		for i, w := range want {
			if g := b.gaussians[i]; math.Float32bits(g) != math.Float32bits(w) {
				t.Fatalf("words %#x: %v with vectors, %v without", b.words[i&^1:i&^1+2], g, w)
			}
		}
		filled = 0
	}
	check := func(k uint64, angle uint32) { // u = k/2⁴⁰, θ = 2π·angle/2²⁴
		b.words[filled], b.words[filled+1] = uint32((k-1)>>8), angle<<8|uint32((k-1)&255)
		if filled += 2; filled == block {
			compare()
		}
	}
	rng := rand.New(rand.NewPCG(9, 10))
	for e := range 41 {
		for i := range uint64(257) {
			edge := 1<<e + i<<e>>8
			for k := max(edge, 3) - 2; k <= edge+2; k++ {
				if k <= 1<<40 {
					check(k, rng.Uint32N(1<<24))
				}
			}
		}
	}
	for arc := range uint32(256) {
		for _, k := range []uint64{1, 2, 1 << 20, 1<<40 - 1, 1 << 40} {
			for _, place := range []uint32{0, 1, 1<<15 - 1, 1 << 15, 1<<15 + 1, 1<<16 - 1} {
				check(k, arc<<16|place)
			}
		}
	}
	// A product fused into a sum moves a value by 1e-16 and hardly ever a float32.
	// It does often enough where a value is small but found by cancellation: above
	// θ a quarter turn, here r.
	for range 1 << 24 {
		check(1<<39+253<<31+rng.Uint64N(2<<31), rng.Uint32N(1<<24))
	}
	for filled > 0 {
		check(1, 0)
	}
}

// BenchmarkNarrowNoise is BenchmarkNoise on processors with less.
func BenchmarkNarrowNoise(b *testing.B) {
	for bits := 0; bits < vectorBits; bits += 256 {
		with(bits, func() { b.Run(fmt.Sprint(bits, " bits"), BenchmarkNoise) })
	}
}
