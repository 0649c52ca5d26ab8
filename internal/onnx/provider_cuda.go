package onnx

import (
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
)

// cudaProvider is ONNX Runtime's code for NVIDIA GPUs. By default it does not choose kernels by timing them, and it
// computes in float32, not in TF32. To keep a GPU busy, rscert uses large batches and two concurrent calls. One call
// then copies while the other call computes.
var cudaProvider = provider{
	device: "cuda", name: "CUDAExecutionProvider", library: ortlib.CUDA, auto: true,
	names: nvidiaGPUs, precisions: []Precision{F32, TF32}, tunable: true, options: appendCUDA,
	reference: 256, batchValues: 1 << 25, batchSamples: 1024, calls: 2, ownMemory: true, fixSizes: true, strict: true,
	hint: cudaHint,
}

var cudaHint = param.Textf("run 'rscert setup %s cuda' and install CUDA 13 and cuDNN 9, or name a library for your CUDA with %s PATH",
	param.Device, param.ONNXRuntime)

// cudaOptions returns the options of ONNX Runtime's CUDA provider that affect results or speed.
func cudaOptions(s settings) map[string]string {
	onOff := map[bool]string{false: "0", true: "1"}
	return map[string]string{
		"device_id":              s.unit,
		"use_tf32":               onOff[s.precision == TF32],
		"prefer_nhwc":            onOff[s.tuning.PreferNHWC],
		"cudnn_conv_algo_search": strings.ToUpper(s.tuning.ConvSearch.String()),
	}
}

func appendCUDA(o *ort.SessionOptions, s settings) (map[string]string, error) {
	if err := preloadCUDA(); err != nil {
		return nil, err
	}
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return nil, err
	}
	defer cuda.Destroy()
	set := cudaOptions(s)
	if err := cuda.Update(set); err != nil {
		return nil, ortlib.ExplainCUDA(err)
	}
	return set, ortlib.ExplainCUDA(o.AppendExecutionProviderCUDA(cuda))
}
