package experiment

import "github.com/rscert/rscert/internal/smoothing"

// Allowance returns an upper bound on ‖q(x′) − q(x)‖ − ‖x′ − x‖ in the norm of the law, for any two inputs x and x′
// with real values (smoothing.Allowance). Here q rounds an input to the lattice. This rounding is part of the
// classifier. If the lattice of the noise contains the data, there is no rounding, so the result is 0.
//
// For a certificate, rscert does not subtract the Allowance from the radius, but a smaller number
// (Example.Quantisation). This number suffices because a certificate belongs to a known clean input x. A statement
// about an unknown clean input needs the Allowance.
func (e *Experiment) Allowance() float64 { return e.noise.allowance(e.model.InputLen()) }

// The method 'allowance' computes the bound of Experiment.Allowance for inputs that have 'dimensions' values.
func (n *noise) allowance(dimensions int) float64 {
	if n.quantise == nil {
		return 0
	}
	step, _ := n.step.Float64()
	return smoothing.Allowance(n.law.Norm(), step, dimensions, n.data)
}
