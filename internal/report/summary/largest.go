package summary

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/certify"
)

// largestRadius is the largest radius that a sound method can give an example, known before any sample is drawn: no
// lower bound at level α on a probability is above α^{1/n} for n samples that are all successes, as a p below it has
// P(n of n) = pⁿ > α just there. For two classes the second margin is then at most 2Φ⁻¹(α^{1/n}) and the first 2α^{1/n} − 1;
// with more classes the bounds are over a larger set of laws, so no larger. Rounded up. Nil where n, α or σ is not known,
// a method is not sound, or a radius is above it.
func (s Source) largestRadius(c Conditions) *float64 {
	if c.Sound == nil || !*c.Sound || c.Alpha == nil || c.Sigma == nil || c.N < 1 || !(*c.Sigma > 0) {
		return nil
	}
	tail := -math.Expm1(math.Log(*c.Alpha) / float64(c.N)) // 1 − α^{1/n}
	margin := 1 - 2*tail
	most := *c.Sigma * -mathext.NormalQuantile(tail)
	if c.MarginKind == string(certify.FirstMargin) {
		most = *c.Sigma * math.Sqrt(math.Pi/2) * margin
		if c.Lipschitz > 0 {
			most = max(most, margin/(math.Sqrt2*c.Lipschitz))
		}
	}
	most *= 1 + 1e-9
	if !(most > 0) || math.IsInf(most, 1) {
		return nil
	}
	for _, cert := range s.Certificates {
		if cert.Radius > most {
			return nil
		}
	}
	return &most
}
