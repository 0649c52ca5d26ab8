package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// Outcome is what a run found, and what certify --json prints.
type Outcome struct {
	certify.Summary
	Out              string  `json:"out"`
	SamplesDrawn     int64   `json:"samples_drawn"` // by this process, selection included
	Seconds          float64 `json:"seconds"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	// CleanAccuracy is the model's without noise and SmoothedAccuracy that of the most votes
	// under noise: estimates, beside what is certified. Nil without labels.
	CleanAccuracy    *float64 `json:"clean_accuracy,omitempty"`
	SmoothedAccuracy *float64 `json:"smoothed_accuracy,omitempty"`
	// Denoiser is the one in front of the model, if any: all figures are of the pair.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
	// None is the number of samples of all examples that voted for no class, because the
	// model's output was NaN or infinite.
	None int64 `json:"none,omitempty"`
	// Compared is the number of samples of all examples that were run again, alone and among other inputs: their outputs
	// were the same bits.
	Compared int64 `json:"compared,omitempty"`
	// TangentSamples of the n fixed the guess of the bounds on the confidence, for want of selection samples.
	TangentSamples int64 `json:"tangent_samples,omitempty"`
}

// Certify carries out a plan. Errors in what the user gave are InputErrors; an
// interrupted run can be resumed.
func Certify(ctx context.Context, p Plan, console Console) (Outcome, error) {
	r, err := prepare(ctx, p, console)
	if err != nil {
		return Outcome{}, err
	}
	defer r.inputs.close()
	description := r.inputs.describe(r.plan, len(r.positions))
	if r.certifiers, err = newCertifiers(description); err != nil {
		return Outcome{}, BadInput(err)
	}
	if r.folder, err = openFolder(r.plan, description); err != nil {
		return Outcome{}, err
	}
	r.warnOfMove()
	if p.FixedSeed == nil && len(r.folder.Done()) == 0 {
		console.notef("seed: %d; %s %d repeats the noise", r.plan.Seed, param.Seed, r.plan.Seed)
	}
	outcome, err := r.finish(ctx)
	if closeErr := r.folder.Close(); err == nil {
		err = closeErr
	}
	if _, advised := hint.Of(err); err != nil && !advised && (len(r.certs) > 0 || errors.Is(err, context.Canceled)) {
		err = hint.Add(err, "%d of %d examples are in %s; go on with %s", len(r.certs), len(r.positions), p.Out, param.Resume)
	}
	return outcome, err
}

// prepare opens what a plan names and settles what follows from it.
func prepare(ctx context.Context, p Plan, console Console) (*running, error) {
	p.Settle()
	if err := p.validate(); err != nil {
		return nil, err
	}
	if _, err := newCertifiers(runfolder.Run{Parameters: p.Parameters}); err != nil {
		return nil, BadInput(err) // before the work of opening
	}
	if err := p.chooseSeed(console); err != nil {
		return nil, err
	}
	p.keepComputation()
	in, err := openInputs(ctx, p)
	if err != nil {
		return nil, err
	}
	if note := in.data.Note(); note != "" {
		console.notef("data: %s", note)
	}
	if in.denoiser != nil {
		console.notef("classifier: %s", p.Classifier(in.denoiser))
	}
	for _, note := range in.model.Notes() {
		console.notef("model: %s", note)
	}
	console.notef("noise: %s", in.noise)
	if in.onHost != nil {
		console.warnf("the noise is made on the host, not on %s: %v", in.device(), in.onHost)
	}
	for _, w := range in.model.Warnings() {
		console.warnf("%s: %s", p.Model, w)
	}
	for _, w := range in.data.Warnings() {
		console.warnf("%s", w)
	}
	if err := p.chooseSelection(in.data, console); err != nil {
		in.close()
		return nil, err
	}
	positions := p.Positions(in.data.Len())
	if len(positions) == 0 {
		in.close()
		whole := p.Parameters
		whole.Shard = runfolder.Whole
		return nil, badInputf("%s %s: has none of the %d examples", param.Shard, p.Shard, len(whole.Positions(in.data.Len())))
	}
	return &running{plan: p, console: console, inputs: in, positions: positions}, nil
}

// finish samples what the folder does not have yet.
func (r *running) finish(ctx context.Context) (Outcome, error) {
	if err := r.takeDone(); err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", r.plan.Out, err)
	}
	if len(r.certs) == 0 {
		l, err := r.look(ctx)
		if err != nil {
			return Outcome{}, err
		}
		r.warn(l)
	}
	r.inputs.file = nil // the model is not loaded again: its memory is given back
	started := time.Now()
	if err := r.sample(ctx); err != nil {
		return Outcome{}, err
	}
	if err := r.folder.Finish(); err != nil {
		return Outcome{}, err
	}
	took := time.Since(started).Seconds()
	drawn := r.drawn.Load()
	if r.none > 0 {
		r.console.warnf("%s: %d of %d outputs are NaN or infinite: they vote for no class, and count against every one", r.plan.Model, r.none, r.samples)
	}
	outcome := Outcome{
		Summary: r.summary(), Out: r.plan.Out,
		SamplesDrawn: drawn, Seconds: took, SamplesPerSecond: float64(drawn) / took, None: r.none, Compared: r.compared,
		TangentSamples: r.plan.TangentSamples(),
		Denoiser:       r.inputs.denoiser,
	}
	if share, ok := r.accuracy.CleanShare(); ok {
		outcome.CleanAccuracy = &share
	}
	if share, ok := r.accuracy.SmoothedShare(); ok {
		outcome.SmoothedAccuracy = &share
	}
	return outcome, nil
}

// summary is that of the run's certificates, at the radii that its plan asks for.
func (r *running) summary() certify.Summary {
	radii := r.plan.Radii
	if len(radii) == 0 {
		radii = certify.SummaryRadii(r.certs)
	}
	s := certify.Summarize(r.certs, radii)
	if r.plan.PerClass {
		s.Classes = certify.SummarizeClasses(r.certs, radii)
	}
	return s
}

// certifiers are the methods of a run.
type certifiers struct {
	votes    *certify.VoteCertifier  // of a run whose classes votes certify, else nil
	scores   *certify.ScoreCertifier // of a run with scores, else nil
	stopping *certify.Stopping       // nil: every example gets all n samples
}

func newCertifiers(r runfolder.Run) (c certifiers, err error) {
	p := r.Parameters
	method, byVotes := p.Method.Votes()
	scores := scoreParams(r)
	if !byVotes || len(p.ConfidenceRadii) > 0 {
		if c.scores, err = certify.NewScoreCertifier(scores); err != nil || !byVotes {
			return c, err
		}
	}
	params := certify.VoteParams{Target: scores.ClassTarget(), Method: method}
	if c.votes, err = certify.NewVoteCertifier(params); err == nil && p.Stop.Given() {
		c.stopping, err = certify.NewStopping(params, p.Stop, p.N)
	}
	return c, err
}

// scoreParams say what a run certifies from scores.
func scoreParams(r runfolder.Run) certify.ScoreParams {
	p := r.Parameters
	_, byVotes := p.Method.Votes()
	bound, _ := p.Method.Scores()
	return certify.ScoreParams{
		Target: r.Target(p.Alpha), Bound: bound, Combine: p.Combine, ClassByVotes: byVotes,
		Confidence: certify.ConfidenceParams{Radii: p.ConfidenceRadii, Method: p.Confidence, Bound: p.ConfidenceBound, Band: p.Band},
	}
}

// inputs are the model and the data, opened and found to fit.
type inputs struct {
	file     *graph.File // of the model, with the denoiser in front
	modelSum string      // SHA-256 of the model, in hex
	denoiser *runfolder.Denoiser
	library  *onnx.Runtime
	model    *onnx.Model
	replicas []*onnx.Model // of it, on further devices
	data     *dataset.Dataset
	noise    *noise
	onHost   error // why the noise is not made on the device as it would be; nil: it is, or need not be
	threads  int
}

func openInputs(ctx context.Context, p Plan) (*inputs, error) {
	in := &inputs{threads: p.Threads}
	if in.threads == 0 {
		in.threads = smoothing.DefaultWorkers()
	}
	if err := in.open(ctx, p); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (in *inputs) open(ctx context.Context, p Plan) error {
	err := in.readModels(p)
	if err != nil {
		return err
	}
	if in.data, err = dataset.Open(ctx, p.Data, p.DataOptions); err != nil {
		return BadInput(err)
	}
	if in.library, err = OpenLibrary(p.Device, p.Library); err != nil {
		return err
	}
	in.data.FitChannels(imageChannels(in.file))
	models, err := in.library.LoadEach(ctx, in.file, onnx.LoadOptions{
		Device: p.Device, Precision: p.Precision, Tuning: p.tuning(), Batch: p.Batch, Workers: in.threads, Outputs: p.Outputs, Output: p.ScoresOutput, Scores: p.Scores,
		Example: in.data.Shape(), Columns: in.data.Columns(),
	})
	if err != nil {
		return BadInput(fmt.Errorf("%s: %w", p.Model, err))
	}
	in.model, in.replicas = models[0], models[1:]
	arrangement, err := in.model.Fit(in.data.Shape(), p.Layout)
	if err != nil {
		return BadInput(fmt.Errorf("%s and %s: %w", p.Model, p.Data, err))
	}
	if err := in.data.CheckLabels(in.model.Classes()); err != nil {
		return BadInput(err)
	}
	if p.Scores && in.model.Outputs() == graph.Probabilities && p.Temperature != 1 {
		return badInputf("%s %v: %s returns probabilities; a temperature is applied to logits", param.Temperature, p.Temperature, p.Model)
	}
	if in.noise, err = newNoise(ctx, p, in, arrangement); err != nil {
		return err
	}
	in.onHost = in.placeNoise(ctx, p.NoiseOn, p.Seed)
	return ctx.Err()
}

// OpenLibrary finds and opens an ONNX Runtime library that runs models on the device. A file that the user names but
// that is no such library is an InputError.
func OpenLibrary(device onnx.Device, named string) (*onnx.Runtime, error) {
	path, err := ortlib.FindFor(device.Build(), named)
	var library *onnx.Runtime
	if err == nil {
		library, err = onnx.Open(path)
	}
	if named != "" {
		err = BadInput(err)
	}
	return library, err
}

func (in *inputs) close() {
	for _, m := range in.models() {
		m.Close()
	}
	if in.library != nil {
		in.library.Close()
	}
	if in.data != nil {
		in.data.Close()
	}
}

// describe is the run.json of the plan with these inputs.
func (in *inputs) describe(p Plan, selected int) runfolder.Run {
	settings := in.model.Settings()
	r := runfolder.Run{
		Schema: runfolder.Schema, Version: p.Version,
		Model: runfolder.Model{
			File: p.Model, SHA256: in.modelSum,
			Input: in.model.Input(), Output: in.model.Output(), Classes: in.model.Classes(),
			Changes: in.changes(), Denoiser: in.denoiser,
		},
		Data: runfolder.Data{
			File: p.Data, SHA256: in.data.SHA256(), Format: in.data.Format(), Shape: in.data.Shape(),
			Examples: in.data.Len(), Selected: selected,
			Options: p.DataOptions, Note: in.data.Note(),
		},
		Parameters: p.Parameters, Noise: in.noise.describe(), TangentSamples: p.TangentSamples(),
		Runtime: runfolder.Runtime{
			Library: in.library.Version(), Provider: in.model.Provider(), Device: in.device().String(),
			Batch: in.model.Batch(), Threads: in.threads,
			Call: settings.Call, Options: settings.Options, Independence: string(settings.Independence), GPUs: in.gpus(), NoiseOn: string(in.noiseOn()),
		},
	}
	r.Data.ClassNames, r.Data.ClassNamesSHA256 = in.data.ClassNames()
	r.Parameters.Outputs = in.model.Outputs()
	return r
}

func openFolder(p Plan, run runfolder.Run) (*runfolder.Folder, error) {
	open := runfolder.Create
	if p.Resume {
		open = runfolder.Resume
	}
	folder, err := open(p.Out, run)
	var damage *runfolder.DamageError
	var mismatch *runfolder.MismatchError
	switch {
	case errors.Is(err, runfolder.ErrExists):
		return nil, hint.Add(BadInput(err), "go on with it by %s, or choose another %s", param.Resume, param.Out)
	case errors.As(err, &damage), errors.As(err, &mismatch):
		return nil, BadInput(err)
	}
	return folder, err
}
