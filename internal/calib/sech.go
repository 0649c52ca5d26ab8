package calib

import "math"

// Sech perturbs scores with the hyperbolic secant kernel of bandwidth h (Ciosek
// et al. 2025, equation 8): from s0, the density of s on [0, 1] is
//
//	sech((s−s0)/h)/Z,  Z = h·[atan sinh((1−s0)/h) + atan sinh(s0/h)].
//
// The calibration function of the perturbed score has |η′| ≤ b1 and |η″| ≤ b2
// (their Lemma 1), whatever the classifier and the distribution of its scores.
// That is a property of the perturbed score: it must be the perturbed score
// that the classifier is used with.
type Sech struct {
	Bandwidth float64
	Seed      uint64
}

// Perturb is the perturbed score of row i: a function of score, bandwidth, seed
// and row alone. The cumulative distribution function is inverted in closed
// form, s = s0 + h·asinh tan(θ), θ uniform between −atan sinh(s0/h) and
// atan sinh((1−s0)/h), with a 53-bit uniform number.
func (k Sech) Perturb(score float64, row int) float64 {
	h := k.Bandwidth
	low := math.Atan(math.Sinh(score / h))
	high := math.Atan(math.Sinh((1 - score) / h))
	return min(1, max(0, score+h*math.Asinh(math.Tan(k.uniform(row)*(low+high)-low))))
}

// uniform is in (0, 1).
func (k Sech) uniform(row int) float64 {
	base := uint64(*newStream(k.Seed, streamSech))
	return (float64(mix64(base+uint64(row)*0x9e3779b97f4a7c15)>>11) + 0.5) / (1 << 53)
}

// derivatives are the bounds on |η′| and |η″| that the perturbation ensures:
//
//	b1 = tanh(1/h)/(2h),  b2 = (3/2)tanh²(1/h)/h²
//
// (Ciosek et al. 2025, Lemma 1 and Corollary 4).
func derivatives(h float64) (b1, b2 float64) {
	t := math.Tanh(1 / h)
	return t / (2 * h), 1.5 * t * t / (h * h)
}
