//go:build audit

package main

import "testing"

// TestAuditPowerCuts cuts the power at every moment of a run, and of runs resumed after another cut.
func TestAuditPowerCuts(t *testing.T) { testPowerCuts(t, 2, 600, 3) }
