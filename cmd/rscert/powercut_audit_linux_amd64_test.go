//go:build audit

package main

import "testing"

// TestAuditPowerCuts is TestPowerCuts with more simulated disks, more sets of files and more resumed runs.
func TestAuditPowerCuts(t *testing.T) { testPowerCuts(t, 2, 600, 3) }
