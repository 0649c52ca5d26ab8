package law

import (
	"math/big"
	"math/bits"
)

// Masses returns lower bounds on the masses of the integers j with |j| ≤ ⌈9·ratio⌉. So the table reaches 9 standard
// deviations on each side of 0. Each bound is too low by less than 2⁻¹²⁷. Let t = 1/ratio = g/σ, the lattice's step
// divided by the standard deviation. Then
//
//	p_j = Φ((j+½)t) − Φ((j−½)t),  0 ≤ j ≤ ⌈9/t⌉.
//
// Let h = t/2, x = jt and c_n = φ⁽ⁿ⁾(x)·hⁿ/n!. The Taylor series of φ about x gives
//
//	p_j = 2h·Σ_k c_2k/(2k+1),  c_{n+1} = −(hx·c_n + h²·c_{n−1})/(n+1).
//
// The recurrence of c_n follows from the recurrence of the Hermite polynomials. The code computes each value of φ from
// the previous value: φ((j+1)t) = φ(jt)·r_j with r_{j+1} = r_j·e^{−t²} and r_0 = e^{−t²/2}.
//
// Error: by Cramér's inequality |φ⁽ⁿ⁾(x)| ≤ 0.44·√n!. The code sums the terms k = 0, …, K−1, with the K that
// taylorTerms returns. So the omitted terms are less than 0.88·h^{2K+1}/(√(2K)!·(2K+1)) ≤ 2⁻¹⁴⁰. All computations use
// integer arithmetic, so all machines get the same result. Each result is rounded to a neighbouring fixed-point number.
// All following errors are in units of 2⁻²⁵⁶. The code rounds t once. This rounding changes p_j by at most 2¹², because
// |∂p_j/∂t| ≤ 1/t. r_j is off by at most 2⁹(j+1). φ(jt) is off by at most Σ_i (2⁹(i+1)φ(it) + 1) ≤ 2⁴⁰, because j <
// 2¹⁶. hx is off by at most 2¹⁸. A step of the recurrence multiplies the errors by at most (hx + h²)/(n+1) < 5.3/(n+1)
// and adds at most 2¹⁹. All steps together multiply the errors by less than 2⁶. So the sum of at most 24 terms is off
// by less than 2⁵⁰ units, which is 2⁻²⁰⁶. To get a lower bound, Masses subtracts 2⁻¹³⁹ from each result.
func (gaussian) Masses(ratio *big.Rat) (first int, masses []Mass) {
	t := divide(ratio.Denom(), ratio.Num())
	last := int(ceil(new(big.Rat).Mul(ratio, big.NewRat(cut, 1))))
	h2 := multiply(new(big.Int), t, t)
	h2.Rsh(h2, 2)
	two := new(big.Int).Lsh(h2, 1)    // 2h²: the loop below multiplies it by j to get hx
	r := exponential(two)             // e^{−t²/2}
	q := multiply(new(big.Int), r, r) // e^{−t²}
	phi := inverseRootTwoPi()
	terms := taylorTerms(t)
	slack := new(big.Int).Lsh(big.NewInt(1), places-139)

	half := make([]Mass, last+1)
	var hx, c0, c1, c2, sum, term, scratch, n big.Int
	for j := range half {
		hx.Mul(two, n.SetInt64(int64(j)))
		c0.SetInt64(0)
		c1.Set(phi)
		sum.Set(phi)
		for k := 1; k <= 2*(terms-1); k++ {
			scratch.Mul(&hx, &c1)
			term.Mul(h2, &c0)
			scratch.Add(&scratch, &term)
			scratch.Rsh(&scratch, places)
			scratch.Quo(&scratch, n.SetInt64(int64(k)))
			c2.Neg(&scratch)
			if k%2 == 0 {
				sum.Add(&sum, term.Quo(&c2, n.SetInt64(int64(k+1))))
			}
			c0.Set(&c1)
			c1.Set(&c2)
		}
		term.Mul(&sum, t)
		term.Rsh(&term, places)
		half[j] = newMass(term.Sub(&term, slack))

		scratch.Mul(phi, r)
		phi.Rsh(&scratch, places)
		scratch.Mul(r, q)
		r.Rsh(&scratch, places)
	}
	return mirror(half)
}

// taylorTerms returns the smallest K for which the bound below is at most 2⁻¹⁴⁰. The method 'Masses' adds up K terms.
// The bound is: if h ≤ 2⁻ˢ and Λ = Σ_{i≤2K} ⌊log₂ i⌋, then h^{2K+1}/√(2K)! ≤ 2^{−s(2K+1)−Λ/2}.
func taylorTerms(t *big.Int) int {
	s := places - t.BitLen() + 1
	log := 0
	for k := 1; ; k++ {
		log += bits.Len(uint(2*k-1)) + bits.Len(uint(2*k)) - 2
		if 2*s*(2*k+1)+log >= 2*140 {
			return k
		}
	}
}

// inverseRootTwoPi returns φ(0) = 1/√(2π). It computes π by Machin's formula π = 16 arctan ⅕ − 4 arctan 1/239.
func inverseRootTwoPi() *big.Int {
	pi := new(big.Int).Lsh(arctanInverse(5), 4)
	pi.Sub(pi, new(big.Int).Lsh(arctanInverse(239), 2))
	square := new(big.Int).Lsh(big.NewInt(1), 3*places-1)
	return square.Sqrt(square.Quo(square, pi))
}

// arctanInverse returns arctan(1/n) by its Taylor series.
func arctanInverse(n int64) *big.Int {
	power := divide(big.NewInt(1), big.NewInt(n))
	sum, square := new(big.Int), big.NewInt(n*n)
	for k := int64(1); power.Sign() != 0; k += 2 {
		term := new(big.Int).Quo(power, big.NewInt(k))
		if k%4 == 1 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Quo(power, square)
	}
	return sum
}
