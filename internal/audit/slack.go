package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// Slack returns an upper bound, at level 1−γ, on the margin of class A over class B at one input, from n votes of which
// a are for A and b are for B. The classes must not depend on these votes. With second, the margin is Q(p_A) − Q(p_B),
// Q the law's quantile function; otherwise it is p_A − p_B. Each probability gets a Clopper–Pearson bound at γ/2.
//
// A certificate of radius R about an input at distance d ≤ R implies the margin that the law's theorem requires for the
// radius R − d. If Slack is below this margin, the certificate is wrong or an event of probability γ has happened.
func Slack(l law.Law, second bool, n, a, b int64, gamma float64) float64 {
	most, least := binomial.UpperBound(a, n, gamma/2), binomial.LowerBound(b, n, gamma/2)
	if !second {
		return math.Nextafter(most-least, 2)
	}
	high, low := law.High(l, most), law.Low(l, least)
	return high - low + 4*unit*(math.Abs(high)+math.Abs(low))
}
