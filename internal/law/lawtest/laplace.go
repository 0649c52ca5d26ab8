// Package lawtest provides a noise law for tests. The law is not in law.Laws. It certifies in the L1 norm, whereas the
// Gaussian law certifies in the L2 norm.
package lawtest

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// Use adds a law to law.Laws until the test ends. Tests that run in parallel must not call Use.
func Use(t testing.TB, l law.Law) {
	t.Helper()
	before := law.Laws
	law.Laws = append(slices.Clone(before), l)
	t.Cleanup(func() { law.Laws = before })
}

// Laplace is the law with the density e^{−|z|}/2 at scale 1. It certifies in the L1 norm.
var Laplace law.Law = laplace{}

type laplace struct{}

func (laplace) Name() string { return "test-laplace" }

func (laplace) Words() law.Words {
	return law.Words{Name: "Laplace noise", Noise: "Laplace noise of scale b", Symbol: "b", Scale: "scale"}
}

func (laplace) Norm() law.Norm { return law.L1 }

func (laplace) CDF(z float64) (p, relErr float64) {
	if z > 0 {
		return 1 - math.Exp(-z)/2, 0x1p-50
	}
	return math.Exp(z) / 2, 0x1p-50
}

func (laplace) Quantile(p float64) float64 {
	if p > 0.5 {
		return -math.Log(2 * (1 - p))
	}
	return math.Log(2 * p)
}

func (laplace) Density(z float64) float64 { return math.Exp(-math.Abs(z)) / 2 }

func (laplace) Slope(z, shift float64) float64 { return math.Exp(math.Abs(z) - math.Abs(z+shift)) }

// Peak returns 1 − √r·e^{−L/2}, where L is the margin. This maximum is at z = −(L + ln r)/2. For r ≥ e^L the supremum
// is 0.
func (laplace) Peak(margin, r float64) float64 {
	return max(1-math.Sqrt(r)*math.Exp(-margin/2)+0x1p-48, 0)
}

func (laplace) Second() law.Theorem {
	return law.Linear(0.5, "Q(p_A)−Q(p_B), radius b/2 times the margin")
}

func (laplace) First() law.Theorem { return law.Linear(1, "p_A−p_B, radius b times the margin") }

func (laplace) Ratios() law.Ratios { return law.Ratios{Least: 1, Fine: 30, Greatest: 710} }

// Masses returns p_0 = 1 − e^{−t/2} and p_j = sinh(t/2)·e^{−jt} with t = g/b, the lattice's step divided by the scale.
// It reduces each mass by one part in 2⁴⁴ to allow for rounding. (A law that is not only for tests must compute the
// masses in integers, so that they are the same on every machine.)
func (laplace) Masses(ratio *big.Rat) []law.Mass {
	r, _ := ratio.Float64()
	masses := make([]law.Mass, int(46*r)+1)
	for j := range masses {
		p := math.Sinh(1/(2*r)) * math.Exp(-float64(j)/r)
		if j == 0 {
			p = -math.Expm1(-1 / (2 * r))
		}
		masses[j] = law.Mass{Hi: uint64(math.Ldexp(p*(1-0x1p-44), 64))}
	}
	return masses
}
