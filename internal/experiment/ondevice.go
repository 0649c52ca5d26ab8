package experiment

import (
	"context"
	"fmt"
	"sync"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// placeNoise decides whether the models or the host generate the noise. The models can generate noise only if the noise
// is on a lattice. For noise on a lattice, the models generate the noise in two cases: the spec asks for this, or the
// spec leaves the choice open and the first device has its own memory. If one of the models fails to generate noise, or
// generates other bits than the host, the host generates the noise of all models. The error 'why' then gives the
// reason.
func (e *Experiment) placeNoise(ctx context.Context, on spec.NoiseOn, seed uint64) (why error) {
	models := e.models()
	device := e.noise.lattice != nil && (on == spec.NoiseOnDevice || on != spec.NoiseOnHost && e.model.MakesNoiseWell())
	for _, m := range models {
		if device && why == nil {
			if why = e.startNoise(ctx, m, seed); why != nil && len(models) > 1 {
				why = fmt.Errorf("%s: %w", m.Place(), why)
			}
		}
		if !e.Spec.KeepSource {
			m.SealSource() // frees the model's parsed file, because no later code needs this file
		}
	}
	if why != nil {
		for _, m := range models {
			_ = m.StopNoise()
		}
	}
	return why
}

// startNoise switches on noise generation in a model, and checks the noise that the model generates. On a device with
// its own memory, several checks run at the same time, like the batches of the run. The checks therefore also test
// whether the device's memory suffices.
func (e *Experiment) startNoise(ctx context.Context, m *onnx.Model, seed uint64) error {
	if err := m.StartNoise(e.noise.lattice); err != nil {
		return err
	}
	checks := make([]error, 1)
	if m.MakesNoiseWell() {
		checks = make([]error, min(e.threads, checksAtOnce))
	}
	var wait sync.WaitGroup
	for i := range checks {
		wait.Go(func() { checks[i] = smoothing.CheckNoise(ctx, m, e.noise.channel) })
	}
	wait.Wait()
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return e.compareNoise(ctx, m, seed)
}

// compareNoise compares the model's noise with the host's noise on a few examples that are spread over the data.
func (e *Experiment) compareNoise(ctx context.Context, m *onnx.Model, seed uint64) error {
	var indices []int
	var examples []smoothing.LatticeInput
	n := min(e.data.Len(), 16)
	for i := range n {
		example, err := e.data.Example(i * e.data.Len() / n)
		if err != nil {
			return err
		}
		input, _, err := e.noise.input(example.Values)
		if err != nil {
			return err
		}
		indices, examples = append(indices, example.Index), append(examples, input.(smoothing.LatticeInput))
	}
	return smoothing.CompareNoise(ctx, m, seed, indices, examples)
}

// checksAtOnce is the maximum number of checks that startNoise runs at the same time. A device with its own memory runs
// at most this number of batches simultaneously.
const checksAtOnce = 2

// noiseOn returns the side that makes the noise, host or device.
func (e *Experiment) noiseOn() spec.NoiseOn {
	if e.model.Noise() == nil {
		return spec.NoiseOnHost
	}
	return spec.NoiseOnDevice
}
