package binomial

import "math"

// McNemar returns the two-sided p-value of McNemar's exact test. Two classifiers answer the same questions. The
// argument 'lost' is the number of questions that the first classifier answers rightly and the second answers wrongly.
// The argument 'gained' is the number of questions that the first classifier answers wrongly and the second answers
// rightly. Under the null hypothesis, the questions are independent. A question that only one classifier answers
// rightly then counts in 'lost' or in 'gained', with probability ½ each. So gained follows Bin(lost + gained, ½), and
//
//	p = min(1, 2·P(Bin(lost+gained, ½) ≥ max(lost, gained))).
//
// A question does not count if both classifiers answer it rightly, or if both answer it wrongly (McNemar 1947; the
// exact form of the test conditions on lost + gained). The result is rounded up.
func McNemar(lost, gained int64) float64 {
	n := lost + gained
	if n == 0 {
		return 1
	}
	return math.Min(1, 2*Tail(n, max(lost, gained), 0.5).Upper)
}
