package run

import (
	"context"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// Look is what some examples say of a run before the hours of sampling: whether model,
// data and noise fit each other.
type Look struct {
	Examples int     `json:"examples"`       // with a label, spread over the run's
	Clean    float64 `json:"clean_accuracy"` // of the model without noise
	Noisy    float64 `json:"noisy_accuracy"` // of the model, one noisy sample an example
	// Float32 is the accuracy without noise of the model in float32 on the CPU provider,
	// and Differ the number of predictions that differ from it; of another precision or
	// provider only.
	Float32 *float64 `json:"clean_accuracy_f32,omitempty"`
	Differ  *int     `json:"differ_from_f32,omitempty"`
	// SamplesPerSecond is the speed of all workers together, a first guess.
	SamplesPerSecond float64 `json:"samples_per_second"`
}

// How much is looked at, at most, and for how long.
const (
	lookExamples = 200
	lookTime     = 20 * time.Second
)

// look runs the model on some of the examples, without and with noise.
func (r *running) look(ctx context.Context) (Look, error) {
	var l Look
	labels, inputs, err := r.lookInputs()
	if err != nil || len(labels) == 0 {
		return l, err
	}
	d := r.inputs.model.InputLen()
	clean := func(i int, to []float32) { inputs[i].Clean(to) }
	noisy := func(i int, to []float32) {
		inputs[i].Perturb(to, smoothing.NewStream(r.plan.Seed, i, smoothing.Selection), 0)
	}
	began := time.Now()
	predicted, err := classify(ctx, r.inputs.model, len(labels), d, clean)
	if err != nil {
		return l, err
	}
	labels = labels[:len(predicted)] // those for which there was time
	l.Examples, l.Clean = len(labels), accuracy(predicted, labels)
	under, err := classify(ctx, r.inputs.model, len(labels), d, noisy)
	if err != nil {
		return l, err
	}
	l.Noisy = accuracy(under, labels[:len(under)])
	l.SamplesPerSecond = float64(len(predicted)+len(under)) / time.Since(began).Seconds() * float64(r.inputs.parallel())
	if r.inputs.model.Precision() == onnx.F32 && r.inputs.model.Provider() == "CPUExecutionProvider" {
		return l, nil
	}
	reference, err := r.inputs.loadReference(ctx, r.plan)
	if err != nil {
		return l, err
	}
	defer reference.Close()
	exact, err := classify(ctx, reference, len(labels), d, clean)
	if err != nil {
		return l, err
	}
	share, differ := accuracy(exact, labels[:len(exact)]), 0
	for i, k := range exact {
		if k != predicted[i] {
			differ++
		}
	}
	l.Float32, l.Differ = &share, &differ
	return l, nil
}

// lookInputs are labelled examples spread over the run's.
func (r *running) lookInputs() (labels []int, inputs []smoothing.Input, err error) {
	n := min(lookExamples, len(r.positions))
	for k := range n {
		example, err := r.inputs.data.Example(r.positions[k*len(r.positions)/n])
		if err != nil {
			return nil, nil, BadInput(err)
		}
		if example.Label == certify.UnknownLabel {
			continue
		}
		input, _, err := r.inputs.noise.input(example.Values)
		if err != nil {
			return nil, nil, BadInput(err)
		}
		labels, inputs = append(labels, example.Label), append(inputs, input)
	}
	return labels, inputs, nil
}

// classify returns the votes of n inputs [d], or of the first of them if time runs out.
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
func (in *inputs) loadReference(ctx context.Context, p Plan) (*onnx.Model, error) {
	return in.library.LoadFile(ctx, in.file, onnx.LoadOptions{
		Device: onnx.CPU, Workers: 1, Outputs: p.Outputs, Output: p.ScoresOutput, Example: in.data.Shape(),
	})
}

// fewExamples is too few to call an accuracy low.
const fewExamples = 20

// warn says what a user would want to know before hours of sampling.
func (r *running) warn(l Look) {
	r.warnOfValues()
	if l.Differ != nil {
		r.console.notef("accuracy without noise on %d examples: %.1f %% in %s by %s, %.1f %% in float32; %d predictions differ",
			l.Examples, 100*l.Clean, r.inputs.model.Precision(), r.inputs.device(), 100**l.Float32, *l.Differ)
	}
	if l.Examples < fewExamples {
		return
	}
	low := 2 / float64(r.inputs.model.Classes())
	if r.inputs.model.Classes() == 2 {
		low = 0.6
	}
	advice := param.Textf("such a model certifies little; train it with noise, or put a denoiser in front (%s)", param.Denoiser)
	if r.inputs.denoiser != nil {
		advice = param.Textf("the denoiser takes little of it away: was it trained for this σ and for values as %s says?", param.DenoiserRange)
	}
	switch {
	case l.Clean < low:
		r.console.warnf("the model is right on %.1f %% of %d examples without noise, near chance: do %s and %s, %s, the labels and their order fit the model?",
			100*l.Clean, l.Examples, param.Mean, param.Std, param.Layout)
	case l.Noisy < l.Clean/2:
		r.console.warnf("the model is right on %.1f %% of %d examples without noise and on %.1f %% with noise of %s = %v: %s",
			100*l.Clean, l.Examples, 100*l.Noisy, r.plan.Law.Law().Words().Symbol, r.plan.Sigma, advice)
	}
}

// Values that are so many σ apart, or so large at the model, are seldom meant.
const (
	muchSpan  = 200
	muchInput = 50
)

// warnOfValues warns where the data, σ, and --mean and --std do not fit each other.
func (r *running) warnOfValues() {
	if r.plan.Noise == runfolder.Float {
		return // the data have not been looked at
	}
	data := r.inputs.noise.data
	span := float64(data.High) - float64(data.Low)
	if data.Kind != dataset.ByteLattice && span/r.plan.Sigma > muchSpan {
		r.console.warnf("the data go from %v to %v and %s is %v, in the same units: bytes are best given as bytes (uint8), which are scaled to [0,1]",
			data.Low, data.High, r.plan.Law.Law().Words().Symbol, r.plan.Sigma)
	}
	if data.Kind == dataset.ByteLattice && r.inputs.file.Learned() && len(r.plan.Std) == 0 {
		r.console.warnf("the data are whole numbers from 0 to 255, which were scaled to [0,1]; was the model fitted to them as they are? Then give %s %v (1/255)", param.Std, 1/255.)
	}
	if most := r.inputs.noise.largest(r.plan); most > muchInput {
		r.console.warnf("the model gets values up to %.3g: do %s and %s fit data from %v to %v?", most, param.Mean, param.Std, data.Low, data.High)
	}
}
