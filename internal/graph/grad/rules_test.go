package grad_test

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// ruleCase is a function whose gradient a test compares with finite differences.
type ruleCase struct {
	name  string
	opset int64 // 0 means 20
	// if true, compute in float32, because ONNX Runtime's CPU provider has no float64 kernel for the operator
	single    bool
	shape     []int64
	low, high float64 // range of the input; if both are 0, the range is −2 to 2
	build     func(f *function) string
}

// oneNode returns a Go function that adds one node to its argument, the graph f. The node's input is the input of f.
func oneNode(kind string, attributes ...*onnxpb.AttributeProto) func(*function) string {
	return func(f *function) string { return f.op(kind, in("x"), attributes...) }
}

// constantSecond returns a Go function that adds one node to its argument, the graph f. The node's inputs are the input
// of f and a constant, in this order.
func constantSecond(kind string, constant func(f *function) string, attributes ...*onnxpb.AttributeProto) func(*function) string {
	return func(f *function) string { return f.op(kind, in("x", constant(f)), attributes...) }
}

// constantFirst returns a Go function that adds one node to its argument, the graph f. The node's inputs are a constant
// and the input of f, in this order.
func constantFirst(kind string, constant func(f *function) string, attributes ...*onnxpb.AttributeProto) func(*function) string {
	return func(f *function) string { return f.op(kind, in(constant(f), "x"), attributes...) }
}

func random(low, high float64, shape ...int64) func(*function) string {
	return func(f *function) string { return f.weights(low, high, shape...) }
}

func numbers(v ...int64) func(*function) string {
	return func(f *function) string { return f.ints(v...) }
}

func list[T any](v ...T) []T { return v }

var (
	row   = list[int64](2, 6)
	plane = list[int64](1, 2, 5, 5)
)

func image(h, w int64) []int64 { return list(1, 2, h, w) }

func elementwiseCases() []ruleCase {
	var all []ruleCase
	for _, kind := range list("Identity", "Neg", "Abs", "Exp", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign") {
		all = append(all, ruleCase{name: kind, shape: row, low: -1.9, high: 2.3, build: oneNode(kind)})
	}
	for _, kind := range list("Atan", "Sinh", "Cosh", "Erf") {
		all = append(all, ruleCase{name: kind, single: true, shape: row, build: oneNode(kind)})
	}
	for _, kind := range list("Log", "Sqrt", "Reciprocal") {
		all = append(all, ruleCase{name: kind, shape: row, low: .5, high: 2, build: oneNode(kind)})
	}
	all = append(all, ruleCase{name: "Tan", single: true, shape: row, low: -1, high: 1, build: oneNode("Tan")})
	for _, kind := range list("Add", "Sub", "Mul", "Div", "Pow") {
		all = append(all,
			ruleCase{name: kind + " first", shape: row, low: .5, high: 2, build: constantSecond(kind, random(.5, 2, 2, 6))},
			ruleCase{name: kind + " second", shape: row, low: .5, high: 2, build: constantFirst(kind, random(.5, 2, 2, 6))},
			ruleCase{name: kind + " first repeated", shape: list[int64](3, 1), low: .5, high: 2, build: constantSecond(kind, random(.5, 2, 2, 3, 4))},
			ruleCase{name: kind + " second repeated", shape: list[int64](3), low: .5, high: 2, build: constantFirst(kind, random(.5, 2, 2, 3))},
			ruleCase{name: kind + " with itself", shape: row, low: .5, high: 2, build: func(f *function) string { return f.op(kind, in("x", "x")) }})
	}
	return append(all,
		ruleCase{name: "Pow with whole exponent", shape: row, build: constantSecond("Pow", func(f *function) string { return f.ints(3) })},
		ruleCase{name: "Cast", shape: row, build: func(f *function) string {
			return f.op("Cast", in(f.op("Exp", in(f.op("Cast", in("x"), integer("to", int64(graph.Float64)))))), integer("to", int64(f.of)))
		}},
		ruleCase{name: "CastLike", single: true, shape: row, build: func(f *function) string {
			return f.op("CastLike", in(f.op("Exp", in("x")), f.floats(nil, 0)))
		}},
		ruleCase{name: "Dropout", shape: row, build: oneNode("Dropout")},
		ruleCase{name: "Clip", shape: row, build: func(f *function) string { return f.op("Clip", in("x", f.floats(nil, -1.1), f.floats(nil, .4))) }},
		ruleCase{name: "Clip below", shape: row, build: func(f *function) string { return f.op("Clip", in("x", f.floats(nil, -1))) }},
		ruleCase{name: "Clip by attributes", opset: 10, single: true, shape: row, build: oneNode("Clip", float("min", -1), float("max", .4))},
		ruleCase{name: "Sum", shape: row, build: func(f *function) string { return f.op("Sum", in("x", f.weights(0, 1, 1, 6), "x")) }},
		ruleCase{name: "Mean", single: true, shape: row, build: func(f *function) string { return f.op("Mean", in(f.weights(0, 1, 3, 2, 6), "x")) }},
		ruleCase{name: "Max", shape: row, build: func(f *function) string { return f.op("Max", in("x", f.weights(-1, 1, 6), f.op("Neg", in("x")))) }},
		ruleCase{name: "Min", shape: row, build: func(f *function) string { return f.op("Min", in(f.weights(-1, 1, 1, 6), "x")) }},
		ruleCase{name: "Where", shape: row, build: func(f *function) string {
			test := f.op("Greater", in("x", f.floats(nil, .3)))
			return f.op("Where", in(test, f.op("Exp", in("x")), f.op("Neg", in("x"))))
		}},
		ruleCase{name: "Where repeated", shape: list[int64](3), build: func(f *function) string {
			test := f.op("Greater", in(f.weights(-1, 1, 2, 3), f.floats(nil, 0)))
			return f.op("Where", in(test, "x", f.weights(-1, 1, 2, 3)))
		}},
		ruleCase{name: "mask", shape: row, build: func(f *function) string { // the comparison has no gradient
			return f.op("Mul", in("x", f.op("Cast", in(f.op("Less", in("x", f.floats(nil, .3)))), integer("to", int64(f.of)))))
		}},
	)
}

func activationCases() []ruleCase {
	var all []ruleCase
	for _, kind := range list("Relu", "Sigmoid", "Tanh") {
		all = append(all, ruleCase{name: kind, shape: row, build: oneNode(kind)})
	}
	for _, kind := range list("LeakyRelu", "ThresholdedRelu", "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSigmoid", "Mish") {
		all = append(all, ruleCase{name: kind, single: true, shape: row, build: oneNode(kind)})
	}
	return append(all,
		ruleCase{name: "LeakyRelu with alpha", single: true, shape: row, build: oneNode("LeakyRelu", float("alpha", .3))},
		ruleCase{name: "Elu with alpha", single: true, shape: row, build: oneNode("Elu", float("alpha", .3))},
		ruleCase{name: "Celu with alpha", single: true, shape: row, build: oneNode("Celu", float("alpha", .3))},
		ruleCase{name: "Selu with parameters", single: true, shape: row, build: oneNode("Selu", float("alpha", .3), float("gamma", 2))},
		ruleCase{name: "HardSigmoid with alpha", single: true, shape: row, build: oneNode("HardSigmoid", float("alpha", .4), float("beta", .3))},
		ruleCase{name: "HardSwish", single: true, shape: list[int64](40), low: -4, high: 4, build: oneNode("HardSwish")},
		ruleCase{name: "Swish", opset: 24, shape: row, build: oneNode("Swish", float("alpha", 1.5))},
		ruleCase{name: "Gelu", single: true, shape: row, build: oneNode("Gelu")},
		ruleCase{name: "Gelu by tanh", single: true, shape: row, build: oneNode("Gelu", text("approximate", "tanh"))},
		ruleCase{name: "PRelu", single: true, shape: list[int64](1, 3, 4), build: constantSecond("PRelu", random(.1, .5, 3, 1))},
		ruleCase{name: "PRelu slope", single: true, shape: list[int64](3, 1), build: constantFirst("PRelu", random(-1, 1, 1, 3, 4))},
	)
}

func matrixCases() []ruleCase {
	m := list[int64](2, 3)
	return []ruleCase{
		{name: "MatMul first", shape: m, build: constantSecond("MatMul", random(-1, 1, 3, 4))},
		{name: "MatMul second", shape: m, build: constantFirst("MatMul", random(-1, 1, 4, 2))},
		{name: "MatMul first of many", shape: list[int64](2, 1, 2, 3), build: constantSecond("MatMul", random(-1, 1, 4, 3, 2))},
		{name: "MatMul second of many", shape: list[int64](3, 2), build: constantFirst("MatMul", random(-1, 1, 4, 2, 3))},
		{name: "MatMul with itself", shape: list[int64](3, 3), build: func(f *function) string { return f.op("MatMul", in("x", "x")) }},
		{name: "MatMul vector", shape: list[int64](3), build: constantSecond("MatMul", random(-1, 1, 2, 3, 4))},
		{name: "MatMul by vector", shape: m, build: constantSecond("MatMul", random(-1, 1, 3))},
		{name: "MatMul second vector", shape: list[int64](3), build: constantFirst("MatMul", random(-1, 1, 2, 4, 3))},
		{name: "Gemm", shape: m, build: constantSecond("Gemm", random(-1, 1, 3, 4), float("alpha", 2))},
		{name: "Gemm A'", shape: m, build: constantSecond("Gemm", random(-1, 1, 2, 4), integer("transA", 1))},
		{name: "Gemm B'", shape: m, build: constantSecond("Gemm", random(-1, 1, 4, 3), integer("transB", 1))},
		{name: "Gemm A' B'", shape: m, build: constantSecond("Gemm", random(-1, 1, 4, 2), integer("transA", 1), integer("transB", 1))},
		{name: "Gemm B", shape: m, build: constantFirst("Gemm", random(-1, 1, 4, 2), float("alpha", 2))},
		{name: "Gemm B by A'", shape: m, build: constantFirst("Gemm", random(-1, 1, 2, 4), integer("transA", 1))},
		{name: "Gemm B' by A", shape: m, build: constantFirst("Gemm", random(-1, 1, 4, 3), integer("transB", 1))},
		{name: "Gemm B' by A'", shape: m, build: constantFirst("Gemm", random(-1, 1, 3, 4), integer("transA", 1), integer("transB", 1))},
		{name: "Gemm C", shape: list[int64](4), build: func(f *function) string {
			return f.op("Gemm", in(f.weights(-1, 1, 2, 3), f.weights(-1, 1, 3, 4), "x"), float("beta", 3))
		}},
		{name: "Gemm in set 9", opset: 9, shape: m, build: func(f *function) string {
			return f.op("Gemm", in("x", f.weights(-1, 1, 3, 4), f.weights(-1, 1, 4)))
		}},
		{name: "Einsum", shape: list[int64](2, 3, 4), build: constantSecond("Einsum", random(-1, 1, 4, 3, 5), text("equation", "bij,jik -> kb"))},
		{name: "Einsum second", shape: list[int64](2, 3, 4), build: constantFirst("Einsum", random(-1, 1, 4, 5), text("equation", "jk,bij->ikb"))},
	}
}

func convolutionCases() []ruleCase {
	conv := func(w []int64, attributes ...*onnxpb.AttributeProto) func(*function) string {
		return func(f *function) string { return f.op("Conv", in("x", f.weights(-1, 1, w...)), attributes...) }
	}
	back := func(w []int64, attributes ...*onnxpb.AttributeProto) func(*function) string {
		return func(f *function) string { return f.op("ConvTranspose", in("x", f.weights(-1, 1, w...)), attributes...) }
	}
	all := []ruleCase{
		{name: "Conv", shape: plane, build: conv(list[int64](3, 2, 3, 3))},
		{name: "Conv padded", shape: plane, build: conv(list[int64](3, 2, 3, 2), ints("pads", 1, 0, 2, 1))},
		{name: "Conv padded beyond its kernel", shape: plane, build: conv(list[int64](3, 2, 1, 2), ints("pads", 1, 2, 0, 1))},
		{name: "Conv 1x1", shape: plane, build: conv(list[int64](3, 2, 1, 1))},
		{name: "Conv 1x1 stride 2", shape: plane, build: conv(list[int64](3, 2, 1, 1), ints("strides", 2, 2))},
		{name: "Conv 1x1 stride 2, last row unread", shape: image(6, 4), build: conv(list[int64](3, 2, 1, 1), ints("strides", 2, 2))},
		{name: "Conv 3x3 stride 2", shape: image(6, 5), build: conv(list[int64](3, 2, 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1))},
		{name: "Conv 5x5 stride 2 with padding", shape: image(6, 5), build: conv(list[int64](3, 2, 5, 5), ints("strides", 2, 2), ints("pads", 2, 2, 2, 1))},
		{name: "Conv 4x4 stride 2, padded by more than a stride", shape: image(5, 4), build: conv(list[int64](2, 2, 4, 4), ints("strides", 2, 2), ints("pads", 3, 4, 1, 0))},
		{name: "Conv 2x2 stride 2", shape: image(5, 6), build: conv(list[int64](3, 2, 2, 2), ints("strides", 2, 2))},
		{name: "Conv 5x4 stride 3", shape: image(8, 7), build: conv(list[int64](2, 2, 5, 4), ints("strides", 3, 3), ints("pads", 2, 1, 0, 3))},
		{name: "Conv strides differ", shape: image(6, 5), build: conv(list[int64](3, 2, 3, 2), ints("strides", 2, 3), ints("pads", 1, 1, 0, 1))},
		{name: "Conv stride 2 in set 10", opset: 10, shape: image(6, 5), build: conv(list[int64](3, 2, 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1))},
		{name: "Conv dilated", shape: image(6, 5), build: conv(list[int64](3, 2, 3, 2), ints("dilations", 2, 3), ints("pads", 1, 1, 1, 2))},
		{name: "Conv dilated with stride", shape: image(7, 6), build: conv(list[int64](3, 2, 3, 2), ints("dilations", 2, 2), ints("strides", 2, 2), ints("pads", 1, 1, 1, 2))},
		{name: "Conv groups", shape: list[int64](1, 4, 3, 3), build: conv(list[int64](6, 2, 2, 2), integer("group", 2))},
		{name: "Conv groups with stride", shape: list[int64](1, 4, 4, 3), build: conv(list[int64](6, 2, 3, 3), integer("group", 2), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1))},
		{name: "Conv depthwise", shape: list[int64](1, 3, 4, 4), build: conv(list[int64](6, 1, 3, 3), integer("group", 3), ints("pads", 1, 1, 1, 1))},
		{name: "Conv same upper", shape: image(4, 5), build: conv(list[int64](3, 2, 3, 2), text("auto_pad", "SAME_UPPER"), ints("strides", 2, 1))},
		{name: "Conv same lower", shape: image(4, 5), build: conv(list[int64](3, 2, 3, 2), text("auto_pad", "SAME_LOWER"), ints("strides", 2, 2))},
		{name: "Conv of a line", shape: list[int64](2, 2, 7), build: conv(list[int64](3, 2, 3), ints("strides", 2), ints("pads", 1, 0))},
		{name: "Conv of a volume", shape: list[int64](1, 2, 3, 3, 2), build: conv(list[int64](2, 2, 2, 3, 2), ints("strides", 1, 2, 1), ints("pads", 0, 1, 1, 0, 1, 0))},
		{name: "Conv bias", shape: list[int64](3), build: func(f *function) string {
			return f.op("Conv", in(f.weights(-1, 1, 2, 2, 3, 3), f.weights(-1, 1, 3, 2, 2, 2), "x"))
		}},
		{name: "ConvTranspose", shape: image(3, 4), build: back(list[int64](2, 3, 3, 2), ints("pads", 1, 0, 1, 1))},
		{name: "ConvTranspose stride 2", shape: image(3, 4), build: back(list[int64](2, 3, 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 0, 1), ints("output_padding", 1, 1))},
		{name: "ConvTranspose groups", shape: list[int64](1, 4, 3, 2), build: back(list[int64](4, 2, 2, 2), integer("group", 2), ints("strides", 2, 1), ints("dilations", 2, 1))},
	}
	for i := range all {
		all[i].single = true
	}
	return all
}

func poolCases() []ruleCase {
	k := func(v ...int64) *onnxpb.AttributeProto { return ints("kernel_shape", v...) }
	all := []ruleCase{
		{name: "MaxPool apart", shape: plane, build: oneNode("MaxPool", k(2, 2), ints("strides", 2, 2))},
		{name: "MaxPool overlapping", shape: plane, build: oneNode("MaxPool", k(3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1))},
		{name: "MaxPool overlapping in set 13", opset: 13, single: true, shape: list[int64](2, 2, 5, 4), build: oneNode("MaxPool", k(3, 2), ints("strides", 2, 1), ints("pads", 1, 0, 1, 1))},
		{name: "MaxPool overlapping in set 9", opset: 9, single: true, shape: plane, build: oneNode("MaxPool", k(3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1))},
		{name: "MaxPool apart in set 9", opset: 9, shape: plane, build: oneNode("MaxPool", k(2, 2), ints("strides", 2, 2))},
		{name: "MaxPool dilated in set 13", opset: 13, single: true, shape: plane, build: oneNode("MaxPool", k(2, 2), ints("dilations", 2, 2))},
		{name: "MaxPool with indices", shape: plane, build: func(f *function) string {
			return f.several("MaxPool", 2, in("x"), k(2, 2), ints("strides", 2, 2))[0]
		}},
		{name: "MaxPool of a line", shape: list[int64](2, 2, 7), build: oneNode("MaxPool", k(3), ints("strides", 2))},
		{name: "AveragePool apart", shape: plane, single: true, build: oneNode("AveragePool", k(2, 2), ints("strides", 2, 2))},
		{name: "AveragePool overlapping", shape: plane, single: true, build: oneNode("AveragePool", k(3, 2), ints("strides", 2, 1), ints("pads", 1, 0, 1, 1))},
		{name: "AveragePool counting the padding", shape: plane, single: true,
			build: oneNode("AveragePool", k(3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1), integer("count_include_pad", 1))},
		{name: "AveragePool with ceil", shape: image(6, 5), single: true, build: oneNode("AveragePool", k(3, 3), ints("strides", 2, 2), integer("ceil_mode", 1))},
		{name: "AveragePool with ceil, padded", shape: image(6, 6), single: true,
			build: oneNode("AveragePool", k(3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 0, 0), integer("ceil_mode", 1), integer("count_include_pad", 1))},
		{name: "GlobalAveragePool", shape: plane, single: true, build: oneNode("GlobalAveragePool")},
		{name: "GlobalMaxPool", shape: plane, single: true, build: oneNode("GlobalMaxPool")},
	}
	return all
}

func reductionCases() []ruleCase {
	var all []ruleCase
	box := list[int64](2, 3, 4)
	for _, kind := range list("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod") {
		all = append(all,
			ruleCase{name: "Reduce" + kind, shape: box, build: constantSecond("Reduce"+kind, numbers(1, -1))},
			ruleCase{name: "Reduce" + kind + " flat", shape: box, build: constantSecond("Reduce"+kind, numbers(0), integer("keepdims", 0))},
			ruleCase{name: "Reduce" + kind + " by attribute", opset: 11, shape: box, build: oneNode("Reduce"+kind, ints("axes", -2), integer("keepdims", 0))},
			ruleCase{name: "Reduce" + kind + " of all", shape: box, build: func(f *function) string {
				return f.op("Reshape", in(f.op("Reduce"+kind, in("x"), integer("keepdims", 0)), f.ints(1)))
			}})
	}
	return append(all,
		ruleCase{name: "ReduceLogSum", shape: box, low: .5, high: 2, build: constantSecond("ReduceLogSum", numbers(1))},
		ruleCase{name: "ReduceSum of nothing", shape: box, build: oneNode("ReduceSum", integer("noop_with_empty_axes", 1))},
		ruleCase{name: "CumSum", shape: box, build: constantSecond("CumSum", func(f *function) string { return f.ints(1) })},
		ruleCase{name: "CumSum backwards", shape: box, build: constantSecond("CumSum", func(f *function) string { return f.ints(2) }, integer("reverse", 1), integer("exclusive", 1))},
		ruleCase{name: "TopK", shape: box, build: func(f *function) string { return f.several("TopK", 2, in("x", f.ints(2)), integer("axis", 1))[0] }},
		ruleCase{name: "Softmax", shape: box, build: oneNode("Softmax")},
		ruleCase{name: "Softmax along 1", shape: box, build: oneNode("Softmax", integer("axis", 1))},
		ruleCase{name: "Softmax of a matrix", opset: 11, shape: box, build: oneNode("Softmax")},
		ruleCase{name: "LogSoftmax", shape: box, build: oneNode("LogSoftmax", integer("axis", 1))},
		ruleCase{name: "LogSoftmax of a matrix", opset: 11, shape: box, build: oneNode("LogSoftmax", integer("axis", 1))},
	)
}

func attentionCases() []ruleCase {
	q := list[int64](1, 2, 3, 4)
	mask := func(f *function) string { return f.weights(-1, 1, 3, 5) }
	return []ruleCase{
		{name: "Attention query", opset: 23, single: true, shape: q, build: func(f *function) string {
			return f.op("Attention", in("x", f.weights(-1, 1, 1, 2, 5, 4), f.weights(-1, 1, 1, 2, 5, 3), mask(f)))
		}},
		{name: "Attention keys", opset: 23, single: true, shape: q, build: func(f *function) string {
			return f.op("Attention", in(f.weights(-1, 1, 1, 2, 5, 4), "x", f.weights(-1, 1, 1, 2, 3, 3)), float("scale", .7))
		}},
		{name: "Attention values", opset: 23, single: true, shape: q, build: func(f *function) string {
			return f.op("Attention", in(f.weights(-1, 1, 1, 2, 5, 6), f.weights(-1, 1, 1, 2, 3, 6), "x"))
		}},
	}
}

func normalisationCases() []ruleCase {
	positive := func(f *function) string { return f.weights(.5, 2, 2) }
	signed := func(f *function) string { return f.weights(-1, 1, 2) }
	square := list[int64](2, 4, 2, 2)
	return []ruleCase{
		{name: "BatchNormalization", shape: image(2, 3), build: func(f *function) string {
			return f.op("BatchNormalization", in("x", signed(f), signed(f), signed(f), positive(f)), float("epsilon", .1))
		}},
		{name: "BatchNormalization of rows", shape: list[int64](3, 2), build: func(f *function) string {
			return f.op("BatchNormalization", in("x", signed(f), signed(f), signed(f), positive(f)))
		}},
		{name: "LayerNormalization", shape: list[int64](2, 3, 4), build: func(f *function) string {
			return f.op("LayerNormalization", in("x", f.weights(.5, 2, 3, 4), f.weights(-1, 1, 3, 4)), integer("axis", 1), float("epsilon", .1))
		}},
		{name: "RMSNormalization", opset: 23, shape: list[int64](2, 3, 4), build: func(f *function) string {
			return f.op("RMSNormalization", in("x", f.weights(.5, 2, 4)), float("epsilon", .1))
		}},
		{name: "InstanceNormalization", single: true, shape: image(3, 3), build: func(f *function) string {
			return f.op("InstanceNormalization", in("x", positive(f), signed(f)), float("epsilon", .1))
		}},
		{name: "GroupNormalization", opset: 21, single: true, shape: square, build: func(f *function) string {
			return f.op("GroupNormalization", in("x", f.weights(.5, 2, 4), f.weights(-1, 1, 4)), integer("num_groups", 2), float("epsilon", .1))
		}},
		{name: "GroupNormalization in set 18", opset: 18, shape: square, build: func(f *function) string {
			return f.op("GroupNormalization", in("x", positive(f), signed(f)), integer("num_groups", 2))
		}},
		{name: "LpNormalization", shape: list[int64](2, 3, 4), build: oneNode("LpNormalization", integer("axis", 1))},
		{name: "LpNormalization by magnitudes", shape: list[int64](2, 3, 4), build: oneNode("LpNormalization", integer("p", 1))},
		{name: "LRN", single: true, shape: list[int64](1, 5, 2, 2), build: oneNode("LRN", integer("size", 3), float("alpha", .5), float("beta", .6), float("bias", 1.5))},
	}
}

func placeCases() []ruleCase {
	box := list[int64](2, 3, 4)
	slice := func(starts, ends, axes, steps []int64) func(*function) string {
		return func(f *function) string {
			return f.op("Slice", in("x", f.ints(starts...), f.ints(ends...), f.ints(axes...), f.ints(steps...)))
		}
	}
	pad := func(mode string, pads ...int64) func(*function) string {
		return func(f *function) string { return f.op("Pad", in("x", f.ints(pads...)), text("mode", mode)) }
	}
	return []ruleCase{
		{name: "Reshape", shape: box, build: constantSecond("Reshape", numbers(4, -1))},
		{name: "Flatten", shape: box, build: oneNode("Flatten", integer("axis", 2))},
		{name: "Squeeze", shape: list[int64](2, 1, 3), build: constantSecond("Squeeze", numbers(1))},
		{name: "Unsqueeze", shape: box, build: constantSecond("Unsqueeze", numbers(0, 2))},
		{name: "Transpose", shape: box, build: oneNode("Transpose", ints("perm", 1, 2, 0))},
		{name: "Transpose all", shape: box, build: oneNode("Transpose")},
		{name: "Expand", shape: list[int64](3, 1), build: constantSecond("Expand", numbers(2, 3, 4))},
		{name: "Tile", shape: list[int64](2, 3), build: constantSecond("Tile", numbers(2, 3))},
		{name: "DepthToSpace", shape: list[int64](1, 8, 2, 3), build: oneNode("DepthToSpace", integer("blocksize", 2))},
		{name: "DepthToSpace by columns", shape: list[int64](1, 8, 2, 3), build: oneNode("DepthToSpace", integer("blocksize", 2), text("mode", "CRD"))},
		{name: "SpaceToDepth", shape: list[int64](1, 2, 4, 6), build: oneNode("SpaceToDepth", integer("blocksize", 2))},
		{name: "Concat", shape: box, build: func(f *function) string {
			return f.op("Concat", in("x", f.weights(-1, 1, 2, 2, 4), f.op("Exp", in("x"))), integer("axis", -2))
		}},
		{name: "Split", shape: list[int64](2, 6), build: func(f *function) string {
			n := f.several("Split", 3, in("x", f.ints(1, 3, 2)), integer("axis", 1))
			return f.op("Exp", in(n[1]))
		}},
		{name: "Split in set 11", opset: 11, shape: list[int64](2, 6), build: func(f *function) string {
			n := f.several("Split", 2, in("x"), integer("axis", 1), ints("split", 2, 4))
			return f.op("Concat", in(n[1], n[0]), integer("axis", 1))
		}},
		{name: "Slice", shape: box, build: slice(list[int64](1, -3), list[int64](3, 100), list[int64](1, 2), list[int64](1, 1))},
		{name: "Slice with steps", shape: list[int64](2, 7), build: slice(list[int64](1), list[int64](7), list[int64](1), list[int64](3))},
		{name: "Slice backwards", shape: list[int64](2, 7), build: slice(list[int64](5, 1), list[int64](math.MinInt64, math.MinInt64), list[int64](-1, 0), list[int64](-2, -1))},
		{name: "Slice in set 9", opset: 9, shape: box, build: oneNode("Slice", ints("starts", 1, 0), ints("ends", 3, -1), ints("axes", 1, 2))},
		{name: "Gather", shape: box, build: constantSecond("Gather", numbers(2, 0, -1, 2), integer("axis", 1))},
		{name: "Gather by int32", shape: box, build: func(f *function) string {
			t := &onnxpb.TensorProto{Name: proto.String("at"), Dims: []int64{2}, DataType: proto.Int32(int32(graph.Int32)), Int32Data: []int32{2, 0}}
			f.Graph.Initializer = append(f.Graph.Initializer, t)
			return f.op("Gather", in("x", "at"), integer("axis", 2))
		}},
		{name: "Pad", shape: box, build: pad("constant", 0, 1, 2, 1, 0, -1)},
		{name: "Pad in set 10", opset: 10, shape: box, build: oneNode("Pad", ints("pads", 0, 1, 2, 1, 0, 0))},
		{name: "Pad axes", shape: box, build: func(f *function) string {
			return f.op("Pad", in("x", f.ints(1, 2), "", f.ints(-1)))
		}},
		{name: "Pad edge", shape: box, build: pad("edge", 0, 1, 2, 1, 0, 3)},
		{name: "Pad reflect", shape: box, build: pad("reflect", 0, 1, 2, 1, 0, 3)},
		{name: "Pad wrap", shape: box, build: pad("wrap", 0, 1, 2, 1, 0, 3)},
	}
}

func resizeCases() []ruleCase {
	sizes := func(h, w int64, attributes ...*onnxpb.AttributeProto) func(*function) string {
		return func(f *function) string { return f.op("Resize", in("x", "", "", f.ints(1, 2, h, w)), attributes...) }
	}
	scales := func(opset int64, h, w float32) func(*function) string {
		return func(f *function) string {
			t := &onnxpb.TensorProto{Name: proto.String("scales"), Dims: []int64{4}, DataType: proto.Int32(int32(graph.Float32)), FloatData: []float32{1, 1, h, w}}
			f.Graph.Initializer = append(f.Graph.Initializer, t)
			if opset < 11 {
				return f.op("Upsample", in("x", "scales"), text("mode", "linear"))
			}
			return f.op("Resize", in("x", "", "scales"), text("mode", "nearest"), text("coordinate_transformation_mode", "asymmetric"), text("nearest_mode", "floor"))
		}
	}
	var all []ruleCase
	for _, mode := range list("nearest", "linear", "cubic") {
		for _, coordinates := range list("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners") {
			all = append(all,
				ruleCase{name: "Resize " + mode + " " + coordinates, single: true, shape: image(3, 4), build: sizes(5, 7, text("mode", mode), text("coordinate_transformation_mode", coordinates))},
				ruleCase{name: "Resize down " + mode + " " + coordinates, single: true, shape: image(5, 6), build: sizes(3, 1, text("mode", mode), text("coordinate_transformation_mode", coordinates))})
		}
	}
	for _, way := range list("floor", "ceil", "round_prefer_floor", "round_prefer_ceil") {
		all = append(all, ruleCase{name: "Resize " + way, single: true, shape: image(4, 3), build: sizes(6, 2, text("nearest_mode", way), text("coordinate_transformation_mode", "asymmetric"))})
	}
	return append(all,
		ruleCase{name: "Resize by scales", single: true, shape: image(3, 4), build: scales(20, 2, 3)},
		ruleCase{name: "Upsample", opset: 9, single: true, shape: image(3, 4), build: scales(9, 2, 2)},
		ruleCase{name: "Resize cubic without the outside", single: true, shape: image(3, 4),
			build: sizes(6, 8, text("mode", "cubic"), integer("exclude_outside", 1), float("cubic_coeff_a", -.5))},
	)
}

func learnedCases() []ruleCase {
	table := list[int64](3, 2)
	learned := func(f *function, kind string, outputs int, in []string, attributes ...*onnxpb.AttributeProto) string {
		all := f.several(kind, outputs, in, attributes...)
		f.Graph.Node[len(f.Graph.Node)-1].Domain = proto.String("ai.onnx.ml")
		return all[outputs-1]
	}
	node := func(kind string, outputs int, attributes ...*onnxpb.AttributeProto) func(*function) string {
		return func(f *function) string { return learned(f, kind, outputs, in("x"), attributes...) }
	}
	three := []*onnxpb.AttributeProto{
		floats("coefficients", 1, -2, .5, 3, -1, 1.5), floats("intercepts", .1, -.2, .3), ints("classlabels_ints", 0, 1, 2), integer("multi_class", 1),
	}
	two := []*onnxpb.AttributeProto{floats("coefficients", 1, -2), floats("intercepts", .1), ints("classlabels_ints", 0, 1)}
	by := func(transform string, attributes []*onnxpb.AttributeProto) []*onnxpb.AttributeProto {
		return append(slices.Clone(attributes), text("post_transform", transform))
	}
	all := []ruleCase{
		{name: "Scaler", build: node("Scaler", 1, floats("offset", 1, 2), floats("scale", .5, -3))},
		{name: "Normalizer L1", build: node("Normalizer", 1, text("norm", "L1"))},
		{name: "Normalizer L2", build: node("Normalizer", 1, text("norm", "L2"))},
		{name: "LinearClassifier", build: node("LinearClassifier", 2, three...)},
		{name: "LinearClassifier softmax", build: node("LinearClassifier", 2, by("SOFTMAX", three)...)},
		{name: "LinearClassifier logistic", build: node("LinearClassifier", 2, by("LOGISTIC", three)...)},
		{name: "LinearClassifier of two", build: node("LinearClassifier", 2, two...)},
		{name: "LinearClassifier of two logistic", build: node("LinearClassifier", 2, by("LOGISTIC", two)...)},
		{name: "FeatureVectorizer", build: func(f *function) string {
			return learned(f, "FeatureVectorizer", 1, in(f.op("Exp", in("x")), "x"), ints("inputdimensions", 2, 2))
		}},
	}
	for i := range all {
		all[i].single, all[i].shape, all[i].opset = true, table, 17
	}
	return all
}

// TestRules compares the gradient of every rule with finite differences. It computes in float64, or in float32 where
// ONNX Runtime has no float64 kernel. The tolerances allow for two errors of the differences. The first error comes
// from the step h of the differences, the second from rounding. In float64 with h = 10⁻³, the relative errors are about
// h⁴ = 10⁻¹² and 10⁻¹⁶/h = 10⁻¹³. In float32 with h = 1/32, the first error is h⁴ ≈ 10⁻⁶ times the fifth derivative.
// The second error is 2⁻²⁴/h ≈ 2·10⁻⁶ for each of some tens of terms.
func TestRules(t *testing.T) {
	openLibrary(t)
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) { c.check(t) })
	}
}

func allCases() []ruleCase {
	return slices.Concat(elementwiseCases(), activationCases(), matrixCases(), convolutionCases(), poolCases(), reductionCases(),
		attentionCases(), recurrentCases(), normalisationCases(), placeCases(), scatteringCases(), resizeCases(), learnedCases())
}

// TestEveryRule checks that every operator with a rule has a test case and is named in docs/attacks.md.
func TestEveryRule(t *testing.T) {
	tested := map[string]bool{"QuantizeLinear": true, "DequantizeLinear": true} // see TestStraightThrough
	for _, c := range quantisedCases {
		tested[c.kind] = true
	}
	for _, c := range allCases() {
		f := newFunction(graph.Float32, 20, c.shape)
		c.build(f)
		for _, n := range f.Graph.Node {
			tested[n.GetOpType()] = true
		}
	}
	page, err := os.ReadFile("../../../docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Fields(string(page))
	for _, op := range grad.Operators() {
		if !tested[op] {
			t.Errorf("%s has a rule and no case", op)
		}
		if !slices.Contains(named, op) {
			t.Errorf("docs/attacks.md does not name %s", op)
		}
	}
}

func (c ruleCase) check(t *testing.T) {
	opset, of, h, tolerance := c.opset, graph.Float64, 1e-3, 1e-9
	if opset == 0 {
		opset = 20
	}
	if c.single {
		of, h, tolerance = graph.Float32, 1./32, 2e-4
	}
	f := newFunction(of, opset, c.shape)
	d, err := differentiate(context.Background(), f, c.build(f))
	if err != nil {
		t.Fatal(err)
	}
	defer d.graph.Close()
	low, high := c.low, c.high
	if low == high {
		low, high = -2, 2
	}
	x := spaced(size(c.shape), low, high, 3)
	_, gradient := d.run(t, x)
	scale := 1.
	for _, g := range gradient {
		scale = max(scale, math.Abs(g))
	}
	for i, got := range gradient {
		if want := d.slope(t, x, i, h); !(math.Abs(got-want) <= tolerance*scale) {
			t.Errorf("gradient %d is %g, differences say %g", i, got, want)
		}
	}
}
