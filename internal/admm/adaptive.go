package admm

import (
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/fixedpoint"
)

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
func LargestGap(intervals []calib.Bounded) (float64, error) {
	if err := calib.CheckBounded(intervals); err != nil {
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

// Adaptive is an attack on the calibration error with M bins of equal count
// (calib.EqualCount), whose largest value Emde et al. leave open (appendix L). It
// is the best of a few: the clean and the Brier confidences, and those that attain
// the CCE with M, 2M, 4M and 8M equal-width bins, which keep correct and wrong
// predictions apart. LargestGap is how much larger the maximum can be.
func (p *Problem) Adaptive() (Estimate, error) {
	candidates := [][]float64{p.start(FromBrier)}
	if p.clean != nil {
		candidates = append(candidates, p.start(FromClean))
	}
	for m := p.bins.Len(); m <= 8*p.bins.Len() && m <= MaxBins; m *= 2 {
		bins, err := EqualWidth(m)
		if err != nil {
			return Estimate{}, err
		}
		worst, err := CCE(p.samples, bins)
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
