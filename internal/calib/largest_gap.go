package calib

import "github.com/rscert/rscert/internal/fixedpoint"

// LargestGap is the mean of the largest gap |c − z| that each interval allows,
//
//	(1/N) ( Σ_{c=1} (1−l) + Σ_{c=0} u ),
//
// and bounds the expected calibration error under attack for every way to bin,
// equal-count bins (AdaECE) among them: whatever the bins are, and wherever the
// adversary's own confidences put their edges, (1/N) Σ_m |Σ_{n in m} (c_n − z_n)|
// is at most (1/N) Σ_n |c_n − z_n| by the triangle inequality, and each term at
// most its largest. No binning with M bins need attain it. It holds if every
// interval does. Exact, rounded up (see CCE).
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
