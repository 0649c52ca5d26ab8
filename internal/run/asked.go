package run

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/rscert/rscert/internal/smoothing"
)

// The type 'asked' hands one input of a request to the sampler. It implements smoothing.Keyed, smoothing.Observer and
// smoothing.Abandonable. If the embedded question fails or panics, or if the request ends, the sampler drops only this
// input and continues.
type asked struct {
	*question
	ctx      context.Context
	seed     uint64
	decided  bool
	err      error
	finished chan<- *asked // buffered, so sending never blocks
	stay     *stay
}

// stay is the reference count of a request's inputs. Each input holds one reference while it is in the sampler.
// Answerer.Ask holds one reference while it runs.
type stay struct {
	holders atomic.Int64
	left    func() // called once, when the last holder leaves; may be nil
}

func (s *stay) enter() { s.holders.Add(1) }

func (s *stay) leave() {
	if s.holders.Add(-1) == 0 && s.left != nil {
		s.left()
	}
}

// Key returns the seed of the request and the number of selection samples.
func (q *asked) Key() (seed uint64, n0 int64) {
	if c := q.plan.Certify; c != nil {
		n0 = c.N0
	}
	return q.seed, n0
}

// Restart returns a new experiment for the same input and seed, in its state before its first sample.
func (q *asked) Restart() (smoothing.Experiment, error) {
	again := q.answering.startKeyed(q.example, q.seed)
	return &asked{question: again, ctx: q.ctx, seed: q.seed, finished: q.finished, stay: q.stay}, nil
}

// Abandoned reports whether the context of the request has ended. It ends when the client has gone or the time of the
// request is over.
func (q *asked) Abandoned() bool { return q.ctx.Err() != nil }

// Goal returns the next goal, which is a total number of samples (smoothing.Experiment.Goal).
func (q *asked) Goal(v smoothing.Votes) (goal int64, err error) {
	defer func() { // the sampler needs a goal above 0, even from a failed question
		if q.err != nil {
			goal = max(v.N, 1)
		}
	}()
	defer q.rescue()
	if q.err == nil {
		q.err = q.ctx.Err()
	}
	if q.err != nil {
		return 0, nil
	}
	goal, q.err = q.question.Goal(v)
	return goal, nil
}

// rescue recovers from a panic and records it as the error of the question.
func (q *asked) rescue() {
	if p := recover(); p != nil {
		q.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Observe passes the outputs of samples on to the question.
func (q *asked) Observe(phase smoothing.Phase, outputs []float32) error {
	defer q.rescue()
	if q.err == nil {
		q.err = q.question.Observe(phase, outputs)
	}
	return nil
}

// Finish decides the answer.
func (q *asked) Finish(v smoothing.Votes) error {
	defer q.rescue()
	if q.err == nil {
		q.err = q.question.Finish(v)
	}
	q.decided = true
	return nil
}

// Emit passes on the answer or, if there is none, an error. An abandoned question has no answer.
func (q *asked) Emit() error {
	if !q.decided && q.err == nil {
		q.err = cmp.Or(q.ctx.Err(), context.Canceled)
	}
	q.stay.leave()
	q.finished <- q
	return nil
}
