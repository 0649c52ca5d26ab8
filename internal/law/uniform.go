package law

import (
	"math"
	"math/big"
)

// Uniform is noise that is uniform on [−λ, λ] in each coordinate. It certifies in the L1 norm, because within the
// distance ρ an event's probability changes by at most ρ/(2λ). At scale 1, F(z) = (1+z)/2 and Q(p) = 2p − 1. The method
// Second returns a theorem for the margin 2(p_A − p_B). The method First returns a theorem for the margin p_A − p_B.
// Both theorems give the same radius (Yang et al. 2020, uniform noise; Lee et al. 2019).
var Uniform Additive = uniform{}

type uniform struct{}

func (uniform) Name() string { return "uniform" }

func (uniform) Words() Words {
	return Words{Name: "uniform noise", Noise: "uniform noise on [−λ, λ]", Symbol: "λ", Scale: "half width"}
}

func (uniform) Norm() Norm { return L1 }

// CDF returns (1+z)/2, limited to [0, 1]. The sum 1+z has one rounding error. The division by 2 is exact.
func (uniform) CDF(z float64) (p, relErr float64) { return min(max((1+z)/2, 0), 1), 2 * unit }

func (uniform) Quantile(p float64) float64 { return 2*p - 1 }

func (uniform) Density(z float64) float64 {
	if math.Abs(z) > 1 {
		return 0
	}
	return 0.5
}

// Slope returns 1 if z+shift lies within the interval [−1, 1], and 0 otherwise.
func (u uniform) Slope(z, shift float64) float64 { return 2 * u.Density(z+shift) }

// Peak returns L/2 for a margin L < 2, and 1 for L ≥ 2. For L < 2, the difference F(z+L) − r·F(z) is largest at z = −1,
// where it is F(L−1) = L/2. Above z = −1 the difference does not grow with z, because the second argument r of Peak is
// at least 1.
func (uniform) Peak(margin, _ float64) float64 { return min(margin/2, 1) }

func (uniform) Second() Theorem { return Linear(0.5, "2(p_A−p_B), radius λ/2 times the margin") }

// First returns the theorem R1 = λ·margin, which follows from the density 1/(2λ).
func (uniform) First() Theorem { return Linear(1, "p_A−p_B, radius λ times the margin") }

// Ratios returns the limits of λ/g, where g is the lattice's step. Within these limits, the table of masses has at most
// 2¹⁶ entries. The radius is as large on a coarse lattice as on a fine one, because uniform noise stays uniform when it
// is rounded to the lattice.
func (uniform) Ratios() Ratios { return Ratios{Least: 1, Fine: 1, Greatest: 1<<15 - 2, Halves: true} }

// Masses returns the probabilities of the integers on a lattice of step g. Let W = 2λ/g.
//
// If W is whole, the noise takes the W integers −⌊W/2⌋, −⌊W/2⌋+1, …, each with the probability 1/W. For even W, these
// integers are not symmetric about 0: the noise is moved by half a step. The result is the same as if the noise were
// symmetric and the classifier first moved its input by half a step. So the certificates stay the same. If W is a power
// of two, the masses are exact, and Table.Eta of package smoothing is 0.
//
// Otherwise the probability of the integer j is the length of [j−½, j+½] ∩ [−W/2, W/2], divided by W. All masses are
// rounded down to 128 binary places.
func (uniform) Masses(ratio *big.Rat) (first int, masses []Mass) {
	width := new(big.Rat).Mul(ratio, big.NewRat(2, 1))
	inner := massOf(new(big.Rat).Inv(width))
	if width.IsInt() {
		count := int(width.Num().Int64())
		masses = make([]Mass, count)
		for j := range masses {
			masses[j] = inner
		}
		return -(count / 2), masses
	}
	last := ceil(new(big.Rat).Sub(ratio, big.NewRat(1, 2)))
	half := make([]Mass, last+1)
	for j := range half {
		half[j] = inner
	}
	end := new(big.Rat).Sub(ratio, big.NewRat(2*last-1, 2))
	half[last] = massOf(end.Quo(end, width))
	return mirror(half)
}

// massOf rounds a probability below 1 down to 128 binary places.
func massOf(p *big.Rat) Mass {
	return newMass(divide(p.Num(), p.Denom()))
}
