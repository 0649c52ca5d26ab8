package summary

import (
	"math"

	"github.com/rscert/rscert/internal/certify"
)

// largestRadius returns the largest radius that a sound method can give an example (certify.Target.LargestRadius). It
// returns nil if n, α or σ is unknown, or if the method is not sound. It also returns nil if this radius is infinite or
// not positive, or if an example in the file has a larger radius.
func (s Summary) largestRadius() *float64 {
	c := s.Conditions
	if c.Sound == nil || !*c.Sound || c.Alpha == nil || c.Sigma == nil || c.N < 1 || !(*c.Sigma > 0) {
		return nil
	}
	target := certify.Target{
		Law: c.Law, Margin: certify.MarginKind(c.MarginKind), Alpha: *c.Alpha, Sigma: *c.Sigma, Lipschitz: c.Lipschitz, Scaled: c.Scaled,
		Claim: c.Claim,
	}
	most := target.LargestRadius(c.N)
	if !(most > 0) || math.IsInf(most, 1) {
		return nil
	}
	for _, row := range s.Rows {
		if row.Radius > most {
			return nil
		}
	}
	return &most
}
