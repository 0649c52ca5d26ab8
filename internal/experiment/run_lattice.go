package experiment

import (
	"context"
	"math"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// findLattice determines the lattice of the data. This is the lattice in the spec or, if the spec has none, the lattice
// of the data's values.
func (e *Experiment) findLattice(ctx context.Context, n *noise) (err error) {
	fixed := e.Spec.Lattice
	if fixed == nil {
		n.data, err = e.data.Lattice(ctx)
		return err
	}
	l, err := dataset.ParseLattice(fixed.Inputs)
	if err != nil {
		return err
	}
	l, on, err := e.data.LatticeAs(ctx, l)
	if err != nil {
		return err
	}
	n.data = l
	switch {
	case fixed.Quantised:
		n.data.Low, n.data.High = float32(fixed.Low), float32(fixed.High)
	case on:
	case !fixed.Round:
		return hint.Add(spec.BadInputf("%s: the run certified inputs whose %s, and some values here are not", e.Spec.Data, l),
			"%s round moves each value to the nearest point and reports how far the input moved", param.OffLattice)
	default:
		n.rounds = true
		n.data.Low, n.data.High = n.roundedRange()
	}
	return nil
}

// roundedRange returns the range of the data after rounding.
func (n *noise) roundedRange() (low, high float32) {
	step, _ := n.data.Step.Float64()
	at := func(x float32) float32 { return float32(float64(n.data.Nearest(x)) * step) }
	return at(n.data.Low), at(n.data.High)
}

// roundTo sets the slice 'integers' to the lattice points nearest to the values. It returns an upper bound, in the norm
// of the law, on the distance that the values move.
func (n *noise) roundTo(integers []int32, values []float32) float64 {
	step, _ := n.data.Step.Float64()
	norm, sum := n.law.Norm(), 0.
	for d, x := range values {
		k := n.data.Nearest(x)
		integers[d] = toInt32(n.refined * k)
		point := float64(k) * step
		// The conversions to float64 prevent fused operations. The rounding errors are at most 2⁻⁵²·(|x| + |point|).
		// The code adds twice this bound.
		moved := math.Abs(float64(x)-float64(point)) + float64(math.Abs(float64(x))+math.Abs(point))*0x1p-51
		sum = norm.Add(sum, moved)
	}
	return norm.Length(sum) * (1 + float64(len(values)+4)*0x1p-51)
}
