// Package smoothing samples a classifier under noise. It takes a Classifier and examples, and returns votes and
// outputs.
//
// The samples depend only on the seed, the example and the model. Batch size, number of workers, shards and
// interruptions do not change the samples.
package smoothing

import (
	"context"
	"runtime"
	"sync"
)

// Classifier is a base classifier that runs whole batches.
type Classifier interface {
	InputLen() int // number of values of one input, D
	Classes() int  // number of values of one output, m
	Batch() int    // number of inputs per call
	// Run computes out [Batch()·m] from in [Batch()·D]. Several goroutines may call it concurrently. The output for an
	// input must not depend on the input's row in the batch or on the other inputs.
	Run(ctx context.Context, in, out []float32) error
}

// Votes are the counts of one example so far.
type Votes struct {
	N0      int64   // number of selection samples
	Counts0 []int64 // votes of the selection samples [m]
	None0   int64   // number of selection samples without an answer; N0 is the sum of Counts0 and None0
	N       int64   // number of estimation samples
	Counts  []int64 // votes of the estimation samples [m]
	None    int64   // number of estimation samples without an answer
	Clean   int     // vote for the input without noise; −1 for no answer
	// Compared is the number of samples that were rerun alone and among other inputs and gave the same outputs.
	Compared int64
}

// Input generates the noisy inputs of one example.
type Input interface {
	Len() int // D
	// Perturb sets dst [D] to the noisy input of a sample, normalised and in the model's layout. Several goroutines may
	// call it concurrently.
	Perturb(dst []float32, s Stream, sample int64)
	// Clean sets dst [D] to the input without noise.
	Clean(dst []float32)
}

// Experiment decides how many samples one example gets, and receives the results. Goal, Observe and Finish of one
// experiment are never called at the same time; calls for different experiments may overlap.
type Experiment interface {
	// Input returns the example's index, which selects the noise of the example. It also returns the example's input.
	Input() (index int, input Input)
	// Goal is called at the start, without votes, and each time the previous goal is reached. It returns the number of
	// estimation samples to reach next, or v.N to stop.
	Goal(v Votes) (int64, error)
	// Finish is called once after the last goal.
	Finish(v Votes) error
	// Emit is called after Finish, one experiment at a time, in the order of the source unless the Sampler is Eager.
	Emit() error
}

// Keyed is an Experiment with a seed and a number of selection samples of its own.
type Keyed interface {
	Experiment
	// Key returns the values that replace the fields Seed and N0 of the Sampler. They never change.
	Key() (seed uint64, n0 int64)
}

// Observer is an Experiment that also receives the model's outputs, in the order of the samples. The whole selection
// phase comes first.
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
	N0         int64 // number of selection samples per example; may be 0
	// Workers is the number of goroutines that make noise, run the model and count. The value 0 means one goroutine per
	// core.
	Workers int
	// Replicas contains copies of the model on further devices. One device draws all samples of an example.
	Replicas []Classifier
	// Compare, if not nil, chooses examples whose first sample is rerun, in addition to the examples that the seed
	// chooses.
	Compare func(index int) bool
	// Eager means that no example waits for another: a partial batch runs as soon as a worker is free, examples take
	// turns batch by batch, and Emit follows Finish in any order of the examples. A server needs this, because its next
	// example may never come.
	Eager bool
	// Voter, if not nil, replaces Vote. It gets the outputs [m] of a sample. A device that counts votes counts by Vote, so
	// its outputs come to the host.
	Voter func(outputs []float32) int
	// Progress, if not nil, receives the number of newly drawn samples. The number is negative for discarded samples.
	Progress func(n int64)
	// Lost, if not nil, reports a failed device and the number of examples that the other devices redraw.
	Lost func(device Classifier, examples int, err error)
}

// Run draws samples for the experiments from source until source returns nil. It returns the first error, which may be
// the error of ctx. Experiments emitted before an error remain valid.
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
	return context.Cause(ctx) // the first failure instead of a cancellation that this failure caused
}

// cores is the number of goroutines that can run simultaneously before keepProcessors changes this number.
var cores = runtime.GOMAXPROCS(0)

// DefaultWorkers returns the default number of workers, which is one per core.
func DefaultWorkers() int { return cores }

// keepProcessors gives Go's scheduler two more processors than there are workers. A worker spends most of its time in
// C. If no processor is idle, the runtime takes the worker's processor after 20 µs in C. The return from the model then
// waits for another processor. With idle processors, the sampling of a small model takes a seventh less time.
func keepProcessors(workers int) {
	if n := workers + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}
