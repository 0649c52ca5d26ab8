package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// Outcome is what certificate and attack say of one labelled example.
type Outcome struct {
	// Certified is the radius within which the certificate says that the answer is the label; negative if it does not.
	Certified float64
	// Broken is the distance of the nearest input at which the answer is verified to differ from the label, by a test at
	// the example's own level: 0 if the answer is wrong at the example itself, +∞ if no such input was found.
	Broken float64
	// Listed is this distance by Chains, whose level is for all examples together. It is at most Broken.
	Listed float64
}

// Point is a point of the curves at one radius. All shares are of the n outcomes.
type Point struct {
	Radius    float64 `json:"radius"`
	Certified float64 `json:"certified"` // share with a certificate of the label at this radius
	Unbroken  float64 `json:"unbroken"`  // share without a verified break within this radius
	// Images bounds the robust accuracy on these images from above, at the familywise level of the verified breaks.
	Images float64 `json:"images"`
	// Lower and Upper bound the robust accuracy of the population, each at level 1−δ for one radius.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// LowerAll and UpperAll hold for all radii at once, each at level 1−δ.
	LowerAll float64 `json:"lower_all"`
	UpperAll float64 `json:"upper_all"`
}

// Levels are the error probabilities of the curves.
type Levels struct {
	Alpha float64 // of one certificate
	Gamma float64 // of one verified break
	Delta float64 // of one statement about the population
}

// Curve returns the bounds on robust accuracy at the radii, for n ≥ 1 outcomes drawn independently of each other:
//
//	upper = UCB(#{Broken > ρ}; n, δ) + γ, lower = LCB(#{Certified ≥ ρ}; n, δ) − α
//
// with Clopper–Pearson bounds for one radius, and with the inequality of Dvoretzky, Kiefer and Wolfowitz (Massart's
// constant, one-sided, δ ≤ ½) for all radii. γ and α enter because a break or a certificate can be wrong. The robust
// radius ρ means that no perturbation up to and including ρ changes the answer from the label.
//
// For these images themselves, #{Listed > ρ}/n is an upper bound at the familywise level. It holds unless a listed
// break is wrong.
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

// outwards moves x away by a few roundings in the direction and clamps it to [0, 1].
func outwards(x, direction float64) float64 { return math.Min(math.Max(x+direction*8*unit, 0), 1) }
