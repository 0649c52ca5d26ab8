// Package smoothing samples a classifier under noise: it takes a Classifier and examples, and returns votes and
// outputs.
//
// The samples depend only on the seed, the example and the model. Batch size, number of workers, shards and
// interruptions change nothing.
package smoothing

import (
	"context"
	"runtime"
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
