//go:build audit

package smoothing

import "testing"

// 10⁸ Gaussians, 10⁷ for each series across samples, examples and seeds, and
// 10⁸ words along each.
func TestAuditNoiseFit(t *testing.T) {
	var f fit
	fitGaussians(&f, 2100)
	fitAcross(&f, 10_000_000)
	fitWords(&f, 100_000_000)
	f.judge(t)
}
