package onnx

import (
	"github.com/rscert/rscert/internal/memory"
)

// chooseBatch returns the number of samples per Run for a model whose inputs have sampleLen values. The number is large
// enough to keep the device busy, and the samples of all workers fit into the memory.
func chooseBatch(sampleLen, workers int, p *provider) int {
	batch := powerOfTwo(min(max(p.batchValues/sampleLen, 8), p.batchSamples))
	// All workers together may use half of the memory. The estimate for a sample is 64 float32 numbers for each input
	// value. This is more than an image classifier needs for the input and the output of one layer. For example, if an
	// image has 3 colours, a layer of 64 channels at half the image's width and height holds only about 5 values for
	// each input value.
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
