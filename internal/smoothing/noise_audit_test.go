//go:build audit

package smoothing

import "testing"

// TestAuditNoiseFit draws 10⁸ Gaussians, and 10⁷ for each series across samples, examples and seeds. It also draws 10⁸
// words for each series.
func TestAuditNoiseFit(t *testing.T) {
	var f fit
	fitGaussians(&f, 2100)
	fitAcross(&f, 10_000_000)
	fitWords(&f, 100_000_000)
	f.judge(t)
}
