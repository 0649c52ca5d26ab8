package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// running is a run in progress.
type running struct {
	plan       Plan
	console    experiment.Console
	experiment *experiment.Experiment
	positions  []int // for each example of the run, its index in the dataset
	folder     *runfolder.Folder
	runfolder.Certifiers
	space certify.Space // space of the inputs, for radii in further norms

	bar     *progress.Bar
	started time.Time
	drawn   atomic.Int64

	certs    certify.Tally    // tally of the certificates in the folder
	accuracy certify.Accuracy // accuracy of the model and of the smoothed classifier
	samples  int64            // number of samples of all certificates, in both phases
	none     int64            // number of samples that voted for no class
	// number of samples that were rerun twice: once alone, and once in a batch with other inputs
	compared int64

	taken func(runfolder.Record) // if not nil, receives every record; Verify sets it
}

// takeDone counts the examples of a resumed folder. It computes the certificates of these examples again, from their
// votes and saved scores. The results must match the folder.
func (r *running) takeDone(ctx context.Context) error {
	err := r.folder.EachDone(func(done runfolder.Done) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var unread *fs.PathError
		switch err := r.checkDone(done); {
		case errors.As(err, &unread):
			return err
		case err != nil:
			return hint.Add(spec.BadInputf("example %d: %w", done.Votes.Index, err),
				"the folder was changed: delete line %d of %s and all after it to have their examples sampled again",
				r.certs.Examples()+1, runfolder.CertificatesFile)
		}
		r.take(done.Record)
		return nil
	})
	if err != nil {
		return err
	}
	if n := r.folder.Dropped(); n > 0 {
		r.console.Warnf(warning.RunTruncated, "%s: the results of %d of the last examples are not whole: they are sampled again", r.plan.Out, n)
	}
	if done := r.folder.Done(); done > 0 {
		r.console.Notef("resuming %s: %d of %d examples are done", r.plan.Out, done, len(r.positions))
	}
	return nil
}

func (r *running) checkDone(done runfolder.Done) error {
	if label := r.experiment.Label(done.Votes.Index); done.Votes.Label != label {
		return fmt.Errorf("label is %d, that of the data %d", done.Votes.Label, label)
	}
	if r.Votes == nil {
		if err := r.Scores.AgreesWith(done.Votes, done.Certificate); err != nil {
			return err
		}
	} else {
		cert, err := r.Recertify(done.Votes)
		if err != nil {
			return err
		}
		if err := compareDone(done.Certificate, cert, "votes", runfolder.VotesFile); err != nil {
			return err
		}
	}
	return r.checkScores(done)
}

// compareDone returns an error if an example's certificate differs from the certificate computed from its evidence.
func compareDone(done, cert certify.Certificate, evidence, file string) error {
	if runfolder.EqualCertificates(cert.AsStated(done), done) {
		return nil
	}
	return fmt.Errorf("its certificate is not what its %s certify: radius %v in %s, %v from %s",
		evidence, done.Radius, runfolder.CertificatesFile, cert.Radius, file)
}

// checkScores certifies an example again from its saved scores. It compares the resulting bounds with the example's
// rows of bounds.csv. If scores certify the class, it also compares the resulting certificate with the recorded one.
func (r *running) checkScores(done runfolder.Done) error {
	if r.Scores == nil || done.Scores == nil {
		return nil
	}
	q := SavedScores{Temperature: 1} // the saved scores already include the run's temperature
	q.Params.Class = r.plan.Class
	var p *poll
	if r.Votes != nil {
		p = &poll{certifier: r.Votes, votes: done.Votes, given: true}
	}
	scores, err := q.accumulate(r.Scores, p, done.Scores, r.scoreExample(done.Votes))
	if err != nil {
		return err
	}
	if r.Votes == nil {
		cert, err := scores.Certificate()
		if err != nil {
			return err
		}
		if err := compareDone(done.Certificate, cert, "scores", runfolder.ScoresFile); err != nil {
			return err
		}
	}
	if !bytes.Equal(r.folder.Rows(scores.Confidence(done.Certificate)), done.Rows) {
		return fmt.Errorf("its rows of %s are not what its scores give", runfolder.BoundsFile)
	}
	return nil
}

// close closes the experiment. The results are already in the folder, so an error only causes a warning.
func (r *running) close() {
	if err := r.experiment.Close(); err != nil {
		r.console.Warnf(warning.CloseFailed, "%v", err)
	}
}

// warnOfMove warns if a run resumes on other GPUs or with another library.
func (r *running) warnOfMove() {
	if before := r.folder.OtherLibrary(); before != "" {
		r.console.Warnf(warning.OtherConditions, "%s was begun with another library of ONNX Runtime %s, of SHA-256 %s, and goes on with %s: votes near ties may differ",
			r.plan.Out, r.experiment.Library().Version(), before, r.experiment.Library().SHA256())
	}
	if before := r.folder.Moved(); before != nil {
		r.console.Warnf(warning.OtherConditions, "%s was on %s and goes on on %s: votes near ties may differ from those of a run on one kind of device",
			r.plan.Out, strings.Join(before, ", "), strings.Join(r.experiment.GPUs(), ", "))
	}
}

// take counts one record of the folder.
func (r *running) take(rec runfolder.Record) {
	r.certs.Add(rec.Certificate)
	r.accuracy.Add(rec.Votes)
	r.samples += rec.Votes.N0 + rec.Votes.N
	r.none += rec.Votes.None0 + rec.Votes.None
	r.compared += rec.Compared
	if r.taken != nil {
		r.taken(rec)
	}
}

// sampler returns the sampler of the run's examples.
func (r *running) sampler() smoothing.Sampler {
	s := r.experiment.Sampler()
	s.N0, s.Lost = r.plan.N0, r.lost
	s.Voter = voter(r.plan.Certification, r.experiment.Model().Outputs())
	s.Progress = func(n int64) {
		r.drawn.Add(n)
		r.bar.Add(n, "")
	}
	return s
}

// lost warns the user that a device has failed and that the other devices continue.
func (r *running) lost(device smoothing.Classifier, examples int, err error) {
	name := "a device"
	if m, ok := device.(*onnx.Model); ok {
		name = m.Place()
	}
	r.console.Warnf(warning.ModelDevice, "%s failed and is left out: %v; its %d unfinished examples are begun again on the others",
		name, err, examples)
}

// sample draws the samples of the examples that the folder lacks, and certifies these examples.
func (r *running) sample(ctx context.Context) error { return r.draw(ctx, r.sampler()) }

func (r *running) draw(ctx context.Context, sampler smoothing.Sampler) error {
	perExample := r.plan.N0 + r.plan.N
	r.started = time.Now()
	r.bar = progress.Start(r.console.Progress, "certify", int64(len(r.positions))*perExample, int64(r.certs.Examples())*perExample)
	defer r.bar.Finish()
	next := r.certs.Examples()
	return sampler.Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(r.positions) {
			return nil, nil
		}
		e, err := r.startTurn(next)
		next++
		return e, err
	})
}

// startTurn reads an example and starts to sample it. The argument 'turn' is the example's position among the examples
// of the run.
func (r *running) startTurn(turn int) (smoothing.Experiment, error) {
	example, err := r.experiment.Example(r.positions[turn])
	if err != nil {
		return nil, err
	}
	return r.start(turn, example)
}

// start starts to sample an example that has already been read.
func (r *running) start(turn int, example experiment.Example) (smoothing.Experiment, error) {
	e := &exampleByVotes{running: r, turn: turn, input: example.Input}
	v := &e.record.Votes
	v.Index, v.Label, v.Quantisation = example.Index, example.Label, example.Quantisation
	v.Scaled, v.Deterministic, v.RejectBelow = r.plan.Scaled(), r.plan.Law.Deterministic(), r.plan.RejectBelow
	if r.Scores == nil {
		return e, nil
	}
	scores, err := r.Scores.Start(r.scoreExample(*v))
	if saved := r.folder.Scores(); err == nil && saved != nil {
		err = saved.WriteExample(turn, v.Index, v.Label)
	}
	return &exampleByScores{exampleByVotes: e, scores: scores, selected: make([]int64, r.experiment.Model().Classes())}, err
}

// scoreExample describes the scores of the example to which the votes v belong.
func (r *running) scoreExample(v certify.Votes) certify.ScoreExample {
	return certify.ScoreExample{
		Index: v.Index, Label: v.Label, Classes: r.experiment.Model().Classes(),
		N0: r.plan.N0, N: r.plan.N, Quantisation: v.Quantisation,
	}
}

// exampleByVotes is an example of a run in which votes certify the class. It implements smoothing.Experiment.
type exampleByVotes struct {
	running *running
	turn    int // position of the example among the examples of the run
	record  runfolder.Record
	input   smoothing.Input
}

func (e *exampleByVotes) Input() (int, smoothing.Input) { return e.record.Votes.Index, e.input }

// Restart begins the example again, with the same input.
func (e *exampleByVotes) Restart() (smoothing.Experiment, error) {
	v := e.record.Votes
	return e.running.start(e.turn, experiment.Example{Index: v.Index, Label: v.Label, Input: e.input, Quantisation: v.Quantisation})
}

func (e *exampleByVotes) Goal(t smoothing.Votes) (int64, error) {
	if e.running.Stopping == nil {
		return e.running.plan.N, nil
	}
	e.count(t)
	return e.running.Stopping.Next(e.record.Votes)
}

func (e *exampleByVotes) Finish(t smoothing.Votes) (err error) {
	e.count(t)
	if s := e.running.Stopping; s != nil {
		if err := s.Mark(&e.record.Votes); err != nil {
			return err
		}
	}
	e.record.Certificate, err = e.running.Votes.Certify(e.record.Votes)
	return err
}

// count stores the sampler's counts.
func (e *exampleByVotes) count(t smoothing.Votes) {
	v := &e.record.Votes
	v.N, v.Counts, v.None, v.Clean = t.N, t.Counts, t.None, &t.Clean
	e.record.Compared = t.Compared
	if t.N0 > 0 {
		v.N0, v.Counts0, v.None0 = t.N0, t.Counts0, t.None0
	}
}

func (e *exampleByVotes) Emit() error {
	r := e.running
	if err := r.folder.Append(e.record); err != nil {
		return err
	}
	r.take(e.record)
	rate := float64(r.drawn.Load()) / time.Since(r.started).Seconds()
	r.bar.Add(r.plan.N-e.record.Votes.N, fmt.Sprintf("%d/%d examples, certified accuracy %.1f %%, %.0f samples/s",
		r.certs.Examples(), len(r.positions), 100*float64(r.certs.Correct())/float64(r.certs.Examples()), rate))
	return nil
}

// exampleByScores is an example of a run that uses scores. Either scores certify the class, or votes certify the class
// and scores bound the confidence. It implements smoothing.Observer.
type exampleByScores struct {
	*exampleByVotes
	scores   *certify.ScoreAccumulator
	seen     [2]int64 // number of samples seen, by phase
	probs    []float32
	selected []int64 // number of votes of the selection samples for each class, so far
	chosen   bool    // the votes have chosen the class
}

func (e *exampleByScores) Observe(phase smoothing.Phase, outputs []float32) error {
	r := e.running
	classes := r.experiment.Model().Classes()
	if len(e.probs) < len(outputs) {
		e.probs = make([]float32, len(outputs))
	}
	probs := e.probs[:len(outputs)]
	if r.experiment.Model().Outputs() == graph.Logits {
		certify.Softmax(outputs, probs, classes, r.plan.Temperature)
	} else {
		copy(probs, outputs) // the votes need the raw outputs, including NaN
		certify.ClearNone(probs, classes)
	}
	if r.Votes != nil {
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

// elect counts the votes of selection samples and passes the elected class to the score accumulator.
func (e *exampleByScores) elect(phase smoothing.Phase, outputs []float32) error {
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

// chooseByVotes tells the score accumulator which class to certify (certify.Votes.Elected).
func chooseByVotes(scores *certify.ScoreAccumulator, votes certify.Votes, class certify.Class) error {
	k, err := votes.Elected(class)
	if err != nil {
		return err
	}
	return scores.Choose(k)
}

func (e *exampleByScores) Finish(t smoothing.Votes) (err error) {
	e.count(t)
	if e.running.Votes != nil {
		e.record.Certificate, err = e.running.Votes.Certify(e.record.Votes)
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
