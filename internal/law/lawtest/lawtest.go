// Package lawtest provides a law for tests. The list law.Laws contains this law only while a test uses it.
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

// Logistic is logistic noise, which certifies in the L1 norm. At scale 1, its distribution function is F(z) =
// 1/(1+e^{−z}), and its density is F(z)·(1−F(z)).
var Logistic law.Additive = logistic{}

type logistic struct{}

func (logistic) Name() string { return "test-logistic" }

func (logistic) Words() law.Words {
	return law.Words{Name: "logistic noise", Noise: "logistic noise of scale s", Symbol: "s", Scale: "scale"}
}

func (logistic) Norm() law.Norm { return law.L1 }

func (logistic) CDF(z float64) (p, relErr float64) { return 1 / (1 + math.Exp(-z)), 0x1p-50 }

func (logistic) Quantile(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

func (logistic) Density(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	return e / ((1 + e) * (1 + e))
}

func (l logistic) Slope(z, shift float64) float64 { return l.Density(z+shift) / l.Density(z) }

// Peak finds the maximum of F(z+L) − r·F(z) by calculus, where L is the margin. The derivative is 0 where e^z =
// (e^{L/2} − √r)/(√r·e^L − e^{L/2}). For r ≥ e^L the supremum is 0.
func (logistic) Peak(margin, r float64) float64 {
	half, root := math.Exp(margin/2), math.Sqrt(r)
	u := (half - root) / (root*half*half - half)
	if !(u > 0) {
		return 0
	}
	far := u * half * half
	return far/(1+far) - r*u/(1+u) + 0x1p-46*r
}

func (logistic) Second() law.Theorem {
	return law.Linear(0.5, "Q(p_A)−Q(p_B), radius s/2 times the margin")
}

func (logistic) First() law.Theorem { return law.Linear(2, "p_A−p_B, radius 2s times the margin") }

func (logistic) Ratios() law.Ratios { return law.Ratios{Least: 1, Fine: 30, Greatest: 710} }

// Masses returns F((j+½)t) − F((j−½)t) for each integer j, where t = 1/ratio is the lattice's step divided by the
// scale. It lowers each mass by one part in 2⁴⁴, because the computation has rounding errors. (A law outside tests must
// compute the masses with integers, so that all machines get the same masses.)
func (l logistic) Masses(ratio *big.Rat) (first int, masses []law.Mass) {
	r, _ := ratio.Float64()
	last := int(46 * r)
	for j := -last; j <= last; j++ {
		// F((j+½)t) − F((j−½)t) is equal to sinh(t/2)/(cosh(t/2) + cosh(j·t)).
		half, z := 1/(2*r), math.Abs(float64(j))/r
		p := math.Sinh(half) / (math.Cosh(half) + math.Cosh(z))
		masses = append(masses, law.Mass{Hi: uint64(math.Ldexp(p*(1-0x1p-44), 64))})
	}
	return -last, masses
}
