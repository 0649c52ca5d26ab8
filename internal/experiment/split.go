package experiment

import (
	"fmt"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// split makes the noisy inputs under the law Splitting.
type split struct {
	*smoothing.SplitNoise
	splits *smoothing.Splits
	data   dataset.Lattice
}

// prepareSplit does the work of the method 'prepare' if the law is Splitting. The data and all inputs must be on a
// lattice.
func (n *noise) prepareSplit(sigma float64, mean, std []float64) error {
	switch {
	case n.data.Kind == dataset.NoLattice:
		return hint.Add(param.Errorf("%s %s: the data are on no lattice", param.Law, n.law.Name()),
			"store images as bytes (uint8), or choose another %s", param.Law)
	case n.rounds:
		return param.Errorf("%s round: %s %s needs inputs on the lattice", param.OffLattice, param.Law, n.law.Name())
	}
	n.step, n.refined = n.data.Step, 1
	width, err := law.Width(sigma, n.step)
	if err != nil {
		return param.Errorf("%s %v: %w", param.Sigma, sigma, err)
	}
	splits := smoothing.NewSplits(n.seed, width, n.inputs)
	lattice := smoothing.Lattice{Step: n.step, Low: n.data.Index(n.data.Low), High: n.data.Index(n.data.High)}
	inputs, err := smoothing.NewSplitNoise(lattice, splits, mean, std)
	if err != nil {
		return param.Errorf("%s %v %s %v: %w", param.Mean, mean, param.Std, std, err)
	}
	n.split = &split{inputs, splits, n.data}
	return nil
}

// onLattice reports whether the inputs stay on a lattice under the noise.
func (n *noise) onLattice() bool { return n.lattice != nil || n.split != nil }

// place returns the noisy inputs of an example that is a lattice point. The argument 'integers' gives this point in
// steps of the lattice, in the order of the model's input.
func (n *noise) place(integers []int32) (smoothing.Input, error) {
	if n.split == nil {
		return n.lattice.Input(integers, n.channel)
	}
	return n.split.Input(integers, n.channel, func(d int) int {
		if n.Perm == nil {
			return d
		}
		return n.Perm[d]
	})
}

// describe returns the noise's entry in run.json.
func (s *split) describe(n *noise) runfolder.Noise {
	return runfolder.Noise{
		Distribution: s.splits.Name(), Step: n.step.RatString(), Table: s.splits.Digest(), Entries: s.splits.Width(), Inputs: s.data.String(),
	}
}

// String returns a description of the noise. The command certify prints this description in a line of its output.
func (s *split) String() string {
	return fmt.Sprintf("%s; %d evaluations of each example, without randomness", s.data, s.splits.Width())
}

// Evaluations returns W, the number of evaluations of the model per example under the law Splitting, or 0 for another
// law.
func (e *Experiment) Evaluations() int64 {
	if e.noise.split == nil {
		return 0
	}
	return int64(e.noise.split.splits.Width())
}
