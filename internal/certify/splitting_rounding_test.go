package certify

import (
	"math/big"
	"testing"
)

// The float64 nearest to ½ − 2⁻⁶⁰ is ½, which is above ½ − 2⁻⁶⁰. floorRat must return a smaller number.
func TestFloorRatIsBelow(t *testing.T) {
	half, tiny := big.NewRat(1, 2), big.NewRat(1, 1<<60)
	for _, c := range []struct {
		x    *big.Rat
		want float64
	}{
		{half, 0.5}, {new(big.Rat).Sub(half, tiny), 0.499999999}, {new(big.Rat).Add(half, tiny), 0.5},
		{big.NewRat(64, 255), 0.250980392}, {big.NewRat(1, 1), 1}, {new(big.Rat), 0},
	} {
		if got := floorRat(c.x); got != c.want {
			t.Errorf("%s: %v, want %v", c.x, got, c.want)
		}
	}
}
