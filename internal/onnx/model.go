package onnx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/graph"
)

// Model is a classifier ready to run. It satisfies smoothing.Classifier.
type Model struct {
	source
	form      sessionKey // of session
	noisy     *noisy     // nil: the model makes no noise itself
	contract  graph.Contract
	adapted   graph.Adaptation
	sample    []int // sizes of one sample
	sampleLen int
	row       ort.Shape // shape of the scores of one sample
	classes   int
	outputs   graph.OutputKind
	device    Device
	settings  settings
	session   *session
	batch     int       // samples a Run
	tile      int       // samples a call of the session; divides batch
	copies    int       // rows of a call that all hold its one sample, where the file fixes a batch; 0: each has its own
	in, out   ort.Shape // of a call

	independence Independence
	warnings     []string
}

// InputLen is the number of values of one sample.
func (m *Model) InputLen() int { return m.sampleLen }

// Classes is the number of scores of one sample.
func (m *Model) Classes() int { return m.classes }

// Batch is the number of samples of every Run.
func (m *Model) Batch() int { return m.batch }

// Run computes the scores out [Batch·Classes] of the samples in
// [Batch·InputLen], both row by row. It may be called from several goroutines
// at once. A sample's scores are the same bits whatever the batch and the
// samples beside it. They are passed on as they come, NaN and infinities too.
func (m *Model) Run(ctx context.Context, in, out []float32) error {
	if len(in) != m.batch*m.sampleLen || len(out) != m.batch*m.classes {
		return fmt.Errorf("a run takes %d×%d values and gives %d×%d scores, not %d and %d",
			m.batch, m.sampleLen, m.batch, m.classes, len(in), len(out))
	}
	if m.copies > 1 {
		return m.explainRun(m.runCopies(ctx, in, out))
	}
	for i := 0; i < m.batch; i += m.tile {
		j := i + m.tile
		err := m.session.scores(ctx, m.in, m.out, in[i*m.sampleLen:j*m.sampleLen], out[i*m.classes:j*m.classes])
		if err != nil {
			return m.explainRun(err)
		}
	}
	return nil
}

// runCopies runs samples one by one, each in all rows of a call: the scores are those of the first row.
func (m *Model) runCopies(ctx context.Context, in, out []float32) error {
	scores := make([]float32, m.copies*m.classes)
	for i := range m.batch {
		x := slices.Repeat(in[i*m.sampleLen:(i+1)*m.sampleLen], m.copies)
		if err := m.session.scores(ctx, m.in, m.out, x, scores); err != nil {
			return err
		}
		copy(out[i*m.classes:(i+1)*m.classes], scores)
	}
	return nil
}

// runSingly makes the model run one sample a call, in every row of a session that is for rows samples.
func (m *Model) runSingly(rows, batch int) {
	m.independence, m.tile, m.batch = OneByOne, 1, batch
	if rows > 1 {
		m.copies = rows
	}
}

// Independence says why an input's scores cannot depend on the inputs beside it.
type Independence string

const (
	Proved   Independence = "proved"           // the graph treats the inputs of a batch one by one
	OneByOne Independence = "one input a call" // that is not proved of the graph: no input has others beside it
)

// Input is the model's input as its file declares it; where it has one for each
// column of a table, all of them.
func (m *Model) Input() string { return m.adapted.Input }

// Output is the output that the scores are taken from, as the file declares it.
func (m *Model) Output() string { return m.adapted.Output }

// Intake is what the input takes: where it is not Floats, values are rounded in
// front of the model.
func (m *Model) Intake() graph.Intake { return m.adapted.Intake }

// Changes are the edits of the model's graph that are part of the classifier, a
// line each. They are the same for the same file and options.
func (m *Model) Changes() []string { return slices.Clone(m.adapted.Changes) }

// Notes are what there is to know of the model, of no harm.
func (m *Model) Notes() []string { return slices.Clone(m.adapted.Notes) }

// Outputs says what the scores are: Logits or Probabilities; OutputsAuto if
// that could not be told.
func (m *Model) Outputs() graph.OutputKind { return m.outputs }

// Device is where the model runs.
func (m *Model) Device() Device { return m.device }

// Provider is ONNX Runtime's name of the execution provider that runs it.
func (m *Model) Provider() string { return m.device.provider.name }

// Precision is the type of number that the device computes in. It is part of
// the classifier.
func (m *Model) Precision() Precision { return m.settings.precision }

// Settings are what a model is run with, for the record. Scores depend on the
// precision alone.
type Settings struct {
	Precision Precision         `json:"precision"`
	Workers   int               `json:"workers"` // goroutines that it is set up for, each with one thread of its own
	Batch     int               `json:"batch"`   // samples a Run
	Call      int               `json:"call"`    // samples a call of ONNX Runtime
	Options   map[string]string `json:"options,omitempty"`
	// Independence says why inputs of one batch do not see each other; "" in runs older than the proof.
	Independence Independence `json:"independence,omitempty"`
}

// Settings returns what the model is run with. They stay as they are.
func (m *Model) Settings() Settings {
	return Settings{
		Precision: m.settings.precision, Workers: m.settings.workers, Batch: m.batch, Call: m.tile,
		Options: maps.Clone(m.session.options), Independence: m.independence,
	}
}

// Warnings are what the user should know of how the model is run.
func (m *Model) Warnings() []string { return slices.Clone(m.warnings) }

func (m *Model) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf(format, args...))
}

// Fit maps a data example of the given shape ([C,H,W], [H,W,C], [H,W] or flat
// [D]) onto the model's input; layout is the order of the values on the flat
// side, if only one side is flat.
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

// Close frees the model.
func (m *Model) Close() error { return errors.Join(m.StopNoise(), m.session.close()) }
