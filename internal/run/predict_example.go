package run

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/smoothing"
)

// question is an input that waits for its answer. It implements smoothing.Observer.
type question struct {
	*answering
	example experiment.Example
	voter   func([]float32) int // nil stands for smoothing.Vote
	leader  *predict.Leader     // state of the sequential rule
	fixed   []int64             // for the fixed rule: number of votes of each outcome
	seen    int64               // number of estimation samples that the rule has used
	silent  int64               // number of samples that voted for no class, if the rule ignores such samples

	votes     certify.Votes // for the certificate
	certified bool          // the votes for the certificate are complete
	answer    predict.Answer
	tally     *tally // tally of the prediction set; nil: no prediction set
}

// start returns the example as a question, that is, as an input that waits for its answer.
func (a *answering) start(example experiment.Example) *question {
	return a.startKeyed(example, a.experiment.Spec.Seed)
}

// startKeyed returns the question of an example whose noise has this seed.
func (a *answering) startKeyed(example experiment.Example, seed uint64) *question {
	outcomes := a.experiment.Model().Classes()
	if !a.ignores() {
		outcomes++ // the last outcome is a vote for no class
	}
	q := &question{answering: a, example: example, certified: a.plan.Certify == nil, voter: a.plan.voter(a.experiment)}
	if a.plan.Rule == predict.ByFixed {
		q.fixed = make([]int64, outcomes)
	} else {
		q.leader = predict.NewLeader(outcomes, a.level)
	}
	if a.sets != nil {
		q.tally = a.sets.tally(seed, example.Index, "")
	}
	q.votes.Index, q.votes.Label, q.votes.Quantisation = example.Index, example.Label, example.Quantisation
	q.votes.Scaled, q.votes.RejectBelow = a.plan.Spec.Scaled(), a.plan.voting.RejectBelow
	return q
}

// ignores reports whether the rule ignores samples that vote for no class. If it does, the answer is the class that is
// most probable among the samples that vote for a class.
func (a *answering) ignores() bool { return a.plan.voting.None == certify.NoneIgnore }

// vote returns the class that a sample with these outputs votes for. The result is negative if the sample votes for no
// class.
func (q *question) vote(outputs []float32) int {
	if q.voter != nil {
		return q.voter(outputs)
	}
	return smoothing.Vote(outputs)
}

// Input returns the example's index and input.
func (q *question) Input() (int, smoothing.Input) { return q.example.Index, q.example.Input }

// Restart returns a new question about the same example, in the state before the first sample.
func (q *question) Restart() (smoothing.Experiment, error) { return q.answering.start(q.example), nil }

// Observe passes the votes of the estimation samples to the rule, in the order of the samples. It passes the outputs to
// the tally, if there is one.
func (q *question) Observe(phase smoothing.Phase, outputs []float32) error {
	if phase == smoothing.Selection {
		return nil
	}
	if q.tally != nil {
		q.tally.observe(outputs)
	}
	m := q.experiment.Model().Classes()
	for ; len(outputs) >= m; outputs = outputs[m:] {
		if q.seen == q.plan.votes() || q.leader != nil && q.leader.Decided() {
			return nil
		}
		q.seen++
		outcome := q.vote(outputs[:m])
		if outcome < 0 && q.ignores() {
			q.silent++
			continue
		}
		if outcome < 0 {
			outcome = m
		}
		if q.leader != nil {
			q.leader.Vote(outcome)
		} else {
			q.fixed[outcome]++
		}
	}
	return nil
}

// The sequential rule first draws firstVotes votes. While the votes are too few to decide, it draws at least moreVotes
// further votes. If alpha is .001 and all votes are for the same class, the rule decides after 13 votes. firstVotes is
// 16 because 16 votes fill a batch.
const (
	firstVotes = 16
	moreVotes  = 16
)

// Goal asks for votes until the certificate, the rule and the prediction set need no more.
func (q *question) Goal(v smoothing.Votes) (int64, error) {
	goal, err := q.answerGoal(v)
	if err == nil && q.tally != nil {
		goal = max(goal, q.tally.goal(v.N))
	}
	return goal, err
}

// answerGoal first asks for the votes of the certificate. Then it asks for more votes until the rule decides.
func (q *question) answerGoal(v smoothing.Votes) (int64, error) {
	if !q.certified {
		goal, err := q.certifyGoal(v)
		if err != nil || goal > v.N {
			return goal, err
		}
		q.certified = true
	}
	if q.leader == nil {
		return max(v.N, q.plan.N), nil
	}
	if q.leader.Decided() || v.N >= q.plan.Budget {
		return v.N, nil
	}
	if v.N == 0 {
		return min(firstVotes, q.plan.Budget), nil
	}
	return min(v.N+max(moreVotes, v.N/4), q.plan.Budget), nil
}

// certifyGoal returns the number of votes that the certificate needs.
func (q *question) certifyGoal(v smoothing.Votes) (int64, error) {
	c := &q.votes
	c.N, c.None, c.N0, c.None0 = v.N, v.None, v.N0, v.None0
	c.Counts, c.Counts0 = append(c.Counts[:0], v.Counts...), append(c.Counts0[:0], v.Counts0...)
	if s := q.certifiers.Stopping; s != nil {
		return s.Next(*c)
	}
	return q.plan.Certify.N, nil
}

// Finish decides the answer.
func (q *question) Finish(v smoothing.Votes) error {
	m := len(v.Counts)
	a := &q.answer
	a.Index, a.Moved = q.example.Index, 0
	if q.example.Label != certify.UnknownLabel {
		a.Label = &q.example.Label
	}
	if q.leader != nil {
		a.Class, a.Samples, a.Votes = q.leader.Answer(), q.leader.Votes()+q.silent, q.leader.Counts()[:m]
	} else {
		a.Class, a.Samples, a.Votes = predict.Fixed(q.fixed, q.level), q.seen, q.fixed[:m]
	}
	switch {
	case q.ignores():
		a.None = q.silent
	case q.leader != nil:
		a.None = q.leader.Counts()[m]
	default:
		a.None = q.fixed[m]
	}
	if a.Class == m { // most samples voted for no class
		a.Class = predict.Abstained
	}
	if q.plan.Round {
		a.Moved = q.example.Quantisation
	}
	if q.tally != nil {
		set, err := q.sets.finish(q.tally, q.example, "")
		if err != nil {
			return err
		}
		a.Set = &set
	}
	if q.plan.Certify == nil {
		return nil
	}
	if s := q.certifiers.Stopping; s != nil {
		if err := s.Mark(&q.votes); err != nil {
			return err
		}
	}
	c, err := q.certifiers.Votes.Certify(q.votes)
	a.Certificate = &c
	return err
}

// Emit passes the answer to the function 'take'.
func (q *question) Emit() error {
	q.take(q.answer)
	return nil
}
