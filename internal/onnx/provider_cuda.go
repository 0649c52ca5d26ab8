package onnx

import (
	"strconv"

	ort "github.com/yalue/onnxruntime_go"
)

// cudaProvider is ONNX Runtime's code for NVIDIA GPUs. Kernels are chosen by
// heuristics rather than by timing them, float32 stays float32 (no TF32). A GPU
// needs large batches to be full.
var cudaProvider = provider{
	device: "cuda", name: "CUDAExecutionProvider", library: cudaLibrary, auto: true,
	parseUnit: func(index string) (string, error) {
		i, err := strconv.ParseUint(index, 10, 16)
		return strconv.FormatUint(i, 10), err
	},
	units: []string{"0"}, precisions: []Precision{F32}, options: appendCUDA,
	reference: 256, batchValues: 1 << 25, batchSamples: 1024, ownMemory: true, fixSizes: true, strict: true,
	hint: "run 'rscert setup --device cuda' and install CUDA 13 and cuDNN 9, or name a library for your CUDA with --onnxruntime PATH",
}

func appendCUDA(o *ort.SessionOptions, s settings) (map[string]string, error) {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return nil, err
	}
	defer cuda.Destroy()
	set := map[string]string{"device_id": s.unit, "use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}
	if err := cuda.Update(set); err != nil {
		return nil, err
	}
	return set, o.AppendExecutionProviderCUDA(cuda)
}
