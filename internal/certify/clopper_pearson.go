package certify

import "github.com/rscert/rscert/internal/binomial"

// clopperPearson bounds the margin as Cohen, Rosenfeld & Kolter (2019, CERTIFY) do. Let p be the lower Clopper–Pearson
// bound on p_A at level 1−α. If p_A ≥ p, then p_B ≤ 1−p. Then for Gaussian noise the second margin Φ⁻¹(p_A) − Φ⁻¹(p_B)
// is at least 2Φ⁻¹(p), and the radius is σΦ⁻¹(p). The first margin p_A − p_B is at least 2p−1. The method abstains
// unless p > ½.
//
// The method ignores the votes for other classes, so the bound holds for any number of classes.
func (c *VoteCertifier) clopperPearson(o observation) marginBound {
	p := binomial.LowerBound(o.a, o.n, o.alpha)
	b := marginBound{bounds: map[string]float64{"p_a": RoundDown(p)}}
	if p <= 0.5 {
		return b
	}
	b.margin = c.scale.oneSided(p)
	return b
}
