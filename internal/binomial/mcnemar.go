package binomial

import "math"

// McNemar returns the two-sided p-value of McNemar's exact test. Two classifiers answer the same questions. The
// argument lost is the number of questions that the first answers rightly and the second wrongly. The argument gained
// is the number of questions that the first answers wrongly and the second rightly. Under the null hypothesis, the
// questions are independent, and a question that only one classifier answers rightly counts in lost with probability ½,
// and otherwise in gained. Then gained follows Bin(lost + gained, ½), and
//
//	p = min(1, 2·P(Bin(lost+gained, ½) ≥ max(lost, gained))).
//
// Questions that both classifiers answer rightly, or both wrongly, do not count (McNemar 1947; the exact form
// conditions on lost + gained). The result is rounded up.
func McNemar(lost, gained int64) float64 {
	n := lost + gained
	if n == 0 {
		return 1
	}
	return math.Min(1, 2*Tail(n, max(lost, gained), 0.5).Upper)
}
