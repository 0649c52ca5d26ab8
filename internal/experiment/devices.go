package experiment

import (
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// The method 'models' returns the copies of the model, one for each device, or nil if the model is not loaded yet.
func (e *Experiment) models() []*onnx.Model {
	if e.model == nil {
		return nil
	}
	return append([]*onnx.Model{e.model}, e.replicas...)
}

// Device returns one Device that stands for all devices of the experiment.
func (e *Experiment) Device() onnx.Device { return onnx.DeviceOf(e.models()...) }

// Library is the ONNX Runtime library that the experiment has opened.
func (e *Experiment) Library() *onnx.Runtime { return e.library }

// GPUs are the names of the GPUs among the devices.
func (e *Experiment) GPUs() (names []string) {
	for _, m := range e.models() {
		if name := m.Hardware(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// The method 'parallel' estimates how many batches run simultaneously. The number is one per thread on the CPU, and one
// per device otherwise.
func (e *Experiment) parallel() int {
	if e.model.Device() == onnx.CPU {
		return e.threads
	}
	return len(e.models())
}

// Sampler returns a sampler that runs the model on all devices. For one example, the sampler reruns samples in other
// batches and compares the outputs (ComparesFirst). The caller sets N0, Progress and Lost.
func (e *Experiment) Sampler() smoothing.Sampler {
	s := smoothing.Sampler{
		Classifier: e.model, Seed: e.Spec.Seed, Workers: e.threads, Compare: ComparesFirst(e.Spec.Conditions, e.data.Len()),
	}
	for _, m := range e.replicas {
		s.Replicas = append(s.Replicas, m)
	}
	return s
}

// ComparesFirst returns a function of an example's index. This function decides whether the sampler runs samples of the
// example a second time, in other batches, and compares the outputs. The function returns true only for the first
// example of the run. If the run is split into shards, this is the first example of all shards together. So a run that
// is split into shards makes this comparison only once.
func ComparesFirst(c spec.Conditions, examples int) func(index int) bool {
	c.Shard = spec.Whole
	positions := c.Positions(examples)
	return func(index int) bool { return len(positions) > 0 && index == positions[0] }
}
