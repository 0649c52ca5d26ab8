package conformal

import (
	"fmt"
	"math"
)

// tangentWeights returns the weights of a line, which is a polynomial of any degree. For H(p) = p the line is the
// tangent of g at β = F(Q(1−a) + ρ), where g(β) = 1 − a. The function g is convex for a log-concave law, so the tangent
// is valid. With m = m′ = 1 this is RCP1 (Jeary et al. 2025): the condition of the theorem becomes N₀ + 1 ≤ (n+1)(1−β),
// where N₀ is the number of calibration scores below τ, so calibration takes the level 1 − β instead of a. The set is
// trivial for n + 1 < 1/(1−β).
//
// For other H the line is only a proposal, which slackened makes valid.
func tangentWeights(g target, degree int, miss float64) []float64 {
	z := g.law.Quantile(1 - miss)
	beta, _ := g.law.CDF(z + g.shift)
	slope := g.law.Slope(z+g.shift, -g.shift)
	if math.IsInf(slope, 0) || math.IsNaN(slope) {
		slope = 1
	}
	w := make([]float64, degree+1)
	for k := range w {
		w[k] = math.Min(1, 1-miss+slope*(float64(k)/float64(degree)-beta))
	}
	return w
}

// chooseRCP1 takes one draw per example and query, and the tangent as weights.
func (d *Design) chooseRCP1(p Params) error {
	if p.Draws > 1 || p.CalibrationDraws > 1 || d.Attack.queries() > 1 {
		return fmt.Errorf("rule %s: %d and %d draws, %d submissions: want 1", RCP1, p.Draws, p.CalibrationDraws, d.Attack.queries())
	}
	d.M, d.QueryM, d.QueryT = 1, 1, 1
	b, slack, err := slackened(newPolynomial(tangentWeights(d.target(), 1, d.Miss)), d.target())
	if err != nil {
		return fmt.Errorf("rule %s: %w", RCP1, err)
	}
	d.Weights, d.Degree, d.Slack = b.weights(), b.degree(), slack
	return nil
}
