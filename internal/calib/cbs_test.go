package calib

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestCBS(t *testing.T) {
	for _, tt := range []struct {
		name      string
		intervals []Bounded
		want      float64
	}{
		// This is the example of Emde et al., appendix E.2, computed by hand: ((1−0.1)² + 0.9²)/2.
		{"appendix E.2", []Bounded{{0.1, 0.6, true}, {0.5, 0.9, false}}, 0.81},
		{"one correct, certain", []Bounded{{1, 1, true}}, 0},
		{"one correct, free", []Bounded{{0, 1, true}}, 1},
		{"one wrong, free", []Bounded{{0, 1, false}}, 1},
		{"one wrong, none", []Bounded{{0, 0, false}}, 0},
		{"degenerate", []Bounded{{0.25, 0.25, true}, {0.25, 0.25, false}}, (0.5625 + 0.0625) / 2},
	} {
		got, err := CBS(tt.intervals)
		if err != nil || got < tt.want*(1-1e-15) || got > tt.want*(1+4e-16) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// randomIntervals draws intervals whose ends are multiples of 1/8, the floats just below them, or random numbers of
// many magnitudes.
func randomIntervals(r *rand.Rand, n int) []Bounded {
	end := func() float64 {
		x := float64(r.IntN(9)) / 8
		switch r.IntN(4) {
		case 0:
			return x
		case 1:
			return max(0, math.Nextafter(x, 0))
		}
		return r.Float64() * math.Exp2(-float64(r.IntN(3)*r.IntN(30)))
	}
	out := make([]Bounded, n)
	for i := range out {
		a, b := end(), end()
		out[i] = Bounded{min(a, b), max(a, b), r.IntN(2) == 0}
	}
	return out
}

// CBS returns the largest Brier score, rounded up. The test computes this maximum in exact fractions. The Brier score
// is convex, so the maximum is attained with every confidence at an end of its interval.
func TestCBSIsTheMaximumRoundedUp(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	one := big.NewRat(1, 1)
	for range 300 {
		intervals := randomIntervals(r, 1+r.IntN(6))
		n := len(intervals)
		largest := new(big.Rat)
		for corner := range 1 << n {
			sum := new(big.Rat)
			for i, v := range intervals {
				z := v.Lower
				if corner>>i&1 == 1 {
					z = v.Upper
				}
				d := new(big.Rat).SetFloat64(z)
				if v.Correct {
					d.Sub(one, d)
				}
				sum.Add(sum, d.Mul(d, d))
			}
			if sum.Cmp(largest) > 0 {
				largest = sum
			}
		}
		largest.Quo(largest, new(big.Rat).SetInt64(int64(n)))
		got, err := CBS(intervals)
		if err != nil {
			t.Fatal(err)
		}
		excess := new(big.Rat).SetFloat64(got)
		excess.Sub(excess, largest)
		bound := new(big.Rat).SetFloat64(0x1p-61 + math.Nextafter(got, 2) - got)
		if excess.Sign() < 0 || excess.Cmp(bound) > 0 {
			e, _ := excess.Float64()
			t.Fatalf("%v: %v exceeds the maximum by %g", intervals, got, e)
		}
	}
}

// With the confidences of BrierConfidence, the Brier score is equal to CBS. No other confidences in the intervals have
// a higher Brier score.
func TestCBSMaximiser(t *testing.T) {
	brier := func(intervals []Bounded, z func(Bounded) float64) float64 {
		var sum float64
		for _, v := range intervals {
			d := z(v)
			if v.Correct {
				d = 1 - d
			}
			sum += d * d
		}
		return sum / float64(len(intervals))
	}
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		intervals := randomIntervals(r, 1+r.IntN(200))
		cbs, err := CBS(intervals)
		if err != nil {
			t.Fatal(err)
		}
		if at := brier(intervals, Bounded.BrierConfidence); math.Abs(at-cbs) > 1e-13 {
			t.Fatalf("CBS %v, Brier score of its maximiser %v", cbs, at)
		}
		for range 10 {
			at := brier(intervals, func(v Bounded) float64 { return v.Lower + r.Float64()*(v.Upper-v.Lower) })
			if at > cbs+1e-13 {
				t.Fatalf("CBS %v, confidences with Brier score %v", cbs, at)
			}
		}
		r.Shuffle(len(intervals), func(i, j int) { intervals[i], intervals[j] = intervals[j], intervals[i] })
		if again, _ := CBS(intervals); again != cbs {
			t.Fatalf("%v in one order, %v in another", cbs, again)
		}
	}
}

func TestCBSBadIntervals(t *testing.T) {
	nan := math.NaN()
	for _, v := range []Bounded{{0.5, 0.4, true}, {-0.1, 0.4, true}, {0.1, 1.1, false}, {nan, 1, true}, {0, nan, true}, {1.1, 1.2, true}} {
		_, err := CBS([]Bounded{{0, 1, true}, v})
		var row *RowError
		if !errors.As(err, &row) || row.Row != 1 {
			t.Errorf("%v: error %v", v, err)
		}
	}
	for want, v := range map[string]Bounded{
		"lower 1.5 is outside [0, 1]":   {1.5, 2, true},
		"upper 2 is outside [0, 1]":     {0.5, 2, true},
		"lower 0.5 is above upper 0.25": {0.5, 0.25, true},
	} {
		if err := v.Check(); err == nil || err.Error() != want {
			t.Errorf("%v: error %v, want %s", v, err, want)
		}
	}
	if _, err := CBS(nil); err == nil {
		t.Error("no intervals: no error")
	}
}

// MeanWithFailures returns the sum of a value and a share of failures. CCEWithFailures returns the sum of a value and
// twice this share. Both the share and the sum are rounded up. So the result is never below the exact sum. The test
// also computes this sum in float64. It gets the share (or twice the share) by a division and takes the next larger
// float64. Then it adds this number to the value and takes the next larger float64 again. Both functions return exactly
// the bits of this number.
func TestFailureShareRoundsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	exactly := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	for range 20000 {
		n := 1 + r.IntN(5000)
		k := int64(r.IntN(n/3 + 1))
		value := r.Float64() / 4
		for times, got := range map[int64]float64{1: MeanWithFailures(value, RowWeights{}.LargestShare(k, n)), 2: CCEWithFailures(value, RowWeights{}.LargestShare(k, n))} {
			exact := new(big.Rat).Add(exactly(value), big.NewRat(times*k, int64(n)))
			if exactly(got).Cmp(exact) < 0 {
				t.Fatalf("%v + %d·%d/%d = %v is below the sum", value, times, k, n, got)
			}
			share := math.Nextafter(float64(times*k)/float64(n), 4)
			if want := min(1, math.Nextafter(value+share, 4)); got != want {
				t.Fatalf("%v + %d·%d/%d = %v, want %v", value, times, k, n, got, want)
			}
		}
	}
}

func TestMeanWithFailures(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 300 {
		n := 1 + r.IntN(30)
		k := r.IntN(n + 1)
		intervals := randomIntervals(r, n)
		cbs, err := CBS(intervals)
		if err != nil {
			t.Fatal(err)
		}
		bound := MeanWithFailures(cbs, RowWeights{}.LargestShare(int64(k), n))
		var sum float64
		for i, v := range intervals {
			d := v.BrierConfidence()
			if v.Correct {
				d = 1 - d
			}
			if i < k {
				d = 1
			}
			sum += d * d
		}
		if at := sum / float64(n); at > bound+1e-13 {
			t.Fatalf("%d of %d fail: Brier score %v, bound %v", k, n, at, bound)
		}
		if bound > cbs+float64(k)/float64(n)+1e-15 || bound > 1 {
			t.Fatalf("CBS %v with %d of %d failures: %v", cbs, k, n, bound)
		}
	}
}

// If an interval end is not a multiple of 2⁻⁶³, CBS rounds it so that the Brier score becomes larger. With any other
// rounding the result would be below the true maximum.
func TestCBSRoundsEndsOutward(t *testing.T) {
	for _, tt := range []struct {
		name      string
		intervals []Bounded
		want      float64
	}{
		{"upper end", []Bounded{{0, 0x1p-70, false}}, 0x1p-63},
		{"square", []Bounded{{0, 0x1p-40, false}}, 0x1p-63},
		// (1 − 2⁻⁷⁰)² + 2⁻⁶⁴ is above 1. If the lower end 2⁻⁷⁰ were rounded up to 2⁻⁶³, the sum would be 1.
		{"lower end", []Bounded{{0x1p-70, 1, true}, {0, 0x1p-32, false}}, 0.5 + 0x1p-53},
	} {
		got, err := CBS(tt.intervals)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// checkRoundedUp checks that 'got' is not below 'exact' and is at most three units in the last place above it. If
// 'exact' is 1 or more, 'got' must be 1.
func checkRoundedUp(t *testing.T, exact *big.Rat, got float64) {
	t.Helper()
	if exact.Cmp(big.NewRat(1, 1)) >= 0 {
		if got != 1 {
			t.Fatalf("%v, want 1 of %v", got, exact)
		}
		return
	}
	nearest, _ := exact.Float64()
	most := nearest
	for range 3 {
		most = math.Nextafter(most, 2)
	}
	if new(big.Rat).SetFloat64(got).Cmp(exact) < 0 || got > most {
		t.Fatalf("%v, to the nearest %v", got, nearest)
	}
}

// The share of failures is rounded up, and MeanWithFailures rounds up the sum of the mean and this share. So the result
// is not below the exact result, and at most three units in the last place above it.
func TestMeanWithFailuresRoundsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	for range 2000 {
		n := 1 + r.IntN(1000)
		k := r.IntN(n + 1)
		mean := r.Float64() * math.Exp2(-float64(r.IntN(40)))
		exact := new(big.Rat).Add(new(big.Rat).SetFloat64(mean), big.NewRat(int64(k), int64(n)))
		got := MeanWithFailures(mean, RowWeights{}.LargestShare(int64(k), n))
		checkRoundedUp(t, exact, got)
		share := math.Nextafter(float64(k)/float64(n), 2)
		if want := math.Nextafter(mean+share, 2); got != min(1, want) {
			t.Fatalf("%v + %d/%d: %v, want %v", mean, k, n, got, want)
		}
	}
}
