package report

import (
	"math"
	"strings"
	"testing"
)

// A radius of math.MaxFloat64 must become +∞, and so must an average that counts such a radius. Large finite averages
// must stay as they are.
func TestRadiusNumber(t *testing.T) {
	for _, tt := range []struct {
		x    float64
		want string
	}{{0.25, "0.2500"}, {1e200, "1" + strings.Repeat("0", 200) + ".0000"}, {math.MaxFloat64, "∞"}, {math.MaxFloat64 / 1e9, "∞"}} {
		if got := Round(float64(RadiusNumber(tt.x)), Down, 0, 4); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.x, got, tt.want)
		}
	}
}
