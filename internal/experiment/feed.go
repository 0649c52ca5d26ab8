package experiment

import (
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/spec"
)

// This file feeds the model without noise, for attacks; the experiment is one of spec.NoNoise.

// Feed writes the model's input for an example's values: (x − mean)/std, in the model's order.
func (e *Experiment) Feed(in, values []float32) { e.noise.float.feed(in, values) }

// Pull writes the gradient in an example's values, given the gradient in the model's input.
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
