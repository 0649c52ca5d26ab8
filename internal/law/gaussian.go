package law

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Gaussian is N(0, σ²I), which certifies in the L2 norm. Its distribution function F is Φ. When the input moves, the
// probability of an event changes. Among the events of probability p, the probability of a half space changes fastest,
// at the rate φ(Φ⁻¹(p))/σ (Cohen et al. 2019, Theorem 1; Salman et al. 2019).
var Gaussian Additive = gaussian{}

type gaussian struct{}

func (gaussian) Name() string { return "gaussian" }

func (gaussian) Words() Words {
	return Words{Name: "Gaussian noise", Noise: "Gaussian noise N(0, σ²I)", Symbol: "σ", Scale: "standard deviation"}
}

func (gaussian) Norm() Norm { return L2 }

// CDF returns Φ(z) = ½ erfc(−z/√2).
//
// Go's Erfc is FreeBSD's function erfc, translated into Go. For |x| < 28 the error of Erfc(x) is at most one unit in
// the last place, and relErr allows for four units. The argument x = −z/√2 has a relative error of at most 2·unit. erfc
// magnifies this error by |x·erfc'(x)/erfc(x)| ≤ 2x² + 1 = z² + 1.
func (gaussian) CDF(z float64) (p, relErr float64) {
	return 0.5 * math.Erfc(-z/math.Sqrt2), (12 + 4*z*z) * unit
}

func (gaussian) Quantile(p float64) float64 { return mathext.NormalQuantile(p) }

func (gaussian) Density(z float64) float64 { return math.Exp(-z*z/2 - halfLogTwoPi) }

// halfLogTwoPi is ½ ln 2π, OEIS A075700.
const halfLogTwoPi = 0.91893853320467274178

// Slope returns φ(z+s)/φ(z) = exp(−s(z + s/2)), where s is the argument 'shift'.
func (gaussian) Slope(z, shift float64) float64 { return math.Exp(-shift * (shift/2 + z)) }

// Peak finds the maximum of Φ(z+L) − r·Φ(z) by calculus, where L is the margin. The derivative φ(z+L) − rφ(z) vanishes
// where exp(Lz + L²/2) = 1/r, that is at z = −ln(r)/L − L/2. The maximum is at this z, and z ≤ −L/2. So the largest
// value is Φ(L/2 − ln(r)/L) − r·Φ(−L/2 − ln(r)/L).
func (g gaussian) Peak(margin, r float64) float64 {
	t := math.Log(r) / margin
	z1, z2 := margin/2-t, -margin/2-t
	// The computed z1 and z2 are within 4·unit·(margin+t) of their exact values. An error e in z gives Φ(z) a relative
	// error of at most (|z|+1)·e.
	v1, e1 := g.CDF(z1)
	v2, e2 := g.CDF(z2)
	e1 += 4 * unit * (margin + t) * (math.Abs(z1) + 1)
	e2 += 4 * unit * (margin + t) * (math.Abs(z2) + 1)
	return v1*(1+e1) - r*v2*(1-min(e2, 1)) + 4*unit*(v1+r*v2)
}

// Second returns the theorem R2 = (σ/2)·margin (Cohen et al. 2019, Theorem 1).
func (gaussian) Second() Theorem {
	return Linear(0.5, "Φ⁻¹(p_A)−Φ⁻¹(p_B), radius σ/2 times the margin")
}

// First returns the theorem R1 = σ√(π/2)·margin. Let h be the difference of the indicators of class A and another
// class, so |h| ≤ 1. Along a unit vector u, the slope of the smoothed difference E h(x+ε) is |E h(x+ε)(u·ε)|/σ² ≤
// E|u·ε|/σ² = √(2/π)/σ.
func (gaussian) First() Theorem {
	return Linear(sqrtHalfPi, "p_A−p_B, radius σ√(π/2) times the margin")
}

// sqrtHalfPi is √(π/2), OEIS A069998.
const sqrtHalfPi = 1.2533141373155002512

// The constant 'cut' is the end of the table of masses, in standard deviations.
const cut = 9

// Ratios returns the limits of σ/g, where g is the lattice's step. At the ratio 3640, Masses returns 2·9·3640 + 1
// masses. For σ ≥ 30g, rounding to the lattice adds at most g²/12 ≤ 9.3e-5·σ² to the variance.
func (gaussian) Ratios() Ratios { return Ratios{Least: 1, Fine: 30, Greatest: 3640} }
