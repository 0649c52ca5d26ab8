package certify

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// ChooseFirst is the warning that certificates by several methods from the same samples need not hold simultaneously.
const ChooseFirst = "alpha holds for each sound method by itself. Choose one method before you see the votes or scores. If you choose the\n" +
	"best of several methods by these results, a certificate can be wrong with a probability above alpha"

// ChoosePoint is the warning that certificates of several points of a sweep need not hold simultaneously.
const ChoosePoint = "alpha holds for each point by itself. If you choose the best point by these results, a certificate of the point can\n" +
	"be wrong with a probability above alpha. Then certify the chosen point again with a new seed, or choose alpha so small\n" +
	"that alpha times the number of points is small enough"

// BetterOfTwo is the notice about the certificates of a second run. The examples of this run were chosen by the results
// of a first run.
const BetterOfTwo = "The noise of this run is new, so each certificate holds with probability at least 1 − alpha. If you take, for\n" +
	"each example, the better of its two certificates, this certificate can be wrong with a probability up to the sum of\n" +
	"both alphas"

// Summary summarises the certificates of one method.
type Summary struct {
	Method string `json:"method"`
	Sound  bool   `json:"sound"`
	// Arithmetic is Exact if all certificates have Arithmetic = Exact. Otherwise it is Idealised.
	Arithmetic Arithmetic `json:"arithmetic"`
	Precision  string     `json:"precision,omitempty"`
	Alpha      float64    `json:"alpha"`
	Law        law.Name   `json:"law,omitempty"` // law of the noise
	Sigma      float64    `json:"sigma"`
	Norm       law.Norm   `json:"norm"`             // norm of the radii
	Scaled     bool       `json:"scaled,omitempty"` // radii are in units of the columns' scales
	Examples   int        `json:"examples"`
	Abstained  int        `json:"abstained"`
	// Certified holds the certified accuracy at each radius: the share of examples whose certified class is the label
	// and whose certified radius is at least this radius.
	Certified []CertifiedAccuracy `json:"certified_accuracy"`
	// AverageRadius is the average certified radius (ACR, Zhai et al. 2020); examples without a correct certificate
	// count as 0. The average uses the reported radii, which are rounded down.
	AverageRadius float64 `json:"average_certified_radius"`
	// With probability at least 1 − Delta, the number of wrong certificates is at most Failures
	// (binomial.FailureQuantile). The true certified accuracy at each radius is then at least Accuracy −
	// Failures/Examples. Delta and Failures are set only if Sound is true and Deterministic is false.
	Delta    float64 `json:"delta,omitempty"`
	Failures int64   `json:"failures"`
	// Sampled is the number of sampled examples, if the summary covers only some of them (see Among). Failures is then
	// computed for all sampled examples. Otherwise Sampled is 0.
	Sampled int `json:"sampled,omitempty"`
	// Quantisation is the largest loss of radius from rounding an input to a lattice.
	Quantisation float64 `json:"quantisation,omitempty"`
	// Samples is the number of estimation samples used by all examples.
	Samples int64 `json:"samples"`
	// Deterministic means that all certificates hold with certainty (Certificate.Deterministic).
	Deterministic bool `json:"deterministic,omitempty"`
	// Norms holds the results of Tally.In for further norms, if requested.
	Norms []NormSummary `json:"norms,omitempty"`
	// Classes is the result of Tally.Classes, if requested.
	Classes []ClassSummary `json:"classes,omitempty"`
	Claim
}

// NormSummary holds the certified accuracy in another norm. It uses the radii that the certificates imply in this norm.
type NormSummary struct {
	Norm          law.Norm            `json:"norm"`
	Certified     []CertifiedAccuracy `json:"certified_accuracy"`
	AverageRadius float64             `json:"average_certified_radius"`
}

// ClassSummary summarises the certificates of all examples with the same label.
type ClassSummary struct {
	Class         int                 `json:"class"`
	Examples      int                 `json:"examples"`
	Abstained     int                 `json:"abstained"`
	Certified     []CertifiedAccuracy `json:"certified_accuracy"`
	AverageRadius float64             `json:"average_certified_radius"`
}

// CheckRadii returns an error if the radii are not valid for a Summary.
func CheckRadii(radii []float64) error {
	for _, r := range radii {
		if !(r >= 0) || math.IsInf(r, 1) {
			return fmt.Errorf("%v: want numbers from 0", radii)
		}
	}
	return nil
}

// CertifiedAccuracy is a point of the certified accuracy curve.
type CertifiedAccuracy struct {
	Radius   float64 `json:"radius"`
	Accuracy float64 `json:"accuracy"`
}

// summaryDelta is the value of Summary.Delta. With probability at most summaryDelta, more than Summary.Failures
// certificates are wrong.
const summaryDelta = 0.05

// allowFailures sets Delta and Failures for the given number of sampled examples.
func (s *Summary) allowFailures(examples int) {
	if !s.Sound || s.Deterministic {
		return
	}
	if k, err := binomial.FailureQuantile(int64(examples), s.Alpha, summaryDelta); err == nil {
		s.Delta, s.Failures = summaryDelta, k
	}
}

// Among returns the summary for the case that s covers only some of the sampled examples. The argument 'sampled' is a
// lower bound on the number of sampled examples. Somebody may have seen the results before removing the other examples,
// so all wrong certificates may be among the examples of s.
func (s Summary) Among(sampled int) Summary {
	if sampled > s.Examples {
		s.Sampled = sampled
		s.allowFailures(sampled)
		s.Failures = min(s.Failures, int64(s.Examples))
	}
	return s
}

// RadiiUpTo chooses radii for a Summary: 0 and at most eight multiples of a round step. No radius is above the argument
// 'largest'.
func RadiiUpTo(largest float64) []float64 {
	radii := []float64{0}
	step := 0.25
	if largest > 0 {
		decade := math.Pow(10, math.Floor(math.Log10(largest/8)))
		for _, f := range []float64{1, 2.5, 5, 10} {
			if step = decade * f; largest <= 8*step {
				break
			}
		}
	}
	for k := 1; k <= 8 && step*float64(k) <= largest; k++ {
		radii = append(radii, roundNearest(step*float64(k)))
	}
	return radii
}
