package certify

import "math"

// RadiusSecond is R2 = (σ/2)·margin for a lower bound on the second margin
// Φ⁻¹(p_A) − Φ⁻¹(p_B) of a classifier smoothed with N(0, σ²I) noise: within R2
// (L2) of the input the class A stays the most probable (Cohen et al. 2019,
// Theorem 1). A margin ≤ 0 gives 0. Rounded down.
func RadiusSecond(margin, sigma float64) float64 {
	if !(margin > 0) {
		return 0
	}
	return roundDownFinite(below(sigma * margin / 2))
}

// RadiusFirst is R1 for a lower bound on the first margin p_A − p_B.
//
// h = f_A − f_j has |h| ≤ 1, so along a unit vector u the smoothed difference has the
// slope |E h(x+ε)(u·ε)|/σ² ≤ E|u·ε|/σ² = √(2/π)/σ, and R1 = σ√(π/2)·margin. With a
// known Lipschitz constant L (L2 to L2) of the vector of smoothed probabilities, R1 =
// margin/(√2·L) too (Tsuzuku et al. 2018, Proposition 1: e_A − e_j has length √2).
// Neither rests on a sample, so it is the larger one. L = 0 is unknown. A margin ≤ 0
// gives 0. Rounded down.
func RadiusFirst(margin, sigma, lipschitz float64) float64 {
	if !(margin > 0) {
		return 0
	}
	radius := sigma * margin * sqrtHalfPi
	if lipschitz > 0 {
		radius = math.Max(radius, margin/(math.Sqrt2*lipschitz))
	}
	return roundDownFinite(below(radius))
}

// sqrtHalfPi is √(π/2), OEIS A069998.
const sqrtHalfPi = 1.2533141373155002512

// below is a number under every value whose floating-point evaluation by at
// most four roundings is x > 0.
func below(x float64) float64 { return x * (1 - 0x1p-50) }

func roundDownFinite(x float64) float64 {
	if x > math.MaxFloat64 {
		return math.MaxFloat64
	}
	return RoundDown(x)
}
