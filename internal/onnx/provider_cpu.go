package onnx

import (
	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
)

// cpuProvider is ONNX Runtime's own code for the processor.
//
// Larger batches are faster up to a certain size, because each weight is loaded less often per sample. Batches beyond
// another, larger size are slower, because a layer's values no longer fit into the cache. BenchmarkRun shows both
// effects for a small convolutional net and a fully connected net. A batch of 2¹⁷ input values, half a megabyte, lies
// between the two sizes.
var cpuProvider = provider{
	device: "cpu", name: "CPUExecutionProvider", library: ortlib.Plain, auto: true,
	precisions: []Precision{F32}, reference: 16, batchValues: 1 << 17, batchSamples: 256,
	options: func(*ort.SessionOptions, settings) (map[string]string, error) { return nil, nil },
}
