package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// Rate returns α+γ−αγ, rounded up. This is a bound on the probability that a verification contradicts a certificate.
// The bound assumes that the certificate is wrong with probability at most α, and the verification with probability at
// most γ. It also assumes that these two events are independent.
func Rate(alpha, gamma float64) float64 {
	return math.Min(1, (alpha+gamma*(1-alpha))*(1+8*unit))
}

// ChancePValue returns P(Bin(n, rate) ≥ k), rounded up. This is the p-value if k of n examples have a contradicted
// certificate. The null hypothesis is that each example has a contradicted certificate with probability at most 'rate'
// (see Rate). The number n counts every example of the audit, including the examples without a certificate. The p-value
// is valid even if the attack used the noise of the certificates.
func ChancePValue(k, n int64, rate float64) float64 {
	if n == 0 {
		return 1
	}
	return binomial.Tail(n, k, rate).Upper
}

// Threshold returns the smallest number of contradictions that is significant at the level. This is the smallest k with
// P(Bin(n, rate) ≥ k) ≤ level, where n is the number of examples.
func Threshold(n int64, rate, level float64) (int64, error) {
	k, err := binomial.FailureQuantile(n, rate, level)
	return k + 1, err
}
