package certify

import "github.com/rscert/rscert/internal/binomial"

// bonferroni bounds the margin by two Clopper–Pearson bounds at level 1−α/2. The class A has xA of the n votes, so p_A
// ≥ lower(xA, n, α/2). The runner-up B has xB votes, so p_B ≤ upper(xB, n, α/2).
//
// For any number of classes, a failure probability of α/2 is enough for each of the two bounds. The true runner-up j*
// is unknown, but it is one fixed class. Its count is at most xB, and the function 'upper' is monotone, so P(max p_j >
// upper(xB)) ≤ P(p_j* > upper(X_j*)) ≤ α/2. (Moutaouakil 2024 uses α/m.)
func (c *VoteCertifier) bonferroni(o observation) marginBound {
	a := binomial.LowerBound(o.a, o.n, o.alpha/2)
	b := binomial.LowerBound(o.n-o.b, o.n, o.alpha/2) // a lower bound on 1−p_B
	return marginBound{
		margin: c.scaleOf(o).margin(a, b),
		bounds: map[string]float64{"p_a": RoundDown(a), "p_b": RoundUp(binomial.UpperBound(o.b, o.n, o.alpha/2))},
	}
}
