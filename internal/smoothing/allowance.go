package smoothing

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// When numbers of a file are read, they are rounded to float32. The interface 'reading' bounds the effect of this
// rounding. A dataset.Lattice implements the interface.
type reading interface {
	ReadingRounding(norm law.Norm, n int) float64
}

// Allowance returns an upper bound on ‖q(x′) − q(x)‖ − ‖x′ − x‖ for any two inputs x and x′ with real values. Here q is
// the clamping and rounding of a Quantiser with step g. Clamping never increases the distance between x and x′. Exact
// rounding moves each value of each of the two inputs by at most g/2. So for D values the bound is g√D in L2 and g·D in
// L1. The returned bound also covers the rounding errors of the Quantiser, and the error that arises when the numbers
// of a file are read and rounded to float32.
func Allowance(norm law.Norm, step float64, dimensions int, read reading) float64 {
	sum := 0.
	for range dimensions {
		sum = norm.Add(sum, step)
	}
	// Because of rounding errors, a Quantiser can move a value by a little more than g/2, namely by up to (½ + 2⁻²⁸)·g.
	// The last factor of the product covers the additional 2⁻²⁸·g and the rounding of the sums.
	moved := norm.Length(sum) * (1 + 0x1p-26 + float64(dimensions+4)*0x1p-51)
	return math.Nextafter(moved+2*read.ReadingRounding(norm, dimensions), math.Inf(1))
}
