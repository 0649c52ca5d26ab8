package onnx

import (
	"encoding/json"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
)

// openvinoProvider is Intel's OpenVINO below ONNX Runtime, for x86-64
// processors (with AMX or AVX512-BF16 in bfloat16, many times float32's speed)
// and Intel's GPUs and NPUs.
//
// Each batch size has a session of its own, as OpenVINO chooses kernels by
// shape. The models it compiles are not cached on disk: a cached one would be a
// piece of the classifier that no hash in run.json covers.
var openvinoProvider = provider{
	device: "openvino", name: "OpenVINOExecutionProvider",
	library: ortlib.OpenVINO,
	units:   []string{"CPU", "GPU", "NPU"}, precisions: []Precision{F32, BF16, F16}, options: appendOpenVINO,
	reference: 16, batchValues: 1 << 23, batchSamples: 256, fixSizes: true, measured: true, strict: true, oneThread: true,
	hint: param.Textf("run 'rscert setup %s openvino', or name a library of onnxruntime-openvino with %s PATH", param.Device, param.ONNXRuntime),
}

// appendOpenVINO sets everything that a result or its speed depends on.
//
// OpenVINO chooses bfloat16 by itself on processors that have it: the precision
// is always told. It is a hint: one that the device cannot follow is dropped
// without a word, which checkPrecision finds out. One stream and one thread a
// worker: the order of every sum is then fixed by the shapes alone, as on ONNX
// Runtime's CPU provider, and no worker waits for another.
func appendOpenVINO(o *ort.SessionOptions, s settings) (map[string]string, error) {
	device := map[string]string{"INFERENCE_PRECISION_HINT": s.precision.String(), "EXECUTION_MODE_HINT": "PERFORMANCE"}
	if s.precision == F32 {
		device["EXECUTION_MODE_HINT"] = "ACCURACY"
	}
	if s.unit == "CPU" {
		device["NUM_STREAMS"] = strconv.Itoa(s.workers)
		device["INFERENCE_NUM_THREADS"] = strconv.Itoa(s.workers)
	}
	config, err := json.Marshal(map[string]map[string]string{s.unit: device})
	if err != nil {
		return nil, err
	}
	set := map[string]string{"device_type": s.unit, "load_config": string(config), "num_of_threads": strconv.Itoa(s.workers)}
	return set, o.AppendExecutionProviderOpenVINO(set)
}
