package admm

import "github.com/rscert/rscert/internal/calib"

// Adaptive looks for confidences with a large calibration error over M bins of equal count (calib.EqualCount). Emde et
// al. leave open how to compute the maximum of this error (appendix L). Adaptive tries a few candidates and returns the
// best one. The candidates are the clean confidences (if known), the confidences with the largest Brier score, and the
// confidences with the largest calibration error (calib.CCE) in M, 2M, 4M and 8M equal-width bins. Adaptive leaves out
// numbers of bins above calib.MaxBins. In the last four candidates, correct and wrong predictions mostly lie in
// different bins, so their errors do not cancel. The true maximum is at most calib.LargestGap.
func (p *Problem) Adaptive() (Estimate, error) {
	candidates := [][]float64{p.start(FromBrier)}
	if p.clean != nil {
		candidates = append(candidates, p.start(FromClean))
	}
	for m := p.bins.Len(); m <= 8*p.bins.Len() && m <= calib.MaxBins; m *= 2 {
		bins, err := calib.NewBins(m)
		if err != nil {
			return Estimate{}, err
		}
		worst, err := calib.CCE(p.samples, bins)
		if err != nil {
			return Estimate{}, err
		}
		candidates = append(candidates, worst.Confidences(p.samples))
	}
	correct := make([]bool, len(p.samples))
	for n, v := range p.samples {
		correct[n] = v.Correct
	}
	best := Estimate{ECE: -1}
	for _, z := range candidates {
		bins, err := calib.EqualCount(&calib.Predictions{Confidence: z, Correct: correct}, p.bins.Len())
		if err != nil {
			return Estimate{}, err
		}
		if ece := calib.ECE(bins); ece > best.ECE {
			best = Estimate{ECE: ece, Confidences: z}
		}
	}
	return best, nil
}
