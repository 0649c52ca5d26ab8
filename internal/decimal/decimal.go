// Package decimal computes exactly with the decimals written in files of results, not with the floats nearest to them.
package decimal

import (
	"math"
	"math/big"
	"strconv"
)

// Of returns, exactly, the shortest decimal that reads back as x: the number in a file of results. x is finite.
func Of(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64)) // SetString reads every output of FormatFloat
	return r
}

// Float is the float64 nearest to r, at most the largest float64, which stands for an infinite radius.
func Float(r *big.Rat) float64 {
	x, _ := r.Float64()
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// Down is the largest float64 whose decimal is at most r.
func Down(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) > 0 {
		x = math.Nextafter(x, math.Inf(-1))
	}
	return x
}

// Up is the smallest float64 whose decimal is at least r.
func Up(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) < 0 && x < math.MaxFloat64 {
		x = math.Nextafter(x, math.Inf(1))
	}
	return x
}

// Sum is the exact sum of the decimals of xs.
func Sum(xs []float64) *big.Rat {
	sum := new(big.Rat)
	for _, x := range xs {
		sum.Add(sum, Of(x))
	}
	return sum
}

// MeanDown is sum/n, n > 0, rounded down, so that an average is never overstated. If the sum exceeds the largest
// float64, as a term stands for +∞, the mean stands for +∞ too.
func MeanDown(sum *big.Rat, n int) float64 {
	if Float(sum) == math.MaxFloat64 {
		return math.MaxFloat64
	}
	return Down(new(big.Rat).Quo(sum, big.NewRat(int64(n), 1)))
}
