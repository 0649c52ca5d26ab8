package experiment

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// These are the limits of the noise's standard deviation at the model's input. Below minScale, the noise is lost in
// float32. Above maxScale, the noise may become infinite.
const minScale, maxScale = 1e-30, 1e30

// normalisation computes (x − mean)/std for each value of the model's input. It is for noise in floats; for noise on a
// lattice, rscert uses a table of values instead.
type normalisation struct {
	graph.Arrangement
	mean, std []float32
	scale     []float32 // the noise's standard deviation at each value of the model's input
}

func newNormalisation(p spec.Spec, a graph.Arrangement, inputLen int) (n normalisation, err error) {
	if n, err = noiseless(p, a, inputLen); err != nil {
		return n, err
	}
	n.scale = noiseScale(p.Sigma, n.std)
	if low, high := slices.Min(n.scale), slices.Max(n.scale); low < minScale || high > maxScale {
		return n, spec.BadInputf("%s %v over %s %v: noise of %v to %v at the model's input is beyond float32", param.Sigma, p.Sigma, param.Std, p.Std, low, high)
	}
	return n, nil
}

// The function 'noiseless' returns a normalisation without noise.
func noiseless(p spec.Spec, a graph.Arrangement, inputLen int) (n normalisation, err error) {
	n.Arrangement = a
	if n.mean, err = spread(param.Mean, p.Mean, 0, a, inputLen); err != nil {
		return n, err
	}
	n.std, err = spread(param.Std, p.Std, 1, a, inputLen)
	return n, err
}

// spread returns the parameter 'mean' or 'std' for each value of the model's input. The argument 'values' holds one
// number for all channels or one number per channel. If 'values' is empty, spread returns the argument 'absent' for
// every value.
func spread(of param.Name, values []float64, absent float64, a graph.Arrangement, inputLen int) ([]float32, error) {
	values, err := channels(of, values, absent, a)
	if err != nil {
		return nil, err
	}
	to := make([]float32, inputLen)
	for j := range to {
		v := values[0]
		if len(values) > 1 {
			v = values[a.Channel(j)]
		}
		to[j] = float32(v)
	}
	return to, nil
}

// The method 'clean' returns the model's input for an example, and adds no noise.
func (n normalisation) clean(example []float32) []float32 {
	in := make([]float32, len(n.mean))
	n.feed(in, example)
	return in
}

// feed writes the model's input for an example to the argument 'in', and adds no noise.
func (n normalisation) feed(in, example []float32) {
	n.Arrange(in, example)
	for j, v := range in {
		in[j] = (v - n.mean[j]) / n.std[j]
	}
}

// noiseScale returns the noise's standard deviation at the model's input. It rounds up, because a radius that is
// certified for σ also holds for slightly more noise.
func noiseScale(sigma float64, std []float32) []float32 {
	scale := make([]float32, len(std))
	for j, std := range std {
		s := float32(sigma / float64(std))
		if float64(s)*float64(std) < sigma {
			s = math.Nextafter32(s, float32(math.Inf(1)))
		}
		scale[j] = s
	}
	return scale
}
