package smoothing

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxActiveBytes limits the memory for the inputs of active examples.
const maxActiveBytes = 256 << 20

// phases is the number of phases: selection and estimation.
const phases = 2

// An active is an example whose samples are being drawn. The lock mu guards the fields below it. The scheduler's lock
// guards all other fields.
type active struct {
	Experiment
	lane   *lane // lane that draws the samples; nil before the first sample
	failed *lane // lane whose device failed on samples of the example
	index  int
	input  Input
	seed   uint64
	n0     int64 // number of selection samples
	goal   int64
	drawn  [phases]int64 // number of samples given to workers
	clean  bool          // a worker has been given the clean input, or the clean input is skipped
	// number of finished samples of both phases, plus 1 once the clean input is finished or skipped
	counted  int64
	tasks    int  // number of running tasks that draw samples of the example or call its Goal
	dropped  bool // the experiment was abandoned
	finished bool

	mu       sync.Mutex
	votes    Votes
	observed [phases]int64 // number of samples that an Observer has received
	waiting  []waitingOutputs
}

// waitingOutputs holds outputs that arrived before outputs of earlier samples.
type waitingOutputs struct {
	segment
	outputs []float32
}

// A segment is a range of samples of one example and phase.
type segment struct {
	*active
	phase    Phase
	first    int64
	count    int
	compared int // number of samples of the segment that rscert reran to compare their outputs
}

// A task is a piece of work for a worker. If the batch is not empty, the task is to run it. Otherwise, the task is to
// decide about an experiment that has reached its goal.
type task struct {
	batch  []segment
	decide *active
}

// An outcome is the result of a worker's task.
type outcome struct {
	task
	goal    int64           // new goal that the method 'decide' returned
	counted map[*active]int // number of newly finished samples of each example
}

// A scheduler decides which samples are drawn next. Workers call its methods directly. A separate goroutine for
// scheduling would have to be woken for every batch, and waking a goroutine takes as long as several samples of a small
// model.
type scheduler struct {
	sampler   Sampler
	lanes     []*lane
	maxActive int
	arrivals  chan Experiment // loaded examples

	mu        sync.Mutex
	changed   *sync.Cond // signals that an example arrived, a result was recorded or ctx ended
	exhausted bool       // the channel 'arrivals' is closed: no further examples will arrive
	// in order of arrival; but if the sampler is eager (Sampler.Eager), takeTurns changes this order
	active    []*active
	undecided []*active // examples whose goal is reached and whose decision is pending
}

// The constant 'loaded' is the maximum number of loaded examples that wait for the workers. For an eager sampler, the
// maximum is 'loadedEager'. An eager sampler accepts new examples only between batches. While a batch runs, many
// requests may arrive. Their examples must all be loaded when the batch ends, so that they can fill a large batch
// together.
const (
	loaded      = 2
	loadedEager = 256
)

func newScheduler(ctx context.Context, s Sampler) *scheduler {
	lanes := s.newLanes(ctx)
	c := &scheduler{
		sampler:   s,
		lanes:     lanes,
		maxActive: max(4, 2*len(lanes), maxActiveBytes/(4*s.Classifier.InputLen()+1)),
		arrivals:  make(chan Experiment, loaded),
	}
	if s.Eager {
		c.arrivals = make(chan Experiment, loadedEager)
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

// read loads examples before the workers need them, so that no worker waits until an image is decoded.
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

// next returns the next task for a lane, or nil after the last task. If there is no task now but further tasks may
// come, the method waits.
func (c *scheduler) next(ctx context.Context, l *lane) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ctx.Err() == nil {
		if l.err != nil {
			return nil, c.leave(l)
		}
		if err := c.arriveEarly(); err != nil {
			return nil, err
		}
		if err := c.dropAbandoned(); err != nil {
			return nil, err
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

// If the sampler is eager, arriveEarly accepts all examples that have arrived by now. Otherwise, it does nothing.
func (c *scheduler) arriveEarly() error {
	for c.sampler.Eager {
		if arrived, err := c.arrive(); err != nil || !arrived {
			return err
		}
	}
	return nil
}

// dropAbandoned makes an eager sampler draw no more samples for abandoned examples. It emits an abandoned example as
// soon as no worker draws samples of this example or calls its Goal.
func (c *scheduler) dropAbandoned() error {
	if !c.sampler.Eager {
		return nil
	}
	ended := false
	for _, a := range c.active {
		if e, ok := a.Experiment.(Abandonable); !ok || !a.dropped && !e.Abandoned() {
			continue
		}
		a.dropped = true
		if a.tasks == 0 {
			a.finished, ended = true, true
		}
	}
	if !ended {
		return nil
	}
	defer c.changed.Broadcast()
	c.undecided = slices.DeleteFunc(c.undecided, func(a *active) bool { return a.finished })
	return c.emit()
}

// arrive accepts the next loaded example if there is one and there is room. It reports whether it changed anything.
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
	a := &active{Experiment: e, seed: c.sampler.Seed, n0: c.sampler.N0}
	if k, ok := e.(Keyed); ok {
		a.seed, a.n0 = k.Key()
	}
	a.index, a.input = e.Input()
	if d := a.input.Len(); d != classifier.InputLen() {
		return nil, fmt.Errorf("example %d: input has %d values, the model wants %d", a.index, d, classifier.InputLen())
	}
	m := classifier.Classes()
	a.votes = Votes{Counts0: make([]int64, m), Counts: make([]int64, m)}
	if c.sampler.SkipClean {
		a.clean, a.counted, a.votes.Clean = true, 1, none
	}
	goal, err := e.Goal(a.votes)
	a.goal = goal
	if goal <= 0 && err == nil {
		err = fmt.Errorf("example %d: no samples asked for", a.index)
	}
	return a, err
}

// compose returns the next task for a lane. The task is a decision if an experiment needs one. Otherwise it is a batch
// of samples from examples that no other lane has claimed. Unless the sampler is eager, a partial batch waits as long
// as further examples may join it.
func (c *scheduler) compose(l *lane) *task {
	if len(c.undecided) > 0 {
		a := c.undecided[0]
		c.undecided = c.undecided[1:]
		a.tasks++
		return &task{decide: a}
	}
	available := c.available(l)
	wait := !c.sampler.Eager && !c.exhausted && len(c.active) < c.maxActive
	if available == 0 || available < l.batch && wait {
		return nil
	}
	t := &task{}
	room := c.room(l, available)
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
		for phase, end := range [phases]int64{a.n0, a.goal} {
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
	for _, a := range t.examples() {
		a.tasks++
	}
	if c.sampler.Eager {
		c.takeTurns(t.batch)
	}
	return t
}

// room returns the size of a lane's next batch. The argument 'waiting' is the number of waiting samples that the method
// 'available' has counted. If the sampler is eager, the waiting samples are divided among the workers. The method then
// returns the largest batch size that a worker's share fills. If the share does not fill even the smallest batch, the
// method returns the smallest batch size.
func (c *scheduler) room(l *lane, waiting int) int {
	if !c.sampler.Eager {
		return l.batch
	}
	share := waiting / max(l.workers, 1)
	for _, classifier := range slices.Backward(l.sizes) {
		if size := classifier.Batch(); size <= share {
			return size
		}
	}
	return l.sizes[0].Batch()
}

// examples returns the examples of a task.
func (t task) examples() (all []*active) {
	if t.decide != nil {
		return []*active{t.decide}
	}
	for _, g := range t.batch {
		if len(all) == 0 || all[len(all)-1] != g.active { // the segments of an example are adjacent
			all = append(all, g.active)
		}
	}
	return all
}

// takeTurns moves the examples of a batch behind all other examples. So a long example delays a short example by at
// most one batch, and short examples cannot block a long example.
func (c *scheduler) takeTurns(batch []segment) {
	served := map[*active]bool{}
	for _, g := range batch {
		served[g.active] = true
	}
	var waiting, behind []*active
	for _, a := range c.active {
		if served[a] {
			behind = append(behind, a)
		} else {
			waiting = append(waiting, a)
		}
	}
	c.active = slices.Concat(waiting, behind)
}

// available returns the number of samples that the lane can draw now. If the sampler is eager, available counts each
// example's samples only up to the smallest batch size. It stops counting once there are enough samples to give every
// worker one batch.
func (c *scheduler) available(l *lane) (n int) {
	enough := l.batch * max(l.workers, 1)
	each := enough
	if c.sampler.Eager {
		each = l.sizes[0].Batch()
	}
	for _, a := range c.active {
		if !l.takes(a) {
			continue
		}
		n += int(min(int64(each), a.left()))
		if n >= enough {
			break
		}
	}
	return n
}

// left returns how many samples up to the goal have not yet been given to workers.
func (a *active) left() int64 {
	samples := a.n0 - a.drawn[Selection] + a.goal - a.drawn[Estimation]
	if !a.clean {
		samples++
	}
	return samples
}

// The method 'account' records a worker's result and calls 'emit'.
func (c *scheduler) account(ctx context.Context, o outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if err := ctx.Err(); err != nil {
		return err
	}
	c.release(o.task)
	if a := o.decide; a != nil {
		a.finished = o.goal <= a.goal
		a.goal = max(a.goal, o.goal)
		if err := c.redo(a.lane); err != nil {
			return err
		}
	}
	for a, k := range o.counted {
		a.counted += int64(k)
		if k > 0 && a.complete() {
			c.undecided = append(c.undecided, a)
		}
	}
	return c.emit()
}

// The method 'release' records that a worker has ended a task.
func (c *scheduler) release(t task) {
	for _, a := range t.examples() {
		a.tasks--
	}
}

// emit calls the method Emit of finished experiments, and removes these experiments from the list 'active'. Unless the
// sampler is eager, an experiment waits for all experiments before it.
func (c *scheduler) emit() error {
	for len(c.active) > 0 {
		i := 0
		if c.sampler.Eager {
			i = slices.IndexFunc(c.active, func(a *active) bool { return a.finished })
		}
		if i < 0 || !c.active[i].finished {
			return nil
		}
		if err := c.active[i].Emit(); err != nil {
			return err
		}
		if i == 0 {
			c.active = c.active[1:]
		} else {
			c.active = slices.Delete(c.active, i, i+1)
		}
	}
	return nil
}

// decide asks the experiment for its next goal. If the experiment wants no more samples, the method calls the
// experiment's method Finish.
func (a *active) decide() (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	goal, err := a.Goal(a.votes)
	if err != nil || goal > a.votes.N {
		return goal, err
	}
	return goal, a.Finish(a.votes)
}
