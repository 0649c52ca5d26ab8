package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// The constant 'unit' is the unit round-off of float64. The code states bounds on rounding errors as multiples of
// 'unit'.
const unit = 0x1p-53

// A scale is the function Q of a margin Q(p_A) − Q(p_B). F is the inverse of Q. For the first margin, p_A − p_B, Q is
// the identity. For the second margin, Q is the law's quantile function.
type scale interface {
	// low(p) and high(p) enclose Q(p), and near(p) approximates Q(p).
	low(p float64) float64
	high(p float64) float64
	near(p float64) float64
	// margin returns a lower bound on the margin for p_A ≥ a, 1−p_B ≥ b.
	margin(a, b float64) float64
	// oneSided returns a lower bound on the margin for p_A ≥ p > ½, p_B ≤ 1−p.
	oneSided(p float64) float64
	// The method 'widest' approximates the largest margin, Q(1) − Q(0).
	widest() float64

	// The frontier of a margin L > 0 is the curve q1 = F(L + Q(q2)), parametrised by y = √q2. (The type 'ranks' has
	// another curve.) On the frontier, q1 is concave in q2. The method 'end' returns the end of the frontier, where q1
	// + q2 = 1. The method 'point' returns a point on the frontier or just above it (with a larger q1), and the slope
	// dq1/dq2. The method 'reach' takes a probability and returns a number y. For every parameter from 0 to this y, the
	// point of the frontier has a q1 of at most the given probability.
	end(margin float64) (q1, q2 float64)
	point(margin, y float64) (q1, q2, slope float64)
	reach(margin, q1 float64) float64
	// density approximates the derivative of F at Q(p).
	density(p float64) float64
}

// scale returns the function Q of the target's margin. For the first margin, p_A − p_B, Q is the identity. For the
// second margin, Q is the law's quantile function.
func (t Target) scale() scale {
	if t.Margin == FirstMargin {
		return probabilities{}
	}
	return quantiles{t.additive()}
}

// The type 'probabilities' is the scale Q(p) = p.
type probabilities struct{}

func (probabilities) low(p float64) float64      { return p }
func (probabilities) high(p float64) float64     { return p }
func (probabilities) near(p float64) float64     { return p }
func (probabilities) oneSided(p float64) float64 { return nudgeDown(2*p - 1) }
func (probabilities) widest() float64            { return 1 }
func (probabilities) density(float64) float64    { return 1 }

// margin returns a lower bound on a + b − 1 = (a − ½) + (b − ½). Each difference has a rounding error of at most
// unit/2. The term 4·unit covers all rounding errors.
func (probabilities) margin(a, b float64) float64 { return (a - 0.5) + (b - 0.5) - 4*unit }

func (probabilities) end(margin float64) (q1, q2 float64) {
	return (1 + margin) / 2 * lift, (1 - margin) / 2
}

func (probabilities) point(margin, y float64) (q1, q2, slope float64) {
	return (y*y + margin) * lift, y * y, 1
}

func (probabilities) reach(margin, q1 float64) float64 {
	return math.Sqrt(math.Max(0, q1-margin-8*unit)) * (1 - 4*unit)
}

// The type 'quantiles' is the scale whose Q is the quantile function of a law. The noise has the scale parameter 1.
type quantiles struct{ law.Additive }

func (q quantiles) low(p float64) float64      { return law.Low(q.Additive, p) }
func (q quantiles) high(p float64) float64     { return law.High(q.Additive, p) }
func (q quantiles) near(p float64) float64     { return q.Quantile(p) }
func (q quantiles) oneSided(p float64) float64 { return 2 * q.low(p) }
func (q quantiles) widest() float64            { return q.Quantile(1) - q.Quantile(0) }
func (q quantiles) density(p float64) float64  { return q.Density(q.Quantile(p)) }

func (q quantiles) margin(a, b float64) float64 {
	m := q.low(a) + q.low(b)
	return m - math.Abs(m)*2*unit
}

func (q quantiles) end(margin float64) (q1, q2 float64) {
	q1, _ = q.CDF(margin / 2)
	q2, _ = q.CDF(-margin / 2)
	return q1 * lift, q2
}

func (q quantiles) point(margin, y float64) (q1, q2, slope float64) {
	z := q.Quantile(y * y)
	q1, _ = q.CDF(margin + z)
	q2, _ = q.CDF(z)
	return q1 * lift, q2, q.Slope(z, margin)
}

func (q quantiles) reach(margin, q1 float64) float64 {
	z := q.low(q1) - margin
	z -= 8 * unit * (math.Abs(z) + margin + 1)
	// The method 'point' computes z again as Q(y²), where y is the result of 'reach'. This computation has rounding
	// errors. Because of these errors, the code subtracts 1e-9 from z.
	q2, _ := q.CDF(z - 1e-9)
	return math.Sqrt(q2)
}
