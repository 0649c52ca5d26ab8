package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// AttackStage holds the settings and the outcome of one attack of a sequence.
type AttackStage struct {
	Attack   attack.Method `json:"attack"`
	Loss     grad.Loss     `json:"loss,omitempty"`
	Steps    int           `json:"steps"`
	StepSize float64       `json:"step_size,omitempty"`
	Momentum float64       `json:"momentum,omitempty"`
	Targets  int           `json:"targets,omitempty"`
	Restarts int           `json:"restarts"`
	Broken   int           `json:"broken"`
	Robust   Share         `json:"robust"` // accuracy under this attack and all earlier attacks of the sequence
}

// checkSettings returns an error for settings that the attack would not use.
func (p *AttackPlan) checkSettings() error {
	if !(p.Momentum >= 0) {
		return param.Errorf("%s %v: want at least 0", param.Momentum, p.Momentum)
	}
	runs := make(map[attack.Method]bool)
	for _, s := range p.Method.Stages() {
		if runs[s.Method] {
			return hint.Add(param.Errorf("%s %s: %s would run twice", param.Attack, p.Method, s.Method), "%s is a sequence itself", attack.Standard)
		}
		runs[s.Method] = true
	}
	for m := range runs {
		if m.ChangesConfidence() && strings.Contains(p.Method.String(), ",") {
			return param.Errorf("%s %s: %s changes confidences, and runs alone", param.Attack, p.Method, m)
		}
	}
	if !p.Method.Single() {
		for _, given := range []struct {
			name  param.Name
			given bool
		}{
			{param.Steps, p.Steps > 0}, {param.StepSize, p.StepSize > 0}, {param.Restarts, p.Restarts > 1},
			{param.Momentum, p.Momentum > 0}, {param.Targeted, p.Targeted},
		} {
			if given.given {
				return hint.Add(param.Errorf("%s: is for a single attack, %s %s is a sequence", given.name, param.Attack, p.Method), "leave it out: each attack of a sequence has its own settings")
			}
		}
		return nil
	}
	switch {
	case p.Momentum > 0 && p.Method != attack.PGD:
		return param.Errorf("%s: is for %s %s", param.Momentum, param.Attack, attack.PGD)
	case p.Targeted && p.Method != attack.PGD:
		return hint.Add(param.Errorf("%s: is for %s %s", param.Targeted, param.Attack, attack.PGD), "%s %s aims at classes, too", param.Attack, attack.APGDT)
	}
	return nil
}

// stages returns the attacks of the plan with their settings. If the model has too few classes for the loss of an
// attack, a preset omits this attack and adds a warning. In any other plan, too few classes are an error.
func (p *AttackPlan) stages(classes int) (all []AttackStage, warnings []attack.Warning, err error) {
	for _, stage := range p.Method.Stages() {
		settled := p.stage(stage, classes)
		least := settled.Loss.LeastClasses()
		switch {
		case classes >= least:
			all = append(all, settled)
		case p.Method == attack.Standard:
			warnings = append(warnings, attack.Warning{Check: warning.FewClasses, Text: fmt.Sprintf(
				"%s was left out: its loss needs %d classes, and the model has %d", stage.Method, least, classes)})
		default:
			return nil, nil, hint.Add(param.Errorf("%s %s: its loss needs %d classes, and the model has %d", param.Attack, stage.Method, least, classes),
				"%s %s is for any number of classes", param.Attack, attack.APGDCE)
		}
	}
	return all, warnings, nil
}

func (p *AttackPlan) stage(s attack.Stage, classes int) AttackStage {
	settled := AttackStage{Attack: s.Method, Steps: cmp.Or(s.Steps, p.Steps, s.Method.DefaultSteps()), Restarts: 1}
	settled.Loss = s.Method.Loss(p.Loss, p.Targeted)
	settled.Targets = min(s.Method.Targets(), classes-1)
	switch s.Method {
	case attack.FGSM:
		settled.Steps, settled.StepSize = 1, p.Threat.Epsilon
	case attack.PGD:
		settled.Restarts, settled.Momentum = p.Restarts, p.Momentum
		settled.StepSize = cmp.Or(p.StepSize, 2.5*p.Threat.Epsilon/float64(settled.Steps))
		if p.Targeted {
			settled.Targets = min(attack.APGDT.Targets(), classes-1)
		}
	case attack.APGDCE, attack.APGDDLR, attack.APGDT, attack.FAB, attack.FABT:
		settled.Restarts = p.Restarts
	case attack.ACE:
		settled.StepSize = cmp.Or(p.StepSize, attack.ACERate)
	case attack.APGDConf:
		settled.Restarts = cmp.Or(p.Restarts, attack.ConfRestarts)
	case attack.APGDConfT:
		settled.Restarts = p.Restarts
	case attack.PGDConf:
		settled.Restarts = cmp.Or(p.Restarts, attack.ConfRestarts)
		settled.StepSize = cmp.Or(p.StepSize, attack.ConfStep(p.Threat))
	}
	settled.Restarts = max(1, settled.Restarts)
	return settled
}

// searches returns the search of the first stage. Its field Then links to the searches of the later stages.
func (p *AttackPlan) searches(ctx context.Context, e *experiment.Experiment, stages []AttackStage, g *gradients, console experiment.Console) (*attack.Search, error) {
	var first *attack.Search
	last := &first
	for _, stage := range stages {
		s := &attack.Search{
			Threat: p.Threat, Method: stage.Attack, Classifier: &fed{e.Model(), e}, Shape: e.Shape(), Steps: stage.Steps,
			StepSize: stage.StepSize, Momentum: stage.Momentum, Targets: stage.Targets, Restarts: stage.Restarts,
			Seed: e.Spec.Seed, Workers: e.Threads(), Probabilities: e.Model().Outputs() == graph.Probabilities,
		}
		if stage.Loss != "" {
			var err error
			if s.Gradients, err = g.open(ctx, e, stage, console); err != nil {
				return nil, err
			}
		}
		*last, last = s, &s.Then
	}
	return first, nil
}

// gradients holds the gradients that the method 'open' has opened. Attacks with the same loss share one gradient.
type gradients struct {
	all []*fedGradients
}

// open returns the gradient of the stage's loss.
func (g *gradients) open(ctx context.Context, e *experiment.Experiment, stage AttackStage, console experiment.Console) (*fedGradients, error) {
	o := grad.Objective{Loss: stage.Loss, Targeted: stage.Targets > 0 && !stage.Loss.Pairs(), Examples: gradientExamples}
	if e.Model().Settings().Independence != onnx.Proved {
		o.Examples = 1
	}
	if i := slices.IndexFunc(g.all, func(f *fedGradients) bool { return f.objective == o }); i >= 0 {
		return g.all[i], nil
	}
	opened, err := e.Model().Gradient(ctx, o)
	if err != nil {
		return nil, spec.BadInput(hint.Add(fmt.Errorf("%s: %w", e.Spec.ModelName(), err), "%s square uses no gradients", param.Attack))
	}
	if why := opened.OnHost(); why != nil {
		console.Warnf(warning.WorkOnHost, "the CPU computes the gradients, not %s: %v", e.Device(), why)
	}
	f := &fedGradients{opened, e, o}
	g.all = append(g.all, f)
	return f, nil
}

// Close frees the gradients.
func (g *gradients) Close() error {
	var errs []error
	for _, f := range g.all {
		errs = append(errs, f.Gradient.Close())
	}
	return errors.Join(errs...)
}

// fedGradients computes gradients with respect to the data's values.
type fedGradients struct {
	*onnx.Gradient
	e         *experiment.Experiment
	objective grad.Objective
}

// Examples is the number of inputs in a call of Run.
func (f *fedGradients) Examples() int { return f.objective.Examples }

// Run computes the scores, the losses, and the gradients of the losses with respect to the data's values.
func (f *fedGradients) Run(ctx context.Context, values []float32, labels, targets []int64, scores, losses, gradient []float32) error {
	d, inner := f.e.Model().InputLen(), make([]float32, len(gradient))
	if err := f.Gradient.Run(ctx, feed(f.e, values), nil, f.classes(labels, targets), scores, losses, inner); err != nil {
		return err
	}
	for i := 0; i < len(inner); i += d {
		f.e.Pull(gradient[i:i+d], inner[i:i+d])
	}
	return nil
}

// classes returns the classes that the loss takes as arguments. A targeted loss takes the target of each example. A
// loss of two classes takes the label and then the target of each example. Any other loss takes the label of each
// example.
func (f *fedGradients) classes(labels, targets []int64) []int64 {
	if f.objective.Targeted {
		return targets
	}
	if !f.objective.Loss.Pairs() {
		return labels
	}
	pairs := make([]int64, 0, 2*len(labels))
	for i, label := range labels {
		pairs = append(pairs, label, targets[i])
	}
	return pairs
}

// countStages counts, for each stage, the examples that the stage broke. A stage breaks an example if it finds an
// adversarial input. countStages also sets the robust accuracy after each stage. This is the share of all examples that
// the model classifies correctly and that no stage has broken so far.
func countStages(stages []AttackStage, found []attack.Found) {
	standing := 0
	for _, f := range found {
		if f.Correct() {
			standing++
		}
	}
	for i := range stages {
		for _, f := range found {
			if f.Adversarial != nil && f.By == stages[i].Attack {
				stages[i].Broken++
			}
		}
		standing -= stages[i].Broken
		stages[i].Robust = shareOf(standing, len(found))
	}
}

// warnings returns a warning for each failed check. The argument 'random' is the number of examples whose scores
// differed between two runs of the model.
func warnings(e *experiment.Experiment, stages []AttackStage, found []attack.Found, random int) (all []attack.Warning) {
	warn := func(check warning.Code, examples int, format string, args ...any) {
		all = append(all, attack.Warning{Check: check, Examples: examples, Text: fmt.Sprintf(format, args...)})
	}
	attacked, gradients, methods := 0, false, make([]attack.Method, len(stages))
	for i, s := range stages {
		methods[i], gradients = s.Attack, gradients || s.Loss != ""
	}
	for _, f := range found {
		if f.Correct() {
			attacked++
		}
	}
	if random > 0 {
		warn(warning.RandomScores, random, "the scores of %d examples differ between two runs: the model is random, and these attacks do not average over its randomness", random)
	}
	if e.Model().Outputs() == graph.Probabilities && gradients {
		warn(warning.Probabilities, 0, "the model returns probabilities: their gradients vanish where it is sure; export it without its softmax")
	}
	if flat := attack.Flat(found); flat > 0 {
		warn(warning.ZeroGradients, flat, "a gradient was zero at %d of %d attacked examples (%.1f %%): the model may hide its gradients; compare the attack %s",
			flat, attacked, 100*float64(flat)/float64(attacked), attack.Square)
	}
	if broken, much := attack.BrokenByScores(found, methods); much {
		warn(warning.ScoresBetter, broken, "attacks without gradients broke %d examples (%.1f %%) that the attacks by gradients did not break: the gradients mislead; give %s more queries",
			broken, 100*float64(broken)/float64(len(found)), attack.Square)
	}
	return all
}
