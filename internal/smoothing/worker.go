package smoothing

import (
	"context"
	"fmt"
	"slices"
)

// The method 'work' runs the tasks of a lane until no task is left.
func (s Sampler) work(ctx context.Context, sched *scheduler, l *lane) error {
	workers := make([]*worker, len(l.sizes))
	for i, classifier := range l.sizes {
		s.Classifier = classifier
		workers[i] = s.newWorker(l.sizes[0])
	}
	for {
		t, err := sched.next(ctx, l)
		if err != nil || t == nil {
			return err
		}
		o, err := fitting(workers, *t).do(l.ctx, *t)
		if err == nil {
			err = sched.account(ctx, o)
		} else {
			err = sched.fail(ctx, l, *t, err)
		}
		if err != nil {
			return err
		}
	}
}

// fitting returns the first worker whose batches are large enough for a task. The argument 'workers' is in ascending
// order of batch sizes.
func fitting(workers []*worker, t task) *worker {
	rows := 0
	for _, g := range t.batch {
		rows += g.count
	}
	i := slices.IndexFunc(workers, func(w *worker) bool { return rows <= w.Classifier.Batch() })
	return workers[i]
}

// A worker makes the noisy inputs of a batch, runs the model on these inputs and counts the votes.
type worker struct {
	Sampler
	in    []float32 // allocated on first use
	rows  *Rows     // allocated on first use
	out   []float32 // outputs of a batch; needed if there is an Observer or a Voter, or if the host makes the noise
	votes []int32   // votes of a batch

	scored  bool       // true if the field 'out' holds the outputs of the last batch
	checker Classifier // the classifier with the smallest batches; it reruns samples
	again   []float32  // outputs of rerun samples
}

func (s Sampler) newWorker(checker Classifier) *worker {
	b := s.Classifier.Batch()
	return &worker{Sampler: s, out: make([]float32, b*s.Classifier.Classes()), votes: make([]int32, b), checker: checker}
}

func (w *worker) do(ctx context.Context, t task) (o outcome, err error) {
	o.task = t
	if t.decide != nil {
		o.goal, err = t.decide.decide()
		return o, err
	}
	maker := w.maker(t.batch)
	if maker != nil {
		err = w.runNoisy(ctx, maker, t.batch)
	} else {
		err = w.runHere(ctx, t.batch)
	}
	if err != nil {
		return o, &deviceError{err}
	}
	if err = w.recheck(ctx, t.batch, maker != nil); err != nil {
		return o, err
	}
	o.counted = make(map[*active]int, len(t.batch))
	m, out, votes := w.Classifier.Classes(), w.out, w.votes
	var drawn int64
	for _, g := range t.batch {
		k, err := g.deliver(votes[:g.count], out[:g.count*m])
		if err != nil {
			return o, fmt.Errorf("example %d: %w", g.index, err)
		}
		o.counted[g.active] += k
		out, votes = out[g.count*m:], votes[g.count:]
		if g.phase != clean {
			drawn += int64(g.count)
		}
	}
	if w.Progress != nil {
		w.Progress(drawn)
	}
	return o, nil
}

// deliver adds the segment's votes [count] to the example's counts. If there is an Observer, deliver passes the outputs
// [count·m] to the Observer in order. deliver returns the number of finished samples. A sample is finished when it has
// been counted and, if there is an Observer, observed.
func (g segment) deliver(votes []int32, outputs []float32) (int, error) {
	a := g.active
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.phase == clean {
		a.votes.Clean = int(votes[0])
		return 1, nil
	}
	counts, no, n := a.votes.Counts0, &a.votes.None0, &a.votes.N0
	if g.phase == Estimation {
		counts, no, n = a.votes.Counts, &a.votes.None, &a.votes.N
	}
	for _, k := range votes {
		if k == none {
			*no++
		} else {
			counts[k]++
		}
	}
	*n += int64(g.count)
	a.votes.Compared += int64(g.compared)

	o, ok := a.Experiment.(Observer)
	if !ok {
		return g.count, nil
	}
	if !a.due(g) {
		a.waiting = append(a.waiting, waitingOutputs{g, append([]float32(nil), outputs...)})
		return 0, nil
	}
	seen := 0
	for {
		if err := o.Observe(g.phase, outputs); err != nil {
			return seen, err
		}
		a.observed[g.phase] += int64(g.count)
		seen += g.count
		i := slices.IndexFunc(a.waiting, func(w waitingOutputs) bool { return a.due(w.segment) })
		if i < 0 {
			return seen, nil
		}
		g, outputs = a.waiting[i].segment, a.waiting[i].outputs
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

// due reports whether the segment g holds the next outputs that the Observer of the example must receive.
func (a *active) due(g segment) bool {
	return g.first == a.observed[g.phase] && (g.phase == Selection || a.observed[Selection] == a.n0)
}

// vote returns the class that an output votes for, or −1 for no class. The Voter chooses the class if there is a Voter,
// otherwise the function Vote does.
func (s Sampler) vote(outputs []float32) int {
	if s.Voter != nil {
		return s.Voter(outputs)
	}
	return Vote(outputs)
}

// The constant 'none' is the vote for an output without an answer.
const none = -1

// The constant 'clean' is the phase in which the model runs once, on an example's input without noise. This phase draws
// no noise, so it has no Stream of random numbers.
const clean Phase = 2

// Vote returns the class with the largest output. In a tie the first class wins. The output −∞ masks a class. If an
// output is NaN or +∞, or if all outputs are −∞, the vote is for no class, because such outputs have no known meaning.
func Vote(outputs []float32) int {
	best, most := 0, outputs[0]
	for k, v := range outputs {
		if v > outputs[best] {
			best = k
		}
		most = max(most, v) // NaN if any output is NaN
	}
	if most-most != 0 { // true for NaN and ±Inf
		return none
	}
	return best
}
