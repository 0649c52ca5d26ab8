package experiment

import "math"

// Allowance returns an upper bound on ‖q(x′) − q(x)‖ − ‖x′ − x‖ in the norm of the law, for any two inputs x and x′ as
// real numbers. Here q is the rounding to the lattice, which is part of the classifier. Data on a lattice are not
// rounded, so the result is 0. For other data, each of the D values of an input moves by at most half a step g, so that
// the bound is g√D in L2 and g·D in L1, plus the rounding of the numbers in a file to float32.
//
// Certificates subtract less (Example.Quantisation), because they know the clean input x. A statement about an unknown
// clean input needs the Allowance.
func (e *Experiment) Allowance() float64 { return e.noise.allowance(e.model.InputLen()) }

// allowance returns the Allowance for inputs with this number of values.
func (n *noise) allowance(dimensions int) float64 {
	if n.quantise == nil {
		return 0
	}
	norm := n.law.Norm()
	step, _ := n.step.Float64()
	sum := 0.
	for range dimensions {
		sum = norm.Add(sum, step)
	}
	// Quantiser.Quantise moves a value by at most (½ + 2⁻²⁸)·g. The last factor covers this excess and the rounding of
	// D sums.
	rounding := norm.Length(sum) * (1 + 0x1p-26 + float64(dimensions+4)*0x1p-51)
	reading := n.data.ReadingRounding(norm, dimensions)
	return math.Nextafter(rounding+2*reading, math.Inf(1))
}
