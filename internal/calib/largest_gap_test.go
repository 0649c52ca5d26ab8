package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Confidences in the intervals, binned in any way at all, have a calibration
// error of at most the largest gap; and one bin a sample attains it.
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
