package run

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// running is a run under way.
type running struct {
	plan      Plan
	console   Console
	inputs    *inputs
	positions []int // in the dataset, of the run's examples
	folder    *runfolder.Folder
	certifiers

	bar     *progress.Bar
	started time.Time
	drawn   atomic.Int64

	certs    []certify.Certificate // in the folder
	correct  int                   // of certs
	accuracy certify.Accuracy      // of the model and of the smoothed classifier
	samples  int64                 // of all of them, by both phases
	none     int64                 // of the samples: votes for nobody
	compared int64                 // of the samples: run again among other inputs

	taken func(runfolder.Record) // if not nil, is told of every example; for Verify
}

// takeDone takes the records that a resumed folder has. Certificates by votes are
// computed again, and must be what the folder says.
func (r *running) takeDone() error {
	done := r.folder.Done()
	for i, rec := range done {
		if err := r.checkDone(rec); err != nil {
			return hint.Add(badInputf("example %d: %w", rec.Votes.Index, err),
				"the folder was changed: delete line %d of %s and all after it to have their examples sampled again", i+1, runfolder.CertificatesFile)
		}
		r.take(rec)
	}
	if n := r.folder.Dropped(); n > 0 {
		r.console.warnf("%s: the results of %d of the last examples are not whole: they are sampled again", r.plan.Out, n)
	}
	if len(done) > 0 {
		r.console.notef("resuming %s: %d of %d examples are done", r.plan.Out, len(done), len(r.positions))
	}
	return nil
}

func (r *running) checkDone(rec runfolder.Record) error {
	if label := r.inputs.data.Label(rec.Votes.Index); rec.Votes.Label != label {
		return fmt.Errorf("label is %d, that of the data %d", rec.Votes.Label, label)
	}
	if r.votes == nil {
		return r.scores.Agrees(rec.Certificate)
	}
	cert, err := r.recertify(rec.Votes)
	if err != nil {
		return err
	}
	if !equalJSON(cert, rec.Certificate) {
		return fmt.Errorf("its certificate is not what its votes certify: radius %v in %s, %v from %s",
			rec.Certificate.Radius, runfolder.CertificatesFile, cert.Radius, runfolder.VotesFile)
	}
	return nil
}

// recertify is the certificate of votes, whose share of alpha must be the one of the rule to stop.
func (c certifiers) recertify(v certify.Votes) (certify.Certificate, error) {
	if c.stopping != nil {
		marked := v
		if err := c.stopping.Mark(&marked); err != nil {
			return certify.Certificate{}, err
		}
		if marked.AlphaShare != v.AlphaShare {
			return certify.Certificate{}, fmt.Errorf("alpha_share is %v, the rule's %v", v.AlphaShare, marked.AlphaShare)
		}
	}
	return c.votes.Certify(v)
}

func equalJSON(a, b certify.Certificate) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// take counts a record that is in the folder.
func (r *running) take(rec runfolder.Record) {
	r.certs = append(r.certs, rec.Certificate)
	if rec.Certificate.Correct {
		r.correct++
	}
	r.accuracy.Add(rec.Votes)
	r.samples += rec.Votes.N0 + rec.Votes.N
	r.none += rec.Votes.None0 + rec.Votes.None
	r.compared += rec.Compared
	if r.taken != nil {
		r.taken(rec)
	}
}

// sample samples and certifies the examples that the folder does not have.
func (r *running) sample(ctx context.Context) error { return r.draw(ctx, r.sampler()) }

func (r *running) draw(ctx context.Context, sampler smoothing.Sampler) error {
	perExample := r.plan.N0 + r.plan.N
	r.started = time.Now()
	r.bar = progress.Start(r.console.Progress, "certify", int64(len(r.positions))*perExample, int64(len(r.certs))*perExample)
	defer r.bar.Finish()
	next := len(r.certs)
	return sampler.Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(r.positions) {
			return nil, nil
		}
		e, err := r.newExperiment(next)
		next++
		return e, err
	})
}

// newExperiment starts the example of a turn.
func (r *running) newExperiment(turn int) (smoothing.Experiment, error) {
	example, err := r.inputs.data.Example(r.positions[turn])
	if err != nil {
		return nil, BadInput(err)
	}
	input, quantisation, err := r.inputs.noise.input(example.Values)
	if err != nil {
		return nil, BadInput(fmt.Errorf("%s: example %d: %w", r.plan.Data, example.Index, err))
	}
	if reading := r.inputs.noise.reading(example); reading > 0 {
		quantisation = math.Nextafter(quantisation+reading, math.Inf(1))
	}
	return r.begin(turn, example.Index, example.Label, input, quantisation)
}

// begin starts an example whose input is ready.
func (r *running) begin(turn, index, label int, input smoothing.Input, quantisation float64) (smoothing.Experiment, error) {
	e := &experiment{running: r, turn: turn, input: input}
	v := &e.record.Votes
	v.Index, v.Label, v.Quantisation = index, label, quantisation
	if r.scores == nil {
		return e, nil
	}
	scores, err := r.scores.Start(certify.ScoreExample{
		Index: index, Label: label, Classes: r.inputs.model.Classes(), N0: r.plan.N0, N: r.plan.N, Quantisation: quantisation,
	})
	if saved := r.folder.Scores(); err == nil && saved != nil {
		err = saved.WriteExample(turn, index, label)
	}
	return &scoreExperiment{experiment: e, scores: scores, selected: make([]int64, r.inputs.model.Classes())}, err
}

// experiment is one example of a run, certified by its votes. It implements
// smoothing.Experiment.
type experiment struct {
	running *running
	turn    int // the example's place in the run
	record  runfolder.Record
	input   smoothing.Input
}

func (e *experiment) Input() (int, smoothing.Input) { return e.record.Votes.Index, e.input }

func (e *experiment) Goal(t smoothing.Votes) (int64, error) {
	if e.running.stopping == nil {
		return e.running.plan.N, nil
	}
	e.count(t)
	return e.running.stopping.Next(e.record.Votes)
}

func (e *experiment) Finish(t smoothing.Votes) (err error) {
	e.count(t)
	if s := e.running.stopping; s != nil {
		if err := s.Mark(&e.record.Votes); err != nil {
			return err
		}
	}
	e.record.Certificate, err = e.running.votes.Certify(e.record.Votes)
	return err
}

// count takes over what the sampler has counted.
func (e *experiment) count(t smoothing.Votes) {
	v := &e.record.Votes
	v.N, v.Counts, v.None, v.Clean = t.N, t.Counts, t.None, &t.Clean
	e.record.Compared = t.Compared
	if t.N0 > 0 {
		v.N0, v.Counts0, v.None0 = t.N0, t.Counts0, t.None0
	}
}

func (e *experiment) Emit() error {
	r := e.running
	if err := r.folder.Append(e.record); err != nil {
		return err
	}
	r.take(e.record)
	rate := float64(r.drawn.Load()) / time.Since(r.started).Seconds()
	r.bar.Add(r.plan.N-e.record.Votes.N, fmt.Sprintf("%d/%d examples, certified accuracy %.1f %%, %.0f samples/s",
		len(r.certs), len(r.positions), 100*float64(r.correct)/float64(len(r.certs)), rate))
	return nil
}

// scoreExperiment is an experiment certified by its scores, or by its votes with bounds on
// the confidence from its scores. It implements smoothing.Observer.
type scoreExperiment struct {
	*experiment
	scores   *certify.ScoreAccumulator
	seen     [2]int64 // samples, by phase
	probs    []float32
	selected []int64 // votes of the selection samples seen [m]
	chosen   bool    // the votes have chosen the class
}

func (e *scoreExperiment) Observe(phase smoothing.Phase, outputs []float32) error {
	r := e.running
	classes := r.inputs.model.Classes()
	if len(e.probs) < len(outputs) {
		e.probs = make([]float32, len(outputs))
	}
	probs := e.probs[:len(outputs)]
	if r.inputs.model.Outputs() == graph.Logits {
		certify.Softmax(outputs, probs, classes, r.plan.Temperature)
	} else {
		copy(probs, outputs) // the votes are of what the model says, NaN among it
		certify.ClearNone(probs, classes)
	}
	if r.votes != nil {
		if err := e.elect(phase, outputs); err != nil {
			return err
		}
	}
	saved := r.folder.Scores()
	take, save := e.scores.Estimation, saved.WriteEstimation
	if phase == smoothing.Selection {
		take, save = e.scores.Selection, saved.WriteSelection
	}
	if saved != nil {
		if err := save(e.turn, e.seen[phase], probs); err != nil {
			return err
		}
		e.seen[phase] += int64(len(probs) / classes)
	}
	return take(probs)
}

// elect counts the votes of selection samples and gives the scores the class that they
// choose.
func (e *scoreExperiment) elect(phase smoothing.Phase, outputs []float32) error {
	m := len(e.selected)
	switch {
	case phase == smoothing.Selection:
		for ; len(outputs) >= m; outputs = outputs[m:] {
			if k := smoothing.Vote(outputs[:m]); k >= 0 {
				e.selected[k]++
			}
		}
		return nil
	case e.chosen:
		return nil
	}
	e.chosen = true
	votes := certify.Votes{Label: e.record.Votes.Label, Counts0: e.selected}
	return chooseByVotes(e.scores, votes, e.running.plan.Class)
}

// chooseByVotes gives scores the class that the votes certify.
func chooseByVotes(scores *certify.ScoreAccumulator, votes certify.Votes, class certify.Class) error {
	k, err := votes.Elected(class)
	if err != nil {
		return err
	}
	return scores.Choose(k)
}

func (e *scoreExperiment) Finish(t smoothing.Votes) (err error) {
	e.count(t)
	if e.running.votes != nil {
		e.record.Certificate, err = e.running.votes.Certify(e.record.Votes)
	} else {
		e.record.Certificate, err = e.scores.Certificate()
	}
	if err != nil {
		return err
	}
	e.record.Bounds = e.scores.Confidence(e.record.Certificate)
	if saved := e.running.folder.Scores(); saved != nil {
		e.record.Scores, err = saved.Digest(e.turn)
	}
	return err
}
