package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

// addDeviceFlags adds the flags for the device and for its computations.
func addDeviceFlags(cmd *cobra.Command, p *spec.Spec, tf32 *bool) {
	f := cmd.Flags()
	f.TextVar(&p.Device, "device", onnx.Device{}, "device to run the model on: "+onnx.Devices()+"; cuda: all working GPUs, where each example runs on one GPU")
	choiceVar(f, &p.NoiseOn, "noise-on", spec.NoiseOnAuto, spec.NoiseOns, "where to make noise and count votes: host, device (in the model's graph) or auto (device on a GPU); this does not change the votes, and scores differ at most in the last bits")
	choiceVar(f, &p.Precision, "precision", onnx.F32, onnx.Precisions, "number format of the model's arithmetic: f32, bf16 or f16 (openvino), tf32 (cuda); the certificates are for this format")
	f.BoolVar(tf32, "allow-tf32", false, "CUDA: let the GPU round factors to TF32; the same as --precision tf32")
	f.BoolVar(&p.PreferNHWC, "prefer-nhwc", false, "CUDA: use the memory layout with the channels last for convolutions")
	choiceVar(f, &p.ConvSearch, "conv-search", onnx.HeuristicSearch, onnx.ConvSearches, "CUDA: how to choose the convolution algorithms of cuDNN: heuristic, exhaustive (by timing; not repeatable) or default")
	integerVar(f, &p.Batch, "batch", 0, "samples per call of the model; 0 = automatic")
	integerVar(f, &p.Threads, "threads", 0, "number of threads; 0 = one per core")
	choices(f, "device", onnx.DeviceNames()...)
	libraryFlag(cmd, &p.Library)
}

// choosePrecision applies --allow-tf32. The parameter given tells whether the user also gave --precision.
func choosePrecision(s *spec.Spec, given bool) error {
	if given && s.Precision != onnx.TF32 {
		return hint.Add(badInputf("--allow-tf32 and --precision %s contradict each other", s.Precision), "leave one of them out")
	}
	s.Precision = onnx.TF32
	return nil
}
