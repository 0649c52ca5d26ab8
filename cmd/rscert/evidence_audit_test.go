//go:build audit

package main

import "testing"

// TestAuditFlips runs testFlips, which flips sixty bits per file and command.
func TestAuditFlips(t *testing.T) { testFlips(t, 60) }
