// Package smoothing samples a classifier under noise. It runs a Classifier on noisy inputs of examples, and counts
// votes or collects outputs.
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
	// Run computes the outputs 'out' [Batch()·m] for the inputs 'in' [Batch()·D]. Several goroutines may call it
	// concurrently. The output for an input must not depend on the input's row in the batch or on the other inputs.
	Run(ctx context.Context, in, out []float32) error
}

// Resizable is a Classifier that also runs smaller batches. The output for an input has the same bits in batches of
// every size. An Eager sampler uses smaller batches if few samples wait.
type Resizable interface {
	Classifier
	// Smaller returns classifiers with smaller batches, in ascending order of their batch sizes.
	Smaller() []Classifier
}

// Votes holds the counts of one example so far.
type Votes struct {
	N0      int64   // number of selection samples
	Counts0 []int64 // votes of the selection samples [m]
	None0   int64   // number of selection samples without an answer; Counts0 and None0 sum to N0
	N       int64   // number of estimation samples
	Counts  []int64 // votes of the estimation samples [m]
	None    int64   // number of estimation samples without an answer
	Clean   int     // vote for the input without noise; −1 if the model gave no answer or did not run on this input
	// Compared is the number of samples that were rerun for comparison (see recheck.go) and gave the same outputs.
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

// Experiment decides how many samples one example gets, and receives the results. The methods Goal, Observe and Finish
// of one experiment are never called at the same time. Calls for different experiments may overlap.
type Experiment interface {
	// Input returns the example's index, which selects the noise of the example. It also returns the example's input.
	Input() (index int, input Input)
	// Goal returns the next goal. A goal is a total number of estimation samples. If Goal returns v.N, the sampling
	// ends. The sampler calls Goal at the start, when there are no votes, and each time the previous goal is reached.
	Goal(v Votes) (int64, error)
	// Finish receives the final votes. The sampler calls it once, after Goal has ended the sampling.
	Finish(v Votes) error
	// Emit outputs the result. The sampler calls it after Finish, for one experiment at a time. The experiments come in
	// the order of the source, unless the Sampler is Eager.
	Emit() error
}

// Keyed is an Experiment with its own seed and its own number of selection samples.
type Keyed interface {
	Experiment
	// Key returns the values that replace the fields Seed and N0 of the Sampler. It must always return the same values.
	Key() (seed uint64, n0 int64)
}

// Abandonable is an Experiment whose result may become useless before the experiment is finished, for example because
// the client of a request has gone. An Eager sampler then draws no more samples for the experiment, and calls Emit
// without Finish.
type Abandonable interface {
	Experiment
	// Abandoned reports whether the samples are no longer needed. After it has returned true once, it must always
	// return true. The sampler may call it at any time and from several goroutines.
	Abandoned() bool
}

// Observer is an Experiment that also receives the model's outputs, in the order of the samples. The outputs of all
// selection samples come before the outputs of the estimation samples.
type Observer interface {
	Experiment
	// Observe receives the raw outputs [k·m] of the next k samples of a phase, including samples without an answer. It
	// must neither change the slice nor keep it.
	Observe(phase Phase, outputs []float32) error
}

// Sampler holds the settings shared by all examples.
type Sampler struct {
	Classifier Classifier
	Seed       uint64
	N0         int64 // number of selection samples per example; may be 0
	// Workers is the number of goroutines that make noise, run the model and count votes. The value 0 means one
	// goroutine per core.
	Workers int
	// Replicas contains copies of the model on further devices. One device draws all samples of an example.
	Replicas []Classifier
	// Compare, if not nil, takes the index of an example. It reports whether the Sampler must rerun the first sample of
	// this example and compare the outputs (see recheck.go). The seed chooses further examples for this comparison.
	Compare func(index int) bool
	// Eager means that no example waits for another. A partial batch runs as soon as a worker is free. Examples take
	// turns, batch by batch. The sampler calls Emit directly after Finish, so the results may come in any order. A
	// server needs an Eager sampler, because its next example may never come. If the Classifier is Resizable, the
	// sampler takes larger batches if more samples wait.
	Eager bool
	// SkipClean means that the model does not run on inputs without noise. Votes.Clean is then −1.
	SkipClean bool
	// Voter, if not nil, replaces Vote. It gets the outputs [m] of a sample. A device that counts votes itself always
	// uses the function Vote. So with a Voter, the device returns the outputs, and the host counts the votes.
	Voter func(outputs []float32) int
	// Progress, if not nil, receives the number of newly drawn samples. When n samples are discarded, it receives −n.
	Progress func(n int64)
	// If Lost is not nil, the Sampler calls it when a device has failed and other devices continue. The arguments are
	// the device, the number of examples that the other devices redraw, and the error.
	Lost func(device Classifier, examples int, err error)
}

// Run draws samples for the experiments that the function 'source' returns. After the last experiment, 'source' returns
// nil. Run returns the first error, which may be the error of ctx. Experiments emitted before an error remain valid.
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
	return context.Cause(ctx) // the first failure, not the cancellation that this failure caused
}

// cores is the number of goroutines that can run simultaneously. It is read before keepProcessors changes this number.
var cores = runtime.GOMAXPROCS(0)

// DefaultWorkers returns the default number of workers, which is one per core.
func DefaultWorkers() int { return cores }

// keepProcessors raises GOMAXPROCS to two more than the number of workers, so that Go's scheduler has idle processors.
// A worker spends most of its time in C code. If no processor of the scheduler is idle, Go's runtime takes the worker's
// processor away after 20 µs in C code. When the model returns, the worker then has to wait for a free processor. With
// idle processors, the sampling of a small model takes a seventh less time.
func keepProcessors(workers int) {
	if n := workers + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}
