package onnx

import (
	"golang.org/x/sys/cpu"
)

// ProcessorFeatures lists instruction sets of this processor. It lists only instruction sets that matter for the speed
// of models, above all in lower precisions. The list is only for the user's information. Advice about precisions comes
// from measured speeds (see Gains).
func ProcessorFeatures() []string {
	features := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"AVX2", cpu.X86.HasAVX2}, {"AVX-512", cpu.X86.HasAVX512F}, {"AVX512-VNNI", cpu.X86.HasAVX512VNNI}, {"AVX512-BF16", cpu.X86.HasAVX512BF16},
		{"AMX-BF16", cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16}, {"NEON", cpu.ARM64.HasASIMD}, {"NEON-FP16", cpu.ARM64.HasASIMDHP}, {"SVE", cpu.ARM64.HasSVE},
	} {
		if f.has {
			features = append(features, f.name)
		}
	}
	return features
}
