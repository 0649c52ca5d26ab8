package law

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Gaussian is N(0, σ²I), which certifies in the L2 norm. F = Φ. Among the events of probability p, the half space
// changes fastest: at the rate φ(Φ⁻¹(p))/σ (Cohen et al. 2019, Theorem 1; Salman et al. 2019).
var Gaussian Additive = gaussian{}

type gaussian struct{}

func (gaussian) Name() string { return "gaussian" }

func (gaussian) Words() Words {
	return Words{Name: "Gaussian noise", Noise: "Gaussian noise N(0, σ²I)", Symbol: "σ", Scale: "standard deviation"}
}

func (gaussian) Norm() Norm { return L2 }

// CDF returns Φ(z) = ½ erfc(−z/√2).
//
// Go's Erfc is that of FreeBSD. Its error is within one unit in the last place for |x| < 28 (four units are assumed
// here). The argument has relative error 2·unit, which erfc magnifies by |x·erfc'(x)/erfc(x)| ≤ 2x² + 1 = z² + 1.
func (gaussian) CDF(z float64) (p, relErr float64) {
	return 0.5 * math.Erfc(-z/math.Sqrt2), (12 + 4*z*z) * unit
}

func (gaussian) Quantile(p float64) float64 { return mathext.NormalQuantile(p) }

func (gaussian) Density(z float64) float64 { return math.Exp(-z*z/2 - halfLogTwoPi) }

// halfLogTwoPi is ½ ln 2π, OEIS A075700.
const halfLogTwoPi = 0.91893853320467274178

// Slope returns φ(z+s)/φ(z) = exp(−s(z + s/2)).
func (gaussian) Slope(z, shift float64) float64 { return math.Exp(-shift * (shift/2 + z)) }

// Peak uses calculus: the derivative φ(z+L) − rφ(z) vanishes where exp(Lz + L²/2) = 1/r, at z = −ln(r)/L − L/2. This z
// is a maximum and satisfies z ≤ −L/2. So the largest value is Φ(L/2 − ln(r)/L) − r·Φ(−L/2 − ln(r)/L).
func (g gaussian) Peak(margin, r float64) float64 {
	t := math.Log(r) / margin
	z1, z2 := margin/2-t, -margin/2-t
	// The arguments are within 4·unit·(margin+t) of the exact ones, which moves Φ by a relative (|z|+1) times this
	// distance.
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

// First returns the theorem R1 = σ√(π/2)·margin. For h = f_A − f_j, |h| ≤ 1. So along a unit vector u the slope of the
// smoothed difference is |E h(x+ε)(u·ε)|/σ² ≤ E|u·ε|/σ² = √(2/π)/σ.
func (gaussian) First() Theorem {
	return Linear(sqrtHalfPi, "p_A−p_B, radius σ√(π/2) times the margin")
}

// sqrtHalfPi is √(π/2), OEIS A069998.
const sqrtHalfPi = 1.2533141373155002512

// cut is the end of the table, in standard deviations.
const cut = 9

// Ratios returns limits of σ/g. The table needs 2·9·3640 + 1 integers at the greatest ratio. From σ = 30g on, rounding
// adds at most (g/σ)²/12 = 9e-5 of the variance.
func (gaussian) Ratios() Ratios { return Ratios{Least: 1, Fine: 30, Greatest: 3640} }
