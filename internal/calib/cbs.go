package calib

import (
	"fmt"
	"math"
)

// Bounded is a prediction with an interval for its confidence. Under every allowed perturbation the confidence lies in
// [Lower, Upper]. A correct prediction stays correct, and a wrong prediction stays wrong (C2 and C1 of Emde et al.
// 2025).
type Bounded struct {
	Lower, Upper float64 // 0 ≤ Lower ≤ Upper ≤ 1
	Correct      bool
}

// Check returns an error if the interval is not within [0, 1] or its ends are swapped.
func (v Bounded) Check() error {
	switch {
	case !(v.Lower >= 0 && v.Lower <= 1): // NaN fails both comparisons
		return fmt.Errorf("lower %v is outside [0, 1]", v.Lower)
	case !(v.Upper >= 0 && v.Upper <= 1):
		return fmt.Errorf("upper %v is outside [0, 1]", v.Upper)
	case v.Lower > v.Upper:
		return fmt.Errorf("lower %v is above upper %v", v.Lower, v.Upper)
	}
	return nil
}

// CheckBounded checks each interval, and checks that there is at least one interval. An error about an interval is a
// *RowError.
func CheckBounded(intervals []Bounded) error {
	if len(intervals) == 0 {
		return errNoRows
	}
	for i, v := range intervals {
		if err := v.Check(); err != nil {
			return &RowError{i, err.Error()}
		}
	}
	return nil
}

// BrierConfidence returns the end of the interval that is further from the truth: Lower if the prediction is correct,
// otherwise Upper.
func (v Bounded) BrierConfidence() float64 {
	if v.Correct {
		return v.Lower
	}
	return v.Upper
}

// CBS returns the certified Brier score, the largest top-label Brier score over all confidences in the intervals (Emde
// et al. 2025, Theorem 3.3, eq. 3):
//
//	max_{l ≤ z ≤ u} (1/N) Σ (c−z)² = (1/N) ( Σ_{c=1} (1−l)² + Σ_{c=0} u² ).
//
// Here c is 1 for a correct prediction and 0 for a wrong one, z is its confidence, and [l, u] is its interval. (c−z)²
// grows with |c−z|, and each term has its own z. So the sum is largest when each z is at the end of its interval that
// is further from c (BrierConfidence). CBS is a bound on the Brier score under attack if every interval holds.
//
// The result is the exact maximum rounded up, with an error of at most 2⁻⁶¹ plus one unit in the last place. The code
// rounds |c−z| and its square up to multiples of 2⁻⁶³, and the sum is exact. The result does not depend on the order of
// the intervals.
func CBS(intervals []Bounded) (float64, error) { return WeightedCBS(intervals, RowWeights{}) }

// MeanWithFailures returns an upper bound on a weighted mean, for example the Brier score or the mean of the largest
// gaps (LargestGap). The mean has one term in [0, 1] for each prediction. The argument 'mean' is the bound if every
// interval holds. The argument 'share' is the largest share of the weight that the predictions with failed intervals
// can have (RowWeights.LargestShare). A failed interval raises the term of its prediction by at most 1. So it raises
// the mean by at most the prediction's share of the weight. The result is rounded up.
func MeanWithFailures(mean, share float64) float64 { return min(1, math.Nextafter(mean+share, 4)) }
