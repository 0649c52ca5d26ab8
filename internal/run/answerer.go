package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// Answerer answers the inputs of requests with the smoothed classifier of a run. One sampler draws the votes of all
// requests, and a batch can hold samples of several requests. A failed request does not affect other requests.
type Answerer struct {
	plan       PredictPlan
	recorded   runfolder.Run
	experiment *experiment.Experiment
	plain      *answering
	sets       *applying // computes prediction sets; nil: none

	about    Description
	arrivals chan *asked
	drawn    atomic.Int64
	closing  chan struct{}
	close    sync.Once
	ended    chan struct{} // closed when Run returns
}

// Description describes the smoothed classifier of an Answerer, and how the Answerer answers.
type Description struct {
	Model      string       `json:"model"`
	ModelSHA   string       `json:"model_sha256"`
	RunID      string       `json:"run_id"`
	Shape      []int        `json:"shape"` // shape of an input
	Classes    int          `json:"classes"`
	Inputs     string       `json:"inputs"` // lattice of the inputs
	Bytes      bool         `json:"bytes"`  // the inputs are bytes divided by 255
	Law        string       `json:"law"`
	Sigma      float64      `json:"sigma"`
	Norm       law.Norm     `json:"norm"`  // norm of the certificates' radii
	Claim      string       `json:"claim"` // claim of a certificate, in words
	Rule       predict.Rule `json:"rule"`
	Alpha      float64      `json:"alpha"`
	Budget     int64        `json:"budget"` // maximum number of votes that the rule counts for one input
	Round      bool         `json:"round,omitempty"`
	Arithmetic string       `json:"arithmetic"`
	Library    string       `json:"library"`
	Device     string       `json:"device"`
	Batch      int          `json:"batch"`
	Statement  string       `json:"statement"`
	// The field Different says which software and GPUs of this machine differ from those of the run.
	Different []string `json:"different,omitempty"`
	// Sets says what is guaranteed for the prediction sets. It is empty without sets.
	Sets string `json:"sets,omitempty"`
}

// ErrClosed means that the Answerer has ended, or that its sampler has failed.
var ErrClosed = errors.New("the sampler has ended")

// OpenAnswerer opens the classifier of the plan's run. If the plan's spec has no Data, the shape and the range of the
// inputs come from the record of the run. Errors in the user's input are InputErrors. The caller must call Run, and
// Close after Run.
func OpenAnswerer(ctx context.Context, p PredictPlan, console experiment.Console) (*Answerer, error) {
	if p.Run == "" {
		return nil, spec.BadInputf("%s is missing", param.Run)
	}
	p.Certify = nil
	recorded, err := p.settle()
	if err != nil {
		return nil, err
	}
	p.Spec.SmallerBatches = true
	if err := refuseScaled(*recorded, p.Run, "answers to requests"); err != nil {
		return nil, err
	}
	if p.Spec.Data == "" {
		if p.Spec.Requests, err = requestsOf(*recorded); err != nil {
			return nil, err
		}
	}
	sets, err := p.readConformal()
	if err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	a := &Answerer{
		plan: p, recorded: *recorded, experiment: e, sets: sets,
		arrivals: make(chan *asked), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := a.prepare(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	for _, d := range a.about.Different {
		console.Warnf(warning.OtherConditions, "%s: votes near ties may differ", d)
	}
	if sets != nil {
		sets.experiment = e
		if err := sets.prepare(console); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		sets.conclude()
		a.about.Sets = sets.result.Statement
	}
	return a, nil
}

// requestsOf returns the shape of the inputs in requests, and whether they are bytes. It takes both from the record of
// the run.
func requestsOf(run runfolder.Run) (*spec.Requests, error) {
	r := &spec.Requests{Shape: run.Data.Shape, Bytes: slices.Contains(run.Model.Changes, experiment.BytesGiven)}
	if l := latticeOf(run); l != nil {
		lattice, err := dataset.ParseLattice(l.Inputs)
		if err != nil {
			return nil, spec.BadInput(err)
		}
		if lattice.Kind == dataset.BinaryLattice && !l.Quantised {
			return nil, hint.Add(spec.BadInputf("the run does not record the range of its inputs, whose %s", lattice), "give the data of the run by %s", param.Data)
		}
	}
	return r, nil
}

// prepare checks that the experiment uses the run's classifier, and sets the fields 'about' and 'plain'.
func (a *Answerer) prepare() (err error) {
	now := a.experiment.Record()
	about := Description{
		Model: a.plan.Spec.ModelName(), ModelSHA: now.Model.SHA256, RunID: a.recorded.ID(), Shape: now.Data.Shape, Classes: now.Model.Classes,
		Inputs: now.Noise.Inputs, Rule: a.plan.Rule, Alpha: a.plan.Alpha, Budget: a.plan.votes(), Round: a.plan.Round,
		Library: now.Runtime.Library, Device: now.Runtime.Device, Batch: now.Runtime.Batch,
	}
	if l, err := dataset.ParseLattice(now.Noise.Inputs); err == nil {
		about.Bytes = l.Kind == dataset.ByteLattice
	}
	if about.Different, err = sameClassifier(a.recorded, now); err != nil {
		return err
	}
	about.Statement = a.plan.statement(&a.recorded, about.Different)
	if a.plain, err = a.answering(a.plan, &about); err != nil {
		return err
	}
	a.about = about
	a.experiment.ReleaseFile()
	return nil
}

// answering returns a value of the type 'answering', which answers inputs by the plan p. If the argument 'about' is not
// nil, the method also sets the law, σ, arithmetic, norm and claim of this Description.
func (a *Answerer) answering(p PredictPlan, about *Description) (*answering, error) {
	w, r := &answering{plan: p, experiment: a.experiment, sets: a.sets}, &Predicted{}
	err := w.begin(a.experiment.Record(), r)
	if about != nil {
		about.Law, about.Sigma, about.Arithmetic = r.Law, r.Sigma, r.Arithmetic
		about.Norm, about.Claim = r.Norm, r.Claim
	}
	return w, err
}

// About describes the classifier.
func (a *Answerer) About() Description { return a.about }

// Seed returns the start value of the run's checksums. A log of the answers uses the same start value.
func (a *Answerer) Seed() checksum.Seed { return a.recorded.Seed() }

// ImageOptions returns the run's options for reading images.
func (a *Answerer) ImageOptions() dataset.Options { return a.plan.Spec.DataOptions }

// Drawn returns the number of samples that were drawn so far.
func (a *Answerer) Drawn() int64 { return a.drawn.Load() }

// Run draws samples until ctx ends, or until Stop is called and all requests are answered. It returns the error that
// ended the sampler, for example the failure of a device.
func (a *Answerer) Run(ctx context.Context) error {
	defer close(a.ended)
	s := a.experiment.Sampler()
	s.Eager, s.SkipClean, s.Compare, s.N0 = true, true, nil, 0
	s.Voter = a.plan.voter(a.experiment)
	s.Progress = func(n int64) { a.drawn.Add(n) }
	return s.Run(ctx, func() (smoothing.Experiment, error) {
		select {
		case q := <-a.arrivals:
			return q, nil
		case <-a.closing:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	})
}

// Stop makes Run return as soon as all accepted requests are answered.
func (a *Answerer) Stop() { a.close.Do(func() { close(a.closing) }) }

// Close frees the model. Call it after Run has returned.
func (a *Answerer) Close() error { return a.experiment.Close() }

// Question is a request to classify inputs.
type Question struct {
	Inputs [][]float32 // values of each input, in the order of the data
	// Certify asks for certificates. If Radius is above 0, sampling stops as soon as it is known whether the certified
	// radius is at least Radius.
	Certify bool
	Radius  float64
	// Key and First serve to repeat logged answers. Key is the logged key, and First is the logged index of the first
	// input. If Key is nil, the operating system draws a key after the inputs have arrived.
	Key   *uint64
	First int
	// If Left is not nil, the Answerer calls Left once, when neither Ask nor the sampler needs the inputs any more. If
	// the request ends early, the sampler may need them even after Ask has returned. If the sampler fails, the Answerer
	// may never call Left.
	Left func()
}

// Answered holds the answers to a Question.
type Answered struct {
	Key     uint64 // seed of the noise
	Answers []predict.Answer
}

// planFor returns the plan p with the certification that the question asks for.
func (a *Answerer) planFor(p PredictPlan, q Question) (PredictPlan, error) {
	if !q.Certify {
		return p, nil
	}
	p.Certify = &runfolder.Certification{}
	if q.Radius != 0 {
		stop, err := certify.ParseStop(fmt.Sprintf("radius>=%v", q.Radius))
		if err != nil {
			return p, spec.BadInputf("certify %v: want a radius above 0", q.Radius)
		}
		p.Certify.Stop = stop
	}
	return p, p.certifyAs(a.recorded)
}

// Samples returns the maximum total number of samples for the answers to all inputs of the question.
func (a *Answerer) Samples(q Question) (int64, error) {
	p, err := a.planFor(a.plan, q)
	if err != nil {
		return 0, err
	}
	votes := p.votes()
	if a.sets != nil {
		votes = max(votes, a.sets.file.Predictor.QueryM)
	}
	each := votes + 1
	if c := p.Certify; c != nil {
		each = c.N0 + max(c.N, votes) + 1
	}
	return each * int64(len(q.Inputs)), nil
}

// Ask answers a question. If an input is wrong, the error is an InputError. If ctx ends, Ask returns at once, and the
// sampler drops the question once the running batches have ended.
func (a *Answerer) Ask(ctx context.Context, q Question) (Answered, error) {
	return a.ask(ctx, a.plan, q)
}

// ask answers a question by the plan p, which gives the rule, the number of votes and the allowed probability of a
// wrong answer.
func (a *Answerer) ask(ctx context.Context, p PredictPlan, q Question) (Answered, error) {
	s := &stay{left: q.Left}
	s.enter()
	defer s.leave()
	how := a.plain
	if q.Certify || p.Alpha != a.plan.Alpha || p.Rule != a.plan.Rule || p.votes() != a.plan.votes() {
		p, err := a.planFor(p, q)
		if err != nil {
			return Answered{}, err
		}
		if how, err = a.answering(p, nil); err != nil {
			return Answered{}, err
		}
	}
	examples := make([]experiment.Example, len(q.Inputs))
	for i, values := range q.Inputs {
		var err error
		if examples[i], err = a.experiment.Request(q.First+i, values, p.Round); err != nil {
			return Answered{}, spec.BadInput(fmt.Errorf("input %d: %w", i, err))
		}
	}
	r := Answered{Key: rand64()}
	if q.Key != nil {
		r.Key = *q.Key
	}
	finished := make(chan *asked, len(examples))
	for _, example := range examples {
		s.enter()
		select {
		case a.arrivals <- &asked{question: how.startKeyed(example, r.Key), ctx: ctx, seed: r.Key, finished: finished, stay: s}:
			continue
		case <-ctx.Done():
		case <-a.ended:
		}
		s.leave()
		return r, cmp.Or(ctx.Err(), ErrClosed)
	}
	return r, a.collect(ctx, &r, finished, q.First, len(examples))
}

// collect waits for n answers.
func (a *Answerer) collect(ctx context.Context, r *Answered, finished <-chan *asked, first, n int) error {
	r.Answers = make([]predict.Answer, n)
	for range n {
		select {
		case q := <-finished:
			if q.err != nil {
				return q.err
			}
			r.Answers[q.example.Index-first] = q.answer
		case <-ctx.Done():
			return ctx.Err()
		case <-a.ended:
			return ErrClosed
		}
	}
	return nil
}

// rand64 draws a number from the operating system.
func rand64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// InputHash returns the SHA-256 of values as little-endian float32, in hex.
func InputHash(values []float32) string {
	hash, b := sha256.New(), make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	hash.Write(b)
	return hex.EncodeToString(hash.Sum(nil))
}
