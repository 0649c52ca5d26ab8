package conformal

import (
	"fmt"
	"math"
)

// tangentWeights returns the weights w(0), w(1) of a line. For H(p) = p the line is the tangent of g at β = F(z+ρ) with
// z = F⁻¹(1−a), so that g(β) = 1−a. The function g is convex for a log-concave law, so the tangent is valid. With m =
// m′ = 1, the rule with these weights is RCP1 (Zargarbashi et al. 2025). Let N₀ be the number of calibration scores
// below τ. Then the condition of the theorem in the package comment becomes N₀ + 1 ≤ (n+1)(1−β), so calibration uses
// the level 1−β instead of a. If n+1 < 1/(1−β), the set contains all classes.
//
// For other H the line is only a proposal, which the function 'slackened' makes valid.
func tangentWeights(g target, miss float64) []float64 {
	z := g.law.Quantile(1 - miss)
	beta, _ := g.law.CDF(z + g.shift)
	slope := g.law.Slope(z+g.shift, -g.shift)
	if math.IsInf(slope, 0) || math.IsNaN(slope) {
		slope = 1
	}
	return []float64{1 - miss - slope*beta, math.Min(1, 1-miss+slope*(1-beta))}
}

// chooseRCP1 prepares the rule RCP1: one draw per example, one draw per query, and the weights that tangentWeights
// computes from the tangent.
func (d *Design) chooseRCP1(p Params) error {
	if p.Draws > 1 || p.CalibrationDraws > 1 || d.Attack.queries() > 1 {
		return fmt.Errorf("rule %s: %d and %d draws, %d submissions: want 1", RCP1, p.Draws, p.CalibrationDraws, d.Attack.queries())
	}
	d.M, d.QueryM, d.QueryT = 1, 1, 1
	if d.Shift == 0 {
		d.Weights, d.Degree = step(1, 1).weights(), 1
		return nil
	}
	// This is the tolerance of the function 'slackened'. A slack of this size rarely changes the rank of the threshold.
	const tolerance = 1e-10
	b, slack, err := slackened(newPolynomial(tangentWeights(d.target(), d.Miss)), d.target(), tolerance)
	if err != nil {
		return fmt.Errorf("rule %s: %w", RCP1, err)
	}
	d.Weights, d.Degree, d.Slack = b.weights(), b.degree(), slack
	return nil
}
