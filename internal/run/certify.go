package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// Outcome is the result of a run, as certify --json prints it.
type Outcome struct {
	certify.Summary
	Out              string  `json:"out"`
	SamplesDrawn     int64   `json:"samples_drawn"` // samples that this process drew, including selection samples
	Seconds          float64 `json:"seconds"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	// CleanAccuracy is the accuracy of the model without noise. SmoothedAccuracy is the accuracy of the class with the
	// most votes under noise. Both accuracies are estimates, and both are nil without labels.
	CleanAccuracy    *float64 `json:"clean_accuracy,omitempty"`
	SmoothedAccuracy *float64 `json:"smoothed_accuracy,omitempty"`
	// Denoiser is the denoiser in front of the model, if any. All results are for denoiser and model together.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
	// The field None counts, over all examples, the samples that voted for no class. Their outputs were NaN or
	// infinite, or their confidence was below RejectBelow.
	None int64 `json:"none,omitempty"`
	// The field Compared counts, over all examples, the samples that the run computed again as a check: once alone, and
	// once in a batch with other inputs. Both times, the outputs were the same as before, bit for bit.
	Compared int64 `json:"compared,omitempty"`
	// The method 'tangent' for bounds on the confidence (certify.ConfidenceTangent) uses a function that it computes
	// from some of the samples. TangentSamples says how many estimation samples of each example the method uses for
	// this function. It is 0 if the function is computed from selection samples, or if the bounds do not use the method
	// 'tangent'.
	TangentSamples int64 `json:"tangent_samples,omitempty"`
	// SignedBy is the id of the key that signed the run. SignedBy is "" if the run is not signed.
	SignedBy string `json:"signed_by,omitempty"`
	// If another run selected the examples, the field Only describes the choice in words. Otherwise it is empty.
	Only string `json:"only,omitempty"`
}

// Certify carries out a plan. Errors in the user's input are InputErrors. An interrupted run can be resumed.
func Certify(ctx context.Context, p Plan, console experiment.Console) (Outcome, error) {
	r, err := prepare(ctx, p, console)
	if err != nil {
		return Outcome{}, err
	}
	defer r.close()
	if err := r.begin(r.describe()); err != nil {
		return Outcome{}, err
	}
	r.warnOfMove()
	if p.FixedSeed == nil && r.folder.Done() == 0 {
		console.Notef("seed: %d; %s %d repeats the noise", r.plan.Seed, param.Seed, r.plan.Seed)
	}
	outcome, err := r.finish(ctx)
	if closeErr := r.folder.Close(); err == nil {
		err = closeErr
	}
	if _, advised := hint.Of(err); err != nil && !advised && (r.certs.Examples() > 0 || errors.Is(err, context.Canceled)) {
		have := max(r.certs.Examples(), r.folder.Done())
		err = hint.Add(err, "%d of %d examples are in %s; go on with %s", have, len(r.positions), p.Out, param.Resume)
	}
	return outcome, err
}

// prepare opens the experiment of a plan.
func prepare(ctx context.Context, p Plan, console experiment.Console) (*running, error) {
	p.Settle()
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := p.keepResumed(); err != nil {
		return nil, err
	}
	selecting, err := p.selectExamples()
	if err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	p.Spec = e.Spec
	if err := selecting.check(e); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if w := e.Evaluations(); w > 0 {
		p.N = w
	}
	r := &running{plan: p, console: console, experiment: e, positions: e.Positions()}
	if classes := e.Model().Classes(); p.TopK >= classes {
		r.close()
		return nil, spec.BadInputf("%s %d: %s has %d classes, and each of them is among the first %d", param.TopK, p.TopK, p.Model, classes, p.TopK)
	}
	if p.KeepOutputs && e.Model().Outputs() == graph.Probabilities && p.Temperature != 1 {
		r.close()
		return nil, spec.BadInputf("%s %v: %s returns probabilities; a temperature is applied to logits", param.Temperature, p.Temperature, p.ModelName())
	}
	return r, nil
}

// keepResumed takes settings from the record of a resumed run, unless the plan sets them: the seed, the choice of
// examples and the order of the values in flat rows. For a run with scores, keepResumed also takes the batch size and
// the side that makes the noise (host or device). The last bits of scores may depend on these two settings.
func (p *Plan) keepResumed() error {
	if !p.Resume {
		return nil
	}
	run, err := runfolder.Read(p.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a new run
	case err != nil && (p.FixedSeed == nil || p.Max > 0 && p.FixedSelect == nil):
		return err
	case err != nil:
		return nil // opening the folder fails later, with an error
	}
	if p.FixedSeed == nil {
		p.FixedSeed = &run.Parameters.Seed
	}
	if p.Max > 0 && p.FixedSelect == nil {
		p.FixedSelect = &run.Parameters.Select
	}
	if p.ModelLayout {
		p.Layout, p.ModelLayout = run.Parameters.Layout, false
	}
	if !p.Scores {
		return nil
	}
	if p.Batch == 0 {
		p.Batch = run.Runtime.Batch
	}
	if on := spec.NoiseOn(run.Runtime.NoiseOn); on != "" && (p.NoiseOn == "" || p.NoiseOn == spec.NoiseOnAuto) {
		p.NoiseOn = on
	}
	return nil
}

// describe returns the run.json of the run.
func (r *running) describe() runfolder.Run {
	description := r.experiment.Record()
	description.Version = r.plan.Version
	description.Parameters.Certification = r.plan.Certification
	description.TangentSamples = r.plan.TangentSamples()
	description.Preset = r.plan.Preset
	description.Data.OnlyRun = r.plan.OnlyOf.Run
	return description
}

// begin prepares the methods that certify the described run, and opens the run's folder.
func (r *running) begin(description runfolder.Run) (err error) {
	if r.Certifiers, err = description.Parameters.Certifiers(description.Target(r.plan.Alpha)); err != nil {
		return spec.BadInput(err)
	}
	r.space = description.Space()
	r.accuracy.VoteRule = certify.VoteRule{None: r.plan.None, Deterministic: r.plan.Law.Deterministic()}
	if len(r.plan.Norms) > 0 && r.plan.Scaled() {
		return spec.BadInputf("%s: radii in units of each column's σ imply none in other norms", param.Norms)
	}
	for _, norm := range r.plan.Norms { // report unsuitable norms before sampling
		if _, err := r.space.RadiusIn(norm, description.Parameters.Law.Law().Norm(), 0); err != nil {
			return spec.BadInputf("%s %s: %w", param.Norms, norm, err)
		}
	}
	r.folder, err = openFolder(r.plan, description)
	return err
}

// sayVotesForNone says how many samples vote for no class.
func (r *running) sayVotesForNone() {
	switch {
	case r.none == 0:
	case r.plan.RejectBelow > 0:
		r.console.Notef("%d of %d samples vote for no class: %s %v, or outputs that are NaN or infinite",
			r.none, r.samples, param.RejectBelow, r.plan.RejectBelow)
	default:
		r.console.Warnf(warning.NotFinite, "%s: %d of %d outputs are NaN or infinite: they vote for no class, and count against every one",
			r.plan.ModelName(), r.none, r.samples)
	}
}

// finish samples the examples that the folder lacks, and completes the run.
func (r *running) finish(ctx context.Context) (Outcome, error) {
	if err := r.takeDone(ctx); err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", r.plan.Out, err)
	}
	if r.certs.Examples() == 0 {
		l, err := r.experiment.Look(ctx)
		if err != nil {
			return Outcome{}, err
		}
		r.experiment.Warn(l)
	}
	r.experiment.ReleaseFile()
	started := time.Now()
	if err := r.sample(ctx); err != nil {
		return Outcome{}, err
	}
	r.sayVotesForNone()
	if err := ctx.Err(); err != nil { // with --strict, a warning of sayVotesForNone cancels ctx
		return Outcome{}, err
	}
	if err := r.folder.Finish(); err != nil {
		return Outcome{}, err
	}
	took := time.Since(started).Seconds()
	signedBy, err := r.sign(ctx)
	if err != nil {
		return Outcome{}, err
	}
	drawn := r.drawn.Load()
	all, err := r.summary()
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{
		Summary: all, Out: r.plan.Out,
		SamplesDrawn: drawn, Seconds: took, SamplesPerSecond: float64(drawn) / took, None: r.none, Compared: r.compared,
		TangentSamples: r.plan.TangentSamples(), SignedBy: signedBy,
		Denoiser: r.experiment.Denoiser(),
	}
	if r.plan.Only.Given() {
		outcome.Only = r.plan.Only.Says()
	}
	if share, ok := r.accuracy.CleanShare(); ok {
		outcome.CleanAccuracy = &share
	}
	if share, ok := r.accuracy.SmoothedShare(); ok {
		outcome.SmoothedAccuracy = &share
	}
	return outcome, nil
}

// sign signs the finished run if the plan has a key. It returns the id of the key.
func (r *running) sign(ctx context.Context) (string, error) {
	if r.plan.Sign == nil {
		return "", nil
	}
	return r.plan.Sign.ID(), r.folder.Sign(ctx, *r.plan.Sign)
}

// summary summarises the certificates of the run at the radii of the plan.
func (r *running) summary() (certify.Summary, error) {
	radii := r.plan.Radii
	if len(radii) == 0 {
		radii = certify.RadiiUpTo(r.certs.Largest())
	}
	s := r.certs.Summary(radii)
	if r.plan.PerClass {
		s.Classes = r.certs.Classes(radii)
	}
	for _, norm := range r.plan.Norms {
		if norm == s.Norm || s.Examples == 0 {
			continue
		}
		in, err := r.certs.In(norm, r.space, r.plan.Radii)
		if err != nil {
			return s, err
		}
		s.Norms = append(s.Norms, in)
	}
	return s, nil
}

// openFolder creates the run folder of a plan, or continues it.
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
		return nil, hint.Add(spec.BadInput(err), "go on with it by %s, or choose another %s", param.Resume, param.Out)
	case errors.As(err, &damage), errors.As(err, &mismatch):
		return nil, spec.BadInput(err)
	}
	return folder, err
}
