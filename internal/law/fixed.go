package law

import "math/big"

// A Mass is a lower bound on a probability: Hi·2⁻⁶⁴ + Lo·2⁻¹²⁸.
type Mass struct{ Hi, Lo uint64 }

// The constant 'places' is the number of binary places of the fixed-point numbers below. The integer x stands for
// x·2⁻²⁵⁶.
const places = 256

// newMass rounds a fixed-point number down to 128 binary places. A negative number becomes 0.
func newMass(x *big.Int) Mass {
	if x.Sign() < 0 {
		return Mass{}
	}
	var hi, lo big.Int
	lo.Rsh(x, places-128)
	hi.Rsh(&lo, 64)
	return Mass{Hi: hi.Uint64(), Lo: lo.Sub(&lo, hi.Lsh(&hi, 64)).Uint64()}
}

// The function 'mirror' returns the masses of the integers −n, …, n in a symmetric distribution. The argument 'half'
// holds the masses of 0, …, n.
func mirror(half []Mass) (first int, masses []Mass) {
	last := len(half) - 1
	masses = make([]Mass, 2*last+1)
	for j, p := range half {
		masses[last-j], masses[last+j] = p, p
	}
	return -last, masses
}

func multiply(z, x, y *big.Int) *big.Int {
	z.Mul(x, y)
	return z.Rsh(z, places)
}

func divide(x, y *big.Int) *big.Int {
	z := new(big.Int).Lsh(x, places)
	return z.Quo(z, y)
}

// ceil returns ⌈x⌉.
func ceil(x *big.Rat) int64 {
	q, rest := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return q.Int64() + 1
	}
	return q.Int64()
}

// The function 'exponential' returns e^{−y} for 0 ≤ y ≤ 1 by its Taylor series. The error is below 2⁷ units of 2⁻²⁵⁶,
// because each of the 60 terms contributes at most two units.
func exponential(y *big.Int) *big.Int {
	one := new(big.Int).Lsh(big.NewInt(1), places)
	sum, term := new(big.Int).Set(one), one
	for n := int64(1); term.Sign() != 0; n++ {
		term = multiply(new(big.Int), term, y)
		term.Quo(term, big.NewInt(n))
		if n%2 == 1 {
			sum.Sub(sum, term)
		} else {
			sum.Add(sum, term)
		}
	}
	return sum
}
