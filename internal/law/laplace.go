package law

import (
	"math"
	"math/big"
)

// Laplace is noise with the density e^{−|z|/b}/(2b) in each coordinate. It certifies in the L1 norm. F is the Laplace
// distribution function, f is its density, and Q = F⁻¹. Along a unit direction of L1, the probability p of an event
// never changes faster than at the rate f(Q(p)) = min(p, 1−p)/b. The radius ½[Q(p_A) − Q(p_B)] is never below the
// radius of Teng et al. 2020, Theorem 2. For two classes both radii are equal.
var Laplace Additive = laplace{}

type laplace struct{}

func (laplace) Name() string { return "laplace" }

func (laplace) Words() Words {
	return Words{Name: "Laplace noise", Noise: "Laplace noise of scale b", Symbol: "b", Scale: "scale"}
}

func (laplace) Norm() Norm { return L1 }

// CDF returns e^z/2 for z ≤ 0 and 1 − e^{−z}/2 for z > 0. The error of Go's Exp is at most one unit in the last place.
// The bound relErr allows for four units.
func (laplace) CDF(z float64) (p, relErr float64) {
	if z > 0 {
		return 1 - math.Exp(-z)/2, 8 * unit
	}
	return math.Exp(z) / 2, 8 * unit
}

// Quantile returns ln 2p for p ≤ ½, and −ln 2(1−p) for p > ½.
func (laplace) Quantile(p float64) float64 {
	if p > 0.5 {
		return -math.Log(2 * (1 - p))
	}
	return math.Log(2 * p)
}

func (laplace) Density(z float64) float64 { return math.Exp(-math.Abs(z)) / 2 }

func (laplace) Slope(z, shift float64) float64 { return math.Exp(math.Abs(z) - math.Abs(z+shift)) }

// Peak finds the maximum of F(z+L) − r·F(z) by calculus, where L is the margin. For −L ≤ z ≤ 0 the value is 1 −
// e^{−(z+L)}/2 − r·e^z/2. This value is largest at z = −(L + ln r)/2, where it is 1 − √r·e^{−L/2}. For r ≥ e^L this z
// is at most −L. For z ≤ −L the value is (e^L − r)·e^z/2 ≤ 0, so the supremum is 0. If √r·e^{−L/2} ≤ 1, the rounding
// errors of this product are below 2⁻⁴⁸ in total.
func (laplace) Peak(margin, r float64) float64 {
	return max(1-math.Sqrt(r)*math.Exp(-margin/2)+0x1p-48, 0)
}

func (laplace) Second() Theorem {
	return Linear(0.5, "Q(p_A)−Q(p_B) with the quantile function Q of the Laplace distribution of scale 1, radius b/2 times the margin")
}

// First returns the theorem R1 = b·margin, which follows from the largest density, 1/(2b).
func (laplace) First() Theorem { return Linear(1, "p_A−p_B, radius b times the margin") }

// laplaceCut is the distance from 0 at which the table of the noise ends, in units of the noise's scale b. The mass at
// distances above 46·b from 0 is e^{−46} < 2⁻⁶⁶.
const laplaceCut = 46

// Ratios returns the limits of b/g, where g is the lattice's step. At the ratio 710, the table covers 2·46·710 + 1
// integers.
func (laplace) Ratios() Ratios { return Ratios{Least: 1, Fine: 30, Greatest: 710} }

// Masses returns lower bounds on the masses of the integers j with |j| ≤ ⌈46·ratio⌉. So the table reaches 46·b on each
// side of 0. Each bound is too low by less than 2⁻¹²⁷. Let g be the lattice's step, and let t = g/b, a = e^{−t/2} and q
// = e^{−t}. Then the exact masses p_j of the integers j ≥ 0 are
//
//	p_0 = 1 − a,  p_j = sinh(t/2)·e^{−jt} = ½(1−q)·a·q^{j−1}.
//
// All computations use integer arithmetic, so all machines get the same result. The following errors are in units of
// 2⁻²⁵⁶. The code rounds t once. The computed a is off by at most 2⁸, and the computed q by at most 2¹⁰. The code
// multiplies p_j by q to get p_{j+1}. Each such multiplication adds at most 2¹⁰ + 1 to the error. Since j < 2¹⁵, p_j is
// off by at most 2²⁶. Subtracting 2²⁸ gives a lower bound.
func (laplace) Masses(ratio *big.Rat) (first int, masses []Mass) {
	t := divide(ratio.Denom(), ratio.Num())
	a := exponential(new(big.Int).Rsh(t, 1))
	q := multiply(new(big.Int), a, a)
	one := new(big.Int).Lsh(big.NewInt(1), places)
	slack := big.NewInt(1 << 28)
	half := make([]Mass, int(ceil(new(big.Rat).Mul(ratio, big.NewRat(laplaceCut, 1))))+1)
	half[0] = newMass(new(big.Int).Sub(new(big.Int).Sub(one, a), slack))
	power := new(big.Int).Sub(one, q)
	power.Rsh(multiply(power, power, a), 1) // ½(1−q)·a
	for j := 1; j < len(half); j++ {
		half[j] = newMass(new(big.Int).Sub(power, slack))
		multiply(power, power, q)
	}
	return mirror(half)
}
