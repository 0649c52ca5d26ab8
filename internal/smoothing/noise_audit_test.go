//go:build audit

package smoothing

import "testing"

// TestAuditNoiseFit tests 10⁸ Gaussians. It tests three series of 10⁷ Gaussians, across samples, examples and seeds. It
// also tests three series of 10⁸ words.
func TestAuditNoiseFit(t *testing.T) {
	var f fit
	fitGaussians(&f, 2100)
	fitAcross(&f, 10_000_000)
	fitWords(&f, 100_000_000)
	f.judge(t)
}
