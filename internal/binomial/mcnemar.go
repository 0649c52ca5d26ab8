package binomial

import "math"

// McNemar returns the two-sided p-value of McNemar's exact test. Two classifiers answer the same questions. lost counts
// the questions that the first answers rightly and the second wrongly, and gained counts the reverse. Under the null
// hypothesis, the questions are independent and a change goes either way with probability ½. Then gained follows
// Bin(lost + gained, ½), and
//
//	p = min(1, 2·P(Bin(lost+gained, ½) ≥ max(lost, gained))).
//
// Questions without a change do not count (McNemar 1947; the exact form conditions on the number of changes). The
// result is rounded up.
func McNemar(lost, gained int64) float64 {
	n := lost + gained
	if n == 0 {
		return 1
	}
	return math.Min(1, 2*Tail(n, max(lost, gained), 0.5).Upper)
}
