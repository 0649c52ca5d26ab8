package run

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rscert/rscert/internal/smoothing"
)

// asked is an input of a request. It implements smoothing.Keyed and smoothing.Observer. An error, a panic or the end
// of its request ends only this question, never the sampler.
type asked struct {
	*question
	ctx      context.Context
	seed     uint64
	target   int64 // number of samples that the question wants
	err      error
	finished chan<- *asked // has room, so sending never blocks
}

// askedStep is the maximum number of samples between two checks of the request's context.
const askedStep = 1024

// Key returns the seed of the request and the number of selection samples.
func (q *asked) Key() (seed uint64, n0 int64) {
	if c := q.plan.Certify; c != nil {
		n0 = c.N0
	}
	return q.seed, n0
}

// Restart asks the question again.
func (q *asked) Restart() (smoothing.Experiment, error) {
	return &asked{question: q.answering.start(q.example), ctx: q.ctx, seed: q.seed, finished: q.finished}, nil
}

// Goal returns the next number of samples.
func (q *asked) Goal(v smoothing.Votes) (goal int64, err error) {
	defer func() { // the sampler wants a goal above 0, even from a question that has failed
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
	if v.N >= q.target {
		if q.target, q.err = q.question.Goal(v); q.err != nil {
			return 0, nil
		}
	}
	return max(min(q.target, v.N+askedStep), v.N), nil
}

// rescue turns a panic into the error of the question.
func (q *asked) rescue() {
	if p := recover(); p != nil {
		q.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Observe passes votes on to the question.
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
	return nil
}

// Emit hands over the answer.
func (q *asked) Emit() error {
	q.finished <- q
	return nil
}
