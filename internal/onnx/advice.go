package onnx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// This file gives advice about models that run slowly or not at all.

// batchAdvice explains how to export the model so that the model can run in batches. The argument err says why the
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
// float32. If such a kernel is missing, the graph itself is valid, so cannotLoad names the kernel and advises float32.
func (l *loader) cannotLoad(err error) error {
	found := noKernel.FindStringSubmatch(err.Error())
	t := l.numbersOf()
	if found == nil || t == graph.Float32 {
		return fmt.Errorf("ONNX Runtime cannot load the model: %w", err)
	}
	return hint.New(fmt.Sprintf("this ONNX Runtime has no %s kernel of %s: %s", t, found[1], printableText(err.Error())),
		"export the model in float32 (in PyTorch model.float())")
}

// numbersOf returns the float type in which the model computes. This type is the type of the model's input or, if the
// input has the type float32 or an integer type, the type of the model's weights.
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
