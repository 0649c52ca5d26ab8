package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

// addDeviceFlags adds the flags that select the device and say how it computes.
func addDeviceFlags(cmd *cobra.Command, p *spec.Spec, tf32 *bool) {
	f := cmd.Flags()
	f.TextVar(&p.Device, "device", onnx.Device{}, "device that runs the model: "+onnx.Devices()+"; 'cuda' distributes the examples over all working GPUs")
	choiceVar(f, &p.NoiseOn, "noise-on", spec.NoiseOnAuto, spec.NoiseOns, "place where rscert makes the noise and counts the votes; the place does not affect the votes; it can affect the last bits of scores: "+spec.NoiseOns.Described())
	choiceVar(f, &p.Precision, "precision", onnx.F32, onnx.Precisions, "number format of the model's arithmetic; the results, such as certificates, hold for the model in this format: "+onnx.Precisions.Described())
	f.BoolVar(tf32, "allow-tf32", false, "let NVIDIA GPUs round the factors of products to TF32; the same as --precision tf32")
	f.BoolVar(&p.PreferNHWC, "prefer-nhwc", false, "on NVIDIA GPUs, compute convolutions in the memory layout with the channels last")
	choiceVar(f, &p.ConvSearch, "conv-search", onnx.HeuristicSearch, onnx.ConvSearches, "how cuDNN chooses algorithms for convolutions on NVIDIA GPUs: "+onnx.ConvSearches.Described())
	integerVar(f, &p.Batch, "batch", 0, "number of samples per call of the model; 0 means that rscert chooses this number")
	integerVar(f, &p.Threads, "threads", 0, "number of threads; 0 means one thread per core")
	choices(f, "device", onnx.DeviceNames()...)
	libraryFlag(cmd, &p.Library)
}

// choosePrecision applies --allow-tf32. The boolean 'given' is true if the user also gave --precision.
func choosePrecision(s *spec.Spec, given bool) error {
	if given && s.Precision != onnx.TF32 {
		return hint.Add(badInputf("--allow-tf32 and --precision %s contradict each other", s.Precision), "leave one of them out")
	}
	s.Precision = onnx.TF32
	return nil
}
