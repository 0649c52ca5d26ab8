//go:build audit

package runfolder

import "testing"

func TestAuditBitFlips(t *testing.T) {
	flipBits(t, func(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} })
}
