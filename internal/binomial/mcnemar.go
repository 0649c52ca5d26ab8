package binomial

import "math"

// McNemar is the p-value of McNemar's exact test, two-sided: of pairs of answers to the same questions, lost are right
// before and wrong after, gained the other way round. If the pairs are independent and a change goes either way with
// probability ½, gained is Bin(lost + gained, ½), and
//
//	p = min(1, 2·P(Bin(lost+gained, ½) ≥ max(lost, gained))).
//
// Pairs that do not change play no part (McNemar 1947; the exact form conditions on their number). Rounded up.
func McNemar(lost, gained int64) float64 {
	n := lost + gained
	if n == 0 {
		return 1
	}
	return math.Min(1, 2*Tail(n, max(lost, gained), 0.5).Upper)
}
