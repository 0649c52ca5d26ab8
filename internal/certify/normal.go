package certify

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// unit is the unit round-off of float64; errors below are stated in it.
const unit = 0x1p-53

// normalCDF returns Φ(z) and a bound on its relative error.
//
// Φ(z) = ½ erfc(−z/√2). Go's Erfc is FreeBSD's, within one unit in the last
// place for |x| < 28 (taken as four here). The argument has relative error
// 2·unit, which erfc magnifies by |x·erfc'(x)/erfc(x)| ≤ 2x² + 1 = z² + 1.
func normalCDF(z float64) (p, relErr float64) {
	return 0.5 * math.Erfc(-z/math.Sqrt2), (12 + 4*z*z) * unit
}

// quantileLow returns a number z with Φ(z) ≤ p, for p in [0, 1]: −Inf at 0, 8.2
// at 1, and no more than 1e-11·(1+|z|) under Φ⁻¹(p) in between. The approximation
// of gonum is checked, and lowered where it has to be, by evaluating Φ, above ½
// that of −z: 1−p is exact there.
func quantileLow(p float64) float64 {
	p = math.Min(p, 1-unit)
	if p > 0.5 {
		return -quantileHigh(1 - p)
	}
	if !(p >= minNormalTail) {
		return math.Inf(-1)
	}
	z := quantileNear(p)
	for step := 0x1p-50 * (1 + math.Abs(z)); ; step *= 2 {
		if v, e := normalCDF(z); v*(1+e) <= p {
			return z
		}
		z -= step
	}
}

// quantileHigh returns a number z with Φ(z) ≥ p: +Inf at 1.
func quantileHigh(p float64) float64 {
	if p > 0.5 {
		return -quantileLow(1 - p)
	}
	p = math.Max(p, minNormalTail)
	z := quantileNear(p)
	for step := 0x1p-50 * (1 + math.Abs(z)); ; step *= 2 {
		if v, e := normalCDF(z); v*(1-e) >= p {
			return z
		}
		z += step
	}
}

// minNormalTail keeps erfc in its normal range.
const minNormalTail = 1e-300

// quantileNear approximates Φ⁻¹ with no promise.
func quantileNear(p float64) float64 { return mathext.NormalQuantile(p) }

// normalPDF is φ(z), with no promise.
func normalPDF(z float64) float64 { return math.Exp(-z*z/2 - halfLogTwoPi) }

// halfLogTwoPi is ½ ln 2π, OEIS A075700.
const halfLogTwoPi = 0.91893853320467274178
