package experiment

import (
	"fmt"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// Request returns an example with the values of a request. The values are in the order of the data. Request returns an
// InputError for a value that is not finite. If the lattice of the noise contains the run's data, the argument 'round'
// says what happens to values off the lattice of the data. If 'round' is false, Request returns an InputError for such
// values. If 'round' is true, Request calls mayRound. If mayRound returns an error, Request returns this error.
// Otherwise it moves these values to the nearest lattice points. The example's field 'Quantisation' is then an upper
// bound on the distance that they move. Whether values moved or not, Request then returns an InputError if a value is
// outside the range of the noise.
func (e *Experiment) Request(index int, values []float32, round bool) (Example, error) {
	n := *e.noise
	for d, x := range values {
		if x-x != 0 {
			return Example{}, spec.BadInputf("value %d is %v: want a finite number", d, x)
		}
	}
	if want := e.model.InputLen(); len(values) != want {
		return Example{}, spec.BadInputf("%d values: want %d", len(values), want)
	}
	if n.rounds = n.onLattice() && n.quantise == nil && !n.data.Holds(values); n.rounds {
		if err := e.mayRound(values, round); err != nil {
			return Example{}, err
		}
	}
	input, quantisation, err := n.input(values)
	if err != nil {
		return Example{}, spec.BadInput(err)
	}
	return Example{Index: index, Label: certify.UnknownLabel, Input: input, Quantisation: quantisation}, nil
}

// mayRound returns an error if Request must not move the values to lattice points. If the argument 'round' is false,
// Request must move no value. If 'round' is true and the lattice is k/255 or k/65535, Request may move every value:
// values below 0 move to 0, and values above 1 move to 1. On other lattices, Request may move values only if all values
// are in the range of the data.
func (e *Experiment) mayRound(values []float32, round bool) error {
	data := e.noise.data
	if !round {
		return hint.Add(spec.BadInputf("the run certified inputs whose %s, and a value here is not", data),
			"%s round moves each value to the nearest point and reports how far the input moved", param.OffLattice)
	}
	if data.Kind != dataset.BinaryLattice {
		return nil
	}
	for d, x := range values {
		if x < data.Low || x > data.High {
			return spec.BadInput(fmt.Errorf("value %d is %v: want %v to %v", d, x, data.Low, data.High))
		}
	}
	return nil
}

// The method 'requests' returns a data set for an experiment whose inputs come in requests. The data set has the shape
// and the range of these inputs.
func (e *Experiment) requests() (*dataset.Dataset, error) {
	r := e.Spec.Requests
	low, high := float32(0), float32(1)
	if l := e.Spec.Lattice; l != nil && l.Quantised {
		low, high = float32(l.Low), float32(l.High)
	}
	return dataset.Requests(r.Shape, r.Bytes, low, high)
}
