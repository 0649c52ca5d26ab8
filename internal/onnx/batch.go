package onnx

// chooseBatch is the number of samples of a Run, for models with inputs of
// sampleLen values that are run by so many workers at once.
//
// On the CPU batches stop paying once the weights are read often enough for
// their work, and cost once a layer's values fall out of the cache (BenchmarkRun
// shows both, for a small convolutional and a fully connected net): 2¹⁷ input
// values, half a megabyte, is between the two. A GPU needs more to be full.
func chooseBatch(sampleLen, workers int, d Device) int {
	values, most := 1<<17, 256
	if d.kind == deviceCUDA {
		values, most = 1<<25, 1024
	}
	batch := powerOfTwo(min(max(values/sampleLen, 8), most))
	// Half the memory for all workers. Layers of an image classifier hold up to
	// about 64 values for each of the input's: 64 channels at half the width and
	// height, for each of 3 colours, in and out, with room to spare.
	if memory, ok := AvailableMemory(); ok && d.kind != deviceCUDA {
		sample := 64 * 4 * uint64(sampleLen)
		batch = min(batch, powerOfTwo(int(max(memory/2/uint64(workers)/sample, 1))))
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
