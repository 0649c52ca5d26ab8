package experiment

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// Look is the result of a quick test on some examples. The test shows, before hours of sampling, whether model, data
// and noise fit each other.
type Look struct {
	// number of labelled examples that Look classified without noise; they are spread over the experiment's examples
	Examples int     `json:"examples"`
	Clean    float64 `json:"clean_accuracy"` // accuracy without noise
	Noisy    float64 `json:"noisy_accuracy"` // accuracy with noise, from one sample per example
	// Float32 is the accuracy without noise in float32 on the CPU provider. Differ is the number of predictions that
	// disagree with the predictions in float32. Both fields are set only if the experiment uses another precision or
	// provider.
	Float32 *float64 `json:"clean_accuracy_f32,omitempty"`
	Differ  *int     `json:"differ_from_f32,omitempty"`
	// Findings holds the judgements of Look about the set-up.
	Findings []Finding `json:"-"`
	// Low and High are the range of the data. If this range is unknown, they are the range of the examples that Look
	// reads.
	Low  float64 `json:"-"`
	High float64 `json:"-"`
	// SamplesPerSecond is a first estimate of the speed of all workers together.
	SamplesPerSecond float64 `json:"samples_per_second"`
}

// These constants limit the examples and the time of Look.
const (
	lookExamples = 200
	lookTime     = 20 * time.Second
)

// The type 'looked' holds the examples of a Look, and the model's answers without noise. If the time runs out before
// all examples are classified, the slice 'predicted' is shorter than the other slices.
type looked struct {
	positions []int // positions in the data
	labels    []int
	inputs    []smoothing.Input
	predicted []int
	low, high float32 // range of the examples' values
	whole     bool    // all values of the examples are whole numbers
}

// Look runs the model on some of the examples, without and with noise. It also judges whether the model and the data
// fit each other (Look.Findings).
func (e *Experiment) Look(ctx context.Context) (Look, error) {
	var l Look
	x, err := e.lookInputs()
	if err != nil {
		return l, err
	}
	l.Low, l.High = e.valueRange(x)
	if len(x.labels) == 0 {
		l.Findings = e.judgeUnlabelled(x)
		return l, nil
	}
	d := e.model.InputLen()
	clean := func(i int, to []float32) { x.inputs[i].Clean(to) }
	noisy := func(i int, to []float32) {
		x.inputs[i].Perturb(to, smoothing.NewStream(e.Spec.Seed, i, smoothing.Selection), 0)
	}
	began := time.Now()
	if x.predicted, err = classify(ctx, e.model, len(x.labels), d, lookTime, clean); err != nil {
		return l, err
	}
	labels := x.labels[:len(x.predicted)]
	l.Examples, l.Clean = len(labels), accuracy(x.predicted, labels)
	under, err := classify(ctx, e.model, len(labels), d, lookTime, noisy)
	if err != nil {
		return l, err
	}
	l.Noisy = accuracy(under, labels[:len(under)])
	l.SamplesPerSecond = float64(len(x.predicted)+len(under)) / time.Since(began).Seconds() * float64(e.parallel())
	if l.Findings, err = e.judge(ctx, x); err != nil {
		return l, err
	}
	if e.model.Precision() == onnx.F32 && e.model.Provider() == "CPUExecutionProvider" {
		return l, nil
	}
	return l, e.compareReference(ctx, &l, clean, x.predicted, labels)
}

// compareReference makes the predictions without noise again, in float32 on the CPU provider. It compares them with the
// argument 'predicted', and records the result in l.
func (e *Experiment) compareReference(ctx context.Context, l *Look, clean func(i int, to []float32), predicted, labels []int) error {
	reference, err := e.loadReference(ctx)
	if err != nil {
		return err
	}
	exact, err := classify(ctx, reference, len(labels), e.model.InputLen(), lookTime, clean)
	if err = errors.Join(err, reference.Close()); err != nil {
		return err
	}
	share, differ := accuracy(exact, labels[:len(exact)]), 0
	for i, k := range exact {
		if k != predicted[i] {
			differ++
		}
	}
	l.Float32, l.Differ = &share, &differ
	return nil
}

// lookInputs returns labelled examples that are spread over the experiment's examples. It uses examples without a label
// only to find the range of the values.
func (e *Experiment) lookInputs() (x looked, err error) {
	n := min(lookExamples, len(e.positions))
	x.low, x.high, x.whole = float32(math.Inf(1)), float32(math.Inf(-1)), true
	for k := range n {
		position := e.positions[k*len(e.positions)/n]
		example, err := e.data.Example(position)
		if err != nil {
			return x, spec.BadInput(err)
		}
		for _, v := range example.Values {
			x.low, x.high = min(x.low, v), max(x.high, v)
			x.whole = x.whole && v == float32(math.Trunc(float64(v)))
		}
		if example.Label == certify.UnknownLabel {
			continue
		}
		noisy, err := e.withNoise(example)
		if err != nil {
			return x, err
		}
		x.positions, x.labels, x.inputs = append(x.positions, position), append(x.labels, example.Label), append(x.inputs, noisy.Input)
	}
	return x, nil
}

// classify returns the model's votes for n inputs of d values each. It stops after the time limit, but not before the
// end of the first batch. If it stops early, it returns fewer than n votes.
func classify(ctx context.Context, model *onnx.Model, n, d int, limit time.Duration, fill func(i int, to []float32)) ([]int, error) {
	batch, m := model.Batch(), model.Classes()
	in, out := make([]float32, batch*d), make([]float32, batch*m)
	deadline := time.Now().Add(limit)
	var votes []int
	for first := 0; first < n && (first == 0 || time.Now().Before(deadline)); first += batch {
		count := min(batch, n-first)
		for i := range count {
			fill(first+i, in[i*d:(i+1)*d])
		}
		if err := model.Run(ctx, in, out); err != nil {
			return nil, err
		}
		for i := range count {
			votes = append(votes, smoothing.Vote(out[i*m:(i+1)*m]))
		}
	}
	return votes, nil
}

func accuracy(votes, labels []int) float64 {
	right := 0
	for i, k := range votes {
		if k == labels[i] {
			right++
		}
	}
	return float64(right) / float64(max(1, len(votes)))
}

// loadReference loads the model once more, in float32 on the CPU provider.
func (e *Experiment) loadReference(ctx context.Context) (*onnx.Model, error) {
	p := e.Spec
	return e.library.LoadFile(ctx, e.file, onnx.LoadOptions{
		Device: onnx.CPU, Workers: 1, Outputs: p.Outputs, Output: p.ScoresOutput, Example: e.data.Shape(),
	})
}

// fewExamples is the smallest number of examples for a warning about a low accuracy under noise. With fewer examples,
// chance alone may explain a low accuracy.
const fewExamples = 20

// percent formats an accuracy on the examples of l.
func (l Look) percent(accuracy float64) string {
	return percent(int(math.Round(accuracy*float64(l.Examples))), l.Examples)
}

// Warn sends warnings about the problems that Look found. The user sees them before the hours of sampling begin.
func (e *Experiment) Warn(l Look) {
	if l.Differ != nil {
		e.console.Notef("accuracy without noise on %d examples: %s in %s by %s, %s in float32; %d predictions differ",
			l.Examples, l.percent(l.Clean), e.model.Precision(), e.Device(), l.percent(*l.Float32), *l.Differ)
	}
	var outcomes []Outcome
	for _, f := range l.Findings {
		outcomes = append(outcomes, f.Outcome)
		if f.Outcome == Suspect {
			e.console.Warnf(f.Aspect.code(), "%s", f.Text)
		}
	}
	e.console.Notef("verdict: %s", Worst(outcomes...).Sentence())
	if l.Examples < fewExamples || nearChance(l.Findings) || l.Noisy >= l.Clean/2 {
		return
	}
	advice := param.Textf("such a model certifies little; train it with noise, or put a denoiser in front (%s)", param.Denoiser)
	if e.denoiser != nil {
		advice = param.Textf("the denoiser takes little of it away: was it trained for this σ and for values as %s says?", param.DenoiserRange)
	}
	e.console.Warnf(warning.WeakUnderNoise, "the model is right on %s of %d examples without noise and on %s with noise of %s = %v: %s",
		l.percent(l.Clean), l.Examples, l.percent(l.Noisy), e.Spec.Law.Law().Words().Symbol, e.Spec.Sigma, advice)
}
