package experiment

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// noise makes the noisy inputs of examples, normalised and arranged for the model.
type noise struct {
	graph.Arrangement
	law     law.Law
	data    dataset.Lattice
	channel func(d int) int // returns the channel of a coordinate of the model's input

	// These fields are for noise on a lattice.
	lattice  *smoothing.LatticeNoise // nil for noise in floats and for the law Splitting
	split    *split                  // for the law Splitting, otherwise nil
	table    *smoothing.Table
	step     *big.Rat
	refined  int                  // steps of the noise's lattice per step of the data's lattice
	quantise *smoothing.Quantiser // nil if the noise is on the lattice of the data or on a refinement of it
	low      float64              // lowest value of quantised data
	high     float64
	rounds   bool // inputs off the lattice are rounded to lattice points

	// These fields are for noise with a scale for each column. For such noise, the field 'lattice' is nil.
	columns *smoothing.ColumnNoise
	parts   []runfolder.NoiseColumn

	// These fields are for the law Splitting.
	seed   uint64 // seed of the offsets
	inputs int    // number of values of an example

	float normalisation // for noise in floats, and for inputs without noise
	bytes bool          // the model has integer inputs and receives bytes, 255·x

	// the model receives (x − mean)/std for each value x; an empty mean counts as 0, and an empty std as 1
	mean, std []float64
}

// newNoise prepares the noise of an experiment. The experiment's model and data must be open.
func (e *Experiment) newNoise(ctx context.Context, a graph.Arrangement) (*noise, error) {
	p, n := e.Spec, &noise{Arrangement: a}
	if p.Denoiser != "" { // the denoiser takes the data's values, and the graph normalises the denoiser's outputs
		p.Mean, p.Std = nil, nil
	}
	var err error
	if n.bytes, err = e.givesBytes(ctx, p.Mean, p.Std); err != nil {
		return nil, err
	}
	if n.bytes {
		p.Std = []float64{1. / 255}
	}
	n.mean, n.std = p.Mean, p.Std
	if p.Noise == spec.NoNoise {
		p.Noise, p.Sigma = spec.Float, 1 // these values do not matter, because nothing draws noise
	}
	if p.Noise == spec.Float {
		n.float, err = newNormalisation(p, a, e.model.InputLen())
		return n, err
	}
	mean, err := channels(param.Mean, p.Mean, 0, a)
	if err != nil {
		return nil, err
	}
	std, err := channels(param.Std, p.Std, 1, a)
	if err != nil {
		return nil, err
	}
	if n.float, err = noiseless(p, a, e.model.InputLen()); err != nil {
		return nil, err
	}
	n.channel = a.Channel
	if len(mean) == 1 && len(std) == 1 { // one table of values serves all channels
		n.channel = func(int) int { return 0 }
	} else {
		mean, std = repeat(mean, a.Channels), repeat(std, a.Channels)
	}
	if p.Scaled() {
		n.law = p.Law.Law()
		return n, spec.BadInput(e.prepareColumns(ctx, n, mean, std))
	}
	if err = e.findLattice(ctx, n); err != nil {
		return nil, spec.BadInput(err)
	}
	n.seed, n.inputs = p.Seed, e.model.InputLen()
	err = n.prepare(p.Law.Law(), p.Sigma, mean, std)
	return n, spec.BadInput(e.adviseScales(ctx, err, a))
}

// prepare sets the lattice of the noise and the table of the noise's probabilities.
func (n *noise) prepare(noise law.Law, sigma float64, mean, std []float64) (err error) {
	n.law = noise
	l, random := noise.(law.Additive)
	if !random {
		return n.prepareSplit(sigma, mean, std)
	}
	var lattice smoothing.Lattice
	ok := false
	if n.data.Kind != dataset.NoLattice {
		lattice = smoothing.Lattice{Step: n.data.Step, Low: n.data.Index(n.data.Low), High: n.data.Index(n.data.High)}
		lattice, n.refined, ok = lattice.Refine(l, sigma)
	}
	if !ok {
		if n.quantise, err = smoothing.NewQuantiser(l, sigma, n.data.Low, n.data.High); err != nil {
			return param.Errorf("%s %v: %w", param.Sigma, sigma, err)
		}
		n.low, n.high = float64(n.data.Low), float64(n.data.High)
		lattice = n.quantise.Lattice()
	}
	n.step = lattice.Step
	if n.table, err = smoothing.NewLawTable(l, sigma, lattice.Step); err != nil {
		return param.Errorf("%s %v: %w", param.Sigma, sigma, err)
	}
	if n.lattice, err = smoothing.NewLatticeNoise(lattice, n.table, mean, std); err != nil {
		return param.Errorf("%s %v %s %v: %w", param.Mean, mean, param.Std, std, err)
	}
	return nil
}

// input returns the noisy inputs of an example. It also returns how much rounding reduces every radius.
func (n *noise) input(example []float32) (smoothing.Input, float64, error) {
	if n.columns != nil {
		return n.columnInput(example)
	}
	if !n.onLattice() {
		return smoothing.FloatInput{Values: n.float.clean(example), Scale: n.float.scale}, 0, nil
	}
	values := make([]float32, len(example))
	n.Arrange(values, example)
	integers, quantisation := n.integers(values)
	input, err := n.place(integers)
	return input, quantisation, err
}

// The method 'reading' returns how much the conversion of float64 numbers to float32 reduces every radius of an
// example. This amount is the sum of two distances. The first is the distance between the example's values and the
// numbers in the data file. The second is the largest distance that the conversion can move a perturbed example. If the
// field 'rounds' is set, only the first distance counts. Otherwise, the result depends on the lattice of the noise: if
// the lattice contains the data, the result is 0, because the float32 numbers determine the lattice points.
func (n *noise) reading(example dataset.Example) float64 {
	switch {
	case n.columns != nil:
		return 0 // if the noise is per column, columnInput takes this amount into account
	case n.rounds:
		return n.moved(example)
	case n.quantise == nil:
		return 0
	}
	return n.moved(example) + n.data.ReadingRounding(n.law.Norm(), len(example.Values))
}

// The method 'moved' compares the values of an example with the numbers in the data file. It returns their distance in
// the norm of the law.
func (n *noise) moved(example dataset.Example) float64 {
	if n.law.Norm() == law.L1 {
		return example.RoundingL1
	}
	return example.Rounding
}

// The method 'integers' rounds values to lattice points. It also returns how much this rounding reduces every radius.
// If the field 'rounds' is set, this reduction is the distance that the values moved.
func (n *noise) integers(values []float32) ([]int32, float64) {
	integers := make([]int32, len(values))
	if n.quantise != nil {
		return integers, n.quantise.Quantise(integers, values)
	}
	if n.rounds {
		return integers, n.roundTo(integers, values)
	}
	for d, x := range values {
		integers[d] = toInt32(n.refined * n.data.Index(x))
	}
	return integers, 0
}

// toInt32 converts k. An integer that does not fit becomes the nearest int32, which is outside the range of every
// lattice.
func toInt32(k int) int32 { return int32(min(max(k, math.MinInt32), math.MaxInt32)) }

// The method 'largest' returns the largest absolute value at the model's input without noise, or 0 if the model
// receives bytes.
func (n *noise) largest(p spec.Spec) float64 {
	mean, std := p.Mean, p.Std
	if n.bytes {
		return 0 // bytes have a known range, so the caller need not check it
	}
	if len(mean) == 0 {
		mean = []float64{0}
	}
	if len(std) == 0 {
		std = []float64{1}
	}
	most := 0.0
	for c := range max(len(mean), len(std)) {
		m, s := mean[min(c, len(mean)-1)], std[min(c, len(std)-1)]
		for _, x := range []float32{n.data.Low, n.data.High} {
			most = max(most, math.Abs(float64(x)-m)/s)
		}
	}
	return most
}

// describe returns the noise's entry in run.json.
func (n *noise) describe() runfolder.Noise {
	switch {
	case n.columns != nil:
		return n.describeColumns()
	case n.split != nil:
		return n.split.describe(n)
	case n.lattice == nil:
		return runfolder.Noise{}
	}
	return runfolder.Noise{
		Distribution: n.table.Name(), Step: n.step.RatString(), Table: n.table.Digest(), Entries: n.table.Entries(),
		Eta: n.table.Eta, Inputs: n.data.String(), Quantised: n.quantise != nil, Low: n.low, High: n.high,
	}
}

// String describes the noise in the line that 'certify' prints.
func (n *noise) String() string {
	switch {
	case n.columns != nil:
		return n.columnsText()
	case n.split != nil:
		return n.split.String()
	case n.lattice == nil:
		return "in float32: certificates are of idealised arithmetic"
	case n.quantise != nil:
		step, _ := n.step.Float64()
		why := ""
		if n.data.Kind != dataset.NoLattice {
			why = ", too fine for this " + n.law.Words().Symbol
		}
		return fmt.Sprintf("%s%s; they are rounded to multiples of %.3g, and every radius is smaller by what this rounding may add to a perturbation",
			n.data, why, step)
	}
	return fmt.Sprintf("%s; drawn in steps of %s, exactly", n.data, n.step.RatString())
}

// The function 'channels' checks the values of mean or std and returns them. There must be one value for all channels,
// or one value per channel. If no values are given, the function returns the argument 'absent' as the only value.
func channels(of param.Name, values []float64, absent float64, a graph.Arrangement) ([]float64, error) {
	if len(values) == 0 {
		return []float64{absent}, nil
	}
	if len(values) != 1 && len(values) != a.Channels {
		return nil, spec.BadInputf("%s has %d values; the model's input has %d channels", of, len(values), a.Channels)
	}
	return values, spec.CheckChannelValues(of, values)
}

// repeat returns n values, one for each channel. If there is only one value, it becomes the value of every channel.
func repeat(values []float64, n int) []float64 {
	values = slices.Clone(values)
	for len(values) < n {
		values = append(values, values[0])
	}
	return values
}
