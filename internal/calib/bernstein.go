package calib

import "math"

// bernstein returns the radius, at level 1−δ, of the empirical Bernstein bound for the mean of n i.i.d. variables. The
// variables lie in an interval whose length is the argument 'width'. The radius is
//
//	BB(n, δ, v) = √(2 v ln(3/δ)/n) + 3·width·ln(3/δ)/n
//
// where v is the empirical variance with divisor n (Audibert, Munos & Szepesvári 2009, Theorem 1; Mnih, Szepesvári &
// Audibert 2008).
func bernstein(n int, delta, variance, width float64) float64 {
	l := math.Log(3/delta) / float64(n)
	return math.Sqrt(2*variance*l) + 3*width*l
}

// moments computes a mean and a variance by Welford's recurrence. The variance has the divisor n.
type moments struct {
	n        int
	mean, m2 float64
}

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.m2 += d * (x - m.mean)
}

func (m *moments) variance() float64 { return m.m2 / float64(m.n) }

// meanRoundoff returns a bound on the rounding error of a sum of two terms. One term is a mean of up to n numbers in
// [0, 1], and the other is the Bernstein radius of this mean. Each step of Welford's recurrence (see the type
// 'moments') changes the mean by an error of at most 2⁻⁵³. A relative error ε of the variance raises the radius by at
// most 3ε.
func meanRoundoff(n int) float64 { return 4 * float64(n) * 0x1p-53 }
