//go:build audit

package smoothing

import "testing"

// TestAuditNoiseFit tests 10⁸ Gaussians. It also tests series of 10⁷ Gaussians (see fitAcross) and series of 10⁸ words
// (see fitWords).
func TestAuditNoiseFit(t *testing.T) {
	var f fit
	fitGaussians(&f, 2100)
	fitAcross(&f, 10_000_000)
	fitWords(&f, 100_000_000)
	f.judge(t)
}
