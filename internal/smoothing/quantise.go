package smoothing

import (
	"fmt"
	"math"
	"math/big"

	"github.com/rscert/rscert/internal/law"
)

// Quantiser rounds data that lie on no lattice to a lattice. It is part of the certified classifier. This classifier
// clamps its input to [low, high], rounds it to a multiple of step, and is smoothed on the resulting lattice:
//
//	x_c = min(max(x, low), high),  q(x) = step·round(x_c/step)
//
// where x_c/step is a float64 quotient, rounded half to even. Any language can reproduce this rounding.
type Quantiser struct {
	norm      law.Norm // norm in which perturbations are measured
	step      float64
	low, high float32
}

// maxSteps limits |x_c/step|. The limit keeps the quotient's error below 2⁻²⁸.
const maxSteps = 1 << 23

// NewQuantiser returns the quantiser with the finest lattice for which a table of the law has room. For the Gaussian
// law the step is σ/3640.
func NewQuantiser(l law.Additive, scale float64, low, high float32) (*Quantiser, error) {
	finest := l.Ratios().Greatest
	q := &Quantiser{norm: l.Norm(), step: scale / float64(finest), low: low, high: high}
	span := max(math.Abs(float64(low)), math.Abs(float64(high)))
	if !(q.step > 0x1p-1000) || !(low <= high) || !(span < maxSteps*q.step) {
		return nil, fmt.Errorf("values from %v to %v are more than %d times the noise's %s: a lattice cannot hold both",
			low, high, maxSteps/finest, l.Words().Symbol)
	}
	return q, nil
}

// Lattice returns the lattice of the quantised data.
func (q *Quantiser) Lattice() Lattice {
	return Lattice{Step: new(big.Rat).SetFloat64(q.step), Low: int(q.round(q.low)), High: int(q.round(q.high))}
}

func (q *Quantiser) round(x float32) float64 {
	return math.RoundToEven(float64(min(max(x, q.low), q.high)) / q.step)
}

// Quantise sets dst to the integers of q(x)/step. It returns the number to subtract from every radius at x, rounded up:
//
//	‖q(x+δ) − q(x)‖ ≤ ‖(x+δ)_c − x_c‖ + ‖ |x_c − q(x)| + g/2 ‖ ≤ ‖δ‖ + that second norm,
//
// in the norm of the law. The inequality holds because clamping increases no distance between two points, and rounding
// moves (x+δ)_c by at most g/2 in each coordinate. It holds for all real x + δ and for q as computed. The quotient's
// error may round a value to the farther of two neighbours, by less than 2⁻²⁸·g.
func (q *Quantiser) Quantise(dst []int32, x []float32) float64 {
	half := q.step * (.5 + 0x1p-27)
	sum := 0.
	for d, v := range x {
		k := q.round(v)
		dst[d] = int32(k)
		clamped := float64(min(max(v, q.low), q.high))
		// The conversions to float64 keep products and sums unfused. Their total error is at most 2⁻⁵² of |x_c| + g.
		moved := math.Abs(clamped-float64(k*q.step)) + float64(math.Abs(clamped)+q.step)*0x1p-51 + half
		sum = q.norm.Add(sum, moved)
	}
	// The n sums, the n products and the root have a total error below (n+2)·2⁻⁵².
	return q.norm.Length(sum) * (1 + float64(len(x)+4)*0x1p-51)
}
