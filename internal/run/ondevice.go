package run

import (
	"context"
	"fmt"
	"sync"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
)

// NoiseOn says where noise is made and votes are counted. Votes do not depend on it, nor do the scores of most models.
type NoiseOn string

const (
	// NoiseOnAuto is the device where it has memory of its own, and the host where the model runs there anyway.
	NoiseOnAuto   NoiseOn = "auto"
	NoiseOnHost   NoiseOn = "host"
	NoiseOnDevice NoiseOn = "device"
)

// NoiseOns are all there are.
var NoiseOns = choice.Of("noise", NoiseOnAuto, NoiseOnHost, NoiseOnDevice)

func (n NoiseOn) String() string { return string(n) }

// placeNoise has the models make the noise themselves if the plan says so. Where one of them cannot, or is found to
// give other bits, the noise is made here, and why says what happened.
func (in *inputs) placeNoise(ctx context.Context, on NoiseOn, seed uint64) (why error) {
	models := in.models()
	device := in.noise.lattice != nil && (on == NoiseOnDevice || on != NoiseOnHost && in.model.MakesNoiseWell())
	for _, m := range models {
		if device && why == nil {
			if why = in.startNoise(ctx, m, seed); why != nil && len(models) > 1 {
				why = fmt.Errorf("%s: %w", m.Place(), why)
			}
		}
		m.SealSource() // nothing else needs it, and it holds the weights
	}
	if why != nil {
		for _, m := range models {
			_ = m.StopNoise()
		}
	}
	return why
}

// startNoise has a model make the noise, and checks it. The checks run side by side, as batches will: a device's memory
// must have room for them.
func (in *inputs) startNoise(ctx context.Context, m *onnx.Model, seed uint64) error {
	if err := m.StartNoise(in.noise.lattice); err != nil {
		return err
	}
	checks := make([]error, 1)
	if m.MakesNoiseWell() {
		checks = make([]error, min(in.threads, checksAtOnce))
	}
	var wait sync.WaitGroup
	for i := range checks {
		wait.Go(func() { checks[i] = smoothing.CheckNoise(ctx, m, in.noise.channel) })
	}
	wait.Wait()
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return in.compareNoise(ctx, m, seed)
}

// compareNoise compares noise made by the model and here on a few examples of the data, from all over them.
func (in *inputs) compareNoise(ctx context.Context, m *onnx.Model, seed uint64) error {
	var indices []int
	var examples []smoothing.LatticeInput
	n := min(in.data.Len(), 16)
	for i := range n {
		e, err := in.data.Example(i * in.data.Len() / n)
		if err != nil {
			return err
		}
		input, _, err := in.noise.input(e.Values)
		if err != nil {
			return err
		}
		indices, examples = append(indices, e.Index), append(examples, input.(smoothing.LatticeInput))
	}
	return smoothing.CompareNoise(ctx, m, seed, indices, examples)
}

// checksAtOnce is the number of batches that a device has under way at a time, at most.
const checksAtOnce = 2

// noiseOn is where the noise is made.
func (in *inputs) noiseOn() NoiseOn {
	if in.model.Noise() == nil {
		return NoiseOnHost
	}
	return NoiseOnDevice
}
