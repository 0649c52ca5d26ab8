package run

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// AttackPlan holds the settings of an attack.
type AttackPlan struct {
	Spec     spec.Spec
	Threat   attack.Threat
	Method   attack.Method
	Loss     grad.Loss
	Steps    int     // number of steps; 0: the default of the method
	StepSize float64 // length of a step; 0: 2.5·ε/steps, following Madry et al. 2018
	Momentum float64 // momentum of PGD
	Targeted bool    // whether PGD aims at wrong classes, one after the other
	Restarts int     // number of starts for each target class; 0: the default of the method
	Bins     int     // number of bins for computing calibration errors; only for attacks on confidences
	Out      string
	Resume   bool // continue the attack in Out, with its seed and its examples
	Pictures int  // number of pictures in Out

	keep attack.Keep // only for an attack on a smoothed classifier
}

// gradientExamples is the number of examples in one call of the gradient. This number is fixed, so that results do not
// depend on the batch size.
const gradientExamples = 8

// attackLevel is the confidence level of the Clopper–Pearson intervals.
const attackLevel = .95

// Share is a share of examples with its Clopper–Pearson interval.
type Share struct {
	Count int64   `json:"count"`
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func shareOf(count, of int) Share {
	k, n, tail := int64(count), int64(of), (1-attackLevel)/2
	return Share{k, float64(k) / float64(n), binomial.LowerBound(k, n, tail), binomial.UpperBound(k, n, tail)}
}

// Attacked is the result of an attack.
type Attacked struct {
	Model         AttackedFile     `json:"model"`
	Data          AttackedFile     `json:"data"`
	Device        string           `json:"device"`
	Mean          []float64        `json:"mean,omitempty"`
	Std           []float64        `json:"std,omitempty"`
	Attack        attack.Method    `json:"attack"`
	Norm          attack.Norm      `json:"norm"`
	Epsilon       float64          `json:"eps"`
	Box           [2]string        `json:"box"` // both limits of the box as text, because a limit may be infinite
	Loss          grad.Loss        `json:"loss,omitempty"`
	Steps         int              `json:"steps"`
	StepSize      float64          `json:"step_size,omitempty"`
	Momentum      float64          `json:"momentum,omitempty"`
	Targets       int              `json:"targets,omitempty"`
	Restarts      int              `json:"restarts"`
	Seed          uint64           `json:"seed"`
	Examples      int              `json:"examples"`
	Level         float64          `json:"level"`
	Accuracy      Share            `json:"accuracy"`
	Robust        Share            `json:"robust"` // accuracy under attack
	ZeroGradients int              `json:"zero_gradients"`
	Stages        []AttackStage    `json:"stages,omitempty"`
	Warnings      []attack.Warning `json:"warnings"`
	Smoothed      *AttackedNoise   `json:"smoothed,omitempty"` // for an attack on the smoothed classifier
	Results       []AttackedResult `json:"results"`
	// Confidences holds the results of an attack that changes confidences. It is nil for other attacks.
	Confidences *AttackedConfidence `json:"confidences,omitempty"`
}

// AttackedFile identifies the file of the model or of the data.
type AttackedFile struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// AttackedResult is the outcome for one example.
type AttackedResult struct {
	Index     int  `json:"index"`
	Label     int  `json:"label"`
	Predicted int  `json:"predicted"`
	Robust    bool `json:"robust"`
	// Class and Distance describe the adversarial input. Distance is rounded up. Both are absent if the attack found no
	// such input.
	Class    *int     `json:"class,omitempty"`
	Distance *float64 `json:"distance,omitempty"`
	// If the plan is a sequence of attacks, the field Attack says which attack found the adversarial input.
	Attack attack.Method `json:"attack,omitempty"`
	// Confidence is the model's confidence at the unperturbed example. Altered lists the inputs whose confidence the
	// attack changed.
	Confidence *float64        `json:"confidence,omitempty"`
	Altered    []AlteredResult `json:"altered,omitempty"`
	// An attack with attack.KeepAll keeps one input for every example. Worst describes this input.
	Worst *WorstResult `json:"worst,omitempty"`
}

// WorstResult describes the input at which an attack found the smallest probability of the label under noise.
type WorstResult struct {
	Class    int     `json:"class"` // the smoothed classifier's answer; −1 if it abstained
	Distance float64 `json:"distance"`
	// The fields Before and After are estimates of the label's probability under noise. The field Before is the
	// estimate at the unperturbed example, and the field After is the estimate at the input that the attack found.
	Before float64 `json:"label_probability_before"`
	After  float64 `json:"label_probability"`
}

// Attack runs an attack. It writes the attack's folder if the plan names one.
func Attack(ctx context.Context, p AttackPlan, console experiment.Console) (*Attacked, error) {
	if err := p.settle(); err != nil {
		return nil, spec.BadInput(err)
	}
	if err := p.keepResumed(); err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	stages, warned, err := p.stages(e.Model().Classes())
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if err := p.checkPictures(e.Shape()); err != nil {
		return nil, err
	}
	var g gradients
	defer g.Close()
	search, err := p.searches(ctx, e, stages, &g, console)
	if err != nil {
		return nil, err
	}
	a := &attacking{plan: &p, e: e, search: search.Run, chunk: chunkOf(search)}
	if err := a.checkExamples(ctx); err != nil {
		return nil, err
	}
	first, err := a.first()
	if err != nil {
		return nil, err
	}
	random, err := search.Random(ctx, first)
	if err != nil {
		return nil, err
	}
	if err := a.run(ctx, p.record(e, stages), console); err != nil {
		return nil, err
	}
	defer a.close()
	r := p.result(e, stages, a.found)
	r.Warnings = append(append([]attack.Warning{}, warned...), warnings(e, stages, a.found, random)...) // [] in JSON if there are none
	if p.Method.ChangesConfidence() {
		if err := r.calibrate(p.Bins); err != nil {
			return nil, spec.BadInput(err)
		}
	}
	return r, a.finish(r)
}

// checkDevice returns an error if the device is a list of GPUs.
func checkDevice(d onnx.Device) error {
	if strings.Contains(d.String(), ",") {
		return hint.Add(param.Errorf("%s %s: an attack runs on one device", param.Device, d), "name one of them")
	}
	return nil
}

// settle checks the plan and sets the fields that depend on the plan's Method.
func (p *AttackPlan) settle() error {
	if err := checkDevice(p.Spec.Device); err != nil {
		return err
	}
	p.Spec.Noise = spec.NoNoise
	// Gradients and confidences depend on whether the model's outputs are logits or probabilities.
	p.Spec.KeepOutputs = p.Method.UsesGradients() || p.Method.ChangesConfidence()
	switch {
	case p.Steps < 0:
		return param.Errorf("%s %d: want at least 1", param.Steps, p.Steps)
	case p.Restarts < 0:
		return param.Errorf("%s %d: want at least 1", param.Restarts, p.Restarts)
	case p.Out == "" && (p.Resume || p.Pictures > 0):
		return param.Errorf("%s and %s need %s", param.Resume, param.Pictures, param.Out)
	case p.Bins < 1 && p.Method.ChangesConfidence():
		return param.Errorf("%s %d: want at least 1", param.Bins, p.Bins)
	case p.Pictures < 0:
		return param.Errorf("%s %d: want at least 0", param.Pictures, p.Pictures)
	case p.StepSize < 0:
		return param.Errorf("%s %v: want a number above 0", param.StepSize, p.StepSize)
	case !slices.Contains(p.Method.Norms(), p.Threat.Norm):
		return hint.Add(param.Errorf("%s %s: is for norm %s", param.Attack, p.Method, p.Method.Norms()[0]), "with gradients, %s pgd is for both norms", param.Attack)
	}
	if err := p.checkSettings(); err != nil {
		return err
	}
	if err := p.checkOut(); err != nil {
		return err
	}
	return p.Threat.Check()
}

// checkOut returns an error if the output folder exists already, unless the plan continues the attack in this folder.
func (p *AttackPlan) checkOut() error {
	if p.Out == "" || p.Resume {
		return nil
	}
	if _, err := os.Lstat(p.Out); !errors.Is(err, os.ErrNotExist) {
		return hint.Add(param.Errorf("%s %s: is there already", param.Out, p.Out), "name a new folder, or go on with %s", param.Resume)
	}
	return nil
}

// examples reads the examples at the given positions of the data. Their values must lie in the box of the attack.
func (p *AttackPlan) examples(e *experiment.Experiment, positions []int) ([]attack.Example, error) {
	var all []attack.Example
	for _, position := range positions {
		x, err := e.Values(position)
		if err != nil {
			return nil, err
		}
		if v, outside := p.Threat.Outside(x.Values); outside {
			return nil, hint.Add(spec.BadInputf("%s: example %d has the value %v, outside %s %v,%v", e.Spec.Data, x.Index, v, param.Box, p.Threat.Low, p.Threat.High),
				"give the range of the data's values: %s LOW,HIGH, or %s=-inf,inf", param.Box, param.Box)
		}
		all = append(all, attack.Example{Index: x.Index, Label: x.Label, Values: x.Values})
	}
	return all, nil
}

// result returns the result of an attack. The argument 'found' holds the outcomes of its examples.
func (p *AttackPlan) result(e *experiment.Experiment, stages []AttackStage, found []attack.Found) *Attacked {
	record := e.Record()
	r := &Attacked{
		Model: AttackedFile{record.Model.File, record.Model.SHA256}, Data: AttackedFile{record.Data.File, record.Data.SHA256},
		Device: e.Device().String(), Mean: e.Spec.Mean, Std: e.Spec.Std,
		Attack: p.Method, Norm: p.Threat.Norm, Epsilon: p.Threat.Epsilon, Box: boxText(p.Threat),
		Seed: e.Spec.Seed, Examples: len(found), Level: attackLevel, Stages: stages,
	}
	countStages(stages, found)
	if len(stages) == 1 { // in a sequence, each stage has its own settings
		one := stages[0]
		r.Loss, r.Steps, r.StepSize, r.Momentum, r.Targets, r.Restarts = one.Loss, one.Steps, one.StepSize, one.Momentum, one.Targets, one.Restarts
	}
	correct, robust := 0, 0
	r.ZeroGradients = attack.Flat(found)
	for _, f := range found {
		row := AttackedResult{Index: f.Index, Label: f.Label, Predicted: f.Clean, Robust: f.Robust()}
		if f.Adversarial != nil {
			row.Class, row.Distance = &f.Class, &f.Distance
			if len(stages) > 1 {
				row.Attack = f.By
			}
		}
		if p.Method.ChangesConfidence() {
			row.Confidence, row.Altered = &f.Confidence, alteredResults(p.Method, f)
		}
		if w := f.Lowered; w != nil {
			row.Worst = &WorstResult{w.Class, w.Distance, w.Before, w.After}
		}
		if f.Correct() {
			correct++
		}
		if f.Robust() {
			robust++
		}
		r.Results = append(r.Results, row)
	}
	r.Accuracy, r.Robust = shareOf(correct, len(found)), shareOf(robust, len(found))
	return r
}

// fed is a classifier that takes the data's values as inputs. It normalises and reorders these values for the model.
type fed struct {
	*onnx.Model
	e *experiment.Experiment
}

var _ smoothing.Classifier = (*fed)(nil)

// Run computes the scores of examples from their values in the data.
func (f *fed) Run(ctx context.Context, values, scores []float32) error {
	return f.Model.Run(ctx, feed(f.e, values), scores)
}

// feed converts the values of examples to the model's inputs.
func feed(e *experiment.Experiment, values []float32) []float32 {
	d, in := e.Model().InputLen(), make([]float32, len(values))
	for i := 0; i < len(values); i += d {
		e.Feed(in[i:i+d], values[i:i+d])
	}
	return in
}
