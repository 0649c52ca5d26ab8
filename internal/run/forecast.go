package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/scratch"
	"github.com/rscert/rscert/internal/spec"
)

// Forecast is the result of certify --plan: the time that the whole run takes on a machine of the same speed.
type Forecast struct {
	Device   string `json:"device"`
	Threads  int    `json:"threads"`
	Examples int    `json:"examples"`
	Samples  int64  `json:"samples"` // maximum number of samples of all examples together
	// Measured and SamplesPerSecond come from a measurement on the first examples of the run. PlanRun samples these
	// examples in the same way as certify, but stops none of them early.
	Measured         int64   `json:"measured_samples"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	StartSeconds     float64 `json:"start_seconds"` // time to read the data and load the model
	// These are the times for the whole run in one process. CoreHours is Hours times Threads.
	Seconds   float64 `json:"seconds"`
	Hours     float64 `json:"hours"`
	CoreHours float64 `json:"core_hours"`
	// If there is a deadline, Shards is the smallest number of parallel shards that meets it. ShardSeconds is the time
	// of the longest shard.
	Deadline     float64 `json:"deadline_seconds,omitempty"`
	Shards       int     `json:"shards,omitempty"`
	ShardSeconds float64 `json:"shard_seconds,omitempty"`
}

// A measurement warms up for warmTime. Then it measures the speed for measureTime.
const (
	warmTime    = 500 * time.Millisecond
	measureTime = 3 * time.Second
)

// PlanRun carries out a plan for some seconds and discards the results. From the measured speed, it computes the time
// of the whole run.
func PlanRun(ctx context.Context, p Plan, deadline time.Duration, console experiment.Console) (f Forecast, err error) {
	folder, err := scratch.Make("", "rscert-plan-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	p.Settle()
	p.Out, p.Resume = filepath.Join(folder.Path(), "run"), false
	if p.FixedSeed == nil { // a forecast keeps no certificates, so any seed is safe
		seed, err := experiment.DrawSeed()
		if err != nil {
			return f, err
		}
		p.FixedSeed = &seed
	}
	// The measurement does not write the scores. The file of scores would have its full size from the start, even for a
	// short measurement. Writing the scores takes little time, so the measurement can leave it out.
	p.SaveScores = false
	console.Progress = progress.Options{Quiet: true}
	began := time.Now()
	r, err := prepare(ctx, p, console)
	if err != nil {
		return f, err
	}
	defer r.close()
	f = Forecast{
		StartSeconds: time.Since(began).Seconds(), Device: fmt.Sprintf("%s, %s", r.experiment.Device(), r.experiment.Model().Precision()),
		Threads: r.experiment.Threads(), Examples: len(r.positions),
	}
	perExample := r.plan.N0 + r.plan.N
	f.Samples = int64(f.Examples) * perExample
	if err := r.begin(r.describe()); err != nil {
		return f, err
	}
	r.Stopping = nil // otherwise easy examples would stop too early for a measurement
	f.Measured, f.SamplesPerSecond, err = r.measure(ctx)
	if err = errors.Join(err, r.folder.Close()); err != nil {
		return f, err
	}
	f.reckon()
	return f, f.split(deadline.Seconds(), float64(perExample)/f.SamplesPerSecond)
}

// errMeasured ends the sampling of a measurement.
var errMeasured = errors.New("measured")

// measure draws samples until measureTime is over or the run is complete. The clock starts after warmTime, or later if
// no samples have been drawn by then.
func (r *running) measure(ctx context.Context) (samples int64, perSecond float64, err error) {
	sampling, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan error, 1)
	began, first := time.Now(), int64(0)
	go func() { ended <- r.sample(sampling) }()
	tick := time.NewTicker(warmTime)
	defer tick.Stop()
	for warm := false; ; {
		select {
		case err := <-ended: // the run is done
			drawn := r.drawn.Load() - first
			return drawn, float64(drawn) / time.Since(began).Seconds(), err
		case <-tick.C:
		}
		switch drawn := r.drawn.Load(); {
		case drawn == 0: // wait: the first batches take long
		case !warm:
			warm, began, first = true, time.Now(), drawn
		case time.Since(began) >= measureTime && drawn > first:
			took := time.Since(began).Seconds()
			end(errMeasured)
			if err := <-ended; err != nil && !errors.Is(err, errMeasured) {
				return 0, 0, err
			}
			return drawn - first, float64(drawn-first) / took, nil
		}
	}
}

// reckon computes the times of the whole run from the measured speed.
func (f *Forecast) reckon() {
	f.Seconds = f.StartSeconds + float64(f.Samples)/f.SamplesPerSecond
	f.Hours = f.Seconds / time.Hour.Seconds()
	f.CoreHours = f.Hours * float64(f.Threads)
}

// split finds the smallest number of parallel shards that meets a deadline. A deadline of 0 means no deadline.
func (f *Forecast) split(deadline, perExample float64) error {
	if deadline <= 0 {
		return nil
	}
	k, ok := shardsFor(f.Examples, f.StartSeconds, perExample, deadline)
	if !ok {
		return hint.Add(spec.BadInputf("%s: one example alone takes %s", param.Deadline, Duration(f.StartSeconds+perExample)),
			"shards split the examples: take a longer deadline, fewer samples (%s, %s) or a faster device", param.N, param.Stop)
	}
	f.Deadline, f.Shards = deadline, k
	f.ShardSeconds = f.StartSeconds + math.Ceil(float64(f.Examples)/float64(k))*perExample
	return nil
}

// shardsFor returns the smallest k such that the largest of k shards meets the deadline. The deadline is in seconds.
// The largest shard has ⌈examples/k⌉ examples.
func shardsFor(examples int, start, perExample, deadline float64) (k int, ok bool) {
	most := math.Floor((deadline - start) / perExample) // maximum number of examples in a shard
	if !(most >= 1) {
		return 0, false
	}
	return int(math.Ceil(float64(examples) / most)), true
}
