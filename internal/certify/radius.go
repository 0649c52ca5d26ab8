package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// theorem returns the law's radius theorem for a kind of margin.
func theorem(l law.Additive, m MarginKind) law.Theorem {
	if m == FirstMargin {
		return l.First()
	}
	return l.Second()
}

// Radius returns the radius of a class with the given margin, in the law's norm. Within this radius the class stays the
// prediction. The radius is rounded down. It is 0 for a margin ≤ 0.
func (t Target) Radius(margin float64) float64 {
	if !(margin > 0) {
		return 0
	}
	return roundDownFinite(nudgeDown(t.unrounded(margin)))
}

// The method 'unrounded' returns the radius of a margin > 0, before rounding. Let L be a Lipschitz constant of the
// vector of smoothed probabilities, from the law's norm to L2. If L is known, margin/(√2·L) is another valid radius for
// the first margin (Tsuzuku et al. 2018, Proposition 1: the difference e_A − e_j of two unit vectors has length √2).
// Which of the two radii is larger does not depend on the samples, so the method may return the larger radius.
func (t Target) unrounded(margin float64) float64 {
	radius := theorem(t.additive(), t.Margin).Radius(margin, t.Sigma)
	if t.Margin == FirstMargin && t.Lipschitz > 0 {
		radius = math.Max(radius, margin/(math.Sqrt2*t.Lipschitz))
	}
	return radius
}

// shift returns the largest change of Q(m) within a radius, where m is a mean score and Q is the law's quantile
// function. This change is half of the second margin that the radius requires.
func (t Target) shift(radius float64) float64 {
	return t.additive().Second().Margin(radius, t.Sigma) / 2
}

// LargestRadius returns an upper bound on the radius that a sound method can give with n samples. This upper bound is
// known before sampling. After n successes in n samples, every sound lower bound on the success probability is at most
// α^{1/n}. Otherwise some p would lie between α^{1/n} and the bound. If p were the success probability, the bound would
// fail whenever there are n successes. The probability of n successes is pⁿ > α. So for two classes a certified second
// margin Q(p_A) − Q(p_B) is at most 2Q(α^{1/n}), where Q is the law's quantile function. A certified first margin p_A −
// p_B is at most 2α^{1/n} − 1. With more classes, a bound must hold for more distributions, so it cannot be larger. If
// the claim is that A is among the first k classes, the margin is largest when all votes are for A. For such votes, the
// same argument applies to the contest with the factor t = k. The radius is rounded up.
//
// For the law Splitting, the noise takes W values one step apart, and the radius is at most W/2 steps. The field Sigma
// is the length of W/2 steps in the units of the data.
func (t Target) LargestRadius(n int64) float64 {
	if t.Law.Deterministic() {
		return t.Sigma * (1 + 1e-9)
	}
	tail := -math.Expm1(math.Log(t.Alpha) / float64(n)) // 1 − α^{1/n}
	margin := 1 - 2*tail
	switch {
	case t.Ranked():
		margin = (&ranks{quantiles: quantiles{t.additive()}, t: t.clearest()}).margin(1-tail, 1-tail)
	case t.Margin != FirstMargin:
		margin = -2 * t.additive().Quantile(tail)
	}
	return t.unrounded(margin) * (1 + 1e-9)
}

// nudgeDown takes an x > 0 that was computed with at most four roundings, and returns a number below the exact value.
func nudgeDown(x float64) float64 { return x * (1 - 0x1p-50) }

func roundDownFinite(x float64) float64 {
	if x > math.MaxFloat64 {
		return math.MaxFloat64
	}
	return RoundDown(x)
}
