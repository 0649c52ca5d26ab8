package certify

import (
	"math"
	"strconv"
)

// roundDigits is the number of significant decimal digits of a certificate's figures. Nine digits hide the last bits of
// exp and log, which differ between platforms. Nine digits are still finer than the accuracy of any bound.
const roundDigits = 9

// RoundDown returns the largest number of nine significant decimal digits that is at most x. Reports show lower bounds,
// margins and radii rounded in this way.
func RoundDown(x float64) float64 {
	y := roundNearest(x)
	if y <= x {
		return y
	}
	// One unit of the last kept digit is at most |x|·10⁻⁸. This unit is also more than |x|·10⁻⁹. So a step of
	// |x|·10⁻⁹/2 is less than half a unit and cannot skip a number of nine digits.
	for step := math.Abs(x) * 0.5e-9; y > x; step *= 2 {
		y = roundNearest(x - step)
	}
	return y
}

// RoundUp returns the smallest number of nine significant decimal digits that is at least x.
func RoundUp(x float64) float64 { return -RoundDown(-x) }

func roundNearest(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', roundDigits-1, 64), 64)
	if err != nil { // out of range: x rounds to a number beyond ±MaxFloat64
		return x
	}
	return y
}
