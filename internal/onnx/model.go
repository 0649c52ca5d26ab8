package onnx

import (
	"context"
	"errors"
	"maps"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/warning"
)

// Model is a classifier that is ready to run. It implements smoothing.Classifier.
type Model struct {
	source
	form      sessionKey // how the graph of the open session differs from the model's graph
	noisy     *noisy     // nil if the device makes no noise
	contract  graph.Contract
	adapted   graph.Adaptation
	sample    []int // shape of one sample
	sampleLen int
	row       ort.Shape // shape of the scores of one sample
	classes   int
	single    bool // the model's file returns one number per sample; rscert derives two scores from it
	outputs   graph.OutputKind
	device    Device
	settings  settings
	session   *session
	sizes             // number of samples per Run, number of samples per call, and shapes of a call
	smaller   []sizes // sizes of smaller batches, in ascending order
	copies    int     // if above 0, every call has this number of rows, which hold copies of one sample

	independence Independence
	warnings     []warning.Warning
}

// InputLen returns the number of values of one sample.
func (m *Model) InputLen() int { return m.sampleLen }

// Classes returns the number of scores of one sample.
func (m *Model) Classes() int { return m.classes }

// Lone reports whether the model's file returns one number per sample. rscert derives the scores of classes 0 and 1
// from this number.
func (m *Model) Lone() bool { return m.single }

// Batch returns the number of samples of every Run.
func (m *Model) Batch() int { return m.batch }

// Run computes scores of samples. The argument 'in' has Batch·InputLen values and holds the samples row by row. Run
// writes the scores row by row to the argument 'out', which has Batch·Classes values. Several goroutines may call Run
// concurrently. A sample's scores have the same bits in every batch, whatever the other samples of the batch are. Run
// returns the scores unchanged, including NaN and infinities.
func (m *Model) Run(ctx context.Context, in, out []float32) error {
	return resized{&m.sizes, m}.Run(ctx, in, out)
}

// runCopies runs samples one by one. It copies each sample to all rows of a call, and takes the scores of the first
// row.
func (m *Model) runCopies(ctx context.Context, in, out []float32) error {
	scores := make([]float32, m.copies*m.classes)
	for i := range len(in) / m.sampleLen {
		x := slices.Repeat(in[i*m.sampleLen:(i+1)*m.sampleLen], m.copies)
		if err := m.session.scores(ctx, m.in, m.out, x, scores); err != nil {
			return err
		}
		copy(out[i*m.classes:(i+1)*m.classes], scores)
	}
	return nil
}

// runSingly makes the model run one sample per call. The argument 'rows' is the number of samples that a call of the
// session takes; every row of the call gets a copy of the one sample. The argument 'batch' is the number of samples per
// Run.
func (m *Model) runSingly(rows, batch int) {
	m.independence, m.tile, m.batch = OneByOne, 1, batch
	if rows > 1 {
		m.copies = rows
	}
}

// Independence says why an input's scores cannot depend on the other inputs of its batch.
type Independence string

// These are the two possible reasons why an input's scores cannot depend on the other inputs of its batch.
const (
	Proved Independence = "proved" // the graph treats the inputs of a batch one by one
	// OneByOne means that every input runs alone, because the model has no batch dimension, because the proof failed,
	// or because a trial run failed.
	OneByOne Independence = "one input a call"
)

// Input returns the model's input as the file declares it. If the file has one input for each column of a table,
// the result lists all inputs.
func (m *Model) Input() string { return m.adapted.Input }

// Output returns the output with the scores, as the file declares it.
func (m *Model) Output() string { return m.adapted.Output }

// Intake says how the input's values are rounded before they reach the model. The value Floats means that the input's
// values are not rounded.
func (m *Model) Intake() graph.Intake { return m.adapted.Intake }

// Changes describes the edits that rscert made to the model's graph, with one text for each edit. It lists only edits
// that are part of the classifier. They depend only on the file and the options.
func (m *Model) Changes() []string { return slices.Clone(m.adapted.Changes) }

// Notes returns harmless remarks about the model.
func (m *Model) Notes() []string { return slices.Clone(m.adapted.Notes) }

// Outputs returns the kind of the scores: Logits or Probabilities, or OutputsAuto if it is unknown.
func (m *Model) Outputs() graph.OutputKind { return m.outputs }

// Device returns the device that runs the model.
func (m *Model) Device() Device { return m.device }

// Provider returns the name that ONNX Runtime gives to the model's execution provider.
func (m *Model) Provider() string { return m.device.provider.name }

// Precision returns the number type in which the device computes. A certificate is about the model in this precision,
// so the precision is part of the classifier.
func (m *Model) Precision() Precision { return m.settings.precision }

// Settings records how a model is run. Of these settings, the precision affects the scores, and the options of CUDA may
// change their last bits (see Tuning). If a device has too little memory for calls of the reference size, the smaller
// calls may also change the last bits. No other setting affects the scores.
type Settings struct {
	Precision Precision         `json:"precision"`
	Workers   int               `json:"workers"` // number of goroutines, each with one thread
	Batch     int               `json:"batch"`   // number of samples per Run
	Call      int               `json:"call"`    // number of samples per call of ONNX Runtime
	Options   map[string]string `json:"options,omitempty"`
	// Independence says why inputs of one batch do not affect each other. Independence is "" in runs of old versions of
	// rscert, which did not prove independence.
	Independence Independence `json:"independence,omitempty"`
}

// Settings returns the settings that the model runs with. They never change after the model is loaded.
func (m *Model) Settings() Settings {
	return Settings{
		Precision: m.settings.precision, Workers: m.settings.workers, Batch: m.batch, Call: m.tile,
		Options: maps.Clone(m.session.options), Independence: m.independence,
	}
}

// Warnings returns the warnings about the model and about how it runs.
func (m *Model) Warnings() []warning.Warning { return slices.Clone(m.warnings) }

func (m *Model) warn(code warning.Code, format string, args ...any) {
	m.warnings = append(m.warnings, warning.New(code, format, args...))
}

// Fit maps a data example of the given shape ([C,H,W], [H,W,C], [H,W] or flat [D]) onto the model's input. If either
// the example or the input is flat and the other is an image, the argument 'layout' gives the order of the flat values.
func (m *Model) Fit(shape []int, layout graph.Layout) (graph.Arrangement, error) {
	dims := make([]graph.Dim, len(m.sample))
	for i, n := range m.sample {
		dims[i] = graph.Dim{Size: n}
	}
	_, a, ok := graph.Fit(dims, shape, layout)
	if !ok {
		return a, m.contract.Mismatch(shape)
	}
	return a, nil
}

// Layout returns the layout of the model's input. The result 'ok' reports whether the input is an image of several
// channels.
func (m *Model) Layout() (l graph.Layout, ok bool) { return graph.LayoutOf(m.sample) }

// TakesImages reports whether a sample of the model's input has three dimensions, of which at least two have sizes
// other than 1.
func (m *Model) TakesImages() bool { return len(m.sample) == 3 && len(graph.WithoutOnes(m.sample)) > 1 }

// Close frees the model.
func (m *Model) Close() error { return errors.Join(m.StopNoise(), m.session.close()) }
