//go:build audit

package main

import "testing"

// TestAuditFlips flips sixty bits a file and command.
func TestAuditFlips(t *testing.T) { testFlips(t, 60) }
