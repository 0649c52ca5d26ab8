//go:build audit

package smoothing

import "testing"

// 10⁹ draws of each of three tables, 4·10⁷ for the series, 10⁸ words along each.
func TestAuditLatticeFit(t *testing.T) {
	var f fit
	fitDraws(t, &f, 1_000_000_000)
	fitSeries(t, &f, 1000)
	fitWords64(&f, 100_000_000)
	f.judge(t)
}
