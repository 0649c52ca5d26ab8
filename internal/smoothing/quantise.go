package smoothing

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/rscert/rscert/internal/law"
)

// Quantiser rounds data to a lattice. It is for data that do not already lie on a lattice. Quantisation is part of the
// certified classifier. This classifier clamps each value x of its input to [low, high], rounds the value to a multiple
// of the step, and smooths on the resulting lattice. The formulas are
//
//	x_c = min(max(x, low), high),  q(x) = step·round(x_c/step)
//
// where x_c/step is a float64 quotient, and 'round' rounds halves to even. Programs in any language can reproduce this
// rounding.
type Quantiser struct {
	norm      law.Norm // norm in which perturbations are measured
	step      float64
	low, high float32
}

// maxSteps limits |x_c/step|. With this limit, the quotient's error is below 2⁻²⁸.
const maxSteps = 1 << 23

// NewQuantiser returns the quantiser with the finest lattice that the law allows (Ratios.Greatest). For the Gaussian
// law the step is σ/3640.
func NewQuantiser(l law.Additive, scale float64, low, high float32) (*Quantiser, error) {
	return newQuantiser(l, scale, scale/float64(l.Ratios().Greatest), low, high)
}

// newQuantiser returns the quantiser with the given step.
func newQuantiser(l law.Law, scale, step float64, low, high float32) (*Quantiser, error) {
	finest := l.Ratios().Greatest
	q := &Quantiser{norm: l.Norm(), step: step, low: low, high: high}
	span := max(math.Abs(float64(low)), math.Abs(float64(high)))
	if !(q.step > 0x1p-1000) || !(low <= high) || !(span < maxSteps*q.step) {
		return nil, fmt.Errorf("values from %v to %v are more than %d times the noise's %s: %w",
			low, high, maxSteps/finest, l.Words().Symbol, ErrTooWide)
	}
	return q, nil
}

// ErrTooWide means that the range of the data is too wide for a lattice that is fine enough for the noise.
var ErrTooWide = errors.New("a lattice cannot hold both")

// Lattice returns the lattice of the quantised data.
func (q *Quantiser) Lattice() Lattice {
	return Lattice{Step: new(big.Rat).SetFloat64(q.step), Low: int(q.round(q.low)), High: int(q.round(q.high))}
}

func (q *Quantiser) round(x float32) float64 {
	return math.RoundToEven(float64(min(max(x, q.low), q.high)) / q.step)
}

// Quantise sets dst to the integers q(x)/step. It also returns the deduction, rounded up. The deduction must be
// subtracted from every radius at x. The deduction follows from
//
//	‖q(x+δ) − q(x)‖ ≤ ‖(x+δ)_c − x_c‖ + ‖ |x_c − q(x)| + g/2 ‖ ≤ ‖δ‖ + ‖ |x_c − q(x)| + g/2 ‖,
//
// in the norm of the law, where g is the step and x_c is x clamped to the quantiser's range. The inequality holds
// because clamping never increases the distance between two points, and rounding moves (x+δ)_c by at most g/2 in each
// coordinate. The inequality holds for all real x + δ. It also holds for the q that the program computes, although this
// computation has rounding errors. Because of the error of the computed quotient, q may round a value to the second
// nearest multiple of g instead of the nearest. But then the value is almost equally far from both multiples: the
// distances differ by less than 2⁻²⁸·g.
func (q *Quantiser) Quantise(dst []int32, x []float32) float64 {
	sum := 0.
	for d, v := range x {
		k, moved := q.point(v)
		dst[d] = k
		sum = q.norm.Add(sum, moved)
	}
	// For n = len(x), the n sums, the n products and the root have a total relative error below (n+2)·2⁻⁵².
	return q.norm.Length(sum) * (1 + float64(len(x)+4)*0x1p-51)
}

// point returns the integer q(v)/step. It also returns |v_c − q(v)| + g/2, rounded up, where g is the step and v_c is v
// clamped to the range.
func (q *Quantiser) point(v float32) (k32 int32, moved float64) {
	k := q.round(v)
	clamped := float64(min(max(v, q.low), q.high))
	// The conversions to float64 prevent fused multiply-adds. The total rounding error of the expression is at most
	// 2⁻⁵²·(|v_c| + g).
	moved = math.Abs(clamped-float64(k*q.step)) + float64(math.Abs(clamped)+q.step)*0x1p-51 + float64(q.step*(.5+0x1p-27))
	return int32(k), moved
}

// The method 'reading' returns a bound on the sum of two rounding errors. Each error arises when rscert reads a number
// from a file and rounds it to float32. The first number belongs to the example, and was rounded to v. The second
// number is in the same place of a perturbed example. It may be any number in the quantiser's range.
func (q *Quantiser) reading(v float32) float64 {
	const half = 0x1p-24 // half a unit in the last place of v is at most half·max(|v|, 2⁻¹²⁶)
	magnitude := max(math.Abs(float64(v)), 0x1p-126) + max(math.Abs(float64(q.low)), math.Abs(float64(q.high)), 0x1p-126)
	return magnitude * half * (1 + 0x1p-50)
}
