package certify

import "math"

// prplEB is the predictable plug-in empirical Bernstein bound (Waudby-Smith & Ramdas 2024, Theorem 2, one side). At
// level 1−α, simultaneously for all t,
//
//	μ ≥ Σλ_iX_i/Σλ_i − [ln(1/α) + Σ v_iψ_E(λ_i)]/Σλ_i,
//	v_i = 4(X_i−μ̂_{i−1})², ψ_E(λ) = (−ln(1−λ)−λ)/4,
//	μ̂_t = (½+ΣX_i)/(t+1), σ̂²_t = (¼+Σ(X_i−μ̂_i)²)/(t+1),
//	λ_t = min(√(2 ln(1/α)/(nσ̂²_{t−1})), ½), the choice for a fixed n.
//
// The method returns the largest of these bounds over t (running intersection). It evaluates the bound only at every
// prplBlock-th t and at the end. λ_t and μ̂_{t−1} use only samples before t. Moutaouakil 2024, Proposition 3, prints
// another formula (moutaouakil_means.go).
type prplEB struct {
	n        int64   // number of samples
	logAlpha float64 // ln(1/α)
	anytime  bool    // λ_t does not depend on n (prpl_eb_sequence.go)

	count  float64
	sum    float64 // ½ + ΣX
	dev    float64 // ¼ + Σ(X−μ̂_i)²
	lambda float64 // Σλ
	gain   float64 // Σ(λX − vψ_E(λ))
	best   float64
}

const (
	prplCap   = 0.5
	prplBlock = 16
)

func startPrPlEB(n int64, alpha float64) func() lowerMean {
	return func() lowerMean { return &prplEB{n: n, logAlpha: math.Log(1 / alpha), sum: 0.5, dev: 0.25} }
}

func (b *prplEB) add(x float64) {
	t := b.count + 1 // number of samples before this one, plus 1
	mean := b.sum / t
	lambda := b.stake(t)
	d := x - mean
	b.lambda += lambda
	// v·ψ_E = d²(−ln(1−λ)−λ). The terms −ln(1−λ) and −λ cancel to about λ²/2. Only the absolute error of this
	// difference matters. It is below 2·unit·λ (see the method 'lower').
	b.gain += lambda*x - d*d*(-math.Log1p(-lambda)-lambda)
	b.count = t
	b.sum += x
	d = x - b.sum/(t+1)
	b.dev += d * d
	if int64(t)%prplBlock == 0 || int64(t) == b.n {
		b.best = max(b.best, (b.gain-b.logAlpha)/b.lambda)
	}
}

// stake returns λ_t. With σ̂²_{t−1} = dev/t in the formulas for λ_t, the choice for a fixed n is
// min(√(2·logAlpha·t/(n·dev)), ½). The choice that does not depend on n is min(√(2·logAlpha/(dev·ln(1+t))), ½).
func (b *prplEB) stake(t float64) float64 {
	if b.anytime {
		return min(math.Sqrt(2*b.logAlpha/(b.dev*math.Log1p(t))), prplCap)
	}
	return min(math.Sqrt(2*b.logAlpha*t/(float64(b.n)*b.dev)), prplCap)
}

func (b *prplEB) lower() float64 {
	// Each of the n terms of the gain is off by at most 8·unit. The reasons are that |λx| ≤ ½, that d² ≤ 1, and that
	// log1p is within 2·unit of its exact value. The size of this exact value is at most 0.7. The sums add a relative
	// error of n·unit. The code divides these errors by Σλ, which is at least n times the smallest λ.
	n := float64(b.n)
	return inUnit(b.best, 8*n*unit*(1+n/b.lambda))
}
