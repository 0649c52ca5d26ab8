package run

import "testing"

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]string{0.2: "0s", 45: "45s", 59.7: "1m", 360: "6m", 3600: "1h", 11340: "3h9m", 172800: "48h"} {
		if got := Duration(seconds); got != want {
			t.Errorf("%v s: %s, want %s", seconds, got, want)
		}
	}
}
