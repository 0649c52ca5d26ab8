// Package fixedpoint sums numbers in [0, 1] exactly. Floor rounds a number down to a multiple of 2⁻⁶³, and Ceil rounds
// it up. A Sum is a 128-bit integer. It has no rounding error, does not depend on the order of the terms, and is the
// same on every platform.
package fixedpoint

import (
	"cmp"
	"math/big"
	"math/bits"
)

// One is the number 1 in units of 2⁻⁶³. Floats in [2⁻¹¹, 1] are whole multiples of 2⁻⁶³, because the last of their 53
// bits is worth 2⁻⁶³ or more.
const One = 1 << 63

// Floor returns x rounded down, in units of 2⁻⁶³, for 0 ≤ x ≤ 1. Scaling by a power of two is exact.
func Floor(x float64) uint64 { return uint64(x * One) }

// Ceil returns x rounded up, in units of 2⁻⁶³, for 0 ≤ x ≤ 1.
func Ceil(x float64) uint64 {
	v := uint64(x * One)
	if float64(v) < x*One { // v has at most 53 bits, so float64(v) is exact
		v++
	}
	return v
}

// SquareUp returns v² rounded up, for v in [0, 1]. Both v and the result are in units of 2⁻⁶³.
func SquareUp(v uint64) uint64 {
	hi, lo := bits.Mul64(v, v) // in units of 2⁻¹²⁶
	square := hi<<1 | lo>>63
	if lo<<1 != 0 {
		square++
	}
	return square
}

// Sum is a signed integer of 128 bits that counts units of 2⁻⁶³. The zero value is 0. A Sum can hold sums of up to 2⁶³
// numbers in [−1, 1].
type Sum struct {
	hi int64
	lo uint64
}

// Product returns n·v for a count n ≥ 0. The number v is in [0, 1], and is given in units of 2⁻⁶³.
func Product(n int, v uint64) Sum {
	hi, lo := bits.Mul64(uint64(n), v)
	return Sum{int64(hi), lo}
}

// Add returns a + b.
func (a Sum) Add(b Sum) Sum {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return Sum{a.hi + b.hi + int64(carry), lo}
}

// Sub returns a − b.
func (a Sum) Sub(b Sum) Sum {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return Sum{a.hi - b.hi - int64(borrow), lo}
}

// AddUnits adds v units to a.
func (a *Sum) AddUnits(v uint64) {
	lo, carry := bits.Add64(a.lo, v, 0)
	a.lo = lo
	a.hi += int64(carry)
}

// AddProduct adds n·v units to a, for n ≥ 0.
func (a *Sum) AddProduct(n int, v uint64) {
	hi, lo := bits.Mul64(uint64(n), v)
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, lo, 0)
	a.hi += int64(hi + carry)
}

// Abs returns |a|.
func (a Sum) Abs() Sum {
	if a.hi < 0 {
		return Sum{}.Sub(a)
	}
	return a
}

// Cmp returns −1, 0 or 1 if a is below, equal to or above b.
func (a Sum) Cmp(b Sum) int {
	if c := cmp.Compare(a.hi, b.hi); c != 0 {
		return c
	}
	return cmp.Compare(a.lo, b.lo)
}

// MeanUp returns the smallest float64 that is not below a/n, for n > 0.
func (a Sum) MeanUp(n int) float64 { return a.mean(n, big.ToPositiveInf) }

// MeanDown returns the largest float64 that is not above a/n, for n > 0.
func (a Sum) MeanDown(n int) float64 { return a.mean(n, big.ToNegativeInf) }

// mean returns a/n with a single rounding, in the given direction. A nonzero quotient is at least 2⁻⁶³/2⁶³, so it is a
// normal float64.
func (a Sum) mean(n int, mode big.RoundingMode) float64 {
	total := new(big.Int).SetInt64(a.hi)
	total.Lsh(total, 64).Add(total, new(big.Int).SetUint64(a.lo))
	whole := new(big.Int).SetInt64(int64(n))
	whole.Lsh(whole, 63)
	q := new(big.Float).SetPrec(53).SetMode(mode)
	q.Quo(new(big.Float).SetInt(total), new(big.Float).SetInt(whole))
	x, _ := q.Float64()
	return x
}
