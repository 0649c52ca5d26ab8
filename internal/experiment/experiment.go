// Package experiment opens experiments. According to a spec.Spec, it loads the model on a device, opens the data and
// prepares the noise. It checks that the model, the data and the noise fit each other. Every command that samples a
// model starts from Open.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// Console receives messages to the user and shows progress.
type Console struct {
	Warn     func(warning.Warning) // sends a warning: the results may not be what the user wants
	Note     func(param.Text)      // sends other information that the user may want
	Progress progress.Options
}

// Warnf sends a warning. The arguments may name parameters, as in param.Textf.
func (c Console) Warnf(code warning.Code, format string, args ...any) {
	c.Warn(warning.New(code, format, args...))
}

// Notef sends a note. The arguments may name parameters, as in param.Textf.
func (c Console) Notef(format string, args ...any) { c.Note(param.Textf(format, args...)) }

// longSilence is the longest time that rscert works without telling the user what it does.
const longSilence = 2 * time.Second

// afterSeconds sends a note unless the caller calls 'stop' within longSilence. If the note is being sent at the time of
// this call, 'stop' waits until the note has been sent. The reason is that the functions of a Console are not safe for
// concurrent use.
func (c Console) afterSeconds(note string) (stop func()) {
	sent := make(chan struct{})
	timer := time.AfterFunc(longSilence, func() {
		c.Notef("%s", note)
		close(sent)
	})
	return func() {
		if !timer.Stop() {
			<-sent
		}
	}
}

// Experiment holds the loaded model, the data and the noise of a spec. Open returns it.
type Experiment struct {
	Spec spec.Spec // settled spec; Open has chosen its fields 'Seed' and 'Select'

	console  Console
	file     *graph.File // the model, joined with its denoiser if there is one
	modelSum string      // SHA-256 of the model, in hex
	recipe   string      // SHA-256 of the model's recipe; empty for an ensemble
	denoiser *runfolder.Denoiser
	members  []runfolder.Member // the models of an ensemble
	library  *onnx.Runtime
	model    *onnx.Model
	replicas []*onnx.Model // copies of the model on further devices
	data     *dataset.Dataset
	noise    *noise
	// arrangement for HWC if the layout is CHW, and vice versa; nil if both layouts give the same inputs
	other     *graph.Arrangement
	onHost    error // reason why the host makes the noise although a device was to make it; otherwise nil
	threads   int
	positions []int // positions of the examples in the data

	// These fields are for noise with a scale for each column.
	columns columns
	scale   *runfolder.ScaleData // the data that the scales come from; nil: none
}

// Open opens an experiment. It settles and validates the spec, chooses the seed and the examples, loads the model on
// every device, and checks that model, data and noise fit. It reports its decisions to the console. Errors in the
// user's input are spec.InputErrors. The caller must Close the experiment.
func Open(ctx context.Context, s spec.Spec, console Console) (*Experiment, error) {
	s.Settle()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	e := &Experiment{Spec: s, console: console, threads: s.Threads}
	if e.threads == 0 {
		e.threads = smoothing.DefaultWorkers()
	}
	if err := e.chooseSeed(); err != nil {
		return nil, err
	}
	err := e.open(ctx)
	if err == nil {
		e.report()
		err = e.chooseExamples()
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// open loads the model and the data, and matches them to each other and to the noise.
func (e *Experiment) open(ctx context.Context) error {
	err := e.readModels()
	if err != nil {
		return err
	}
	if err := e.openData(ctx); err != nil {
		return spec.BadInput(err)
	}
	if err := e.checkExpected(); err != nil {
		return spec.BadInput(err)
	}
	if e.library, err = OpenLibrary(e.Spec.Device, e.Spec.Library); err != nil {
		return err
	}
	e.data.FitChannels(imageChannels(e.file))
	models, err := e.library.LoadEach(ctx, e.file, onnx.LoadOptions{
		Device: e.Spec.Device, Precision: e.Spec.Precision, Tuning: e.Spec.Tuning(), Batch: e.Spec.Batch, Workers: e.threads,
		Smaller: e.Spec.SmallerBatches,
		Outputs: e.Spec.Outputs, Output: e.Spec.ScoresOutput, Scores: e.Spec.KeepOutputs,
		Example: e.data.Shape(), Columns: e.data.Columns(),
	})
	if err != nil {
		return spec.BadInput(e.adviseLabels(fmt.Errorf("%s: %w", e.Spec.ModelName(), err)))
	}
	e.model, e.replicas = models[0], models[1:]
	arrangement, err := e.chooseLayout()
	if err != nil {
		return spec.BadInput(e.adviseLabels(fmt.Errorf("%s and %s: %w", e.Spec.ModelName(), e.Spec.Data, err)))
	}
	if err := e.data.CheckLabels(e.model.Classes()); err != nil {
		return spec.BadInput(err)
	}
	if err := e.scaleColumns(ctx, arrangement); err != nil {
		return err
	}
	stop := e.console.afterSeconds("noise: the lattice is fine against the range of the data; its tables take a while")
	e.noise, err = e.newNoise(ctx, arrangement)
	stop()
	if err != nil {
		return err
	}
	if e.Spec.Noise != spec.NoNoise {
		e.onHost = e.placeNoise(ctx, e.Spec.NoiseOn, e.Spec.Seed)
	}
	return ctx.Err()
}

// openData opens the data. If the inputs come in requests, it makes a dataset that describes these inputs. The model's
// file may list the labels of its classes in order. If the user names no classes, openData numbers the classes in this
// order. If openData does not use this order, it removes the list from the spec, so that run.json does not record the
// list.
func (e *Experiment) openData(ctx context.Context) (err error) {
	if e.Spec.Requests != nil {
		e.data, err = e.requests()
		return err
	}
	options := &e.Spec.DataOptions
	options.ModelClasses = e.file.ClassLabels()
	e.data, err = dataset.Open(ctx, e.Spec.Data, *options)
	if err == nil && !e.data.ByModel(*options) {
		options.ModelClasses = nil
	}
	return err
}

// checkExpected returns an error unless the files have the digests that the spec expects.
func (e *Experiment) checkExpected() error {
	want := e.Spec.Expected
	denoiser := ""
	if e.denoiser != nil {
		denoiser = e.denoiser.SHA256
	}
	for _, f := range []struct {
		flag          param.Name
		path, is, was string
	}{
		{param.Model, e.Spec.ModelName(), e.modelSum, want.Model}, {param.Data, e.Spec.Data, e.data.SHA256(), want.Data},
		{param.Denoiser, e.Spec.Denoiser, denoiser, want.Denoiser},
	} {
		if f.was != "" && f.is != f.was {
			return hint.Add(fmt.Errorf("%s: has the SHA-256 %.12s…, and %s was made with %.12s…", f.path, f.is, want.Run, f.was),
				"to use this file all the same, name it: %s %s", f.flag, f.path)
		}
	}
	return nil
}

// adviseLabels adds a hint to an error about the shape of examples from a table. One column too few or too many may
// mean that the labels are in another column, or that the table has no labels.
func (e *Experiment) adviseLabels(err error) error {
	if labels := e.data.LabelColumn(); labels != "" {
		if _, has := hint.Of(err); !has {
			return hint.Add(err, "the labels are those of %s; %s says which column holds them, and %s none says that there are no labels", labels, param.LabelColumn, param.Labels)
		}
	}
	return err
}

// report sends the console a description of the opened experiment, and warnings about likely mistakes.
func (e *Experiment) report() {
	if note := e.data.Note(); note != "" {
		e.console.Notef("data: %s", note)
	}
	if text, matters := e.layoutText(); matters {
		e.console.Notef("layout: %s", text)
	}
	if len(e.members) > 0 {
		e.console.Notef("model: the mean of the %s of %d models", e.Spec.Average, len(e.members))
	}
	if e.denoiser != nil {
		e.console.Notef("classifier: %s", Classifier(e.Spec.ModelName(), e.denoiser))
	}
	for _, note := range e.model.Notes() {
		e.console.Notef("model: %s", note)
	}
	if e.Spec.Noise != spec.NoNoise {
		e.console.Notef("noise: %s", e.noise)
	}
	if e.onHost != nil {
		e.console.Warnf(warning.WorkOnHost, "the noise is made on the host, not on %s: %v", e.Device(), e.onHost)
	}
	for _, w := range e.model.Warnings() {
		e.console.Warnf(w.Code, "%s: %s", e.Spec.ModelName(), w.Text)
	}
	for _, w := range e.data.Warnings() {
		e.console.Warn(w)
	}
}

// chooseExamples chooses the examples of the experiment. If it finds none, it returns an error.
func (e *Experiment) chooseExamples() error {
	if err := e.Spec.Only.Check(e.data.Len()); err != nil {
		return spec.BadInputf("%s: %w", param.Only, err)
	}
	e.chooseSelection()
	e.positions = e.Spec.Positions(e.data.Len())
	if len(e.positions) > 0 {
		return nil
	}
	whole := e.Spec.Conditions
	whole.Shard = spec.Whole
	return spec.BadInputf("%s %s: has none of the %d examples", param.Shard, e.Spec.Shard, len(whole.Positions(e.data.Len())))
}

// OpenLibrary finds and opens an ONNX Runtime library that runs models on the device. If the caller names the library's
// file, all errors are InputErrors.
func OpenLibrary(device onnx.Device, named string) (*onnx.Runtime, error) {
	path, err := ortlib.FindFor(device.Build(), named)
	var library *onnx.Runtime
	if err == nil {
		library, err = onnx.Open(path)
	}
	if named != "" {
		err = spec.BadInput(err)
	}
	return library, err
}
