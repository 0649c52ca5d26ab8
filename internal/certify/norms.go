package certify

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/law"
)

// A Space describes the inputs of a classifier. Its method RadiusIn converts radii to other norms.
type Space struct {
	Dim int // number of coordinates
	// Span is the largest possible change of one coordinate: 1 for bytes scaled to [0, 1]. It is 0 if nothing limits
	// the change.
	Span float64
}

// RadiusIn converts a certified radius R to another norm. The argument 'from' is the norm of R (L2 or L1), and the
// argument 'to' is the norm of the result. RadiusIn returns the largest radius that R implies in the norm 'to', rounded
// down. A perturbation δ within the returned radius lies within R, by these inequalities with d = Dim:
//
//	‖δ‖₂ ≤ ‖δ‖₁,  ‖δ‖₁ ≤ √d·‖δ‖₂,  ‖δ‖₂ ≤ √d·‖δ‖∞,  ‖δ‖₁ ≤ d·‖δ‖∞.
//
// In L0 the returned radius is a number of coordinates. If R is in L2, the returned radius is the largest k ≤ d with
// √k·Span < R. If R is in L1, it is the largest k ≤ d with k·Span < R. RadiusIn returns an error in three cases: R is
// neither in L2 nor in L1, Dim is below 1, or 'to' is L0 and Span is 0.
func (s Space) RadiusIn(to, from law.Norm, radius float64) (float64, error) {
	d := float64(s.Dim)
	var factor float64
	switch {
	case from != law.L2 && from != law.L1 || s.Dim < 1:
		return 0, fmt.Errorf("a radius in %s for inputs of %d values implies none in %s", from.Title(), s.Dim, to.Title())
	case to == law.L0:
		return s.changed(from, radius)
	case to == from, to == law.L1:
		return radius, nil
	case from == law.L1 && to == law.LInf:
		factor = 1 / d
	default: // from L1 to L2, or from L2 to L∞
		factor = 1 / math.Sqrt(d)
	}
	if radius == math.MaxFloat64 { // MaxFloat64 stands for +∞
		return radius, nil
	}
	return RoundDown(nudgeDown(radius * factor)), nil
}

// The method 'changed' returns the radius in L0, the number of coordinates that may change.
func (s Space) changed(from law.Norm, radius float64) (float64, error) {
	if !(s.Span > 0) {
		return 0, fmt.Errorf("a radius in %s implies none in %s where a value can change without limit", from.Title(), law.L0.Title())
	}
	k := nudgeDown(radius / s.Span)
	if from == law.L2 {
		k = nudgeDown(k * k)
	}
	return math.Min(math.Floor(k), float64(s.Dim)), nil
}
