//go:build audit

package smoothing

import "testing"

// TestAuditLatticeFit tests 10⁹ draws from each of three tables. It also tests a series of 4·10⁷ draws, and three
// series of 10⁸ random 64-bit words.
func TestAuditLatticeFit(t *testing.T) {
	var f fit
	fitDraws(t, &f, 1_000_000_000)
	fitSeries(t, &f, 1000)
	fitWords64(&f, 100_000_000)
	f.judge(t)
}
