package onnx

import (
	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
)

// cpuProvider is ONNX Runtime's own code for the processor.
//
// Larger batches no longer help once the weights are read often enough for their work, and they slow down once a
// layer's values fall out of the cache (BenchmarkRun shows both, for a small convolutional and a fully connected net).
// 2¹⁷ input values, half a megabyte, lie between the two.
var cpuProvider = provider{
	device: "cpu", name: "CPUExecutionProvider", library: ortlib.Plain, auto: true,
	precisions: []Precision{F32}, reference: 16, batchValues: 1 << 17, batchSamples: 256,
	options: func(*ort.SessionOptions, settings) (map[string]string, error) { return nil, nil },
}
