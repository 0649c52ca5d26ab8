package certify

import "math"

// This file holds two bounds on a mean, as Moutaouakil 2024 prints them. No proof covers the printed formulas, so the
// bounds count as not sound. They are kept to reproduce the paper. Sound bounds of the same kinds are in the types
// bernstein and prplEB.

// startMoutaouakilBernstein starts the bound of Proposition 2,
//
//	mean − √(2V ln(1/α)/n) − 7 ln(1/α)/(3(n−1)).
//
// Theorem 4 of Maurer & Pontil 2009 has ln(2/α) instead of ln(1/α), because its proof spends α/2 on the mean and α/2 on
// the variance V.
func startMoutaouakilBernstein(n int64, alpha float64) func() lowerMean {
	return func() lowerMean { return &bernstein{n: n, log: math.Log(1 / alpha)} }
}

// moutaouakilSequence is the lower end of the confidence sequence in Proposition 3,
//
//	Σλ_iX_i/Σλ_i − √([2 ln(2/a) + Σ v_iψ_E(λ_i)]/Σλ_i),
//	v_i = 4(X_i−μ̂_i)², ψ_E(λ) = −(ln(1−λ)+λ)/4, λ_t = min(√(2 ln(2/a)/(σ̂²_{t−1}·t·ln(1+t))), ½),
//
// with μ̂_t and σ̂²_t as in prplEB. For a one-sided bound at level 1−α, the paper sets a = α/2. It allows the running
// intersection, so the code keeps the largest bound over t. Like prplEB, the code evaluates the bound only at every
// prplBlock-th t and at the end.
//
// Theorem 2 of Waudby-Smith & Ramdas 2024 differs from the formula above in three ways: it has no square root, it has
// ln(2/a) instead of 2 ln(2/a), and it has μ̂_{i−1} instead of μ̂_i. The proof needs μ̂_{i−1}, because μ̂_i depends on
// X_i. The square root makes the bound much wider than prplEB: at n = 100 and α = 0.001 the half width is at least
// 0.57.
type moutaouakilSequence struct {
	n       int64
	log     float64 // ln(2/a)
	count   float64
	sum     float64 // ½ + ΣX
	dev     float64 // ¼ + Σ(X−μ̂_i)²
	lambda  float64 // Σλ
	centre  float64 // ΣλX
	penalty float64 // Σvψ_E(λ)
	best    float64
}

func startMoutaouakilSequence(n int64, alpha float64) func() lowerMean {
	return func() lowerMean { return &moutaouakilSequence{n: n, log: math.Log(4 / alpha), sum: 0.5, dev: 0.25} }
}

func (b *moutaouakilSequence) add(x float64) {
	t := b.count + 1
	lambda := min(math.Sqrt(2*b.log/(b.dev*math.Log1p(t))), prplCap) // σ̂²_{t−1} = dev/t
	b.count = t
	b.sum += x
	d := x - b.sum/(t+1)
	b.dev += d * d
	b.lambda += lambda
	b.centre += lambda * x
	b.penalty -= d * d * (math.Log1p(-lambda) + lambda)
	if int64(t)%prplBlock == 0 || int64(t) == b.n {
		b.best = max(b.best, b.centre/b.lambda-math.Sqrt((2*b.log+b.penalty)/b.lambda))
	}
}

func (b *moutaouakilSequence) lower() float64 { return inUnit(b.best, 0) }
