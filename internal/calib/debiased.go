package calib

import "math"

// DebiasedL2 is the debiased L2 calibration error of the bins (Kumar, Liang & Ma
// 2019, definition 4.2),
//
//	√max(0, Σ_m share_m·[(accuracy_m − confidence_m)² − accuracy_m(1−accuracy_m)/(n_m−1)]),
//
// Without the max, the expectation of its square is the squared binned error, if each example counts once. Bins with
// one example count 0, as their noise cannot be estimated. NaN with weights.
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
