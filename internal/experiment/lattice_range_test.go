package experiment

import (
	"math"
	"testing"
)

// An integer beyond int32 must not wrap around to another lattice point.
func TestToInt32(t *testing.T) {
	for k, want := range map[int]int32{0: 0, -7: -7, math.MaxInt32: math.MaxInt32, 1 << 32: math.MaxInt32, 1<<32 + 704: math.MaxInt32, -1 << 40: math.MinInt32} {
		if got := toInt32(k); got != want {
			t.Errorf("%d becomes %d, want %d", k, got, want)
		}
	}
}
