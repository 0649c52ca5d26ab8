package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

// addDeviceFlags adds what the model is run on, and how.
func addDeviceFlags(cmd *cobra.Command, p *spec.Spec, tf32 *bool) {
	f := cmd.Flags()
	f.TextVar(&p.Device, "device", onnx.Device{}, onnx.Devices()+"; cuda: all GPUs that work, each with whole examples")
	choiceVar(f, &p.NoiseOn, "noise-on", spec.NoiseOnAuto, spec.NoiseOns, "where noise is made and votes are counted: host, device (in the model's graph) or auto (device on a GPU); votes are the same, scores but for a few models' last bits")
	choiceVar(f, &p.Precision, "precision", onnx.F32, onnx.Precisions, "numbers that the model is computed in: f32, bf16 or f16 (openvino), tf32 (cuda); part of what is certified")
	f.BoolVar(tf32, "allow-tf32", false, "of CUDA: let the GPU round factors to TF32, the same as --precision tf32")
	f.BoolVar(&p.PreferNHWC, "prefer-nhwc", false, "of CUDA: run convolutions with the channels last")
	choiceVar(f, &p.ConvSearch, "conv-search", onnx.HeuristicSearch, onnx.ConvSearches, "of CUDA: how cuDNN's convolutions are chosen: heuristic, exhaustive (by timing; not repeatable) or default")
	integerVar(f, &p.Batch, "batch", 0, "samples a call of the model; 0 = choose")
	integerVar(f, &p.Threads, "threads", 0, "threads; 0 = one a core")
	choices(f, "device", onnx.DeviceNames()...)
	libraryFlag(cmd, &p.Library)
}

// choosePrecision settles --allow-tf32, beside a --precision that may be given.
func choosePrecision(s *spec.Spec, given bool) error {
	if given && s.Precision != onnx.TF32 {
		return hint.Add(badInputf("--allow-tf32 and --precision %s contradict each other", s.Precision), "leave one of them away")
	}
	s.Precision = onnx.TF32
	return nil
}
