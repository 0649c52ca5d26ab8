package experiment

import (
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// The functions in this file are for attacks. They read examples, compute the model's inputs without noise or with the
// experiment's noise, and convert gradients.

// Feed computes the model's input for an example: (x − mean)/std for each value x, in the model's order. It writes the
// input to the argument 'in'.
func (e *Experiment) Feed(in, values []float32) { e.noise.float.feed(in, values) }

// Pull converts a gradient with respect to the model's input into a gradient with respect to the example's values. It
// reads the gradient with respect to the model's input from the argument 'in', and writes the result to the argument
// 'values'.
func (e *Experiment) Pull(values, in []float32) {
	n := e.noise.float
	for j, g := range in {
		i := j
		if n.Perm != nil {
			i = n.Perm[j]
		}
		values[i] = g / n.std[j]
	}
}

// Values reads the example at a position of the data. Its errors are InputErrors.
func (e *Experiment) Values(position int) (dataset.Example, error) {
	example, err := e.data.Example(position)
	return example, spec.BadInput(err)
}

// Shape is the shape of an example.
func (e *Experiment) Shape() []int { return e.data.Shape() }

// Noisy returns the noisy inputs for arbitrary values, for example the values of a perturbed example. If DataLattice
// returns a lattice, the values must be on it.
func (e *Experiment) Noisy(values []float32) (smoothing.Input, error) {
	input, _, err := e.noise.input(values)
	return input, err
}

// DataLattice returns the lattice of the data if the inputs of the classifier must be on this lattice. The step of this
// lattice is the step of the data, even if the noise has a finer step. DataLattice returns false if the classifier
// accepts any numbers. The classifier accepts any numbers if the noise is in floats, or if the classifier itself rounds
// its inputs to a lattice.
func (e *Experiment) DataLattice() (l smoothing.Lattice, ok bool) {
	n := e.noise
	if !n.onLattice() || n.quantise != nil {
		return l, false
	}
	return smoothing.Lattice{Step: n.data.Step, Low: n.data.Index(n.data.Low), High: n.data.Index(n.data.High)}, true
}
