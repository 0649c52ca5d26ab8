// Package decimal computes exactly with the decimals that files of results contain, not with the floats nearest to
// these decimals.
package decimal

import (
	"bytes"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Of returns the exact value of the shortest decimal that parses as x. Files of results contain this decimal. The
// argument x must be finite.
func Of(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64)) // SetString accepts every output of FormatFloat
	return r
}

// Float returns the float64 nearest to r, or the largest float64 if r is larger. The largest float64 stands for an
// infinite radius.
func Float(r *big.Rat) float64 {
	x, _ := r.Float64()
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// Down returns the largest float64 x with Of(x) ≤ r.
func Down(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) > 0 {
		x = math.Nextafter(x, math.Inf(-1))
	}
	return x
}

// Up returns the smallest float64 x with Of(x) ≥ r. If there is none, it returns the largest float64.
func Up(r *big.Rat) float64 {
	x := Float(r)
	for Of(x).Cmp(r) < 0 && x < math.MaxFloat64 {
		x = math.Nextafter(x, math.Inf(1))
	}
	return x
}

// Sum returns the exact sum of Of(x) over all x in xs.
func Sum(xs []float64) *big.Rat {
	// for each power of ten, the sum of the integers that the function 'split' returned with this power
	sums := map[power]*wide{}
	var text [32]byte
	for _, x := range xs {
		digits, p := split(strconv.AppendFloat(text[:0], x, 'e', -1, 64))
		if sums[p] == nil {
			sums[p] = &wide{}
		}
		sums[p].add(digits)
	}
	sum := new(big.Rat)
	for p, w := range sums {
		sum.Add(sum, p.times(w.integer()))
	}
	return sum
}

// power is ±10^exponent.
type power struct {
	negative bool
	exponent int
}

// split splits a number in the form -d.ddde±dd into a non-negative integer of at most 17 digits, and a power of ten
// with the sign of the number. The product of the two is the number.
func split(text []byte) (digits uint64, p power) {
	if p.negative = text[0] == '-'; p.negative {
		text = text[1:]
	}
	mark := bytes.IndexByte(text, 'e')
	p.exponent, _ = strconv.Atoi(string(text[mark+1:])) // AppendFloat wrote the number, so it parses
	for i, c := range text[:mark] {
		if c == '.' {
			continue
		}
		digits = 10*digits + uint64(c-'0')
		if i > 1 {
			p.exponent--
		}
	}
	return digits, p
}

// The method 'times' returns n times the power.
func (p power) times(n *big.Int) *big.Rat {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(p.exponent, -p.exponent))), nil)
	r := new(big.Rat).SetInt(scale)
	if p.exponent < 0 {
		r.Inv(r)
	}
	r.Mul(r, new(big.Rat).SetInt(n))
	if p.negative {
		r.Neg(r)
	}
	return r
}

// The type 'wide' is an integer of 128 bits. It has room for the sum of 10^21 numbers of 17 digits.
type wide struct{ high, low uint64 }

func (w *wide) add(x uint64) {
	var carry uint64
	w.low, carry = bits.Add64(w.low, x, 0)
	w.high += carry
}

func (w *wide) integer() *big.Int {
	n := new(big.Int).SetUint64(w.high)
	return n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(w.low))
}

// MeanDown returns sum/n for n > 0. It rounds down, so that no average is overstated. If Float(sum) is the largest
// float64, MeanDown assumes that a term stands for +∞. MeanDown then returns the largest float64, which also stands for
// +∞.
func MeanDown(sum *big.Rat, n int) float64 {
	if Float(sum) == math.MaxFloat64 {
		return math.MaxFloat64
	}
	return Down(new(big.Rat).Quo(sum, big.NewRat(int64(n), 1)))
}
