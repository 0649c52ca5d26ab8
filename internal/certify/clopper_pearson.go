package certify

import "github.com/rscert/rscert/internal/binomial"

// clopperPearson bounds the margin of the class as Cohen,
// Rosenfeld & Kolter (2019, CERTIFY) do: p_A ≥ p at level 1−α and p_B ≤ 1−p, so
// the second margin is at least 2Φ⁻¹(p), R2 = σΦ⁻¹(p), and the first 2p−1. It
// abstains unless p > ½.
//
// None of the other classes is looked at, so the bound holds whatever their number.
func (c *VoteCertifier) clopperPearson(o observation) marginBound {
	p := binomial.LowerBound(o.a, o.n, o.alpha)
	b := marginBound{bounds: map[string]float64{"p_a": RoundDown(p)}}
	if p <= 0.5 {
		return b
	}
	b.margin = c.scale.alone(p)
	return b
}
