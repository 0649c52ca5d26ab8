package onnx

import (
	"github.com/rscert/rscert/internal/memory"
)

// chooseBatch is the number of samples of a Run, for models with inputs of
// sampleLen values that are run by so many workers at once: what fills the
// device, within the memory.
func chooseBatch(sampleLen, workers int, p *provider) int {
	batch := powerOfTwo(min(max(p.batchValues/sampleLen, 8), p.batchSamples))
	// Half the memory for all workers. Layers of an image classifier hold up to
	// about 64 values for each of the input's: 64 channels at half the width and
	// height, for each of 3 colours, in and out, with room to spare.
	if room, ok := memory.Available(); ok && !p.ownMemory {
		sample := 64 * 4 * uint64(sampleLen)
		batch = min(batch, powerOfTwo(int(max(room/2/uint64(workers)/sample, 1))))
	}
	return batch
}

// powerOfTwo is the largest power of two that is at most n.
func powerOfTwo(n int) int {
	p := 1
	for p <= n/2 {
		p *= 2
	}
	return p
}
