//go:build audit

package main

import "testing"

// TestAuditPowerCuts cuts the power at every moment of a run.
func TestAuditPowerCuts(t *testing.T) { testPowerCuts(t, 4, 3000, 4) }
