package calib

import "github.com/rscert/rscert/internal/fixedpoint"

// LargestGap takes, for each prediction, the largest gap |c − z| that the prediction's interval allows. It returns the
// mean of these gaps over the predictions,
//
//	(1/N) ( Σ_{c=1} (1−l) + Σ_{c=0} u ).
//
// Here c is 1 for a correct prediction and 0 for a wrong one, z is its confidence, and [l, u] is its interval.
// LargestGap bounds the expected calibration error under attack for every choice of bins, including equal-count bins
// (AdaECE), whose edges the adversary can move. The reason is the triangle inequality: (1/N) Σ_m |Σ_{n in m} (c_n −
// z_n)| is at most (1/N) Σ_n |c_n − z_n|, and the formula maximises each term. For some choices of bins no attack
// attains the bound. The bound holds if every interval holds. LargestGap computes with integers and rounds upward only
// (see CCE).
func LargestGap(intervals []Bounded) (float64, error) {
	if err := CheckBounded(intervals); err != nil {
		return 0, err
	}
	var sum fixedpoint.Sum
	for _, v := range intervals {
		if v.Correct {
			sum.AddUnits(fixedpoint.One - fixedpoint.Floor(v.Lower))
		} else {
			sum.AddUnits(fixedpoint.Ceil(v.Upper))
		}
	}
	return sum.MeanUp(len(intervals)), nil
}
