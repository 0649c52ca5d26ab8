package experiment

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// Perturbed returns the noisy inputs for the values of a perturbed example. It also returns an upper bound on the
// distance between these values and the unperturbed example x, in the norm of the run's radii. If the lattice of the
// noise contains the data, Perturbed first rounds the values and x to this lattice. Otherwise it measures the distance
// from the numbers in the data file, not from their float32 values. The noise of the experiment must be on a lattice.
func (e *Experiment) Perturbed(x dataset.Example, values []float32) (smoothing.Input, float64, error) {
	if !e.noise.onLattice() {
		return nil, 0, spec.BadInputf("the noise is in floats, not on a lattice")
	}
	if e.noise.quantise != nil {
		input, _, err := e.noise.input(values)
		if err != nil {
			return nil, 0, fmt.Errorf("example %d: %w", x.Index, err)
		}
		return input, e.noise.length(len(values), func(d int) float64 { return float64(values[d]) - float64(x.Values[d]) }) + e.noise.moved(x), nil
	}
	clean, moved := e.noise.points(x.Values), e.noise.points(values)
	steps := e.noise.length(len(values), func(d int) float64 { return float64(moved[d] - clean[d]) })
	step, _ := e.noise.step.Float64()
	arranged := make([]int32, len(moved))
	e.noise.arrange(arranged, moved)
	input, err := e.noise.place(arranged)
	if err != nil {
		return nil, 0, fmt.Errorf("example %d: %w", x.Index, err)
	}
	return input, steps * step * (1 + 0x1p-50), nil
}

// The method 'points' returns the integers of the lattice points nearest to the values.
func (n *noise) points(values []float32) []int32 {
	step, _ := n.step.Float64()
	points := make([]int32, len(values))
	for d, v := range values {
		if n.data.Holds(values[d : d+1]) { // v is a lattice point of the data, perhaps rounded to float32
			points[d] = toInt32(n.refined * n.data.Index(v))
		} else {
			points[d] = toInt32(int(math.RoundToEven(float64(v) / step)))
		}
	}
	return points
}

// arrange copies the points to dst, in the order of the model's input.
func (n *noise) arrange(dst, points []int32) {
	for d := range dst {
		from := d
		if n.Perm != nil {
			from = n.Perm[d]
		}
		dst[d] = points[from]
	}
}

// length returns the norm of a vector, rounded up. The vector has d coordinates, which the function 'coordinate'
// returns. The result is 0 only for the zero vector.
func (n *noise) length(d int, coordinate func(int) float64) float64 {
	norm, sum := n.law.Norm(), 0.
	for i := range d {
		sum = norm.Add(sum, coordinate(i))
	}
	return norm.Length(sum) * (1 + float64(d+8)*0x1p-51)
}
