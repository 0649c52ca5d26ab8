//go:build audit

package acce_test

import "testing"

// TestAuditThresholdedCoverage is TestThresholdedCoverage with more datasets.
func TestAuditThresholdedCoverage(t *testing.T) {
	deltas := []float64{0.05, 0.2, 0.5}
	worst := max(checkThresholdedCoverage(t, 4000, deltas), checkWorstRows(t, 100_000, deltas))
	t.Logf("largest share of failures: %.2f of δ", worst)
}
