package grad_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// quantisedCase describes two forms of a layer. One form is an operator on quantised values. The other form puts the
// same function between DequantizeLinear and QuantizeLinear.
type quantisedCase struct {
	kind, function string
	shape          []int64
	weights        []int64 // shape of the second argument; nil if there is none
	scales         []int64 // shape of the scales of the weights
	along          int64   // axis of the weights; each index along this axis has its own scale
	domain         string
	attributes     []*onnxpb.AttributeProto
	loose          bool // the tolerance is larger, because the two forms round a nonlinear function differently
}

const microsoft = "com.microsoft"

var quantisedCases = []quantisedCase{
	{kind: "QLinearConv", function: "Conv", shape: list[int64](1, 2, 4, 4), weights: list[int64](3, 2, 3, 3), attributes: list(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2))},
	{kind: "QLinearConv", function: "Conv", shape: list[int64](1, 2, 4, 4), weights: list[int64](3, 2, 3, 3), scales: list[int64](3)},
	{kind: "QLinearMatMul", function: "MatMul", shape: list[int64](2, 3), weights: list[int64](3, 4)},
	{kind: "QLinearMatMul", function: "MatMul", shape: list[int64](2, 3), weights: list[int64](3, 4), scales: list[int64](4), along: 1},
	{kind: "QGemm", function: "Gemm", domain: microsoft, shape: list[int64](2, 3), weights: list[int64](4, 3), scales: list[int64](4), attributes: list(integer("transB", 1), float("alpha", .5))},
	{kind: "QGemm", function: "Gemm", domain: microsoft, shape: list[int64](2, 3), weights: list[int64](3, 4), scales: list[int64](4), along: 1},
	{kind: "QLinearAdd", function: "Add", domain: microsoft, shape: list[int64](2, 3), weights: list[int64](3)},
	{kind: "QLinearMul", function: "Mul", domain: microsoft, shape: list[int64](2, 3), weights: list[int64](2, 1)},
	{kind: "QLinearConcat", function: "Concat", domain: microsoft, shape: list[int64](2, 3), weights: list[int64](2, 2), attributes: list(integer("axis", 1))},
	{kind: "QLinearSigmoid", function: "Sigmoid", domain: microsoft, shape: list[int64](2, 8), loose: true},
	{kind: "QLinearLeakyRelu", function: "LeakyRelu", domain: microsoft, shape: list[int64](2, 8), attributes: list(float("alpha", .25))},
	{kind: "QLinearSoftmax", function: "Softmax", domain: microsoft, shape: list[int64](2, 4), attributes: list(integer("axis", 1)), loose: true},
	{kind: "QLinearAveragePool", function: "AveragePool", domain: microsoft, shape: list[int64](1, 2, 4, 4), attributes: list(ints("kernel_shape", 2, 2), ints("strides", 2, 2))},
	{kind: "QLinearGlobalAveragePool", function: "GlobalAveragePool", domain: microsoft, shape: list[int64](1, 2, 4, 4)},
}

// TestQuantisedLayers checks that both forms of a layer have the same gradient (see quantisedCase). Both gradients
// ignore the rounding.
func TestQuantisedLayers(t *testing.T) {
	for _, c := range quantisedCases {
		t.Run(c.kind, func(t *testing.T) {
			x := spaced(size(c.shape), -2, 2, 3)
			x[0] = 9 // this value saturates
			var gradients [2][]float64
			for form := range gradients {
				f := newFunction(graph.Float32, 20, c.shape)
				f.OpsetImport = append(f.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String(microsoft), Version: proto.Int64(1)})
				_, gradients[form] = gradientAt(t, f, c.build(f, form == 0), x)
			}
			tolerance, largest := 1e-5, 0.
			if c.loose {
				tolerance = .02
			}
			for i, got := range gradients[0] {
				want := gradients[1][i]
				largest = max(largest, want)
				if got-want > tolerance || want-got > tolerance {
					t.Errorf("gradient %d is %g, between quantisers %g", i, got, want)
				}
			}
			if gradients[0][0] != 0 || largest == 0 {
				t.Errorf("gradient %g of a saturated value, largest %g", gradients[0][0], largest)
			}
		})
	}
}

// The method 'build' adds the layer in one of its two forms.
func (c quantisedCase) build(f *function, quantised bool) string {
	scale, zero := f.floats(nil, .03125), f.bytes(100) // the representable values are −3.1 to 4.8
	scaleY, zeroY := f.floats(nil, .0625), f.bytes(128)
	if c.kind == "QLinearSoftmax" {
		scaleY, zeroY = f.floats(nil, 1./256), f.bytes(0)
	}
	q := f.op("QuantizeLinear", in("x", scale, zero))
	arguments := [][]string{in(q, scale, zero)}
	real := in(f.op("DequantizeLinear", in(q, scale, zero)))
	if c.weights != nil {
		scaleW, zeroW := f.floats(nil, .0078125), f.bytes(120)
		if c.scales != nil {
			scaleW = f.weights(.005, .01, c.scales...)
			zeroW = f.op("Expand", in(f.bytes(128), f.ints(c.scales...)))
		}
		w := f.op("QuantizeLinear", in(f.weights(-1, 1, c.weights...), scaleW, zeroW), integer("axis", c.along))
		arguments = append(arguments, in(w, scaleW, zeroW))
		real = append(real, f.op("DequantizeLinear", in(w, scaleW, zeroW), integer("axis", c.along)))
	}
	if !quantised {
		y := f.op(c.function, real, c.attributes...)
		return f.op("DequantizeLinear", in(f.op("QuantizeLinear", in(y, scaleY, zeroY)), scaleY, zeroY))
	}
	inputs, result := []string{}, in(scaleY, zeroY)
	if c.kind == "QLinearConcat" {
		inputs, result = result, nil
	}
	for _, a := range arguments {
		inputs = append(inputs, a...)
	}
	if c.kind == "QGemm" { // omit the optional bias
		inputs = append(inputs, "")
	}
	attributes := c.attributes
	if c.kind == "QLinearSoftmax" {
		attributes = append(attributes, integer("opset", 20))
	}
	y := f.op(c.kind, append(inputs, result...), attributes...)
	f.Graph.Node[len(f.Graph.Node)-1].Domain = proto.String(c.domain)
	return f.op("DequantizeLinear", in(y, scaleY, zeroY))
}

// The method 'bytes' adds a scalar of type uint8.
func (f *function) bytes(v int32) string {
	t := &onnxpb.TensorProto{Name: proto.String(f.name()), Dims: []int64{}, DataType: proto.Int32(int32(onnxpb.TensorProto_UINT8)), Int32Data: []int32{v}}
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return t.GetName()
}
