package run

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// gradientCopies is the number of noisy copies in one gradient. Like gradientExamples, it does not depend on the
// batch size.
const gradientCopies = 32

// openSmoothedSearch prepares a search for perturbations that change the answer of an experiment's smoothed classifier.
// The search has the default steps, restarts and samples. The caller must set a Seed that differs from the experiment's
// seed. At the end, the caller must call the returned function, which frees the gradients. The experiment must have
// noise. For the method SmoothAdv, the experiment must have been opened with Spec.KeepOutputs and Spec.KeepSource.
func openSmoothedSearch(ctx context.Context, e *experiment.Experiment, method attack.SmoothedMethod, t attack.Threat, console experiment.Console) (*attack.SmoothedSearch, func() error, error) {
	s := &attack.SmoothedSearch{
		Threat: t, Scale: e.Spec.Sigma, Classifier: e.Model(), Input: e.Noisy, Workers: e.Threads(),
		Steps: attack.DefaultSmoothedSteps, Restarts: attack.DefaultSmoothedRestarts,
		Samples: attack.DefaultSmoothedSamples, Screen: attack.DefaultScreenSamples,
	}
	if l, ok := e.DataLattice(); ok {
		s.Lattice = &attack.Lattice{Step: l.Step, Low: l.Low, High: l.High}
	}
	if norm := e.Spec.Law.Law().Norm(); norm.String() != string(t.Norm) {
		return nil, nil, spec.BadInputf("%s %s: its radii are in %s, the attack's perturbations in %s", param.Law, e.Spec.Law, norm, t.Norm)
	}
	if method == attack.Stein {
		s.Gradients = &attack.ScoreGradients{Classifier: e.Model(), Feed: e.Feed, Slope: e.Pull, Size: gradientCopies}
		return s, func() error { return nil }, nil
	}
	copies := gradientCopies
	if e.Model().Settings().Independence != onnx.Proved {
		copies = 1
	}
	g, err := e.Model().Gradient(ctx, grad.Objective{Loss: grad.CrossEntropy, Examples: 1, Copies: copies})
	if err != nil {
		return nil, nil, spec.BadInput(hint.Add(fmt.Errorf("%s: %w", e.Spec.ModelName(), err), "%s=%s uses scores alone", param.Smoothed, attack.Stein))
	}
	if why := g.OnHost(); why != nil {
		console.Warnf(warning.WorkOnHost, "the CPU computes the gradients, not %s: %v", e.Device(), why)
	}
	s.Gradients = &noisyGradients{g, e, copies}
	return s, g.Close, nil
}

// noisyGradients computes gradients with respect to the data's values. The loss is −ln p, where p is the mean of the
// label's softmax probability over the noisy copies.
type noisyGradients struct {
	*onnx.Gradient
	e      *experiment.Experiment
	copies int
}

// Copies is the number of noisy copies in a call of Run.
func (n *noisyGradients) Copies() int { return n.copies }

// Run computes the scores of the noisy copies and the gradient of the loss. It returns the loss.
func (n *noisyGradients) Run(ctx context.Context, x, noise []float32, label int, scores, gradient []float32) (float64, error) {
	d := n.e.Model().InputLen()
	in, loss, inner := make([]float32, d), make([]float32, 1), make([]float32, d)
	n.e.Feed(in, x)
	if n.copies == 1 { // a graph for one copy has no input for noise
		for i, v := range noise {
			in[i] += v
		}
		noise = nil
	}
	if err := n.Gradient.Run(ctx, in, noise, []int64{int64(label)}, scores, loss, inner); err != nil {
		return 0, err
	}
	n.e.Pull(gradient, inner)
	return float64(loss[0]), nil
}
