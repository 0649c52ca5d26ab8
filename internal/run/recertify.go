package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
	"github.com/rscert/rscert/internal/spec"
)

// Recertification describes how to certify a run or a file again: from its saved votes or scores, by several methods.
type Recertification struct {
	Evidence *runfolder.Evidence
	Target   certify.Target
	Methods  []runfolder.Method // empty: the method of the run or, without a run, the default
	Combine  certify.Combine    // used by methods for scores
	// N0 and Temperature have the same meaning as in SavedScores.
	N0          int64
	Temperature float64
	// Size is the number of estimation samples to use. 0 stands for all samples. If scores are certified, Certify uses
	// the first samples. If votes are certified, Certify draws a subsample, which depends on Seed and Turn
	// (certify.Votes.Subsample).
	Size int64
	Seed uint64
	Turn int

	saved *savedVotes // shared by several calls of Certify; nil: Certify reads the votes itself
}

// savedVotes holds the votes of the evidence, and the certifiers for these votes.
type savedVotes struct {
	votes      []certify.Votes
	certifiers map[certify.VoteParams]*certify.VoteCertifier
}

// certifier returns the VoteCertifier with the parameters p. It keeps each VoteCertifier for later calls. A
// VoteCertifier caches its results, and examples with equal counts have the same result.
func (s *savedVotes) certifier(p certify.VoteParams) (*certify.VoteCertifier, error) {
	if c := s.certifiers[p]; c != nil {
		return c, nil
	}
	c, err := certify.NewVoteCertifier(p)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	s.certifiers[p] = c
	return c, nil
}

// settle chooses the method if the user names none. It chooses the run's method if the evidence holds the votes or
// scores that this method needs.
func (q *Recertification) settle() {
	if len(q.Methods) > 0 {
		return
	}
	method := runfolder.ByVotes(certify.ExactMargin)
	switch r := q.Evidence.Run; {
	case r != nil && r.Parameters.Method.Given() && q.Evidence.Supports(r.Parameters.Method):
		method = r.Parameters.Method
	case q.Evidence.HoldsScores():
		method = runfolder.ByScores(certify.Betting)
	}
	q.Methods = []runfolder.Method{method}
}

// Certify returns the certificates of each method, in the order of the methods.
func (q Recertification) Certify(ctx context.Context, show progress.Options) ([][]certify.Certificate, error) {
	q.settle()
	var byVotes []certify.VoteParams
	for _, m := range q.Methods {
		if method, ok := m.Votes(); ok {
			byVotes = append(byVotes, certify.VoteParams{Target: q.Target, Method: method})
		}
	}
	saved, votes, err := q.load(len(byVotes) > 0)
	if err != nil {
		return nil, err
	}
	for i := range byVotes {
		if q.Evidence.Run == nil { // in a file without a run, all lines have the same RejectBelow
			byVotes[i].RejectBelow = votes[0].RejectBelow
		}
	}
	bar := progress.Start(show, "certificates", int64(len(votes)*len(byVotes)), 0)
	defer bar.Finish()
	var sets [][]certify.Certificate
	for _, m := range q.Methods {
		var certs []certify.Certificate
		if bound, ok := m.Scores(); ok {
			s := SavedScores{
				Evidence: q.Evidence, Params: certify.ScoreParams{Target: q.Target, Bound: bound, Combine: q.Combine},
				N0: q.N0, Temperature: q.Temperature, Size: q.Size,
			}
			err = CertifyScores(ctx, s, show, func(c certify.Certificate, _ []certify.ConfidenceBound) { certs = append(certs, c) })
		} else {
			certs, err = saved.certify(ctx, byVotes[0], votes, bar)
			byVotes = byVotes[1:]
		}
		if err != nil {
			return nil, err
		}
		sets = append(sets, certs)
	}
	return sets, nil
}

// load returns all saved votes as 'saved', and the votes to certify as 'votes'. The votes to certify are all votes or a
// subsample. If the argument 'needed' is false, load reads nothing.
func (q Recertification) load(needed bool) (saved *savedVotes, votes []certify.Votes, err error) {
	if !needed {
		return nil, nil, nil
	}
	if saved = q.saved; saved == nil {
		if saved, err = q.readVotes(); err != nil {
			return nil, nil, err
		}
	}
	votes, err = q.subsample(saved.votes)
	return saved, votes, err
}

// readVotes reads the saved votes, and returns an error if some of them cannot be certified.
func (q Recertification) readVotes() (*savedVotes, error) {
	votes, err := q.Evidence.Votes(func(v certify.Votes) error {
		if err := q.Target.Certifiable(v); err != nil || q.Size == 0 {
			return err
		}
		return sizeable(v, q.Size)
	})
	if errors.Is(err, certify.ErrNoSelection) {
		err = hint.Add(err, "certify the label by %s label", param.Class)
	}
	return &savedVotes{votes, map[certify.VoteParams]*certify.VoteCertifier{}}, spec.BadInput(err)
}

// sizeable returns an error if v has no subsample of the given size.
func sizeable(v certify.Votes, size int64) error {
	switch {
	case v.Stop.Given():
		return param.Errorf("%s: %w", param.Sizes, certify.ErrStopped)
	case v.Deterministic:
		return param.Errorf("%s: the votes are evaluations at fixed inputs, not random samples", param.Sizes)
	case size > v.N:
		return param.Errorf("%s %d: the example has %d votes", param.Sizes, size, v.N)
	}
	return nil
}

// subsample draws a subsample of Size votes for each example. If Size is 0, it returns all votes.
func (q Recertification) subsample(votes []certify.Votes) ([]certify.Votes, error) {
	if q.Size == 0 {
		return votes, nil
	}
	drawn := make([]certify.Votes, len(votes))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, v := range votes {
		g.Go(func() (err error) {
			drawn[i], err = v.Subsample(q.Size, q.Seed, q.Turn)
			return err
		})
	}
	return drawn, spec.BadInput(g.Wait())
}

// certify computes the certificates of votes, on all cores.
func (s *savedVotes) certify(ctx context.Context, p certify.VoteParams, votes []certify.Votes, bar *progress.Bar) ([]certify.Certificate, error) {
	certifier, err := s.certifier(p)
	if err != nil {
		return nil, err
	}
	certs := make([]certify.Certificate, len(votes))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, v := range votes {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			certs[i], err = certifier.Certify(v)
			bar.Add(1, "")
			return err
		})
	}
	return certs, g.Wait()
}

// SavedScores holds the settings for certifying saved scores.
type SavedScores struct {
	Evidence *runfolder.Evidence
	Params   certify.ScoreParams
	// For a file without selection samples, N0 is the number of estimation samples that serve for selection instead.
	N0          int64
	Temperature float64 // relative to the temperature of the saved probabilities
	// Size is the number of estimation samples to use: the first samples after the samples that serve for selection. 0
	// stands for all samples.
	Size int64
	// If Votes is given, this method certifies the class, and the scores bound the confidence in this class. The method
	// uses the votes of the run. Without a run, or if N0 is not 0, each sample votes for the class of its largest
	// probability.
	Votes certify.VoteMethod
}

// CertifyScores certifies every example of saved scores and calls the function 'take' with the results of each example.
func CertifyScores(ctx context.Context, q SavedScores, show progress.Options, take func(certify.Certificate, []certify.ConfidenceBound)) error {
	return certifyScores(ctx, q, show, func(certify.ScoreExample) {}, take)
}

// certifyScores does the same as CertifyScores. Before it certifies anything, it calls the function 'samples' with the
// numbers of samples per example.
func certifyScores(ctx context.Context, q SavedScores, show progress.Options, samples func(certify.ScoreExample),
	take func(certify.Certificate, []certify.ConfidenceBound)) (err error) {
	if !(q.Temperature > 0) || math.IsInf(q.Temperature, 1) {
		return spec.BadInputf("%s %v: want a number above 0", param.Temperature, q.Temperature)
	}
	q.Params.ClassByVotes = q.Votes != ""
	certifier, err := certify.NewScoreCertifier(q.Params)
	if err != nil {
		return spec.BadInput(err)
	}
	polls, err := q.newPolls()
	if err != nil {
		return spec.BadInput(err)
	}
	r, err := q.Evidence.Scores()
	if err != nil {
		return spec.BadInput(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	example, err := q.split(r.Shape)
	if err != nil {
		return err
	}
	samples(example)
	bar := progress.Start(show, "scores", int64(r.Examples), 0)
	defer bar.Finish()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if example.Index, example.Label, err = r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return spec.BadInput(err)
		}
		example.Quantisation = r.Quantisation()
		poll, err := polls.next(example)
		if err != nil {
			return spec.BadInput(err)
		}
		cert, bounds, err := q.certifyExample(certifier, poll, r, example)
		if errors.Is(err, certify.ErrNoSelection) {
			return hint.Add(spec.BadInputf("%s: no array scores0: the predicted class needs selection samples", q.Evidence.Path),
				"take the first k samples as selection samples with %s k, or certify %s label", param.N0, param.Class)
		}
		if err != nil {
			return spec.BadInput(fmt.Errorf("%s: example %d: %w", q.Evidence.Path, example.Index, err))
		}
		take(cert, bounds)
		bar.Add(1, "")
	}
}

// split decides which samples of each example serve for selection.
func (q SavedScores) split(s scorefile.Shape) (certify.ScoreExample, error) {
	e := certify.ScoreExample{Classes: s.Classes, N0: s.N0, N: s.N}
	switch path := q.Evidence.Path; {
	case q.N0 < 0 || q.N0 >= s.N:
		return e, spec.BadInputf("%s %d: want a part of the %d samples of %s", param.N0, q.N0, s.N, path)
	case q.N0 > 0 && s.N0 > 0:
		return e, spec.BadInputf("%s %d: %s has selection samples of its own, %d an example", param.N0, q.N0, path, s.N0)
	case q.N0 > 0:
		e.N0, e.N = q.N0, s.N-q.N0
	}
	if q.Size > e.N {
		return e, spec.BadInputf("%s %d: %s has %d estimation samples an example", param.Sizes, q.Size, q.Evidence.Path, e.N)
	}
	if q.Size > 0 {
		e.N = q.Size
	}
	return e, nil
}

// certifyExample certifies an example by its saved samples.
func (q SavedScores) certifyExample(certifier *certify.ScoreCertifier, poll *poll, saved runfolder.Samples,
	e certify.ScoreExample) (cert certify.Certificate, bounds []certify.ConfidenceBound, err error) {
	a, err := q.accumulate(certifier, poll, saved, e)
	if err != nil {
		return cert, nil, err
	}
	if poll != nil {
		cert, err = poll.certifier.Certify(poll.votes)
	} else {
		cert, err = a.Certificate()
	}
	if err != nil {
		return cert, nil, err
	}
	return cert, a.Confidence(cert), nil
}

// accumulate reads the saved samples of an example.
func (q SavedScores) accumulate(certifier *certify.ScoreCertifier, poll *poll, saved runfolder.Samples,
	e certify.ScoreExample) (*certify.ScoreAccumulator, error) {
	a, err := certifier.Start(e)
	if err != nil {
		return nil, err
	}
	x := intake{scores: a, poll: poll, saved: q, classes: e.Classes, selection: q.N0, estimation: e.N}
	if err := saved.Selection(func(probs []float32) error { return x.take(probs, true) }); err != nil {
		return nil, err
	}
	return a, saved.Estimation(x.split)
}

// intake receives the saved probabilities of one example.
type intake struct {
	scores    *certify.ScoreAccumulator
	poll      *poll // certifies the class from the votes; nil if scores certify the class
	saved     SavedScores
	classes   int
	selection int64 // number of saved estimation samples that are still to be used as selection samples
	// estimation is the number of samples that the estimation still needs. The file may hold more.
	estimation int64
	chosen     bool // whether the votes have chosen the class
}

// split uses the first SavedScores.N0 estimation samples as selection samples.
func (x *intake) split(probs []float32) error {
	k := int(min(x.selection, int64(len(probs)/x.classes)))
	x.selection -= int64(k)
	if err := x.take(probs[:k*x.classes], true); err != nil {
		return err
	}
	probs = probs[k*x.classes:]
	n := min(x.estimation, int64(len(probs)/x.classes))
	x.estimation -= n
	if n == 0 {
		return nil
	}
	return x.take(probs[:int(n)*x.classes], false)
}

// take processes the class probabilities of some samples, one sample after another. It overwrites probs.
func (x *intake) take(probs []float32, selection bool) error {
	if x.poll != nil {
		x.poll.count(probs, selection)
	}
	if x.poll != nil && !selection && !x.chosen {
		x.chosen = true
		if err := chooseByVotes(x.scores, x.poll.votes, x.saved.Params.Class); err != nil {
			return err
		}
	}
	certify.Retemper(probs, x.classes, x.saved.Temperature)
	if selection {
		return x.scores.Selection(probs)
	}
	return x.scores.Estimation(probs)
}
