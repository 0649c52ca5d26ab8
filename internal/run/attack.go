package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// AttackPlan says what an attack does.
type AttackPlan struct {
	Spec     spec.Spec
	Threat   attack.Threat
	Method   attack.Method
	Loss     grad.Loss
	Steps    int     // 0: the method's
	StepSize float64 // 0: 2.5·ε/steps, as Madry et al. 2018 take
	Restarts int
	Out      string
}

// gradientExamples is the number of examples in one gradient. It does not follow the batch, so that results cannot.
const gradientExamples = 8

// attackLevel is the level of the intervals.
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
	Box           [2]string        `json:"box"` // as text: it may be infinite
	Loss          grad.Loss        `json:"loss,omitempty"`
	Steps         int              `json:"steps"`
	StepSize      float64          `json:"step_size,omitempty"`
	Restarts      int              `json:"restarts"`
	Seed          uint64           `json:"seed"`
	Examples      int              `json:"examples"`
	Level         float64          `json:"level"`
	Accuracy      Share            `json:"accuracy"`
	Robust        Share            `json:"robust"` // accuracy under attack
	ZeroGradients int              `json:"zero_gradients"`
	Smoothed      *AttackedNoise   `json:"smoothed,omitempty"` // for an attack on the smoothed classifier
	Results       []AttackedResult `json:"results"`
}

// AttackedFile names a file.
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
	// The class of the adversarial input and its distance, rounded up; absent where none was found.
	Class    *int     `json:"class,omitempty"`
	Distance *float64 `json:"distance,omitempty"`
}

// The files of an attack's folder.
const (
	AttackFile      = "attack.json"
	AdversarialFile = "adversarial.npz"
)

// Attack runs an attack and writes its folder, if it has one.
func Attack(ctx context.Context, p AttackPlan, console experiment.Console) (*Attacked, error) {
	if err := p.settle(); err != nil {
		return nil, spec.BadInput(err)
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	search, gradient, err := p.search(ctx, e, console)
	if err != nil {
		return nil, err
	}
	if gradient != nil {
		defer gradient.Close()
	}
	examples, err := p.examples(e)
	if err != nil {
		return nil, err
	}
	bar := progress.Start(console.Progress, "attack", int64(len(examples)), 0)
	done := 0
	search.Progress = func(now int) {
		bar.Add(int64(now-done), "")
		done = now
	}
	found, err := search.Run(ctx, examples)
	bar.Finish()
	if err != nil {
		return nil, err
	}
	r := p.result(e, found)
	if p.Out == "" {
		return r, nil
	}
	return r, p.write(r, found, e.Shape())
}

// settle checks the plan and fills in what the method determines.
func (p *AttackPlan) settle() error {
	p.Spec.Noise = spec.NoNoise
	p.Spec.KeepOutputs = p.Method.UsesGradients() // losses differ for logits and probabilities
	switch {
	case p.Steps < 0:
		return param.Errorf("%s %d: want at least 1", param.Steps, p.Steps)
	case p.Restarts < 1:
		return param.Errorf("%s %d: want at least 1", param.Restarts, p.Restarts)
	case p.StepSize < 0:
		return param.Errorf("%s %v: want a number above 0", param.StepSize, p.StepSize)
	case !slices.Contains(p.Method.Norms(), p.Threat.Norm):
		return hint.Add(param.Errorf("%s %s: is for norm %s", param.Attack, p.Method, p.Method.Norms()[0]), "with gradients, %s pgd is for both norms", param.Attack)
	}
	p.Steps = cmp.Or(p.Steps, p.Method.DefaultSteps())
	switch p.Method {
	case attack.FGSM:
		p.Steps, p.StepSize, p.Restarts = 1, p.Threat.Epsilon, 1
	case attack.PGD:
		p.StepSize = cmp.Or(p.StepSize, 2.5*p.Threat.Epsilon/float64(p.Steps))
	case attack.Square:
		p.StepSize, p.Restarts, p.Loss = 0, 1, ""
	}
	if err := p.checkOut(); err != nil {
		return err
	}
	return p.Threat.Check()
}

// checkOut refuses a folder that is there already.
func (p *AttackPlan) checkOut() error {
	if p.Out == "" {
		return nil
	}
	if _, err := os.Lstat(p.Out); !errors.Is(err, os.ErrNotExist) {
		return hint.Add(param.Errorf("%s %s: is there already", param.Out, p.Out), "name a new folder")
	}
	return nil
}

// search opens what the method needs.
func (p *AttackPlan) search(ctx context.Context, e *experiment.Experiment, console experiment.Console) (*attack.Search, *onnx.Gradient, error) {
	s := &attack.Search{
		Threat: p.Threat, Method: p.Method, Classifier: &fed{e.Model(), e}, Shape: e.Shape(),
		Steps: p.Steps, StepSize: p.StepSize, Restarts: p.Restarts, Seed: e.Spec.Seed, Workers: e.Threads(),
	}
	if !p.Method.UsesGradients() {
		return s, nil, nil
	}
	examples := gradientExamples
	if e.Model().Settings().Independence != onnx.Proved {
		examples = 1
	}
	g, err := e.Model().Gradient(ctx, grad.Objective{Loss: p.Loss, Examples: examples})
	if err != nil {
		return nil, nil, spec.BadInput(hint.Add(fmt.Errorf("%s: %w", e.Spec.Model, err), "%s square, for norm linf, uses no gradients", param.Attack))
	}
	if why := g.OnHost(); why != nil {
		console.Warnf("the CPU computes the gradients, not %s: %v", e.Device(), why)
	}
	s.Gradients = &fedGradients{g, e, examples}
	return s, g, nil
}

// examples reads the examples, which must be in the box.
func (p *AttackPlan) examples(e *experiment.Experiment) ([]attack.Example, error) {
	var all []attack.Example
	for _, position := range e.Positions() {
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

// result gathers what an attack found.
func (p *AttackPlan) result(e *experiment.Experiment, found []attack.Found) *Attacked {
	record := e.Record()
	r := &Attacked{
		Model: AttackedFile{record.Model.File, record.Model.SHA256}, Data: AttackedFile{record.Data.File, record.Data.SHA256},
		Device: e.Device().String(), Mean: e.Spec.Mean, Std: e.Spec.Std,
		Attack: p.Method, Norm: p.Threat.Norm, Epsilon: p.Threat.Epsilon, Box: [2]string{fmt.Sprint(p.Threat.Low), fmt.Sprint(p.Threat.High)},
		Loss: p.Loss, Steps: p.Steps, StepSize: p.StepSize, Restarts: p.Restarts, Seed: e.Spec.Seed, Examples: len(found), Level: attackLevel,
	}
	correct, robust := 0, 0
	for _, f := range found {
		row := AttackedResult{Index: f.Index, Label: f.Label, Predicted: f.Clean, Robust: f.Robust()}
		if f.Adversarial != nil {
			row.Class, row.Distance = &f.Class, &f.Distance
		}
		if f.Correct() {
			correct++
		}
		if f.Robust() {
			robust++
		}
		if f.Flat > 0 {
			r.ZeroGradients++
		}
		r.Results = append(r.Results, row)
	}
	r.Accuracy, r.Robust = shareOf(correct, len(found)), shareOf(robust, len(found))
	return r
}

// write makes the folder: the result, and the adversarial inputs x with their labels y, as a dataset.
func (p *AttackPlan) write(r *Attacked, found []attack.Found, shape []int) error {
	var x []float32
	var y []int64
	for _, f := range found {
		if f.Adversarial != nil {
			x, y = append(x, f.Adversarial...), append(y, int64(f.Label))
		}
	}
	var archive, record bytes.Buffer
	w := npy.NewArchiveWriter(&archive)
	err := errors.Join(npy.Write(w, "x", append([]int{len(y)}, shape...), x), npy.Write(w, "y", []int{len(y)}, y), w.Close())
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(&record)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return err
	}
	if err := os.Mkdir(p.Out, 0o777); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(p.Out, AdversarialFile), archive.Bytes()); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(p.Out, AttackFile), record.Bytes())
}

// fed is the classifier of the data's values: the model behind its normalisation and order of values.
type fed struct {
	*onnx.Model
	e *experiment.Experiment
}

var _ smoothing.Classifier = (*fed)(nil)

// Run gives the scores of examples' values.
func (f *fed) Run(ctx context.Context, values, scores []float32) error {
	return f.Model.Run(ctx, feed(f.e, values), scores)
}

// feed returns the model's inputs for examples' values.
func feed(e *experiment.Experiment, values []float32) []float32 {
	d, in := e.Model().InputLen(), make([]float32, len(values))
	for i := 0; i < len(values); i += d {
		e.Feed(in[i:i+d], values[i:i+d])
	}
	return in
}

// fedGradients are the gradients in the data's values.
type fedGradients struct {
	*onnx.Gradient
	e        *experiment.Experiment
	examples int
}

// Examples is the number of inputs of a Run.
func (f *fedGradients) Examples() int { return f.examples }

// Run gives the scores and the gradients of the loss in examples' values.
func (f *fedGradients) Run(ctx context.Context, values []float32, labels []int64, scores, gradient []float32) error {
	d, loss, inner := f.e.Model().InputLen(), make([]float32, f.examples), make([]float32, len(gradient))
	if err := f.Gradient.Run(ctx, feed(f.e, values), nil, labels, scores, loss, inner); err != nil {
		return err
	}
	for i := 0; i < len(inner); i += d {
		f.e.Pull(gradient[i:i+d], inner[i:i+d])
	}
	return nil
}
