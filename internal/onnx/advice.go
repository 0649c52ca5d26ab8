package onnx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

// This file says what to do about models that run slowly or not at all.

// batchAdvice says how to export a model that cannot be run in batches because
// of err.
func (l *loader) batchAdvice(err error) string {
	free := fmt.Sprintf("whose size is free (in PyTorch dynamic_axes={'%s': {0: 'batch'}})", printable(l.contract.input.Name))
	switch {
	case has(l.model, "DynamicQuantizeLinear"):
		return "it is quantised dynamically, with one scale for a whole batch: quantise it statically " +
			"(in ONNX Runtime quantize_static), or use the model that is not quantised"
	case l.contract.batch == noBatch:
		return "export it with a batch dimension in front, " + free
	case l.contract.batch != freeSize && !errors.Is(err, errMates):
		return "export it with a batch dimension " + free
	}
	return "export it for inference (in PyTorch after model.eval()), so that each input is reduced, sorted and scaled by itself: " +
		"x.amax(dim=(1, 2, 3), keepdim=True), not x.amax()"
}

// has reports whether the model has an operator.
func has(m *onnxpb.ModelProto, op string) bool {
	found := errors.New("found")
	return eachNode(m, func(_ *scope, n *onnxpb.NodeProto) error {
		if n.GetOpType() == op {
			return found
		}
		return nil
	}) != nil
}

// noKernel is how ONNX Runtime says that it has no kernel for a node's types.
var noKernel = regexp.MustCompile(`Could not find an implementation for (\w+)\(`)

// cannotLoad is the error of a session that does not open. ONNX Runtime's CPU
// provider lacks kernels of types other than float32: that is no fault of the
// graph.
func (l *loader) cannotLoad(err error) error {
	found := noKernel.FindStringSubmatch(err.Error())
	t := l.numbersOf()
	if found == nil || t == Float32 {
		return fmt.Errorf("ONNX Runtime cannot load the model: %w", err)
	}
	return hint.New(fmt.Sprintf("this ONNX Runtime has no %s kernel of %s: %s", t, found[1], printableText(err.Error())),
		"export the model in float32 (in PyTorch model.float())")
}

// numbersOf is the type of float that the model computes in: that of its input,
// or, where that is float32 or an integer, of weights.
func (l *loader) numbersOf() ElemType {
	if t := l.contract.input.Type; t != Float32 {
		return t
	}
	for _, t := range []ElemType{Float64, Float16, bfloat16} {
		if slices.ContainsFunc(l.model.Graph.Initializer, func(w *onnxpb.TensorProto) bool { return ElemType(w.GetDataType()) == t }) {
			return t
		}
	}
	return Float32
}

const bfloat16 = ElemType(onnxpb.TensorProto_BFLOAT16)
