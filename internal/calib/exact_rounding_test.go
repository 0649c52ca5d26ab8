package calib

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// If an end of an interval is not a multiple of 2⁻⁶³, CCE must round it outward. With any other rounding, the value of
// CCE is below the true supremum.
func TestCCERoundsEndsOutward(t *testing.T) {
	correctAt := func(z float64) Bounded { return Bounded{Lower: z, Upper: z, Correct: true} }
	wrongAt := func(z float64) Bounded { return Bounded{Lower: z, Upper: z} }
	for _, tt := range []struct {
		name      string
		intervals []Bounded
		want      float64
	}{
		{"upper end, wrong", []Bounded{{Upper: 0x1p-70}}, 0x1p-63},
		// The value is half of the gap (1 − 2⁻⁷⁰) − (1 − 2⁻⁴⁰), where 2⁻⁷⁰ is rounded down to 0.
		{"lower end, correct", []Bounded{correctAt(0x1p-70), wrongAt(1 - 0x1p-40)}, 0x1p-41},
		// The value is half of |1 − 2⁻⁷⁰ − 1|, where the confidence 2⁻⁷⁰ is rounded up to 2⁻⁶³.
		{"upper end, correct", []Bounded{correctAt(0x1p-70), wrongAt(1)}, 0x1p-64},
		// The gap |1 − ½ − ½ − 2⁻⁷⁰| is 2⁻⁷⁰, which is rounded up to 2⁻⁶³. With the opposite rounding the gap would be
		// 0.
		{"lower end, wrong", []Bounded{correctAt(0.5), wrongAt(0.5), wrongAt(0x1p-70)}, 0x1p-63 / 3},
	} {
		w, err := CCE(tt.intervals, mustBins(t, 1))
		if err != nil || w.Value < tt.want || w.Value > math.Nextafter(tt.want, 1) {
			t.Errorf("%s: %v, %v, want %v", tt.name, w.Value, err, tt.want)
		}
	}
}

func TestLargestGapRoundsEndsOutward(t *testing.T) {
	for _, tt := range []struct {
		name      string
		intervals []Bounded
		want      float64
	}{
		{"upper end", []Bounded{{Upper: 0x1p-70}}, 0x1p-63},
		// 1 − 2⁻⁷⁰ + 2⁻⁶³ is above 1. If the lower end 2⁻⁷⁰ were rounded up to 2⁻⁶³, the sum would be 1.
		{"lower end", []Bounded{{Lower: 0x1p-70, Upper: 1, Correct: true}, {Upper: 0x1p-63}}, 0.5 + 0x1p-53},
		{"exact", []Bounded{{Lower: 0.25, Upper: 1, Correct: true}, {Upper: 0.125}}, 0.4375},
	} {
		if got, err := LargestGap(tt.intervals); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// The share of failures is rounded up. CCEWithFailures doubles it, adds it to the calibration error and rounds up the
// sum. So the result is not below the exact result, and at most three units in the last place above it.
func TestCCEWithFailuresRoundsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 30))
	for range 2000 {
		n := 1 + r.IntN(1000)
		k := r.IntN(n/2 + 1)
		cce := r.Float64() * math.Exp2(-float64(r.IntN(40)))
		exact := new(big.Rat).Add(new(big.Rat).SetFloat64(cce), big.NewRat(2*int64(k), int64(n)))
		got := CCEWithFailures(cce, RowWeights{}.LargestShare(int64(k), n))
		checkRoundedUp(t, exact, got)
		if want := math.Nextafter(cce+math.Nextafter(2*float64(k)/float64(n), 3), 4); got != min(1, want) {
			t.Fatalf("%v + 2·%d/%d: %v, want %v", cce, k, n, got, want)
		}
	}
}
