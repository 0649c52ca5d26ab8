package calib

import "math"

// DebiasedL2 returns the debiased L2 calibration error of the bins (Kumar, Liang & Ma 2019, definition 4.2),
//
//	√max(0, Σ_m share_m·[(accuracy_m − confidence_m)² − accuracy_m(1−accuracy_m)/(n_m−1)]).
//
// Here bin m holds n_m examples, and share_m is n_m divided by the number of all examples. Without the max, the square
// of the result would be an unbiased estimate of the squared L2 calibration error of the bins. A bin with one example
// contributes 0, because its noise cannot be estimated. The result is NaN if the predictions have weights.
func DebiasedL2(p *Predictions, bins []Bin) float64 {
	if p.Weight != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, b := range bins {
		if b.N > 1 {
			gap := b.Accuracy - b.Confidence
			sum += b.Weight * (gap*gap - b.Accuracy*(1-b.Accuracy)/float64(b.N-1))
		}
	}
	return math.Sqrt(max(0, sum))
}
