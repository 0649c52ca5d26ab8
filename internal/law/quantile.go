package law

import "math"

// unit is the unit round-off of float64. The laws give their rounding errors as multiples of unit.
const unit = 0x1p-53

// minTail is the smallest probability for which Low and High evaluate the law's functions. For smaller probabilities,
// the values of F could be subnormal numbers.
const minTail = 1e-300

// Low returns a number z with F(z) ≤ p, for p in [0, 1]. For p below minTail, z is −Inf. At p = 1, z is the same as at
// p = 1−2⁻⁵³. For other p, z is slightly less than Q(p). For the Gaussian law the difference is at most 1e-11·(1+|z|).
// Low checks the law's approximation of Q by evaluating F, and lowers the approximation if necessary. For p > ½ it
// evaluates F(−z), because 1−p is exact there.
func Low(l Additive, p float64) float64 {
	p = math.Min(p, 1-unit)
	if p > 0.5 {
		return -High(l, 1-p)
	}
	if !(p >= minTail) {
		return math.Inf(-1)
	}
	z := l.Quantile(p)
	for step := 0x1p-50 * (1 + math.Abs(z)); ; step *= 2 {
		if v, e := l.CDF(z); v*(1+e) <= p {
			return z
		}
		z -= step
	}
}

// High returns a number z with F(z) ≥ p, for p in [0, 1]. At p = 1 it returns +Inf.
func High(l Additive, p float64) float64 {
	if p > 0.5 {
		return -Low(l, 1-p)
	}
	p = math.Max(p, minTail)
	z := l.Quantile(p)
	for step := 0x1p-50 * (1 + math.Abs(z)); ; step *= 2 {
		if v, e := l.CDF(z); v*(1-e) >= p {
			return z
		}
		z += step
	}
}
