package certify

import "math"

// span encloses a positive number: lo ≤ value ≤ hi, in spite of rounding.
type span struct{ lo, hi float64 }

// stirlingError returns ln n! − ln(√(2πn)(n/e)ⁿ), n ≥ 1, to within 4·unit
// (absolute). Up to 15 from the factorial; beyond, the series of DLMF 5.11.1
// whose first left-out term bounds its error (5.11(ii)): 691/(360360·16¹¹) < 2·unit.
func stirlingError(n int64) float64 {
	if n < int64(len(stirlingTable)) {
		return stirlingTable[n]
	}
	x := float64(n)
	y := 1 / (x * x)
	return (1.0/12 - y*(1.0/360-y*(1.0/1260-y*(1.0/1680-y*(1.0/1188))))) / x
}

// stirlingTable holds ln n! − (n+½)ln n + n − ½ln 2π, computed to 40 digits
// (TestStirlingTable computes it again with math/big); entry 0 is not used.
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

// deviance returns D = x ln(x/m) + m − x for x ≥ 0, m > 0; the exponent of the
// saddle-point form of a Poisson or binomial term. Its absolute error is at
// most 9·unit·(|x−m| + D): v = (x−m)/m has relative error 2·unit and D has
// derivative m·log1p(v) in v; log1p (within 2·unit), the product, the
// difference and the last product each cost a few units of m(1+v)|log1p v| ≤
// |x−m| + D or of m|v| = |x−m|.
func deviance(x, m float64) float64 {
	if x == 0 {
		return m
	}
	v := (x - m) / m
	return m * ((1+v)*math.Log1p(v) - v)
}

// binomialLog returns ln P(Bin(n, p) = k), 0 < p < 1, q = 1−p to within 2·unit
// relative, 0 ≤ k ≤ n, and a bound on its absolute error.
//
// Loader's saddle-point form (2000): ½ ln(n/(2πk(n−k))) + δ(n) − δ(k) − δ(n−k) −
// D(k, np) − D(n−k, nq), δ the Stirling error. The means np, nq carry a
// relative error of 3·unit, which moves D by 3·unit·|k − np| each.
func binomialLog(n, k int64, p, q float64) (logp, absErr float64) {
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

// powerLog returns ln (1−p)ᴺ, q = 1−p, to within 6·unit relative. Of p and q the
// larger, if not exact, is rounded to within unit; the smaller is used.
func powerLog(N, p, q float64) float64 {
	if p < 0.5 {
		return N * math.Log1p(-p)
	}
	return N * math.Log(q)
}

// halfLogTwoPi is ½ ln 2π, OEIS A075700.
const halfLogTwoPi = 0.91893853320467274178

// binomialTail encloses P(Bin(n, p) ≥ k) for 0 ≤ p ≤ 1.
func binomialTail(n, k int64, p float64) span {
	switch {
	case k <= 0:
		return span{1, 1}
	case k > n || p <= 0:
		return span{0, 0}
	case p >= 1:
		return span{1, 1}
	}
	q := 1 - p
	if float64(k) > (float64(n)+1)*p {
		return binomialSum(n, k, p, q)
	}
	// The complement P(X ≤ k−1) = P(Bin(n, q) ≥ n−k+1), which is below about ½.
	c := binomialSum(n, n-k+1, q, p)
	return span{math.Max(0, (1-c.hi)*(1-2*unit)), math.Min(1, (1-c.lo)*(1+2*unit))}
}

// binomialSum encloses P(Bin(n, p) ≥ k) for k above the mean, q = 1−p: the term
// at k times 1 + r_k + r_k·r_{k+1} + …, r_j = (n−j)p/((j+1)q) < 1. All terms are
// positive and r_j falls, so the part left out is below a geometric series;
// J factors of relative error 6·unit each leave the sum within 7J·unit.
func binomialSum(n, k int64, p, q float64) span {
	logp, e := binomialLog(n, k, p, q)
	sum, term := 1.0, 1.0
	odds := p / q
	j := k
	var rest float64
	for ; j < n; j++ {
		r := float64(n-j) / float64(j+1) * odds
		term *= r
		sum += term
		if term < 0x1p-60*sum*(1-r) {
			rest = 2 * term * r / (1 - r)
			break
		}
	}
	rel := e + 7*float64(j-k+2)*unit
	v := math.Exp(logp)
	if logp < -700 {
		// Out of the range of normal numbers: only the upper end is promised.
		return span{0, math.Exp(-700) * (sum + rest) * 2}
	}
	return span{v * sum * (1 - 2*rel), v * (sum + rest) * (1 + 2*rel)}
}
