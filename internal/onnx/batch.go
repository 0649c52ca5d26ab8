package onnx

import (
	"github.com/rscert/rscert/internal/memory"
)

// chooseBatch returns the number of samples per Run for a model with inputs of sampleLen values and this number of
// workers. These samples fill the device and fit into the memory.
func chooseBatch(sampleLen, workers int, p *provider) int {
	batch := powerOfTwo(min(max(p.batchValues/sampleLen, 8), p.batchSamples))
	// All workers together get half the memory. The layers of an image classifier hold up to about 64 values for each
	// input value. This allows 64 channels at half the width and height for each of 3 colours, for a layer's input and
	// output, and leaves memory unused.
	if room, ok := memory.Available(); ok && !p.ownMemory {
		sample := 64 * 4 * uint64(sampleLen)
		batch = min(batch, powerOfTwo(int(max(room/2/uint64(workers)/sample, 1))))
	}
	return batch
}

// powerOfTwo returns the largest power of two that is at most n.
func powerOfTwo(n int) int {
	p := 1
	for p <= n/2 {
		p *= 2
	}
	return p
}
