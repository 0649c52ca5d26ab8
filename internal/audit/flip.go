package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// Flip returns the logarithm of the evidence E against p_A ≥ p_B. The logarithm is rounded down. The arguments are the
// numbers of votes for the class A and for the rival B. The choice of the rival must not depend on these votes. E is
// the mean of the likelihood ratio (2θ)^b(2(1−θ))^a over all θ in (½, 1):
//
//	E = 2^{a+b+1} B(b+1, a+1) P(Beta(b+1, a+1) > ½) = 2 P(Bin(a+b+1, ½) ≥ a+1) / ((a+b+1) P(Bin(a+b, ½) = a)).
//
// If p_A ≥ p_B, each vote multiplies the likelihood ratio of every θ by a factor whose mean is 1 + (p_B − p_A)(2θ − 1)
// ≤ 1. So E is a supermartingale that starts at 1, and P(E ≥ 1/γ at any time) ≤ γ (Ville). Votes for other classes do
// not change E. Domain: a, b ≥ 0.
func Flip(a, b int64) float64 {
	k := a + b
	if k == 0 {
		return 0
	}
	tail := binomial.Tail(k+1, a+1, .5).Lower
	if !(tail > 0) {
		return math.Inf(-1)
	}
	term, slack := binomial.LogTerm(k, a, .5, .5)
	parts := math.Ln2 + math.Log(tail) - math.Log(float64(k+1)) - term
	return down(parts-slack, math.Abs(term)+math.Abs(math.Log(tail))+math.Log(float64(k+1)))
}

// FlipPValue returns P(Bin(a+b, ½) ≥ b), rounded up. This is the p-value of the hypothesis p_A ≥ p_B for a fixed number
// of samples.
func FlipPValue(a, b int64) float64 { return binomial.Tail(a+b, b, .5).Upper }

// Rejected reports whether the evidence E rejects at level γ, that is, E ≥ 1/γ. The argument logEvidence is ln E. The
// rounding of ln γ can prevent a rejection, but it never causes one.
func Rejected(logEvidence, gamma float64) bool {
	need := -math.Log(gamma)
	return gamma > 0 && logEvidence >= need+16*unit*math.Abs(need)
}

// PValue returns min(1, 1/E), rounded up, for evidence E with the logarithm logEvidence. If E is the largest evidence
// so far, the result is a valid p-value at any time.
func PValue(logEvidence float64) float64 {
	if logEvidence <= 0 {
		return 1
	}
	p := math.Exp(-logEvidence)
	return math.Min(1, math.Max(p*(1+16*unit*(1+logEvidence)), math.SmallestNonzeroFloat64))
}
