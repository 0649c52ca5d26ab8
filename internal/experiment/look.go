package experiment

import (
	"context"
	"errors"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// Look is the result of a quick test on some examples. The test shows, before hours of sampling, whether model, data
// and noise fit each other.
type Look struct {
	Examples int     `json:"examples"`       // number of labelled examples, spread over the experiment
	Clean    float64 `json:"clean_accuracy"` // accuracy without noise
	Noisy    float64 `json:"noisy_accuracy"` // accuracy with noise, from one sample per example
	// Float32 is the accuracy without noise in float32 on the CPU provider. Differ is the number of predictions that
	// disagree with the predictions in float32. Both fields are set only if the experiment uses another precision or
	// provider.
	Float32 *float64 `json:"clean_accuracy_f32,omitempty"`
	Differ  *int     `json:"differ_from_f32,omitempty"`
	// SamplesPerSecond is a first estimate of the speed of all workers together.
	SamplesPerSecond float64 `json:"samples_per_second"`
}

// These constants limit the examples and the time of Look.
const (
	lookExamples = 200
	lookTime     = 20 * time.Second
)

// Look runs the model on some of the examples, without and with noise.
func (e *Experiment) Look(ctx context.Context) (Look, error) {
	var l Look
	labels, inputs, err := e.lookInputs()
	if err != nil || len(labels) == 0 {
		return l, err
	}
	d := e.model.InputLen()
	clean := func(i int, to []float32) { inputs[i].Clean(to) }
	noisy := func(i int, to []float32) {
		inputs[i].Perturb(to, smoothing.NewStream(e.Spec.Seed, i, smoothing.Selection), 0)
	}
	began := time.Now()
	predicted, err := classify(ctx, e.model, len(labels), d, clean)
	if err != nil {
		return l, err
	}
	labels = labels[:len(predicted)] // time may have run out before all examples were classified
	l.Examples, l.Clean = len(labels), accuracy(predicted, labels)
	under, err := classify(ctx, e.model, len(labels), d, noisy)
	if err != nil {
		return l, err
	}
	l.Noisy = accuracy(under, labels[:len(under)])
	l.SamplesPerSecond = float64(len(predicted)+len(under)) / time.Since(began).Seconds() * float64(e.parallel())
	if e.model.Precision() == onnx.F32 && e.model.Provider() == "CPUExecutionProvider" {
		return l, nil
	}
	return l, e.compareReference(ctx, &l, clean, predicted, labels)
}

// compareReference compares predictions without noise with predictions in float32 on the CPU provider.
func (e *Experiment) compareReference(ctx context.Context, l *Look, clean func(i int, to []float32), predicted, labels []int) error {
	reference, err := e.loadReference(ctx)
	if err != nil {
		return err
	}
	exact, err := classify(ctx, reference, len(labels), e.model.InputLen(), clean)
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

// lookInputs returns labelled examples that are spread over the experiment.
func (e *Experiment) lookInputs() (labels []int, inputs []smoothing.Input, err error) {
	n := min(lookExamples, len(e.positions))
	for k := range n {
		example, err := e.Example(e.positions[k*len(e.positions)/n])
		if err != nil {
			return nil, nil, err
		}
		if example.Label != certify.UnknownLabel {
			labels, inputs = append(labels, example.Label), append(inputs, example.Input)
		}
	}
	return labels, inputs, nil
}

// classify returns the votes for n inputs of d values each. If time runs out, it returns only the votes for the inputs
// that it has classified.
func classify(ctx context.Context, model *onnx.Model, n, d int, fill func(i int, to []float32)) ([]int, error) {
	batch, m := model.Batch(), model.Classes()
	in, out := make([]float32, batch*d), make([]float32, batch*m)
	deadline := time.Now().Add(lookTime)
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

// If there are fewer than fewExamples examples, chance alone may explain a low accuracy.
const fewExamples = 20

// Warn sends warnings about problems that Look found, before hours of sampling.
func (e *Experiment) Warn(l Look) {
	e.warnOfValues()
	if l.Differ != nil {
		e.console.Notef("accuracy without noise on %d examples: %.1f %% in %s by %s, %.1f %% in float32; %d predictions differ",
			l.Examples, 100*l.Clean, e.model.Precision(), e.Device(), 100**l.Float32, *l.Differ)
	}
	if l.Examples < fewExamples {
		return
	}
	low := 2 / float64(e.model.Classes())
	if e.model.Classes() == 2 {
		low = 0.6
	}
	advice := param.Textf("such a model certifies little; train it with noise, or put a denoiser in front (%s)", param.Denoiser)
	if e.denoiser != nil {
		advice = param.Textf("the denoiser takes little of it away: was it trained for this σ and for values as %s says?", param.DenoiserRange)
	}
	switch {
	case l.Clean < low:
		e.console.Warnf("the model is right on %.1f %% of %d examples without noise, near chance: do %s and %s, %s, the labels and their order fit the model?",
			100*l.Clean, l.Examples, param.Mean, param.Std, param.Layout)
	case l.Noisy < l.Clean/2:
		e.console.Warnf("the model is right on %.1f %% of %d examples without noise and on %.1f %% with noise of %s = %v: %s",
			100*l.Clean, l.Examples, 100*l.Noisy, e.Spec.Law.Law().Words().Symbol, e.Spec.Sigma, advice)
	}
}

// A range of the data above muchSpan·σ, or values above muchInput at the model's input, are probably a mistake.
const (
	muchSpan  = 200
	muchInput = 50
)

// warnOfValues sends warnings if the data, σ, mean and std do not match.
func (e *Experiment) warnOfValues() {
	if e.Spec.Noise == spec.Float || e.Spec.Scaled() {
		return // the range of the data is unknown
	}
	data := e.noise.data
	span := float64(data.High) - float64(data.Low)
	if data.Kind != dataset.ByteLattice && span/e.Spec.Sigma > muchSpan {
		e.console.Warnf("the data go from %v to %v and %s is %v, in the same units: bytes are best given as bytes (uint8), which are scaled to [0,1]",
			data.Low, data.High, e.Spec.Law.Law().Words().Symbol, e.Spec.Sigma)
	}
	if data.Kind == dataset.ByteLattice && e.file.Learned() && len(e.Spec.Std) == 0 {
		e.console.Warnf("the data are whole numbers from 0 to 255, which were scaled to [0,1]; was the model fitted to them as they are? Then give %s %v (1/255)", param.Std, 1/255.)
	}
	if most := e.noise.largest(e.Spec); most > muchInput {
		e.console.Warnf("the model gets values up to %.3g: do %s and %s fit data from %v to %v?", most, param.Mean, param.Std, data.Low, data.High)
	}
}
