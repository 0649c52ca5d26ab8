// Package binomial computes the binomial distribution with proved error bounds. It reads and writes no files. The
// results that certificates use are enclosures of the true value (Span), or bounds that follow from an enclosure.
//
//   - LowerBound and UpperBound are the one-sided Clopper–Pearson bounds on the success probability. LowerSpan encloses
//     the exact lower bound.
//   - Tail encloses P(Bin(n, p) ≥ k). LogTerm computes ln P(Bin(n, p) = k).
//   - FailureQuantile bounds how many of n certificates are wrong.
//   - McNemar returns the exact p-value of the hypothesis that two classifiers are right equally often.
package binomial

import "math"

// unit is the unit round-off of float64. The error bounds in this package are multiples of unit.
const unit = 0x1p-53

// Span encloses a number: Lower ≤ value ≤ Upper, despite rounding.
type Span struct{ Lower, Upper float64 }

// stirlingError returns ln n! − ln(√(2πn)(n/e)ⁿ), n ≥ 1, with an absolute error of at most 4·unit. For n ≤ 15 the value
// comes from stirlingTable. For larger n it comes from the series of DLMF 5.11.1. The first omitted term of the series
// bounds the error (5.11(ii)): 691/(360360·16¹¹) < 2·unit.
func stirlingError(n int64) float64 {
	if n < int64(len(stirlingTable)) {
		return stirlingTable[n]
	}
	x := float64(n)
	y := 1 / (x * x)
	return (1.0/12 - y*(1.0/360-y*(1.0/1260-y*(1.0/1680-y*(1.0/1188))))) / x
}

// stirlingTable holds ln n! − (n+½)ln n + n − ½ln 2π, computed to 40 digits. TestStirlingTable computes it again with
// math/big. Entry 0 is not used.
var stirlingTable = [16]float64{
	0,
	0.08106146679532725821967026359438236013860,
	0.04134069595540929409382208140711750802535,
	0.02767792568499833914878929274624466659538,
	0.02079067210376509311152277176784865633309,
	0.01664469118982119216319486537359339114739,
	0.01387612882307074799874572702376290856175,
	0.01189670994589177009505572411765943862013,
	0.01041126526197209649747856713253462919952,
	0.00925546218271273291772863663310013611743,
	0.00833056343336287125646931865962855220929,
	0.00757367548795184079497202421159508389293,
	0.00694284010720952986566415266347536265992,
	0.00640899418800420706843963108297831257520,
	0.00595137011275884773562441604646945832642,
	0.00555473355196280137103868995979228464907,
}

// deviance returns D = x ln(x/m) + m − x for x ≥ 0, m > 0. D is the exponent of the saddle-point form of a Poisson or
// binomial term. The absolute error of D is at most 9·unit·(|x−m| + D), for the following reasons. v = (x−m)/m has a
// relative error of 2·unit, and the derivative of D in v is m·log1p(v). Five further roundings each add an error of at
// most a small multiple of unit·m(1+v)|log1p v| or of unit·m|v|. Here m(1+v)|log1p v| ≤ |x−m| + D and m|v| = |x−m|. The
// five roundings occur in log1p (within 2·unit), the sum 1+v, the first product, the difference and the last product.
func deviance(x, m float64) float64 {
	if x == 0 {
		return m
	}
	v := (x - m) / m
	return m * ((1+v)*math.Log1p(v) - v)
}

// LogTerm returns ln P(Bin(n, p) = k) and a bound on its absolute error. Domain: 0 < p < 1, q = 1−p with a relative
// error of at most 2·unit, 0 ≤ k ≤ n.
//
// LogTerm uses Loader's saddle-point form (2000): ½ ln(n/(2πk(n−k))) + δ(n) − δ(k) − δ(n−k) − D(k, np) − D(n−k, nq),
// where δ is the function stirlingError and D is the function 'deviance'. The means np and nq each carry a relative
// error of 3·unit, which changes each D by at most 3·unit·|k − np|.
func LogTerm(n, k int64, p, q float64) (logp, absErr float64) {
	x, y, N := float64(k), float64(n-k), float64(n)
	switch k {
	case 0:
		logp = powerLog(N, p, q)
		return logp, 8 * unit * (1 - logp)
	case n:
		logp = powerLog(N, q, p)
		return logp, 8 * unit * (1 - logp)
	}
	d1, d2 := deviance(x, N*p), deviance(y, N*q)
	logp = 0.5*math.Log(N/(x*y)) - halfLogTwoPi + stirlingError(n) - stirlingError(k) - stirlingError(n-k) - d1 - d2
	return logp, unit * (24*math.Abs(x-N*p) + 24*(d1+d2) + 4*math.Abs(logp) + 64)
}

// powerLog returns ln (1−p)ᴺ with a relative error of at most 6·unit. The argument q is 1−p. powerLog uses the smaller
// of p and q, because the larger of the two has a rounding error of up to unit.
func powerLog(N, p, q float64) float64 {
	if p < 0.5 {
		return N * math.Log1p(-p)
	}
	return N * math.Log(q)
}

// halfLogTwoPi is ½ ln 2π, OEIS A075700.
const halfLogTwoPi = 0.91893853320467274178

// Tail encloses P(Bin(n, p) ≥ k) = I_p(k, n−k+1) (DLMF 8.17.5), for 0 ≤ p ≤ 1.
func Tail(n, k int64, p float64) Span {
	switch {
	case k <= 0:
		return Span{1, 1}
	case k > n || p <= 0:
		return Span{0, 0}
	case p >= 1:
		return Span{1, 1}
	}
	q := 1 - p
	if float64(k) > (float64(n)+1)*p {
		return upperSum(n, k, p, q, math.FMA(-(float64(n)+1), p, float64(k)))
	}
	// The variable c encloses P(Bin(n, p) ≤ k−1) = P(Bin(n, q) ≥ n−k+1), which is below about ½. The argument lambda is
	// n−k+1 − (n+1)q. The code computes it as (n+1)p − k, because q is rounded and p is not.
	c := upperSum(n, n-k+1, q, p, math.FMA(float64(n)+1, p, -float64(k)))
	return Span{math.Max(0, (1-c.Upper)*(1-2*unit)), math.Min(1, (1-c.Lower)*(1+2*unit))}
}

// upperSum returns a Span that encloses P(Bin(n, p) ≥ k). It requires that 0 < k ≤ n and that k is above the mean. The
// argument q is 1−p.
//
// P(Bin(n, p) ≥ k) is k·q·P(Bin(n, p) = k) times a continued fraction. This is the fraction of DiDonato & Morris (1992,
// eq. 9; not DLMF 8.17.22) for I_p(a, b). Here a = k, b = n−k+1 and λ = k − (n+1)p ≥ 0:
//
//	1/(β_1 + α_2/(β_2 + α_3/(β_3 + …)))
//	α_{m+1} = (a+m−1)(a+b+m−1) m(b−m) p²/(a+2m−1)²
//	β_{m+1} = m + m(b−m)p/(a+2m−1) + (a+m)(λ+1+m(1+q))/(a+2m+1)
//
// Because b is an integer, α_{b+1} is 0, and the fraction ends there. All α and β before this term are positive.
// Therefore successive convergents enclose the value. Each step adds only positive numbers, so J steps cause a relative
// error of at most 32J·unit. One of p and q is exact, and the caller computes λ from this number by one FMA. The other
// number may have a relative error of one unit.
func upperSum(n, k int64, p, q, lambda float64) Span {
	a, b := float64(k), float64(n-k+1)
	lambda = math.Max(0, lambda)
	beta := func(m float64) float64 {
		return m + m*(b-m)*p/(a+2*m-1) + (a+m)*(lambda+1+m*(1+q))/(a+2*m+1)
	}
	// a0/b0 and a1/b1 are the last two convergents of the fraction.
	a0, b0 := 0.0, 1.0
	a1, b1 := 1.0, a*(lambda+1)/(a+1)
	last := a1 / b1
	value := Span{last, last}
	steps := 1
	for m := 1.0; m < b; m++ {
		d := (a + 2*m - 1) / p
		alpha := (a + m - 1) * (a + b + m - 1) / d * m * (b - m) / d
		be := beta(m)
		a0, a1 = a1, be*a1+alpha*a0
		b0, b1 = b1, be*b1+alpha*b0
		steps++
		next := a1 / b1
		value = Span{math.Min(last, next), math.Max(last, next)}
		if value.Upper-value.Lower <= 0x1p-52*value.Lower {
			break
		}
		last = next
		if b1 > 0x1p500 {
			a0, b0, a1, b1 = a0*0x1p-500, b0*0x1p-500, a1*0x1p-500, b1*0x1p-500
		}
	}
	if float64(steps) >= b { // the fraction has ended, so the last convergent is the value
		value = Span{a1 / b1, a1 / b1}
	}
	logp, e := LogTerm(n, k, p, q)
	factor := math.Exp(logp) * a * q
	rel := e + float64(32*steps+16)*unit
	if logp < -700 {
		// The result may be below the smallest normal float64. Bounds on relative errors do not hold there, so the
		// lower end is 0. The upper end uses the fact that P(Bin(n, p) = k) is below 2e⁻⁷⁰⁰.
		return Span{0, math.Exp(-700) * a * q * value.Upper * 2}
	}
	return Span{factor * value.Lower * (1 - 2*rel), factor * value.Upper * (1 + 2*rel)}
}
