package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"math"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// Example is an example of the data together with its noise.
type Example struct {
	Index, Label int
	Input        smoothing.Input
	// Quantisation is subtracted from every radius, because the input is rounded. It is in units of the data.
	Quantisation float64
}

// Positions returns the positions of the experiment's examples in the data, ascending.
func (e *Experiment) Positions() []int { return e.positions }

// Example loads the example at a position of the data. The errors of this method are InputErrors.
func (e *Experiment) Example(position int) (Example, error) {
	example, err := e.data.Example(position)
	if err != nil {
		return Example{}, spec.BadInput(err)
	}
	return e.withNoise(example)
}

// withNoise returns an example of the data together with its noise. Its errors are InputErrors.
func (e *Experiment) withNoise(example dataset.Example) (Example, error) {
	input, quantisation, err := e.noise.input(example.Values)
	if err != nil {
		return Example{}, spec.BadInput(fmt.Errorf("%s: example %d: %w", e.Spec.Data, example.Index, err))
	}
	if reading := e.noise.reading(example); reading > 0 {
		quantisation = math.Nextafter(quantisation+reading, math.Inf(1))
	}
	return Example{Index: example.Index, Label: example.Label, Input: input, Quantisation: quantisation}, nil
}

// Label returns the label of the example with this index.
func (e *Experiment) Label(index int) int { return e.data.Label(index) }

// Model returns the model on the first device.
func (e *Experiment) Model() *onnx.Model { return e.model }

// Denoiser returns the denoiser in front of the model, or nil.
func (e *Experiment) Denoiser() *runfolder.Denoiser { return e.denoiser }

// Threads returns the number of threads.
func (e *Experiment) Threads() int { return e.threads }

// ReleaseFile frees the memory of the model's file. Only Look and Warn need this file.
func (e *Experiment) ReleaseFile() { e.file = nil }

// Close closes the model and the data.
func (e *Experiment) Close() error {
	var failed []error
	for _, m := range e.models() {
		failed = append(failed, m.Close())
	}
	if e.library != nil {
		failed = append(failed, e.library.Close())
	}
	if e.data != nil {
		failed = append(failed, e.data.Close())
	}
	return errors.Join(failed...)
}

// Data describes the format and the contents of an experiment's data.
type Data struct {
	Format    string
	Shape     []int
	Classes   int    // one more than the largest label
	Values    string // description of the values and their lattice
	Low, High float64
}

// Data returns a description of the experiment's data.
func (e *Experiment) Data() Data {
	return Data{
		Format: e.data.Format(), Shape: e.data.Shape(), Classes: e.data.Classes(),
		Values: e.noise.String(), Low: float64(e.noise.data.Low), High: float64(e.noise.data.High),
	}
}

// Record returns the content of run.json for the experiment. The caller adds the parameters of the command and the
// version of rscert.
func (e *Experiment) Record() runfolder.Run {
	settings := e.model.Settings()
	r := runfolder.Run{
		Schema: runfolder.Schema,
		Model: runfolder.Model{
			File: e.Spec.ModelName(), SHA256: e.modelSum,
			Input: e.model.Input(), Output: e.model.Output(), Classes: e.model.Classes(),
			Recipe:  e.recipe,
			Changes: e.changes(), Denoiser: e.denoiser, Members: e.members,
		},
		Data: runfolder.Data{
			File: e.Spec.Data, SHA256: e.data.SHA256(), Format: e.data.Format(), Shape: e.data.Shape(),
			Examples: e.data.Len(), Selected: len(e.positions),
			Options: e.Spec.DataOptions, Note: e.data.Note(),
		},
		Parameters: runfolder.Parameters{Smoothing: e.Spec.Smoothing, Conditions: e.Spec.Conditions},
		Noise:      e.noise.describe(),
		Runtime: runfolder.Runtime{
			Library: e.library.Version(), LibrarySHA256: e.library.SHA256(), LibraryUnknown: !ortlib.Known(e.library.SHA256()),
			Provider: e.model.Provider(), Device: e.Device().String(),
			Batch: e.model.Batch(), Threads: e.threads,
			Call: settings.Call, Options: settings.Options, Independence: string(settings.Independence),
			GPUs: e.GPUs(), NoiseOn: string(e.noiseOn()),
		},
	}
	r.Data.Scale = e.scale
	r.Data.ClassNames, r.Data.ClassNamesSHA256 = e.data.ClassNames()
	r.Parameters.Outputs = e.model.Outputs()
	return r
}

// DrawNoisy adds noise to the first example of the experiment, and writes the noisy image to a PNG file. Values are
// clipped to [0,1].
func (e *Experiment) DrawNoisy(path string) error {
	shape := e.data.Shape()
	if !Drawable(shape) {
		return spec.BadInputf("%s %s: examples of shape %v are no images of 1 or 3 channels", param.CheckImage, path, shape)
	}
	if e.Spec.Scaled() {
		return spec.BadInputf("%s %s: pictures are drawn of noise with one σ", param.CheckImage, path)
	}
	example, err := e.data.Example(e.positions[0])
	if err != nil {
		return spec.BadInput(err)
	}
	values := make([]float32, len(example.Values))
	stream := smoothing.NewStream(e.Spec.Seed, 0, smoothing.Selection)
	if err := e.noise.perturb(values, example.Values, e.Spec.Sigma, stream); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, drawRGB(values, shape)); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}
