package run

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// specOf returns the spec of a recorded run. The spec holds the law, the scale σ, the conditions and the options for
// reading the data. Its device is the device on which the run ran last. The caller sets the paths, the seed and the
// examples.
func specOf(run runfolder.Run) (spec.Spec, error) {
	ran := run.Runtime
	if n := len(ran.Resumed); n > 0 {
		ran = ran.Resumed[n-1].Runtime
	}
	device, err := onnx.ParseDevice(ran.Device)
	if err != nil {
		return spec.Spec{}, spec.BadInput(err)
	}
	model, further := run.Model.Paths()
	return spec.Spec{
		Model: model, Further: further, DataOptions: run.Data.Options,
		Smoothing: run.Parameters.Smoothing, Conditions: run.Model.Reopened(run.Parameters.Conditions),
		Device: device, NoiseOn: spec.NoiseOn(ran.NoiseOn), Batch: ran.Batch,
	}, nil
}

// reopen returns a spec that applies the classifier of a recorded run to other data. The argument 'given' supplies the
// paths, the options for reading labels, the seed, the choice of examples, the device, the batch size and the number of
// threads. If the argument 'round' is true, the classifier rounds inputs to the run's lattice.
func reopen(recorded runfolder.Run, given spec.Spec, round bool) (s spec.Spec, err error) {
	if s, err = specOf(recorded); err != nil {
		return s, err
	}
	s.Data, s.Library, s.Threads, s.KeepOutputs = given.Data, given.Library, given.Threads, true
	s.FixedSeed, s.Skip, s.Max, s.Shard = given.FixedSeed, given.Skip, given.Max, given.Shard
	s.FixedSelect, s.Only = given.FixedSelect, given.Only
	s.Batch = given.Batch
	if given.Model != "" {
		s.Model, s.Further = given.Model, given.Further
	}
	if given.Device != (onnx.Device{}) {
		s.Device = given.Device
	}
	s.Denoiser = given.Denoiser
	if d := recorded.Model.Denoiser; d != nil && s.Denoiser == "" {
		s.Denoiser = d.File
	}
	if recorded.Parameters.Scaled() && round {
		return s, hint.Add(spec.BadInputf("%s round: the run has a σ for each column", param.OffLattice), "give inputs on the lattice of the run; columns on no lattice need no rounding")
	}
	options := given.DataOptions // read labels as the plan says, but pixels as the run read them
	options.Resize, options.Crop, options.Interpolation = s.DataOptions.Resize, s.DataOptions.Crop, s.DataOptions.Interpolation
	s.DataOptions = options
	if s.Lattice = latticeOf(recorded); s.Lattice != nil {
		s.Lattice.Round = round
	}
	return s, spec.BadInput(s.Law.NeedRandom())
}

// latticeOf returns the lattice of a run's noise, to use it for other data. It returns nil for noise in floats.
func latticeOf(run runfolder.Run) *spec.RunLattice {
	n := run.Noise
	if n.Distribution == "" {
		return nil
	}
	l := &spec.RunLattice{Inputs: n.Inputs, Quantised: n.Quantised, Low: n.Low, High: n.High}
	for _, c := range n.Columns {
		l.Columns = append(l.Columns, spec.LatticeColumn{Quantised: c.Quantised, Low: c.Low, High: c.High})
	}
	return l
}

// sameClassifier returns an error if the recorded run (then) and the present run (now) smooth different classifiers.
// The classifiers differ if the model, denoiser, adaptation, law, σ, normalisation, precision, noise table or provider
// differs. The version of ONNX Runtime and the GPU model may differ. The result 'different' lists these differences.
func sameClassifier(then, now runfolder.Run) (different []string, err error) {
	then.Parameters.Certification = now.Parameters.Certification
	for _, d := range then.Differences(now) {
		what := fmt.Sprintf("%s was %s, now %s", d.What, d.First, d.Second)
		switch {
		case d.Of == runfolder.OfExtent || slices.Contains([]string{"the data set", "--" + string(param.Seed), runfolder.NoiseOnFlag, "rscert", "the folder's format"}, d.What):
		case d.What == "ONNX Runtime":
			different = append(different, what)
		default:
			return nil, hint.Add(spec.BadInputf("this is not the classifier of the run: %s", what), "certificates of the run say nothing about it; see 'rscert certify %s'", param.Help)
		}
	}
	if a, b := then.Runtime.Kinds(), now.Runtime.Kinds(); !slices.Equal(a, b) {
		different = append(different, fmt.Sprintf("the GPU was %s, now %s", strings.Join(a, ", "), strings.Join(b, ", ")))
	}
	if !reflect.DeepEqual(then.Noise, now.Noise) { // the method Differences skips the noise if the data differ
		return nil, spec.BadInputf("this is not the noise of the run: table %.12s… in steps of %s, and %.12s… in steps of %s here",
			then.Noise.Table, then.Noise.Step, now.Noise.Table, now.Noise.Step)
	}
	return different, nil
}
