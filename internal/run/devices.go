package run

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// models are the model on every device; none before it is loaded.
func (in *inputs) models() []*onnx.Model {
	if in.model == nil {
		return nil
	}
	return append([]*onnx.Model{in.model}, in.replicas...)
}

// device is all devices of the run.
func (in *inputs) device() onnx.Device { return onnx.DeviceOf(in.models()...) }

// gpus are their names, where there are any.
func (in *inputs) gpus() (names []string) {
	for _, m := range in.models() {
		if name := m.Hardware(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// parallel is about how many batches are under way at a time: on the CPU one a thread, else one a device.
func (in *inputs) parallel() int {
	if in.model.Device() == onnx.CPU {
		return in.threads
	}
	return len(in.models())
}

// warnOfMove says that a resumed run goes on on other GPUs.
func (r *running) warnOfMove() {
	if before := r.folder.Moved(); before != nil {
		r.console.warnf("%s was on %s and goes on on %s: votes near ties may differ from those of a run on one kind of device",
			r.plan.Out, strings.Join(before, ", "), strings.Join(r.inputs.gpus(), ", "))
	}
}

// sampler draws the samples of the run's examples.
func (r *running) sampler() smoothing.Sampler {
	s := smoothing.Sampler{
		Classifier: r.inputs.model, Seed: r.plan.Seed, N0: r.plan.N0, Workers: r.inputs.threads,
		Progress: func(n int64) {
			r.drawn.Add(n)
			r.bar.Add(n, "")
		},
		Lost:    r.lost,
		Compare: comparesFirst(r.plan.Parameters, r.inputs.data.Len()),
	}
	for _, m := range r.inputs.replicas {
		s.Replicas = append(s.Replicas, m)
	}
	return s
}

// comparesFirst chooses the first example of a run, so that every run compares a sample: that of the whole one, also for
// its shards.
func comparesFirst(p runfolder.Parameters, examples int) func(index int) bool {
	p.Shard = runfolder.Whole
	positions := p.Positions(examples)
	return func(index int) bool { return len(positions) > 0 && index == positions[0] }
}

// lost says that a device failed while others go on.
func (r *running) lost(device smoothing.Classifier, examples int, err error) {
	name := "a device"
	if m, ok := device.(*onnx.Model); ok {
		name = m.Place()
	}
	r.console.warnf("%s", fmt.Sprintf("%s failed and is left out: %v; its %d unfinished examples are begun again on the others", name, err, examples))
}

// Restart begins the example again, with the same input.
func (e *experiment) Restart() (smoothing.Experiment, error) {
	v := e.record.Votes
	return e.running.begin(e.turn, v.Index, v.Label, e.input, v.Quantisation)
}
