package experiment

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// The arrangement channelsLast permutes the values of an example. In the permuted input, the values of two channels
// alternate.
var channelsLast = graph.Arrangement{Perm: []int{0, 2, 4, 1, 3, 5}, Channels: 2, Layout: graph.HWC}

// The function 'arranged' returns the model's input for an example. The input's value at the position d is the
// example's value at the position Perm[d].
func arranged(example []float32) []float32 {
	in := make([]float32, len(example))
	channelsLast.Arrange(in, example)
	return in
}

// Without noise the model must receive (x − mean)/std, where x is the data's value. Mean and std belong to the value's
// channel. The model's input must not depend on the lattice of the noise.
func TestInputIsTheExample(t *testing.T) {
	mean, std := []float64{0.25, -0.5}, []float64{0.5, 4}
	channel := func(d int) int { return d % 2 }
	for _, tt := range []struct {
		name      string
		data      dataset.Lattice
		sigma     float64
		example   []float32
		quantised bool
	}{
		{"bytes", byteLattice(0, 1), 0.5, []float32{0, 1, 17. / 255, 254. / 255, 1. / 255, 100. / 255}, false},
		{"bytes, refined", byteLattice(0, 1), 0.01, []float32{0, 1, 17. / 255, 254. / 255, 1. / 255, 100. / 255}, false},
		{"bytes from 3 on", byteLattice(3./255, 9./255), 0.01, []float32{3. / 255, 9. / 255, 4. / 255, 5. / 255, 6. / 255, 7. / 255}, false},
		{"quantised", dataset.Lattice{Low: -1, High: 2}, 0.5, []float32{-1, 2, 0.123456, 0, 1.999, 0.7}, true},
		{"bytes under much noise", byteLattice(0, 1), 20, []float32{0, 1, 17. / 255, 254. / 255, 1. / 255, 100. / 255}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &noise{Arrangement: channelsLast, channel: channel, data: tt.data}
			if err := n.prepare(law.Gaussian, tt.sigma, mean, std); err != nil {
				t.Fatal(err)
			}
			input, quantisation, err := n.input(tt.example)
			if err != nil {
				t.Fatal(err)
			}
			step, _ := n.step.Float64()
			// The step must be at most σ/30.
			if step > tt.sigma/30 {
				t.Errorf("the step is %v for σ = %v", step, tt.sigma)
			}
			in := make([]float32, len(tt.example))
			input.(smoothing.LatticeInput).Clean(in)
			var least, most float64
			for d, x := range arranged(tt.example) {
				got := float64(in[d])*std[d%2] + mean[d%2]
				tolerance := 4e-7 * (1 + math.Abs(got))
				if tt.quantised {
					tolerance += step / 2
				}
				if math.Abs(got-float64(x)) > tolerance {
					t.Errorf("value %d is %v in the model, %v in the data", d, got, x)
				}
				least, most = least+step*step/4, most+step*step
			}
			// Let q(x) be the example x after rounding to a lattice of step g. The quantisation is the norm of the
			// vector with the coordinates |x − q(x)| + g/2. Each of its D coordinates is between g/2 and g, so the norm
			// is between √D·g/2 and √D·g.
			if tt.quantised && !(quantisation >= math.Sqrt(least) && quantisation <= math.Sqrt(most)*1.001) || !tt.quantised && quantisation != 0 {
				t.Errorf("quantisation %v, want %v to %v", quantisation, math.Sqrt(least), math.Sqrt(most))
			}
			d := n.describe()
			if d.Quantised != tt.quantised || d.Step != n.step.RatString() || d.Table != n.table.Digest() || d.Eta != n.table.Eta ||
				d.Distribution != n.table.Name() || d.Entries != n.table.Entries() || d.Inputs != tt.data.String() {
				t.Errorf("described as %+v", d)
			}
			if low, high := float64(tt.data.Low), float64(tt.data.High); tt.quantised && (d.Low != low || d.High != high) || !tt.quantised && (d.Low != 0 || d.High != 0) {
				t.Errorf("described as from %v to %v", d.Low, d.High)
			}
		})
	}
}

func byteLattice(low, high float32) dataset.Lattice {
	return dataset.Lattice{Kind: dataset.ByteLattice, Step: big.NewRat(1, 255), Low: low, High: high}
}

// The noise at the model's input must have the mean 0 and the standard deviation σ/std.
func TestInputHasItsNoise(t *testing.T) {
	const sigma, samples = 0.3, 20000
	std := []float64{0.5, 4}
	example := []float32{0, 1, 17. / 255, 254. / 255, 1. / 255, 100. / 255}
	for _, kind := range []spec.NoiseKind{spec.Lattice, spec.Float} {
		n := &noise{Arrangement: channelsLast, channel: func(d int) int { return d % 2 }, data: byteLattice(0, 1)}
		err := n.prepare(law.Gaussian, sigma, []float64{0, 0}, std)
		if kind == spec.Float {
			n.lattice = nil
			n.float, err = newNormalisation(spec.Spec{Smoothing: spec.Smoothing{Sigma: sigma}, Conditions: spec.Conditions{Std: std}}, channelsLast, 6)
		}
		if err != nil {
			t.Fatal(err)
		}
		input, _, err := n.input(example)
		if err != nil {
			t.Fatal(err)
		}
		in, sums, squares := make([]float32, 6), make([]float64, 6), make([]float64, 6)
		for i := range int64(samples) {
			input.Perturb(in, smoothing.NewStream(1, 0, smoothing.Estimation), i)
			for d, x := range in {
				v := (float64(x)*std[d%2] - float64(arranged(example)[d])) / sigma
				sums[d], squares[d] = sums[d]+v, squares[d]+v*v
			}
		}
		for d := range in {
			// The tolerances are five standard errors of the mean and of the variance of 20,000 normal values.
			if mean := sums[d] / samples; math.Abs(mean) > 0.036 {
				t.Errorf("%s: the noise of value %d has the mean %.3fσ", kind, d, mean)
			}
			if variance := squares[d] / samples; math.Abs(variance-1) > 0.05 {
				t.Errorf("%s: the noise of value %d has the variance %.3fσ²", kind, d, variance)
			}
		}
	}
}

// This test is about floating-point noise (--noise float), not about noise on a lattice. Without the noise, the model's
// input is (x − mean)/std. Let s be the smallest float32 with s·std ≥ σ. The scale of the noise equals s, up to a unit
// in the last place.
func TestNormalisation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sigma := math.Exp(3 * r.NormFloat64())
		mean := []float64{r.NormFloat64(), r.NormFloat64()}
		std := []float64{math.Exp(r.NormFloat64()), math.Exp(r.NormFloat64())}
		n, err := newNormalisation(spec.Spec{Smoothing: spec.Smoothing{Sigma: sigma}, Conditions: spec.Conditions{Mean: mean, Std: std}}, channelsLast, 6)
		if err != nil {
			t.Fatal(err)
		}
		example := []float32{r.Float32(), r.Float32(), r.Float32(), r.Float32(), r.Float32(), r.Float32()}
		for d, got := range n.clean(example) {
			c := d % 2
			if want := (float64(arranged(example)[d]) - mean[c]) / std[c]; math.Abs(float64(got)-want) > 1e-6*(1+math.Abs(mean[c]))/std[c] {
				t.Errorf("value %d is %v, want %v", d, got, want)
			}
			s := n.scale[d]
			if float64(s)*float64(float32(std[c])) < sigma || float64(s)*std[c] > sigma*(1+4e-7) {
				t.Errorf("scale %v times %v is not σ = %v", s, std[c], sigma)
			}
		}
	}
}

func TestChannels(t *testing.T) {
	a := graph.Arrangement{Channels: 3}
	for _, tt := range []struct {
		flag   string
		values []float64
		ok     bool
	}{
		{"mean", nil, true}, {"mean", []float64{0.5}, true}, {"mean", []float64{0, -1, 2}, true}, {"mean", []float64{1, 2}, false},
		{"mean", []float64{math.NaN()}, false}, {"mean", []float64{1e39}, false}, {"mean", []float64{1, 2, math.Inf(1)}, false},
		{"std", []float64{0}, false}, {"std", []float64{1, 1, -1}, false}, {"std", []float64{1e-46}, false}, {"std", []float64{0.5, 1, 2}, true},
	} {
		got, err := channels(param.Name(tt.flag), tt.values, 7, a)
		if (err == nil) != tt.ok {
			t.Errorf("--%s %v: error %v", tt.flag, tt.values, err)
		}
		if tt.values == nil && (len(got) != 1 || got[0] != 7) {
			t.Errorf("--%s not given is %v", tt.flag, got)
		}
	}
}

// The conversion of float64 numbers to float32 reduces every radius. Under a law that certifies in L1, this reduction
// must be measured in L1, both for the example and for the perturbed inputs.
func TestReadingInTheNormOfTheLaw(t *testing.T) {
	example := dataset.Example{Values: make([]float32, 784), Rounding: 0.25, RoundingL1: 3}
	data := dataset.Lattice{Low: -8, High: 4, Rounded: true}
	for l, want := range map[law.Additive]float64{law.Gaussian: 0.25 + 28*8*0x1p-24, law.Laplace: 3 + 784*8*0x1p-24, law.Uniform: 3 + 784*8*0x1p-24} {
		n := &noise{law: l, data: data, quantise: new(smoothing.Quantiser)}
		if got := n.reading(example); !(got >= want) || got > want*(1+1e-12) {
			t.Errorf("%s: %v is taken off, want %v", l.Name(), got, want)
		}
	}
}
