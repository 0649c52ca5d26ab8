// Package decimal computes exactly with the numbers that files of results say: the decimals, not the floats next to them.
package decimal

import (
	"math"
	"math/big"
	"strconv"
)

// Of is the shortest decimal that reads back as x, exactly: the number that a file of results says. x is finite.
func Of(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64)) // FormatFloat writes what SetString reads
	return r
}

// Float is the float64 next to r, the largest of them where r is beyond: a radius that stands for +∞ is so large.
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

// Sum is Σ x as decimals, exactly.
func Sum(xs []float64) *big.Rat {
	sum := new(big.Rat)
	for _, x := range xs {
		sum.Add(sum, Of(x))
	}
	return sum
}

// MeanDown is sum/n, n > 0, rounded down: for an average that must not be overstated. A sum beyond the floats, with a term
// that stands for +∞, makes a mean that stands for it too.
func MeanDown(sum *big.Rat, n int) float64 {
	if Float(sum) == math.MaxFloat64 {
		return math.MaxFloat64
	}
	return Down(new(big.Rat).Quo(sum, big.NewRat(int64(n), 1)))
}
