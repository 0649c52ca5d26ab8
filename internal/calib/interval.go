package calib

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/certify"
)

// Interval is a two-sided confidence interval.
type Interval2 struct{}

// residualDeviation bounds a weighted sum of independent residuals. For labels
// y_i independent given the confidences, fixed signs x_i ∈ {−1, 1}, shares a_i
// ≥ 0 of the weight with Σa_i = 1, and r_i = y_i − confidence_i ∈ [−1, 1], with
// probability ≥ 1 − exp(−logInverse)
//
//	Σ a_i x_i (E[r_i] − r_i) ≤ a·(ln J + logInverse + ψ(λ)·Σ(a_i r_i/a)²)/λ
//
// for the λ in a grid of J that makes it least; a = max a_i, ψ(λ) =
// −ln(1−λ) − λ. It comes from exp(λY − ψ(λ)Y²) ≤ 1 + λY for Y ≥ −1, 0 ≤ λ < 1
// (Fan, Grama & Liu 2015, Lemma 4.1) with Y = −a_i x_i r_i/a, whose square does
// not depend on the sign: so the same number serves every pattern of signs. The
// grid depends on n alone.
func residualDeviation(n int, a, squares, logInverse float64) float64 {
	first := math.Sqrt(2 * logInverse / float64(n)) // best if every square is 1
	j := max(1, 1+int(math.Floor(math.Log2(0.9/first))))
	l := logInverse + math.Log(float64(j))
	best := math.Inf(1)
	lambda := min(first, 0.9)
	for range j {
		psi := -math.Log1p(-lambda) - lambda
		best = min(best, a*(l+psi*squares/(a*a))/lambda)
		lambda *= 2
	}
	return best
}

// shares returns the largest share of the weight and the sum of (share·f)².
func (p *Predictions) shares(members []int, f func(i int) float64) (largest, squares float64) {
	total := 0.0
	each := func(g func(i int)) {
		if members == nil {
			for i := range p.Confidence {
				g(i)
			}
			return
		}
		for _, i := range members {
			g(i)
		}
	}
	each(func(i int) { total += p.weight(i) })
	each(func(i int) {
		a := p.weight(i) / total
		largest = max(largest, a)
		squares += (a * f(i)) * (a * f(i))
	})
	return largest, squares
}
