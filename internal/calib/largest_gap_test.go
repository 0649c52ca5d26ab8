package calib

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// If the confidences lie in the intervals, the calibration error is at most the largest gap, for every choice of bins.
// If in addition each sample is alone in its bin, some choice of the confidences makes the calibration error equal to
// the largest gap.
func TestLargestGapBoundsEveryBinning(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 30))
	for range 300 {
		b := mustBins(t, 1+r.IntN(20))
		intervals := randomSamples(r, b, 1+r.IntN(100))
		n := len(intervals)
		bound, err := LargestGap(intervals)
		if err != nil {
			t.Fatal(err)
		}
		var alone float64
		for _, v := range intervals {
			alone += math.Abs(indicator(v.Correct) - v.BrierConfidence())
		}
		if math.Abs(bound-alone/float64(n)) > rounding {
			t.Fatalf("bound %v, the Brier confidences in bins of their own %v", bound, alone/float64(n))
		}
		for range 20 {
			gap := make([]float64, 1+r.IntN(n))
			var sum float64
			for _, v := range intervals {
				gap[r.IntN(len(gap))] += indicator(v.Correct) - (v.Lower + r.Float64()*(v.Upper-v.Lower))
			}
			for _, g := range gap {
				sum += math.Abs(g)
			}
			if sum/float64(n) > bound+rounding {
				t.Fatalf("calibration error %v above %v", sum/float64(n), bound)
			}
		}
		w, err := CCE(intervals, b)
		if err != nil || w.Value > bound {
			t.Fatalf("CCE %v above the bound %v for every binning (%v)", w.Value, bound, err)
		}
	}
}

// CCE, LargestGap and CBS move an interval end outward if it is not a multiple of 2⁻⁶³. So for one prediction, CCE and
// LargestGap are at least the exact gap, and CBS is at least the square of the gap. Some ends are just below powers of
// two, others are random. Rounding in the wrong direction would change only the last bit of a result, so the test
// compares each result with an exact fraction.
func TestEndsMoveOutward(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	ends := []float64{math.Nextafter(0x1p-20, 0), math.Nextafter(0x1p-20, 1), math.Nextafter(0x1p-40, 0), 0x1p-70, math.SmallestNonzeroFloat64}
	for range 20000 {
		ends = append(ends, math.Ldexp(0.5+r.Float64()/2, -10-r.IntN(4)))
	}
	b := mustBins(t, 15)
	for _, x := range ends {
		for _, correct := range []bool{true, false} {
			v := []Bounded{{Lower: x, Upper: x, Correct: correct}}
			gap := new(big.Rat).SetFloat64(x)
			if correct {
				gap.Sub(big.NewRat(1, 1), gap)
			}
			cbs, err := CBS(v)
			if err != nil {
				t.Fatal(err)
			}
			cce, err := CCE(v, b)
			if err != nil {
				t.Fatal(err)
			}
			largest, err := LargestGap(v)
			if err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]struct {
				got   float64
				exact *big.Rat
			}{"CBS": {cbs, new(big.Rat).Mul(gap, gap)}, "CCE": {cce.Value, gap}, "largest gap": {largest, gap}} {
				if new(big.Rat).SetFloat64(c.got).Cmp(c.exact) < 0 {
					t.Fatalf("%s of a confidence of %v, correct %v, is %v: below the exact value", name, x, correct, c.got)
				}
			}
		}
	}
}
