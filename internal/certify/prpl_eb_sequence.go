package certify

import "math"

// startPrPlSequence starts the lower end of the two-sided confidence sequence of Waudby-Smith & Ramdas 2024, Theorem 2.
// It is prplEB with two changes: ln(2/α) takes the place of ln(1/α), and λ_t does not depend on n,
//
//	λ_t = min(√(2 ln(2/α)/(σ̂²_{t−1}·t·ln(1+t))), ½).
//
// Theorem 2 holds for every λ_t in (0, 1) that depends only on samples before t, so the bound is sound, at level 1−α/2.
// Tables 2 and 3 of Moutaouakil 2024 agree with this formula, not with the paper's Proposition 3. With n = 100, α =
// 0.001 and constant samples, the half width by this formula is ln(2/α)/(n/2) = 0.152. So the largest first margin is 1
// − 2·0.152 = 0.696. Table 2 has certificates for margins up to 0.6 and none for 0.7.
func startPrPlSequence(n int64, alpha float64) func() lowerMean {
	return func() lowerMean {
		return &prplEB{n: n, logAlpha: math.Log(2 / alpha), sum: 0.5, dev: 0.25, anytime: true}
	}
}
