package certify

import "github.com/rscert/rscert/internal/binomial"

// moutaouakil is the discrete method of Moutaouakil 2024, §4.2 and §4.3, as printed. It ranks outcomes by the plug-in
// margin T. T is x1/n − x2/n for the first margin, and Φ_M⁻¹(x1/n) − Φ_M⁻¹(x2/n) for the second margin. The bound is
// the largest L such that 1 − P_q(T ≤ T(x)) ≤ α for all distributions q with a margin g(q) ≤ L (eqs. 7–9, Algorithms 5,
// 6).
//
// The method is not sound. 1 − P(T ≤ T(x)) is P(T > T(x)), but a sound test needs P(T ≥ T(x)), which counts the
// observed outcome. At x1 = n no outcome is more extreme, so the probability is 0 for every q. The bound is then the
// largest possible margin. This is 1 for the first margin. The second margin is unbounded. This error explains the "∞
// gain" of the paper's Table 1. The method "margin" uses P(T ≥ T(x)).
//
// To solve for L the paper replaces Φ⁻¹ by a Taylor polynomial Φ_M⁻¹ and first tests q1 ≥ ½. The search along the
// frontier needs neither the polynomial nor the test. So here Φ_M⁻¹ only ranks the outcomes. The paper leaves M open;
// here M = 7.
func (c *VoteCertifier) moutaouakil(o observation) marginBound {
	kind := c.params.Margin
	order := c.order(ranking{o.n, o.alpha}, func() *order { return plugInOrder(kind, o.n) })
	e := newEvent(order, o.a, o.b)
	e.strict = true
	if !e.holds(o.n, 0) { // the event is empty
		return marginBound{margin: 1, unbounded: kind == SecondMargin}
	}
	s := newSearch(e, c.scale, o.alpha)
	return marginBound{margin: s.margin(c.bonferroni(o).margin)}
}

// plugInOrder orders outcomes by the margin of the observed frequencies, with Φ_M⁻¹ in place of Φ⁻¹. Both possible
// scores s(k), which are k/n − ½ and Φ_M⁻¹(k/n), satisfy s(n−k) = −s(k). So T = s(x1) + s(n−x2) is the margin s(x1) −
// s(x2).
func plugInOrder(kind MarginKind, n int64) *order {
	return &order{n: n, score: func(k int64) binomial.Span {
		s := float64(k)/float64(n) - 0.5
		if kind == SecondMargin {
			s = probitTaylor(float64(k) / float64(n))
		}
		return binomial.Span{Lower: s, Upper: s}
	}}
}
