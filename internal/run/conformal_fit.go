package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// ConformalFit says how to fit a conformal predictor.
type ConformalFit struct {
	// Spec is the experiment that samples the calibration examples. Without a sigma, the model runs without noise. If
	// Saved is set, Law and Sigma are the only fields of Spec that matter. For a file of scores that belongs to no run,
	// they state the noise. For a run, they must agree with the run's noise if they are set.
	Spec  spec.Spec
	Saved string // run folder or file of scores; if it is empty, the fit takes new samples, as Spec says

	// Params says which prediction sets are wanted. FitConformal fills in the law and the scale. It also fills in
	// Attack.Rounding, for the rounding of inputs, and Words, for random words of finite length.
	Params      conformal.Params
	Temperature float64 // temperature of the softmax; must be 1 for saved scores
	// Groups holds the group of each example, by index. Groups is only for the guarantee conformal.Group. GroupColumn
	// is the name of the column that holds the groups.
	Groups      []string
	GroupColumn string
	Version     string

	seed uint64 // seed of the examples' random numbers (scorer.u) for saved scores
}

// FitConformal fits a conformal predictor. Errors in the user's input are InputErrors.
func FitConformal(ctx context.Context, p ConformalFit, console experiment.Console) (*conformalfile.File, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Saved != "" {
		return p.fitSaved(ctx, console)
	}
	return p.fitModel(ctx, console)
}

// check returns an error if a setting is wrong. It covers only what can be checked without the model and the data.
func (p *ConformalFit) check() error {
	grouped := p.Params.Guarantee == conformal.Group
	switch {
	case !(p.Temperature > 0) || p.Temperature-p.Temperature != 0:
		return spec.BadInputf("%s %v: want a number above 0", param.Temperature, p.Temperature)
	case grouped != (p.Groups != nil):
		return spec.BadInputf("%s group and %s need each other", param.Guarantee, param.Groups)
	}
	return nil
}

// fitModel draws samples of the model for the calibration examples, and fits a predictor on them.
func (p *ConformalFit) fitModel(ctx context.Context, console experiment.Console) (f *conformalfile.File, err error) {
	p.Spec.KeepOutputs = true
	clean := p.Spec.Sigma == 0
	switch {
	case clean && p.Params.Attack.Radius+p.Params.Attack.PoisonRadius > 0:
		return nil, hint.Add(spec.Missing(param.Sigma), "a radius above 0 needs noise")
	case clean:
		p.Spec.Noise = spec.NoNoise
	}
	if err := p.Spec.Law.NeedRandom(); err != nil {
		return nil, spec.BadInput(err)
	}
	if err := freshSeed(&p.Spec); err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	defer closeExperiment(e, console)
	now := recordOf(e)
	now.Version = p.Version
	f = &conformalfile.File{Classifier: conformalfile.ClassifierOf(now), Allowance: e.Allowance()}
	f.Calibration.Data = &now.Data
	if err := checkGroups(p.Groups, now.Data.Examples, now.Data.File); err != nil {
		return nil, err
	}
	if err := p.describe(f); err != nil {
		return nil, err
	}
	if e.Model().Outputs() == graph.Probabilities && p.Temperature != 1 {
		return nil, spec.BadInputf("%s %v: %s returns probabilities; a temperature is applied to logits", param.Temperature, p.Temperature, p.Spec.ModelName())
	}
	design, err := p.design(f)
	if err != nil {
		return nil, err
	}
	c := &calibrating{plan: p, experiment: e, design: design, calibrator: design.Calibrator(), clean: clean}
	if err := c.run(ctx, console); err != nil {
		return nil, err
	}
	return f, p.finish(f, c.calibrator, e.Model().Classes())
}

// freshSeed draws a seed unless the user gave one. The shards of a run share one seed. But a fit on a shard of the
// calibration data is a fit of its own, so it draws its own seed.
func freshSeed(s *spec.Spec) error {
	if s.FixedSeed != nil {
		return nil
	}
	seed, err := experiment.DrawSeed()
	s.FixedSeed = &seed
	return err
}

// recordOf returns the experiment's run.json. An experiment without noise has no law, no scale and no kind of noise.
func recordOf(e *experiment.Experiment) runfolder.Run {
	r := e.Record()
	if e.Spec.Noise == spec.NoNoise {
		r.Parameters.Noise, r.Parameters.Smoothing = "", spec.Smoothing{}
	}
	return r
}

// describe fills in the members of conformal.json that follow from the classifier.
func (p *ConformalFit) describe(f *conformalfile.File) error {
	f.Schema, f.Version, f.Temperature = conformalfile.Schema, p.Version, p.Temperature
	f.Calibration.Group = p.GroupColumn
	run := f.Run()
	if run.Parameters.Scaled() {
		return spec.BadInputf("%s: prediction sets are for noise with one σ", param.SigmaColumns)
	}
	a := &p.Params.Attack
	if f.Classifier.Noiseless() {
		f.Arithmetic = certify.Exact
		return p.noNoise()
	}
	a.Law, a.Scale, a.Rounding = run.Parameters.Law, run.Parameters.Sigma, f.Allowance
	if a.PoisonRadius > 0 { // an attack may have changed the calibration inputs, too
		a.Rounding += f.Allowance
	}
	p.Params.OwnRange = run.Noise.Quantised
	if f.Arithmetic = run.Target(.5).Arithmetic; f.Arithmetic == certify.Exact {
		p.Params.Words = conformal.FiniteWords{Eta: run.Noise.Eta, Coordinates: run.Inputs()}
	}
	return nil
}

// noNoise sets the numbers of draws for scores without noise: one calibration draw and one draw per input.
func (p *ConformalFit) noNoise() error {
	if p.Params.Draws > 1 || p.Params.CalibrationDraws > 1 {
		return spec.BadInputf("%s, %s: without noise, all draws are equal", param.Draws, param.CalibrationDraws)
	}
	p.Params.Draws, p.Params.CalibrationDraws = 1, 1
	p.Params.Attack.Law = ""
	return nil
}

// design chooses the numbers of the conformal rule, such as the number of draws, before any score is known.
func (p *ConformalFit) design(f *conformalfile.File) (*conformal.Design, error) {
	design, err := conformal.NewDesign(p.Params)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if m := design.M; m < 1 || m >= smoothing.MaxSamples || design.QueryM < 1 || design.QueryM >= smoothing.MaxSamples {
		return nil, spec.BadInputf("%s, %s: want 1 to %d", param.Draws, param.CalibrationDraws, smoothing.MaxSamples-1)
	}
	f.Sound = design.Sound
	if !f.Sound {
		f.Why = fmt.Sprintf("the rule %s is not proved for this attack", design.Rule)
	}
	return design, nil
}

// finish computes the thresholds.
func (p *ConformalFit) finish(f *conformalfile.File, c *conformal.Calibrator, classes int) error {
	predictor, err := c.Predictor(classes)
	if err != nil {
		return spec.BadInput(err)
	}
	f.Predictor = *predictor
	_, err = f.Encode() // Encode sets the ID
	return err
}

// calibrating is a calibration in progress. It samples the calibration examples.
type calibrating struct {
	plan       *ConformalFit
	experiment *experiment.Experiment
	design     *conformal.Design
	calibrator *conformal.Calibrator
	clean      bool
	bar        *progress.Bar
	done       atomic.Int64 // number of finished examples
}

func (c *calibrating) run(ctx context.Context, console experiment.Console) error {
	positions := c.experiment.Positions()
	c.bar = progress.Start(console.Progress, "calibrate", int64(len(positions))*c.design.M, 0)
	defer c.bar.Finish()
	s := c.experiment.Sampler()
	s.Progress = func(n int64) { c.bar.Add(n, fmt.Sprintf("%d/%d examples", c.done.Load(), len(positions))) }
	next := 0
	err := s.Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(positions) {
			return nil, nil
		}
		example, err := c.experiment.Example(positions[next])
		next++
		if err == nil && example.Label == certify.UnknownLabel {
			err = spec.BadInputf("%s: example %d has no label: calibration needs labels", c.plan.Spec.Data, example.Index)
		}
		if err != nil {
			return nil, err
		}
		return c.start(example)
	})
	return dependent(err)
}

// dependent adds an explanation to an error if the error says that the model's outputs depend on the batch. Such a
// model has no valid prediction sets.
func dependent(err error) error {
	var dependence *smoothing.DependenceError
	if errors.As(err, &dependence) {
		return fmt.Errorf("%w: the scores are no function of one input, and no prediction set holds for them", err)
	}
	return err
}

// checkGroups returns an error if the number of groups differs from the number of examples in the data. If groups is
// nil, it returns no error.
func checkGroups(groups []string, examples int, data string) error {
	if groups == nil || len(groups) == examples {
		return nil
	}
	return hint.Add(spec.BadInputf("%s: has %d rows, and %s has %d examples", param.Groups, len(groups), data, examples),
		"the file has a row for each example of the data, before %s and %s", param.Max, param.Shard)
}

// groupOf returns the group of the example with this index.
func groupOf(groups []string, index int) (string, error) {
	switch {
	case groups == nil:
		return "", nil
	case index >= len(groups):
		return "", spec.BadInputf("%s: has %d groups, and none for example %d", param.Groups, len(groups), index)
	}
	return groups[index], nil
}

func (c *calibrating) start(example experiment.Example) (smoothing.Experiment, error) {
	group, err := groupOf(c.plan.Groups, example.Index)
	p := &calibrationPoint{calibrating: c, example: example}
	p.scorer = scorer{
		Scorer: c.design.Scorer, outputs: c.experiment.Model().Outputs(), classes: c.experiment.Model().Classes(),
		temperature: c.plan.Temperature, u: uniform(c.experiment.Spec.Seed, example.Index),
	}
	p.point = conformal.Point{Label: example.Label, Group: group}
	return p, err
}

// calibrationPoint is an example whose scores are sampled. It implements smoothing.Observer.
type calibrationPoint struct {
	*calibrating
	example experiment.Example
	scorer  scorer
	point   conformal.Point
}

// Input returns the example's index and input.
func (p *calibrationPoint) Input() (int, smoothing.Input) {
	if p.clean {
		return p.example.Index, noiseless{p.example.Input}
	}
	return p.example.Index, p.example.Input
}

// Restart begins the example again.
func (p *calibrationPoint) Restart() (smoothing.Experiment, error) {
	return p.calibrating.start(p.example)
}

// Goal returns the number of draws per calibration example.
func (p *calibrationPoint) Goal(smoothing.Votes) (int64, error) { return p.design.M, nil }

// Observe collects the scores of the label.
func (p *calibrationPoint) Observe(_ smoothing.Phase, outputs []float32) error {
	p.scorer.eachRow(outputs, func(probabilities []float64) {
		p.point.Scores = append(p.point.Scores, p.scorer.Score(probabilities, p.point.Label, p.scorer.u))
	})
	return nil
}

// Finish does nothing, because Observe has already collected the scores.
func (*calibrationPoint) Finish(smoothing.Votes) error { return nil }

// Emit adds the example to the calibration.
func (p *calibrationPoint) Emit() error {
	p.done.Add(1)
	return p.calibrator.Add(p.point)
}
