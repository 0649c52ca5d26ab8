package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// Outcome holds what the certificate says and what the attack found for one labelled example.
type Outcome struct {
	// Certified is the certified radius: the certificate says that the answer is the label for every perturbation up to
	// this norm. Certified is negative if the certificate does not say this for any radius.
	Certified float64
	// Broken is the distance from the example to the nearest verified break. At a verified break, a test has shown that
	// the answer is not the label. The error probability of all tests of one example together is Levels.Gamma. Broken
	// is 0 if the answer is wrong at the example itself, and +∞ if there is no verified break.
	Broken float64
	// Listed is the distance from the example to the nearest break that a test for Broken or the function Chains has
	// verified. Chains tests the candidates of all examples together, at one familywise level. Listed is at most
	// Broken.
	Listed float64
}

// Point holds the values of the curves at one radius. Each share is a number of outcomes, divided by the number of all
// outcomes.
type Point struct {
	Radius    float64 `json:"radius"`
	Certified float64 `json:"certified"` // share of the outcomes with Outcome.Certified ≥ Radius
	// share of the outcomes that no attack changed within Radius (Outcome.Broken > Radius)
	Unbroken float64 `json:"unbroken"`
	// Images is the share of the outcomes with Outcome.Listed > Radius. It is an upper bound on the robust accuracy on
	// the images of the audit. This bound is wrong only if one of the verified breaks is false. In 'rscert audit', the
	// probability of such an error is at most the value of --gamma.
	Images float64 `json:"images"`
	// Lower and Upper are bounds on the robust accuracy of the population. Each of these bounds holds with confidence
	// 1−δ for this radius alone.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// LowerAll and UpperAll are bounds on the same robust accuracy. Each of these bounds holds with confidence 1−δ for
	// all radii at once.
	LowerAll float64 `json:"lower_all"`
	UpperAll float64 `json:"upper_all"`
}

// Levels are the error probabilities of the curves.
type Levels struct {
	Alpha float64 // error probability of one certificate
	Gamma float64 // error probability of all tests of one example together
	Delta float64 // error probability of one statement about the population
}

// Curve returns the bounds on robust accuracy at the radii, for n ≥ 1 outcomes drawn independently of each other:
//
//	upper = UCB(#{Broken > ρ}; n, δ) + γ, lower = LCB(#{Certified ≥ ρ}; n, δ) − α
//
// Here UCB and LCB are upper and lower confidence bounds on a proportion. For one radius UCB and LCB are
// Clopper–Pearson bounds. For all radii they come from the inequality of Dvoretzky, Kiefer and Wolfowitz (Massart's
// constant, one-sided, δ ≤ ½). The term γ accounts for breaks that are wrong, and the term α accounts for certificates
// that are wrong. An example is robust at radius ρ if the answer is the label for every perturbation of norm at most ρ.
//
// The share #{Listed > ρ}/n is an upper bound on the robust accuracy on the n audited images themselves. This bound is
// wrong only if one of the verified breaks is false. In 'rscert audit', the probability of such an error is at most the
// value of --gamma.
func Curve(outcomes []Outcome, radii []float64, levels Levels) []Point {
	n := int64(len(outcomes))
	share := func(k int64) float64 { return float64(k) / float64(n) }
	wide := math.Sqrt(math.Log(1/levels.Delta)/(2*float64(n))) * (1 + 16*unit)
	points := make([]Point, len(radii))
	for i, radius := range radii {
		certified, unbroken, images := int64(0), int64(0), int64(0)
		for _, o := range outcomes {
			if o.Certified >= radius {
				certified++
			}
			if o.Broken > radius {
				unbroken++
			}
			if o.Listed > radius {
				images++
			}
		}
		points[i] = Point{
			Radius: radius, Certified: share(certified), Unbroken: share(unbroken), Images: share(images),
			Lower:    outwards(binomial.LowerBound(certified, n, levels.Delta)-levels.Alpha, -1),
			Upper:    outwards(binomial.UpperBound(unbroken, n, levels.Delta)+levels.Gamma, 1),
			LowerAll: outwards(share(certified)-wide-levels.Alpha, -1),
			UpperAll: outwards(share(unbroken)+wide+levels.Gamma, 1),
		}
	}
	return points
}

// outwards moves x by a few rounding errors, up for direction 1 and down for −1. It clamps the result to [0, 1].
func outwards(x, direction float64) float64 { return math.Min(math.Max(x+direction*8*unit, 0), 1) }
