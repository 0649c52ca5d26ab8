package smoothing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A lane consists of a classifier on one device and the workers that run it. One lane draws all samples of an example.
// The reason is that the same model may give slightly different outputs on two devices. It is then a different
// classifier on each device.
//
// If a device fails, its workers stop. Then the other lanes redraw the device's unfinished examples from their first
// sample.
type lane struct {
	classifier Classifier
	sizes      []Classifier    // classifiers by ascending batch size; the last element is the field 'classifier'
	batch      int             // size of the largest batches
	ctx        context.Context // cancelled when the run ends or the device fails
	stop       context.CancelFunc

	// The scheduler's lock guards the following fields.
	workers int   // number of workers that still run
	err     error // why the device failed; nil if it works
}

// A Restarter is an Experiment that can start again.
type Restarter interface {
	Experiment
	// Restart returns the experiment in its state before its first sample. The caller discards the old experiment and
	// everything that it observed.
	Restart() (Experiment, error)
}

// A deviceError is an error that a classifier's Run returned. An error of a worker that is not a deviceError comes from
// an experiment, or is a DependenceError.
type deviceError struct{ error }

func (e *deviceError) Unwrap() error { return e.error }

// laneWorkers is the minimum number of workers per lane if there are several lanes. While one worker of a lane runs the
// model, the other worker can make noise.
const laneWorkers = 2

// newLanes divides the workers among the classifiers.
func (s Sampler) newLanes(ctx context.Context) []*lane {
	classifiers := append([]Classifier{s.Classifier}, s.Replicas...)
	workers := s.Workers
	if k := len(classifiers); k > 1 {
		workers = max(laneWorkers, (s.Workers+k-1)/k)
	}
	var lanes []*lane
	for _, classifier := range classifiers {
		l := &lane{classifier: classifier, batch: classifier.Batch(), workers: workers}
		if r, ok := classifier.(Resizable); ok && s.Eager {
			l.sizes = r.Smaller()
		}
		l.sizes = append(l.sizes, classifier)
		l.ctx, l.stop = context.WithCancel(ctx)
		lanes = append(lanes, l)
	}
	return lanes
}

// checkReplicas checks that the models on all devices have the same input length and the same number of classes.
func (s Sampler) checkReplicas() error {
	d, m := s.Classifier.InputLen(), s.Classifier.Classes()
	for i, r := range s.Replicas {
		if r.InputLen() != d || r.Classes() != m {
			return fmt.Errorf("the model of device %d takes %d values and gives %d scores, the first %d and %d", i+1, r.InputLen(), r.Classes(), d, m)
		}
	}
	return nil
}

// workers returns the number of workers in all lanes.
func (c *scheduler) workers() (n int) {
	for _, l := range c.lanes {
		n += l.workers
	}
	return n
}

// takes reports whether the lane may draw samples of the example a.
func (l *lane) takes(a *active) bool { return !a.dropped && (a.lane == nil || a.lane == l) }

// complete reports whether all samples up to the goal are finished. If so, the experiment can decide how many further
// samples it needs.
func (a *active) complete() bool { return a.counted == a.n0+a.goal+1 }

// fail records that a worker of the lane failed at a task. If other devices can continue, the method marks this device
// as failed and returns nil. If an example also fails on a second device, the cause is the example itself. Then the
// method returns an error.
func (c *scheduler) fail(ctx context.Context, l *lane, t task, err error) error {
	var device *deviceError
	if !errors.As(err, &device) || ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	c.release(t)
	if l.err != nil && errors.Is(err, context.Canceled) {
		return nil // the worker was stopped because of an earlier failure
	}
	if twice := t.blame(l); len(twice) > 0 {
		return fmt.Errorf("two devices fail with example %s: %w", strings.Join(twice, " or "), err)
	}
	if l.err != nil {
		return nil
	}
	l.err = err
	l.stop()
	if !slices.ContainsFunc(c.lanes, func(other *lane) bool { return other.err == nil }) {
		return err
	}
	if c.sampler.Lost != nil {
		c.sampler.Lost(l.classifier, c.unfinished(l), err)
	}
	return nil
}

// blame records that all examples of the batch failed on the lane. It returns the indices of the examples that have
// already failed on another lane. If it returns any index, the failure is due to one of these examples and not to the
// device.
func (t task) blame(l *lane) (twice []string) {
	for _, g := range t.batch {
		if g.failed == nil {
			g.failed = l
		}
		if g.failed != l {
			twice = append(twice, strconv.Itoa(g.index))
		}
	}
	return slices.Compact(twice) // the samples of an example are adjacent, so equal indices are adjacent, too
}

// unfinished returns the number of the lane's unfinished examples.
func (c *scheduler) unfinished(l *lane) (n int) {
	for _, a := range c.active {
		if a.lane == l && !a.finished {
			n++
		}
	}
	return n
}

// leave removes a worker from a lane whose device failed.
func (c *scheduler) leave(l *lane) error {
	l.workers--
	return c.redo(l)
}

// redo restarts the examples of a failed device, once all workers of the device have stopped. It does not restart an
// example that already has all samples up to its goal, because the next step for such an example is a decision.
func (c *scheduler) redo(l *lane) error {
	if l.err == nil || l.workers > 0 {
		return nil
	}
	defer c.changed.Broadcast()
	for i, a := range c.active {
		if a.lane != l || a.dropped || a.complete() {
			continue
		}
		fresh, err := c.restart(a)
		if err != nil {
			return err
		}
		c.active[i] = fresh
	}
	return nil
}

func (c *scheduler) restart(a *active) (*active, error) {
	r, ok := a.Experiment.(Restarter)
	if !ok {
		return nil, a.lane.err
	}
	e, err := r.Restart()
	if err != nil {
		return nil, err
	}
	fresh, err := c.admit(e)
	if err != nil {
		return nil, err
	}
	fresh.failed = a.failed
	if c.sampler.Progress != nil {
		c.sampler.Progress(-a.votes.N0 - a.votes.N)
	}
	return fresh, nil
}
