package onnx

import (
	"encoding/json"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
)

// openvinoProvider runs Intel's OpenVINO through ONNX Runtime. It works on x86-64 processors and on Intel's GPUs and
// NPUs. On processors with AMX, bfloat16 is many times faster than float32. On processors with AVX512-BF16 and without
// AMX, bfloat16 can be faster or slower than float32, so Gains compares measured speeds.
//
// OpenVINO chooses kernels by shape, so each batch size has its own session. rscert does not let OpenVINO cache
// compiled models on disk. A cached model would be a part of the classifier that no hash in run.json covers.
var openvinoProvider = provider{
	device: "openvino", name: "OpenVINOExecutionProvider",
	library: ortlib.OpenVINO,
	units:   []string{"CPU", "GPU", "NPU"}, precisions: []Precision{F32, BF16, F16}, options: appendOpenVINO,
	reference: 16, batchValues: 1 << 23, batchSamples: 256, fixSizes: true, measured: true, strict: true, oneThread: true,
	hint: param.Textf("run 'rscert setup %s openvino', or name a library of onnxruntime-openvino with %s PATH", param.Device, param.ONNXRuntime),
}

// appendOpenVINO sets every option that affects the results or the speed.
//
// OpenVINO chooses bfloat16 by itself on processors that have it, so this function always sets the precision. The
// precision is only a hint, which the device may silently ignore. The method checkArithmetic detects such a device. On
// the device CPU, each worker has one stream and one thread. So the shapes alone determine the order of every sum, as
// on ONNX Runtime's CPU provider, and no worker waits for another.
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
