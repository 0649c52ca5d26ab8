package audit

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// Slack returns an upper bound, with confidence 1−γ, on the margin of class A over class B at one input. The arguments
// a and b are the numbers of votes for A and for B among n votes. The choice of the classes must not depend on these
// votes. Let p_A and p_B be the probabilities of the classes. If the argument 'second' is false, the margin is p_A −
// p_B. If 'second' is true, the margin is Q(p_A) − Q(p_B), where Q is the quantile function of the law l. Each
// probability gets a Clopper–Pearson bound at level γ/2.
//
// A certificate of radius R implies a margin at every input within the distance R from its centre. At the distance d
// from the centre, this margin is the one that the theorem of the law l requires for a certificate of radius R − d. If
// Slack is below the implied margin, the certificate is wrong or an event of probability at most γ has happened.
func Slack(l law.Additive, second bool, n, a, b int64, gamma float64) float64 {
	most, least := binomial.UpperBound(a, n, gamma/2), binomial.LowerBound(b, n, gamma/2)
	if !second {
		return math.Nextafter(most-least, 2)
	}
	high, low := law.High(l, most), law.Low(l, least)
	return high - low + 4*unit*(math.Abs(high)+math.Abs(low))
}
