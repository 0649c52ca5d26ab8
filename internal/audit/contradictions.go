package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// Rate returns α+γ−αγ, rounded up. This bounds the probability that verification contradicts a certificate whose stated
// error probability α is right. The certificate fails with probability at most α. Independently, the verification fails
// with probability at most γ.
func Rate(alpha, gamma float64) float64 {
	return math.Min(1, (alpha+gamma*(1-alpha))*(1+8*unit))
}

// ChancePValue returns P(Bin(n, rate) ≥ k), rounded up. This is the p-value of k contradicted certificates among n
// examples, under the hypothesis that each certificate is right with its stated probability. The number n counts every
// example of the audit, including the examples without a certificate. The p-value is valid even if the attack used the
// noise of the certificates.
func ChancePValue(k, n int64, rate float64) float64 {
	if n == 0 {
		return 1
	}
	return binomial.Tail(n, k, rate).Upper
}

// Threshold returns the smallest number of contradictions among n examples that is significant at the level. The result
// is the smallest k with P(Bin(n, rate) ≥ k) ≤ level.
func Threshold(n int64, rate, level float64) (int64, error) {
	k, err := binomial.FailureQuantile(n, rate, level)
	return k + 1, err
}
