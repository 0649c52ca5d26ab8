package onnx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// This file gives advice about precisions, and about models that run slowly or do not run at all.

// leastGain is the smallest speed-up for which rscert advises a lower precision. A lower precision has a price: the
// certificates are about the model in this precision. Moreover, a smaller speed-up may be an accident of a short
// measurement.
const leastGain = 1.2

// Gain compares the speed of a small network in a lower precision with the speed in float32 on the same hardware. The
// names of instruction sets do not decide which precision is faster. For example, a Xeon and an EPYC both had
// AVX512-BF16 but not AMX. With OpenVINO, bfloat16 was slower than float32 on the Xeon, and faster than float32 on the
// EPYC.
type Gain struct {
	Device    Device
	Precision Precision
	Against   Device  // the fastest device in float32 on this hardware; may be "cpu" if Device is "openvino:CPU"
	Ratio     float64 // the speed of Device in Precision, divided by the speed of Against in float32
}

// Gains compares each speed in a lower precision with the largest float32 speed on the same hardware. It leaves out
// precisions that were not measured, and hardware without a speed in float32.
func Gains(speeds []Speed) (gains []Gain) {
	for _, s := range speeds {
		if s.Precision == F32 || s.Err != nil || !(s.Rate > 0) {
			continue
		}
		var fastest Speed
		for _, f := range speeds {
			if f.Precision == F32 && f.Err == nil && f.Rate > fastest.Rate && f.Device.hardwareKey() == s.Device.hardwareKey() {
				fastest = f
			}
		}
		if fastest.Rate > 0 {
			gains = append(gains, Gain{s.Device, s.Precision, fastest.Device, s.Rate / fastest.Rate})
		}
	}
	return gains
}

// hardwareKey returns the same text for two devices that compute on the same hardware. ONNX Runtime's CPU provider and
// OpenVINO's CPU unit both compute on the processor.
func (d Device) hardwareKey() string {
	if d.provider == CPU.provider || d.unit == "CPU" {
		return CPU.String()
	}
	return d.String()
}

// Faster reports whether the precision is so much faster than float32 that it is worth trying.
func (g Gain) Faster() bool { return g.Ratio >= leastGain }

// Text advises for or against the precision.
func (g Gain) Text() param.Text {
	if g.Faster() {
		return param.Textf("%s is %.2f times as fast as f32 on %s here: try %s %s %s %s", g.Precision, g.Ratio, g.Against,
			param.Device, g.Device, param.Precision, g.Precision)
	}
	return param.Textf("%s is %.2f times as fast as f32 on %s here: use %s %s %s %s", g.Precision, g.Ratio, g.Against,
		param.Device, g.Against, param.Precision, F32)
}

// batchAdvice explains how to export the model so that the model can run in batches. The argument 'err' says why the
// model cannot yet run in batches.
func (l *loader) batchAdvice(err error) string {
	free := fmt.Sprintf("whose size is free (in PyTorch dynamic_axes={'%s': {0: 'batch'}})", quote.Name(l.contract.Input.Name))
	switch {
	case graph.Has(l.model, "DynamicQuantizeLinear"):
		return "it is quantised dynamically, with one scale for a whole batch: quantise it statically " +
			"(in ONNX Runtime quantize_static), or use the model that is not quantised"
	case l.contract.Batch == graph.NoBatch:
		return "export it with a batch dimension in front, " + free
	case l.contract.Batch != graph.FreeSize && !errors.Is(err, errMates):
		return "export it with a batch dimension " + free
	}
	return "export it for inference (in PyTorch after model.eval()), so that each input is reduced, sorted and scaled by itself: " +
		"x.amax(dim=(1, 2, 3), keepdim=True), not x.amax()"
}

// noKernel matches ONNX Runtime's message that it has no kernel for a node's types.
var noKernel = regexp.MustCompile(`Could not find an implementation for (\w+)\(`)

// cannotLoad explains why a session does not open. ONNX Runtime's CPU provider lacks some kernels for types other than
// float32. If such a kernel is missing, the fault is not in the graph. So cannotLoad names the kernel and advises
// float32.
func (l *loader) cannotLoad(err error) error {
	found := noKernel.FindStringSubmatch(err.Error())
	t := l.numbersOf()
	if found == nil || t == graph.Float32 {
		return fmt.Errorf("ONNX Runtime cannot load the model: %w", err)
	}
	return hint.New(fmt.Sprintf("this ONNX Runtime has no %s kernel of %s: %s", t, found[1], printableText(err.Error())),
		"export the model in float32 (in PyTorch model.float())")
}

// numbersOf returns the float type in which the model computes. If the input has a float type other than float32,
// numbersOf returns the type of the input. If the input has the type float32 or an integer type, it returns the type of
// the model's weights.
func (l *loader) numbersOf() graph.ElemType {
	if t := l.contract.Input.Type; t != graph.Float32 {
		return t
	}
	for _, t := range []graph.ElemType{graph.Float64, graph.Float16, graph.BFloat16} {
		if slices.ContainsFunc(l.model.Graph.Initializer, func(w *onnxpb.TensorProto) bool { return graph.ElemType(w.GetDataType()) == t }) {
			return t
		}
	}
	return graph.Float32
}
