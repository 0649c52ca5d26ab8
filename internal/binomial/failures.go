package binomial

import "fmt"

// FailureQuantile returns the smallest k that n certificates, each wrong with
// probability at most alpha and independent of the others, exceed with
// probability at most delta: P(Bin(n, α) > k) ≤ δ. So at most k of them are wrong,
// with probability at least 1 − δ.
//
// With failures independent and of probability p_i ≤ α each, their number is
// stochastically below Bin(n, α) (couple each with a Bernoulli(α) above it). n
// must count every example for which a certificate was attempted: to leave out
// those that came out badly and take the n of the rest is a selection by the
// outcome, which can leave more failures than Bin(n, α).
//
// The tail used is proved to be no smaller than the true one, so k is never too
// small; where the tail is δ to within rounding it can be one too large.
func FailureQuantile(n int64, alpha, delta float64) (int64, error) {
	switch {
	case n < 1:
		return 0, fmt.Errorf("%d certificates: must be 1 or more", n)
	case !(alpha > 0 && alpha < 1):
		return 0, fmt.Errorf("alpha %v is outside (0, 1)", alpha)
	case !(delta > 0 && delta < 1):
		return 0, fmt.Errorf("delta %v is outside (0, 1)", delta)
	}
	// P(X > n) = 0 ≤ δ: the largest k always does, and only a k that was checked
	// replaces it.
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
