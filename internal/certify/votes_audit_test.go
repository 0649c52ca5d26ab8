//go:build audit

package certify

import "testing"

// These tests do the same as TestVoteCoverageExact and TestVoteCoverageSimulated, but on larger grids.

func TestAuditVoteCoverageExact(t *testing.T) {
	checkCoverage(t, []int64{8, 16, 30, 45, 60}, []float64{1e-6, 0.001, 0.01, 0.05, 0.2}, 400)
}

func TestAuditVoteCoverageSimulated(t *testing.T) {
	simulateCoverage(t, 4000, []int64{100, 1000, 10000})
}
