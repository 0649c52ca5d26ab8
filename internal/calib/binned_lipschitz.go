package calib

import (
	"cmp"
	"math"
)

// BinnedLipschitz returns an upper bound on the calibration error of a classifier whose scores were perturbed by Sech
// with bandwidth h. The perturbation bounds the first two derivatives of the calibration function η by b1 and b2 (see
// the function 'derivatives'). Like BinnedVariation, the method needs one concentration step for all partitions of the
// sorted scores:
//
//	CE ≤ min_k A_k + t,  A_k = (1/n)Σ|s_i − ŷ_i| + R_k.
//
// Here k runs over the partitions, R_k is a remainder, and t is the concentration step of oneStep. Each R_k below is a
// sum over the bins b, and p_b is the share of the scores in bin b. η_i stands for η(s_i). In the first-order bound, ŷ
// is the mean label of the bin. The mean absolute deviation of the η_i of a bin is at most the mean of |η_i−η_j| over
// all i and j of the bin. It is also at most the standard deviation of the η_i. So
//
//	R_k = Σ p_b·min(½, b1·mean|s_i−s_j|, b1·sd(s)).
//
// Second order: ŷ is the line fitted to the labels of the bin by least squares. Let det_ijk be the determinant of the
// matrix whose rows are (1, s, η) at the points i, j and k. By Cauchy–Binet, the residual sum of squares of η is
// Σdet²/Σ(s_i−s_j)². The sum in the numerator is over triples of points, and the sum in the denominator is over pairs.
// det is the product of two factors. One factor is the second divided difference of η, which is at most b2/2. The other
// factor is the Vandermonde determinant, which is the value of det for η = s². So the residual sum of squares of η is
// at most (b2/2)² times the residual sum of squares of the parabola s². With the central moments μ2, μ3 and μ4 of the
// scores in the bin,
//
//	R_k = Σ p_b·min(½, b1·sd(s), ½b2·√(μ4 − μ2² − μ3²/μ2))
//
// The term b1·sd(s) is valid because the mean squared residual of a least-squares line is at most that of a constant.
// The term b1·mean|s_i−s_j| is missing from this minimum, because it bounds the mean absolute deviation from a
// constant. The residuals of the line have a smaller mean square than those of a constant, but their mean absolute
// value can be larger. For evenly spaced scores the third term of the minimum is two thirds of ½b2·√μ4. If the scores
// of a bin have a standard deviation below 2⁻²⁰, a slope would be rounding noise, so ŷ is the mean label. In the second
// order, the map from labels to ŷ is still a projection, but the absolute values of the coefficients h_i of oneStep can
// exceed 1. Only Σh_i² ≤ n is known, so oneStep uses only its second exponent.
//
// If there are at least secondOrderFrom scores, the first-order bound and the second-order bound each get half of the
// failure probability δ₁ (see oneStep). For fewer scores the first order always gives the smaller bound, so the code
// does not use the second order.
func BinnedLipschitz(s *Sample, delta, bandwidth float64) (Bound, error) {
	if err := cmp.Or(s.check(delta), checkBandwidth(bandwidth)); err != nil {
		return Bound{}, err
	}
	b1, b2 := derivatives(bandwidth)
	n := float64(s.N())
	orders := 1
	if s.N() >= secondOrderFrom {
		orders = 2
	}
	step := newOneStep(s, delta, orders*partitions(s.N()))
	first, second := candidate{gap: math.Inf(1)}, candidate{gap: math.Inf(1)}
	s.eachPartition(func(_ int, bins []bin) {
		r1, r2 := 0.0, 0.0
		for i := range bins {
			b := &bins[i]
			r1 += b.n * b.constantRemainder(b1)
			r2 += b.n * b.lineRemainder(b1, b2)
		}
		if r1 /= n; r1 < first.sum() {
			first.keepLess(candidate{s.meanGap(bins), r1, len(bins)})
		}
		if r2 /= n; orders == 2 && r2 < second.sum() {
			second.keepLess(candidate{s.meanLineGap(bins), r2, len(bins)})
		}
	})
	bound, err := step.bound(first, "smoothness", delta, true)
	if orders == 1 || err != nil {
		return bound, err
	}
	other, err := step.bound(second, "smoothness", delta, false)
	if other.Value < bound.Value {
		other.OfSample = min(other.OfSample, bound.OfSample)
		return other, err
	}
	bound.OfSample = min(other.OfSample, bound.OfSample)
	return bound, err
}

const secondOrderFrom = 10_000

// constantRemainder returns a bound on the mean of |η_i − η̄| in the bin, where η̄ is the mean of the η_i.
func (b *bin) constantRemainder(b1 float64) float64 {
	return min(0.5, b1*2*max(0, b.pairs)/(b.n*b.n), b1*math.Sqrt(b.m2/b.n))
}

// narrow reports whether the scores of the bin are too close together to fit a slope.
func (b *bin) narrow() bool { return b.m2 < b.n*0x1p-40 }

// lineRemainder returns a bound on the mean absolute deviation of the η_i of the bin from their least-squares line.
func (b *bin) lineRemainder(b1, b2 float64) float64 {
	if b.narrow() {
		return b.constantRemainder(b1)
	}
	mu2, mu3, mu4 := b.m2/b.n, b.m3/b.n, b.m4/b.n
	// Rounding can lower the difference of moments by about 2⁻⁵³·mu4, so the code adds 1e-12·mu4.
	parabola := max(0, mu4-mu2*mu2-mu3*mu3/mu2) + 1e-12*mu4
	return min(0.5, b1*math.Sqrt(mu2), b2/2*math.Sqrt(parabola))
}

// meanLineGap returns (1/n)Σ|s_i − ŷ_i|. In each bin, a line is fitted to the labels, and ŷ_i is the value of this line
// at s_i.
func (s *Sample) meanLineGap(bins []bin) float64 {
	total := 0.0
	for i := range bins {
		b := &bins[i]
		slope := 0.0
		if !b.narrow() {
			slope = b.cross / b.m2
		}
		// s − ȳ − slope·(s−s̄) = (1−slope)(s−s̄) + (s̄−ȳ)
		factor, offset, sum := 1-slope, b.score-b.labels/b.n, 0.0
		for _, p := range s.packed[b.from:b.to] {
			score, _ := unpack(p)
			sum += math.Abs(factor*(score-b.score) + offset)
		}
		total += sum
	}
	return total / float64(len(s.packed))
}
