package smoothing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lane is a device: a classifier and the workers that run it. All samples of an example are drawn in one lane, because
// the model on another device may be another classifier, in the last bits of its outputs.
//
// A device may fail. Its examples that are not done are then drawn again from their first sample by the other lanes,
// once no worker of the lane is at work on them any more.
type lane struct {
	classifier Classifier
	batch      int
	ctx        context.Context // ends with the run, or when the device fails
	stop       context.CancelFunc

	// Under the scheduler's lock.
	workers int   // that have not left
	err     error // why the device failed; nil: it works
}

// Restarter is an Experiment that can be begun again.
type Restarter interface {
	Experiment
	// Restart returns the experiment as it was before its first sample. What the old one has been told is thrown away, and
	// nothing is asked of it any more.
	Restart() (Experiment, error)
}

// deviceError is an error of a classifier's Run, not of an experiment.
type deviceError struct{ error }

func (e *deviceError) Unwrap() error { return e.error }

// laneWorkers is the least number of workers of one of several lanes: one makes noise while the other runs the model.
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
		l.ctx, l.stop = context.WithCancel(ctx)
		lanes = append(lanes, l)
	}
	return lanes
}

// checkReplicas checks that all devices have a model of the same sizes.
func (s Sampler) checkReplicas() error {
	d, m := s.Classifier.InputLen(), s.Classifier.Classes()
	for i, r := range s.Replicas {
		if r.InputLen() != d || r.Classes() != m {
			return fmt.Errorf("the model of device %d takes %d values and gives %d scores, the first %d and %d", i+1, r.InputLen(), r.Classes(), d, m)
		}
	}
	return nil
}

// workers is how many there are of all lanes.
func (c *scheduler) workers() (n int) {
	for _, l := range c.lanes {
		n += l.workers
	}
	return n
}

// takes reports whether samples of the example are drawn in the lane.
func (l *lane) takes(a *active) bool { return a.lane == nil || a.lane == l }

// complete reports whether all samples up to the goal are done with: the experiment is decided next.
func (a *active) complete(n0 int64) bool { return a.counted == n0+a.goal+1 }

// fail takes in that a worker of the lane could not do a task. It returns nil if other devices go on: the error is the
// device's, and not that of an example, which fails on a second device too.
func (c *scheduler) fail(ctx context.Context, l *lane, t task, err error) error {
	var device *deviceError
	if !errors.As(err, &device) || ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if l.err != nil && errors.Is(err, context.Canceled) {
		return nil // stopped because of an earlier failure
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

// blame marks the examples of a batch that the lane failed with. It returns those that another has failed with before:
// one of them is what is wrong, not the devices.
func (t task) blame(l *lane) (twice []string) {
	for _, g := range t.batch {
		if g.failed == nil {
			g.failed = l
		}
		if g.failed != l {
			twice = append(twice, strconv.Itoa(g.index))
		}
	}
	return slices.Compact(twice) // an example's samples of both phases are side by side
}

// unfinished is the number of the lane's examples that are not done.
func (c *scheduler) unfinished(l *lane) (n int) {
	for _, a := range c.active {
		if a.lane == l && !a.finished {
			n++
		}
	}
	return n
}

// leave takes a worker out of a lane whose device failed.
func (c *scheduler) leave(l *lane) error {
	l.workers--
	return c.redo(l)
}

// redo begins the examples again that a failed device has left, once none of its workers is at work. Those that have all
// samples up to their goal are done, or wait for their decision, which may say so.
func (c *scheduler) redo(l *lane) error {
	if l.err == nil || l.workers > 0 {
		return nil
	}
	defer c.changed.Broadcast()
	for i, a := range c.active {
		if a.lane != l || a.complete(c.n0) {
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
