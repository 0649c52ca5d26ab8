// Package smoothing samples a classifier under noise: it takes a Classifier and examples, and returns votes and
// outputs.
//
// The samples depend only on the seed, the example and the model. Batch size, number of workers, shards and
// interruptions change nothing.
package smoothing

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Classifier is a base classifier that runs whole batches.
type Classifier interface {
	InputLen() int // values of one input, D
	Classes() int  // values of one output, m
	Batch() int    // inputs a call
	// Run computes out [Batch()·m] from in [Batch()·D]. Several goroutines call it at once. The output of an input
	// must not depend on its row in the batch or on the other inputs.
	Run(ctx context.Context, in, out []float32) error
}

// Votes are the counts of one example so far.
type Votes struct {
	N0      int64   // selection samples
	Counts0 []int64 // their votes [m]
	None0   int64   // selection samples without an answer: N0 is the sum of Counts0 and None0
	N       int64   // estimation samples
	Counts  []int64 // their votes [m]
	None    int64   // estimation samples without an answer
	Clean   int     // vote of the input without noise; −1 for no answer
	// Compared is the number of samples rerun alone and among other inputs, with the same outputs.
	Compared int64
}

// Input makes the noisy inputs of one example.
type Input interface {
	Len() int // D
	// Perturb sets dst [D] to the noisy input of a sample, normalised and in the model's layout. Several goroutines
	// call it at once.
	Perturb(dst []float32, s Stream, sample int64)
	// Clean sets dst [D] to the input without noise.
	Clean(dst []float32)
}

// Experiment decides how many samples one example gets and receives the results. Goal, Observe and Finish of one
// experiment are never called at the same time; calls for different experiments may overlap.
type Experiment interface {
	// Input returns the example's index, which selects its noise, and its input.
	Input() (index int, input Input)
	// Goal is called at the start (without votes) and each time its last goal is reached. It returns the number of
	// estimation samples to reach next, or v.N to stop.
	Goal(v Votes) (int64, error)
	// Finish is called once after the last goal.
	Finish(v Votes) error
	// Emit is called after Finish, one experiment at a time, in the order of the source.
	Emit() error
}

// Observer is an Experiment that also receives the model's outputs, in the order of the samples: first the whole
// selection phase.
type Observer interface {
	Experiment
	// Observe takes the raw outputs [k·m] of the next k samples of a phase, including samples without an answer. It
	// must neither change nor keep them.
	Observe(phase Phase, outputs []float32) error
}

// Sampler holds the settings shared by all examples.
type Sampler struct {
	Classifier Classifier
	Seed       uint64
	N0         int64 // selection samples an example; may be 0
	// Workers is the number of goroutines that make noise, run the model and count; 0 means one a core.
	Workers int
	// Replicas are the same model on further devices. One device draws all samples of an example.
	Replicas []Classifier
	// Compare, if not nil, chooses examples whose first sample is rerun, in addition to the seed's choice.
	Compare func(index int) bool
	// Progress, if not nil, receives the number of newly drawn samples; it is negative for discarded samples.
	Progress func(n int64)
	// Lost, if not nil, reports a failed device and the number of examples that the others redraw.
	Lost func(device Classifier, examples int, err error)
}

// maxActiveBytes bounds the inputs held for examples in flight.
const maxActiveBytes = 256 << 20

// phases is the number of phases: selection and estimation.
const phases = 2

// active is an example in flight. The scheduler's lock guards all fields, except those under mu.
type active struct {
	Experiment
	lane     *lane // lane that draws its samples; nil before the first
	failed   *lane // lane that failed on samples of the example
	index    int
	input    Input
	goal     int64
	drawn    [phases]int64 // samples given to workers
	clean    bool          // the clean input has been given to a worker
	counted  int64         // finished samples of both phases, and the clean input
	finished bool

	mu       sync.Mutex
	votes    Votes
	observed [phases]int64 // samples an Observer has seen
	waiting  []waitingOutputs
}

// waitingOutputs are outputs that arrived before outputs of earlier samples.
type waitingOutputs struct {
	segment
	outputs []float32
}

// segment is a range of samples of one example and phase.
type segment struct {
	*active
	phase    Phase
	first    int64
	count    int
	compared int // samples of the range that were rerun
}

// task is a piece of work for a worker: a batch to run or, if batch is empty, an experiment that has reached its
// goal.
type task struct {
	batch  []segment
	decide *active
}

// outcome is the result of a worker's task.
type outcome struct {
	task
	goal    int64           // from decide
	counted map[*active]int // number of newly finished samples
}

// Run draws samples for the experiments from source until source returns nil. It returns the first error, including
// ctx's. Experiments emitted before an error remain valid.
func (s Sampler) Run(ctx context.Context, source func() (Experiment, error)) error {
	if s.Workers <= 0 {
		s.Workers = cores
	}
	if err := s.checkReplicas(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sched := newScheduler(ctx, s)
	keepProcessors(sched.workers())
	defer context.AfterFunc(ctx, sched.wake)()

	var running sync.WaitGroup
	running.Go(func() {
		if err := sched.read(ctx, source); err != nil {
			cancel(err)
		}
	})
	for _, l := range sched.lanes {
		for range l.workers {
			running.Go(func() {
				if err := s.work(ctx, sched, l); err != nil {
					cancel(err)
				}
			})
		}
	}
	running.Wait()
	return context.Cause(ctx) // the first failure, not a cancellation that it caused
}

// cores is the number of goroutines that run at once before keepProcessors.
var cores = runtime.GOMAXPROCS(0)

// DefaultWorkers is the default number of workers, one a core.
func DefaultWorkers() int { return cores }

// keepProcessors gives Go's scheduler two more processors than there are workers. A worker spends most of its time in
// C. If no processor is idle, the runtime takes the worker's processor after 20 µs in C, and the return from the
// model waits for another. With idle processors a small model is sampled a seventh faster.
func keepProcessors(workers int) {
	if n := workers + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}

// work runs a lane's tasks until none are left.
func (s Sampler) work(ctx context.Context, sched *scheduler, l *lane) error {
	s.Classifier = l.classifier
	w := s.newWorker()
	for {
		t, err := sched.next(ctx, l)
		if err != nil || t == nil {
			return err
		}
		o, err := w.do(l.ctx, *t)
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

// scheduler decides which samples to draw next. Workers call it directly. A separate scheduling goroutine would need
// a wake-up for every batch, which costs as much time as several samples of a small model.
type scheduler struct {
	sampler   Sampler
	lanes     []*lane
	n0        int64
	maxActive int
	arrivals  chan Experiment

	mu        sync.Mutex
	changed   *sync.Cond // signals an arrival, an accounted result or the end of ctx
	exhausted bool       // no more arrivals
	active    []*active  // in order of arrival
	undecided []*active  // goal reached, decision pending
}

func newScheduler(ctx context.Context, s Sampler) *scheduler {
	lanes := s.newLanes(ctx)
	c := &scheduler{
		sampler:   s,
		lanes:     lanes,
		n0:        s.N0,
		maxActive: max(4, 2*len(lanes), maxActiveBytes/(4*s.Classifier.InputLen()+1)),
		arrivals:  make(chan Experiment, 2),
	}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// wake wakes the waiting workers.
func (c *scheduler) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// read reads examples ahead of the workers, so that no worker waits for an image to be decoded.
func (c *scheduler) read(ctx context.Context, source func() (Experiment, error)) error {
	defer c.wake()
	defer close(c.arrivals)
	for ctx.Err() == nil {
		e, err := source()
		if err != nil || e == nil {
			return err
		}
		select {
		case c.arrivals <- e:
			c.wake()
		case <-ctx.Done():
		}
	}
	return nil
}

// next returns the next task for a lane, or nil after the last. It waits while further tasks may come.
func (c *scheduler) next(ctx context.Context, l *lane) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ctx.Err() == nil {
		if l.err != nil {
			return nil, c.leave(l)
		}
		if t := c.compose(l); t != nil {
			return t, nil
		}
		if c.exhausted && len(c.active) == 0 {
			return nil, nil
		}
		if arrived, err := c.arrive(); err != nil {
			return nil, err
		} else if !arrived {
			c.changed.Wait()
		}
	}
	return nil, ctx.Err()
}

// arrive accepts examples that were read, if there is room, and reports whether it changed anything.
func (c *scheduler) arrive() (bool, error) {
	if c.exhausted || len(c.active) >= c.maxActive {
		return false, nil
	}
	select {
	case e, ok := <-c.arrivals:
		if !ok {
			c.exhausted = true
			c.changed.Broadcast()
			return true, nil
		}
		a, err := c.admit(e)
		if err == nil {
			c.active = append(c.active, a)
		}
		return true, err
	default:
		return false, nil
	}
}

func (c *scheduler) admit(e Experiment) (*active, error) {
	classifier := c.sampler.Classifier
	a := &active{Experiment: e}
	a.index, a.input = e.Input()
	if d := a.input.Len(); d != classifier.InputLen() {
		return nil, fmt.Errorf("example %d: input has %d values, the model wants %d", a.index, d, classifier.InputLen())
	}
	m := classifier.Classes()
	a.votes = Votes{Counts0: make([]int64, m), Counts: make([]int64, m)}
	goal, err := e.Goal(a.votes)
	a.goal = goal
	if goal <= 0 && err == nil {
		err = fmt.Errorf("example %d: no samples asked for", a.index)
	}
	return a, err
}

// compose returns the next task for a lane: a decision if one is due, otherwise a batch of examples not claimed by
// other lanes. It holds back a partial batch while further examples may join it.
func (c *scheduler) compose(l *lane) *task {
	if len(c.undecided) > 0 {
		a := c.undecided[0]
		c.undecided = c.undecided[1:]
		return &task{decide: a}
	}
	available := c.available(l)
	if available == 0 || (available < l.batch && !c.exhausted && len(c.active) < c.maxActive) {
		return nil
	}
	t := &task{}
	room := l.batch
	for _, a := range c.active {
		if !l.takes(a) {
			continue
		}
		a.lane = l
		if !a.clean && room > 0 {
			t.batch = append(t.batch, segment{active: a, phase: clean, count: 1})
			a.clean = true
			room--
		}
		for phase, end := range [phases]int64{c.n0, a.goal} {
			k := int(min(int64(room), end-a.drawn[phase]))
			if k <= 0 {
				continue
			}
			t.batch = append(t.batch, segment{active: a, phase: Phase(phase), first: a.drawn[phase], count: k})
			a.drawn[phase] += int64(k)
			room -= k
		}
		if room == 0 {
			break
		}
	}
	return t
}

// available returns the number of samples that the lane can draw now, up to a batch.
func (c *scheduler) available(l *lane) (n int) {
	for _, a := range c.active {
		if !l.takes(a) {
			continue
		}
		n += int(min(int64(l.batch), a.left(c.n0)))
		if n >= l.batch {
			break
		}
	}
	return n
}

// left returns the number of samples still to draw up to the goal.
func (a *active) left(n0 int64) int64 {
	samples := n0 - a.drawn[Selection] + a.goal - a.drawn[Estimation]
	if !a.clean {
		samples++
	}
	return samples
}

// account records a worker's result and emits the finished experiments in order.
func (c *scheduler) account(ctx context.Context, o outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if err := ctx.Err(); err != nil {
		return err
	}
	if a := o.decide; a != nil {
		a.finished = o.goal <= a.goal
		a.goal = max(a.goal, o.goal)
		if err := c.redo(a.lane); err != nil {
			return err
		}
	}
	for a, k := range o.counted {
		a.counted += int64(k)
		if k > 0 && a.complete(c.n0) {
			c.undecided = append(c.undecided, a)
		}
	}
	for len(c.active) > 0 && c.active[0].finished {
		if err := c.active[0].Emit(); err != nil {
			return err
		}
		c.active = c.active[1:]
	}
	return nil
}

// worker makes the noise of a batch, runs the model on it and counts.
type worker struct {
	Sampler
	in    []float32 // allocated on first use
	rows  *Rows     // allocated on first use
	out   []float32 // outputs of a batch, for an Observer or with noise made here
	votes []int32   // votes of a batch

	scored bool      // out holds the last batch
	again  []float32 // outputs of rerun samples
}

func (s Sampler) newWorker() *worker {
	b := s.Classifier.Batch()
	return &worker{Sampler: s, out: make([]float32, b*s.Classifier.Classes()), votes: make([]int32, b)}
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
		k, err := g.deliver(votes[:g.count], out[:g.count*m], w.N0)
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

// deliver counts a segment's votes [count] and passes its outputs [count·m] to an Observer in order. It returns the
// number of finished samples: counted and, if there is an Observer, observed.
func (g segment) deliver(votes []int32, outputs []float32, n0 int64) (int, error) {
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
	if !a.due(g, n0) {
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
		i := slices.IndexFunc(a.waiting, func(w waitingOutputs) bool { return a.due(w.segment, n0) })
		if i < 0 {
			return seen, nil
		}
		g, outputs = a.waiting[i].segment, a.waiting[i].outputs
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

// due reports whether a segment's outputs are next for an Observer.
func (a *active) due(g segment, n0 int64) bool {
	return g.first == a.observed[g.phase] && (g.phase == Selection || a.observed[Selection] == n0)
}

// none is the vote of an output without an answer.
const none = -1

// clean is the phase of the single input without noise. It has no stream.
const clean Phase = 2

// Vote returns the class with the largest output; the first class wins a tie. The output −∞ masks a class. A NaN, a
// +∞ or only −∞ is a vote for no class: the sampler does not guess its meaning.
func Vote(outputs []float32) int {
	best, most := 0, outputs[0]
	for k, v := range outputs {
		if v > outputs[best] {
			best = k
		}
		most = max(most, v) // NaN if one is
	}
	if most-most != 0 { // NaN and ±Inf
		return none
	}
	return best
}

// decide gets the experiment's next goal, and finishes the experiment if it wants no more samples.
func (a *active) decide() (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	goal, err := a.Goal(a.votes)
	if err != nil || goal > a.votes.N {
		return goal, err
	}
	return goal, a.Finish(a.votes)
}
