package binomial

import "fmt"

// FailureQuantile returns the smallest k with P(Bin(n, α) > k) ≤ δ. If n certificates fail independently, each with
// probability at most alpha, then the probability that more than k of them fail is at most delta.
//
// If the failures are independent and have probabilities p_i ≤ α, their number is stochastically at most Bin(n, α). The
// proof couples the indicator of each failure with a Bernoulli(α) variable that is at least as large. The number n must
// count every example for which a certificate was attempted. If n leaves out examples because of their results, there
// can be more failures than Bin(n, α) predicts.
//
// The computed tail is proved to be no smaller than the true tail, so k is never too small. It can be one too large if
// the tail equals δ to within rounding.
func FailureQuantile(n int64, alpha, delta float64) (int64, error) {
	switch {
	case n < 1:
		return 0, fmt.Errorf("%d certificates: must be 1 or more", n)
	case !(alpha > 0 && alpha < 1):
		return 0, fmt.Errorf("alpha %v is outside (0, 1)", alpha)
	case !(delta > 0 && delta < 1):
		return 0, fmt.Errorf("delta %v is outside (0, 1)", delta)
	}
	// P(Bin(n, α) > n) = 0 ≤ δ, so k = n is valid. A smaller k replaces n only if it passes the check.
	low, high := int64(-1), n
	for high-low > 1 {
		k := low + (high-low)/2
		if Tail(n, k+1, alpha).Upper <= delta {
			high = k
		} else {
			low = k
		}
	}
	return high, nil
}
