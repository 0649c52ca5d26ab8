package run

import (
	"context"
	"math"

	"github.com/rscert/rscert/internal/audit"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/smoothing"
)

// probe draws samples at one input until a test is decided. It implements smoothing.Experiment.
type probe struct {
	stream int // number of the noise stream; tests with the same seed have different streams
	input  smoothing.Input
	first  int64 // number of samples that the method Goal asks for first
	most   int64
	// decided reports whether the outcome of the test is known, so that no further samples are needed. The sampler
	// calls it with growing numbers of samples.
	decided func(smoothing.Votes) bool
	votes   smoothing.Votes
}

func (p *probe) Input() (int, smoothing.Input) { return p.stream, p.input }

// Goal first asks for p.first samples. Each further call asks for a quarter more samples than before, but for at least
// 16 more. It never asks for more than p.most samples.
func (p *probe) Goal(v smoothing.Votes) (int64, error) {
	switch {
	case v.N == 0:
		return min(p.first, p.most), nil
	case v.N >= p.most || p.decided(v):
		return v.N, nil
	}
	return min(v.N+max(v.N/4, 16), p.most), nil
}

func (p *probe) Finish(v smoothing.Votes) error {
	p.votes = v
	return nil
}

func (p *probe) Emit() error { return nil }

// scoreProbe is a probe that also passes on the scores of each sample.
type scoreProbe struct {
	*probe
	classes int
	take    func(scores []float32) // receives the class probabilities of a sample
	scores  func(outputs []float32) []float32
}

func (p *scoreProbe) Observe(_ smoothing.Phase, outputs []float32) error {
	probs := p.scores(outputs)
	for ; len(probs) > 0; probs = probs[p.classes:] {
		p.take(probs[:p.classes])
	}
	return nil
}

// sample draws the samples of an experiment. The argument 'seed' determines the noise.
func (a *auditor) sample(ctx context.Context, seed uint64, e smoothing.Experiment) error {
	s := a.Sampler()
	s.Seed, s.Compare = seed, nil
	source := []smoothing.Experiment{e}
	return s.Run(ctx, func() (smoothing.Experiment, error) {
		if len(source) == 0 {
			return nil, nil
		}
		next := source[0]
		source = source[1:]
		return next, nil
	})
}

// probabilities converts outputs of the model to class probabilities, in the same way as the run did.
func (a *auditor) probabilities(outputs []float32) []float32 {
	classes, probs := a.Model().Classes(), make([]float32, len(outputs))
	if a.Model().Outputs() == graph.Logits {
		certify.Softmax(outputs, probs, classes, a.runPlan.Temperature)
		return probs
	}
	copy(probs, outputs)
	certify.ClearNone(probs, classes)
	return probs
}

// level returns a test's level minus a correction. The noise is made from random words of finite length, and the
// correction covers the error that the finite length causes in the given number of samples.
func (a *auditor) level(level float64, samples int64) float64 {
	return smoothing.Deflate(level, a.run.Noise.Eta, samples*int64(a.Model().InputLen()))
}

// hopeless is the level at which a flip test is given up. The test stops if the samples show, at this level, that the
// class is more probable than the rival. Giving up can only reduce the power of the test.
const hopeless = 1e-6

// place returns the input of a test.
func (a *auditor) place(index int, t AuditTest) (smoothing.Input, error) {
	x, err := a.Values(index)
	if err != nil || t.Values == nil {
		input, _, placed := a.Perturbed(x, x.Values)
		return input, firstError(err, placed)
	}
	values, err := unpackValues(t.Values, len(x.Values))
	if err != nil {
		return nil, err
	}
	input, _, err := a.Perturbed(x, values)
	return input, err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// count returns the votes for a class. For the class −1 it returns the number of samples that vote for no class.
func count(v smoothing.Votes, class int) int64 {
	if class < 0 {
		return v.None
	}
	return v.Counts[class]
}

// byScores reports whether mean scores, not votes, certify the class.
func (a *auditor) byScores() bool {
	_, scores := a.run.Parameters.Method.Scores()
	return scores
}

// flip carries out a flip test: it tests whether, at an input, the rival is more probable than the class. If scores
// certify the class, it tests instead whether the rival has the larger mean score. The argument 'most' is the maximum
// number of samples.
func (a *auditor) flip(ctx context.Context, seed uint64, stream int, t AuditTest, input smoothing.Input, most int64) (TestResult, error) {
	level := a.level(t.Level, most)
	p := &probe{stream: stream, input: input, first: 64, most: most}
	r := TestResult{}
	if !a.byScores() {
		p.decided = func(v smoothing.Votes) bool {
			forClass, forRival := count(v, t.Class), count(v, t.Rival)
			r.LogEvidence = math.Max(r.LogEvidence, audit.Flip(forClass, forRival))
			return audit.Rejected(r.LogEvidence, level) || audit.Rejected(audit.Flip(forRival, forClass), hopeless)
		}
		if err := a.sample(ctx, seed, p); err != nil {
			return r, err
		}
		p.decided(p.votes)
	} else {
		lead, lag := audit.NewBet(.5, level), audit.NewBet(.5, hopeless)
		p.decided = func(smoothing.Votes) bool {
			return audit.Rejected(lead.Largest, level) || audit.Rejected(lag.Largest, hopeless)
		}
		take := func(scores []float32) {
			x := (float64(scores[t.Rival]) - float64(scores[t.Class]) + 1) / 2
			lead.Add(x)
			lag.Add(1 - x)
		}
		if err := a.sample(ctx, seed, &scoreProbe{p, a.Model().Classes(), take, a.probabilities}); err != nil {
			return r, err
		}
		r.LogEvidence = lead.Largest
	}
	r.Samples, r.Votes, r.Against = p.votes.N, count(p.votes, t.Class), count(p.votes, t.Rival)
	r.Rejected = audit.Rejected(r.LogEvidence, level)
	return r, nil
}

// flipAgain is for an escalation. It repeats a flip test that compares votes and that has rejected its hypothesis. It
// takes a fixed number of samples, because a test with a fixed number has more power than a test that may stop at any
// time.
func (a *auditor) flipAgain(ctx context.Context, seed uint64, stream int, t AuditTest, input smoothing.Input) (r TestResult, err error) {
	n := a.header.Verify
	p := &probe{stream: stream, input: input, first: n, most: n}
	if err := a.sample(ctx, seed, p); err != nil {
		return r, err
	}
	r.Samples, r.Votes, r.Against = p.votes.N, count(p.votes, t.Class), count(p.votes, t.Rival)
	r.Rejected = audit.FlipPValue(r.Votes, r.Against) <= a.level(t.Level, n)
	return r, nil
}

// confidence carries out a test of a bound on the confidence. It tests whether the mean score of the class at an input
// is outside the claimed interval.
func (a *auditor) confidence(ctx context.Context, seed uint64, stream int, t AuditTest, input smoothing.Input, most int64) (TestResult, error) {
	level := a.level(t.Level, most) / 2
	var bets []*audit.Bet
	var mirrored []bool
	if t.Lower > 0 {
		bets, mirrored = append(bets, audit.NewBet(1-t.Lower, level)), append(mirrored, true)
	}
	if t.Upper < 1 {
		bets, mirrored = append(bets, audit.NewBet(t.Upper, level)), append(mirrored, false)
	}
	sum, squares, n := 0., 0., 0.
	take := func(scores []float32) {
		x := float64(scores[t.Class])
		sum, squares, n = sum+x, squares+x*x, n+1
		for i, b := range bets {
			if mirrored[i] {
				b.Add(1 - x)
			} else {
				b.Add(x)
			}
		}
	}
	r := TestResult{}
	p := &probe{stream: stream, input: input, first: 256, most: most, decided: func(smoothing.Votes) bool {
		for _, b := range bets {
			r.LogEvidence = math.Max(r.LogEvidence, b.Largest)
		}
		mean := sum / n
		away := 5 * math.Sqrt(math.Max(squares/n-mean*mean, 1/n)/n)
		return audit.Rejected(r.LogEvidence, level) || (mean-away > t.Lower && mean+away < t.Upper)
	}}
	if err := a.sample(ctx, seed, &scoreProbe{p, a.Model().Classes(), take, a.probabilities}); err != nil {
		return r, err
	}
	p.decided(p.votes)
	mean := sum / n
	r.Samples, r.Votes, r.Against, r.Mean = p.votes.N, count(p.votes, t.Class), 0, &mean
	r.Rejected = audit.Rejected(r.LogEvidence, level)
	return r, nil
}
