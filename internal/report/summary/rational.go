package summary

import (
	"math"
	"math/big"
	"strconv"
)

// Decimal is the shortest decimal that reads back as x, exactly: the number that a file of results says. x is finite.
func Decimal(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64)) // FormatFloat writes what SetString reads
	return r
}

// Float is the float64 next to r, the largest of them where r is beyond: a radius that stands for +∞ is so large.
func Float(r *big.Rat) float64 {
	x, _ := r.Float64()
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// roundDown is the largest float64 whose Decimal is at most r.
func roundDown(r *big.Rat) float64 {
	x := Float(r)
	for Decimal(x).Cmp(r) > 0 {
		x = math.Nextafter(x, math.Inf(-1))
	}
	return x
}

// roundUp is the smallest float64 whose Decimal is at least r.
func roundUp(r *big.Rat) float64 {
	x := Float(r)
	for Decimal(x).Cmp(r) < 0 && x < math.MaxFloat64 {
		x = math.Nextafter(x, math.Inf(1))
	}
	return x
}
