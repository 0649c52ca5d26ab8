package certify

import "math"

// bernstein computes the lower bound mean − √(2V ln(2/α)/n) − 7 ln(2/α)/(3(n−1)), where V is the unbiased sample
// variance (Maurer & Pontil 2009, Theorem 4). The bound is one-sided. The logarithms contain 2/α instead of 1/α,
// because the variance is estimated. (Moutaouakil 2024, Proposition 2, prints ln(1/δ), which Maurer and Pontil prove
// only for a known variance; see moutaouakil_means.go.)
type bernstein struct {
	n     int64
	log   float64 // ln(2/α)
	count float64
	mean  float64
	m2    float64 // Σ(X−mean)², by Welford's recurrence
}

func startBernstein(n int64, alpha float64) func() lowerMean {
	return func() lowerMean { return &bernstein{n: n, log: math.Log(2 / alpha)} }
}

func (b *bernstein) add(x float64) {
	b.count++
	d := x - b.mean
	b.mean += d / b.count
	b.m2 += d * (x - b.mean)
}

func (b *bernstein) lower() float64 {
	n := float64(b.n)
	if n < 2 {
		return 0
	}
	// Each running mean is within 2(n+1)·unit of the exact value, because each step adds an error of at most one unit,
	// and later steps only average this error. So the error of each of the n terms of m2 is at most
	// 4(n+1)·unit·|X−mean| + (2(n+1)·unit)², plus a few more roundings. The bound on the error of the sum of these
	// terms uses Σ|X−mean| ≤ √(n·m2).
	e := 8 * (n + 2) * unit
	v := (b.m2 + e*math.Sqrt(n*b.m2) + n*e*e) * (1 + e) / (n - 1)
	return inUnit(b.mean-math.Sqrt(2*v*b.log/n)-7*b.log/(3*(n-1)), e)
}
