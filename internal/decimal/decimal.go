// Package decimal computes exactly with the decimals that files of results contain, not with the floats nearest to
// these decimals.
package decimal

import (
	"math"
	"math/big"
	"strconv"
)

// Of returns, exactly, the shortest decimal that parses as x. This is the number in a file of results. x must be
// finite.
func Of(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64)) // SetString accepts every output of FormatFloat
	return r
}

// Float returns the float64 nearest to r, but at most the largest float64, which stands for an infinite radius.
func Float(r *big.Rat) float64 {
	x, _ := r.Float64()
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// Down returns the largest float64 whose decimal is at most r.
func Down(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) > 0 {
		x = math.Nextafter(x, math.Inf(-1))
	}
	return x
}

// Up returns the smallest float64 whose decimal is at least r.
func Up(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) < 0 && x < math.MaxFloat64 {
		x = math.Nextafter(x, math.Inf(1))
	}
	return x
}

// Sum returns the exact sum of the decimals of xs.
func Sum(xs []float64) *big.Rat {
	sum := new(big.Rat)
	for _, x := range xs {
		sum.Add(sum, Of(x))
	}
	return sum
}

// MeanDown returns sum/n, for n > 0, rounded down so that an average is never overstated. If the sum exceeds the
// largest float64 because a term stands for +∞, the mean stands for +∞ too.
func MeanDown(sum *big.Rat, n int) float64 {
	if Float(sum) == math.MaxFloat64 {
		return math.MaxFloat64
	}
	return Down(new(big.Rat).Quo(sum, big.NewRat(int64(n), 1)))
}
