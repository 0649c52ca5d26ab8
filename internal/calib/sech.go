package calib

import "math"

// Sech perturbs scores with the hyperbolic secant kernel of bandwidth h (Ciosek et al. 2025, equation 8): given the
// original score s0, the density of the perturbed score s on [0, 1] is
//
//	sech((s−s0)/h)/Z,  Z = h·[atan sinh((1−s0)/h) + atan sinh(s0/h)].
//
// The calibration function of the perturbed score has |η′| ≤ b1 and |η″| ≤ b2 for every classifier and every
// distribution of its scores. The function 'derivatives' returns b1 and b2. Only the perturbed score has this property,
// so the classifier must be used with the perturbed score.
type Sech struct {
	Bandwidth float64
	Seed      uint64
}

// Perturb returns the perturbed score of a row, which depends only on score, bandwidth, seed and row. It inverts the
// cumulative distribution function in closed form, s = s0 + h·asinh tan(θ). A 53-bit uniform number gives θ, which is
// uniform between −atan sinh(s0/h) and atan sinh((1−s0)/h).
func (k Sech) Perturb(score float64, row int) float64 {
	h := k.Bandwidth
	low := math.Atan(math.Sinh(score / h))
	high := math.Atan(math.Sinh((1 - score) / h))
	return min(1, max(0, score+h*math.Asinh(math.Tan(k.uniform(row)*(low+high)-low))))
}

// The method 'uniform' returns a random number for the row. The number is uniform in (0, 1) and depends only on seed
// and row.
func (k Sech) uniform(row int) float64 {
	base := uint64(*newStream(k.Seed, streamSech))
	return (float64(mix64(base+uint64(row)*0x9e3779b97f4a7c15)>>11) + 0.5) / (1 << 53)
}

// derivatives returns the bounds on |η′| and |η″| that the perturbation ensures:
//
//	b1 = tanh(1/h)/(2h),  b2 = tanh²(1/h)/(2h²).
//
// b1 is the bound of Ciosek et al. 2025, Lemma 1. b2 is a third of the bound in their Corollary 4. Let t be the
// original score, η₀(t) = P(y=1|t), and u = −tanh((s−t)/h)/h. u is the derivative of ln sech((s−t)/h) in s, so |u| ≤ a
// = tanh(1/h)/h. Under the distribution of t given s, d/ds E[f] = E[f_s] + Cov(f, u), where f_s = ∂f/∂s. So η = E[η₀]
// has the derivative η′ = Cov(η₀, u). With u_s = u² − 1/h² and ū = E[u],
//
//	η″ = Cov(η₀, u_s) + Cov(η₀, u²) − 2ū·Cov(η₀, u) = Cov(η₀, f),  f = 2u² − 2ūu.
//
// sd(u) ≤ a and sd(η₀) ≤ ½ give b1. sd(η₀) ≤ ½ and Var f ≤ a⁴ give b2. It is enough to prove Var f ≤ a⁴ for a = 1,
// because f scales with u². For a = 1, 1 − (f−1)² − 4ū(u−ū) = 4(1−u²)(u−ū)² ≥ 0, and the expectation of the left side
// is 1 − E(f−1)² ≤ 1 − Var f.
func derivatives(h float64) (b1, b2 float64) {
	a := math.Tanh(1/h) / h
	return a / 2, a * a / 2
}

// paperSecondDerivative returns the bound on |η″| of Ciosek et al. 2025, Corollary 4: (3/2)tanh²(1/h)/h².
func paperSecondDerivative(h float64) float64 {
	_, b2 := derivatives(h)
	return 3 * b2
}
