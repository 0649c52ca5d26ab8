package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// theorem is the one that a law has for a margin.
func theorem(l law.Law, m MarginKind) law.Theorem {
	if m == FirstMargin {
		return l.First()
	}
	return l.Second()
}

// Radius is the radius, in the law's norm, within which the class of a margin stays the
// prediction, rounded down. A margin ≤ 0 gives 0.
func (t Target) Radius(margin float64) float64 {
	if !(margin > 0) {
		return 0
	}
	return roundDownFinite(below(t.about(margin)))
}

// about is the radius of a margin > 0, not rounded. With a known Lipschitz constant L of the
// vector of smoothed probabilities, from the law's norm to L2, that of the first margin is
// margin/(√2·L) too (Tsuzuku et al. 2018, Proposition 1: e_A − e_j has length √2). Neither rests
// on a sample, so it is the larger one.
func (t Target) about(margin float64) float64 {
	radius := theorem(t.Law.Law(), t.Margin).Radius(margin, t.Sigma)
	if t.Margin == FirstMargin && t.Lipschitz > 0 {
		radius = math.Max(radius, margin/(math.Sqrt2*t.Lipschitz))
	}
	return radius
}

// shift is how far Q of a mean score can move within a radius: half of the second margin that
// the radius takes.
func (t Target) shift(radius float64) float64 {
	return t.Law.Law().Second().Margin(radius, t.Sigma) / 2
}

// LargestRadius is a radius that no sound method exceeds with n samples, known before any
// is drawn: no lower bound at level α on a probability is above α^{1/n} for n samples that are
// all successes, as a p below it has P(n of n) = pⁿ > α just there. For two classes the second
// margin is then at most 2Q(α^{1/n}) and the first 2α^{1/n} − 1; with more classes the bounds are
// over a larger set of laws, so no larger. Rounded up.
func (t Target) LargestRadius(n int64) float64 {
	tail := -math.Expm1(math.Log(t.Alpha) / float64(n)) // 1 − α^{1/n}
	margin := 1 - 2*tail
	if t.Margin != FirstMargin {
		margin = -2 * t.Law.Law().Quantile(tail)
	}
	return t.about(margin) * (1 + 1e-9)
}

// below is a number under every value whose floating-point evaluation by at
// most four roundings is x > 0.
func below(x float64) float64 { return x * (1 - 0x1p-50) }

func roundDownFinite(x float64) float64 {
	if x > math.MaxFloat64 {
		return math.MaxFloat64
	}
	return RoundDown(x)
}
