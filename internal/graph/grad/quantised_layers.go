package grad

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file holds the rules of operators that work on quantised values. Such an operator computes y = Q(f(D(x), D(w),
// …)), where Q quantises, D dequantises, and f is an operator on floats. Its rule applies the rules of Q, f and D in
// turn.

// quantisedLayer describes an operator on quantised values. The field 'function' names the operator f. Each argument of
// f comes from three consecutive inputs of the node: a quantised value, its scale and its zero point. For each argument
// of f, the field 'arguments' holds the index of the quantised value. The field 'result' holds the index of the scale
// of the node's result. The next input is the zero point of the result.
type quantisedLayer struct {
	function  string
	arguments []int
	result    int
}

// quantisedLayers describes the operators of this file except QLinearConcat, whose number of arguments varies (see
// layerOf).
var quantisedLayers = map[string]quantisedLayer{
	"QLinearConv": {"Conv", []int{0, 3}, 6}, "QLinearMatMul": {"MatMul", []int{0, 3}, 6}, "QGemm": {"Gemm", []int{0, 3}, 7},
	"QLinearAdd": {"Add", []int{0, 3}, 6}, "QLinearMul": {"Mul", []int{0, 3}, 6},
	"QLinearSigmoid": {"Sigmoid", []int{0}, 3}, "QLinearLeakyRelu": {"LeakyRelu", []int{0}, 3},
	"QLinearSoftmax": {"Softmax", []int{0}, 3}, "QLinearAveragePool": {"AveragePool", []int{0}, 3},
	"QLinearGlobalAveragePool": {"GlobalAveragePool", []int{0}, 3},
}

// layerOf describes the operator of a node. If the operator does not work on quantised values, the result is empty.
func layerOf(n *node) quantisedLayer {
	if n.GetOpType() != "QLinearConcat" { // in QLinearConcat the result's scale and zero point come first
		return quantisedLayers[n.GetOpType()]
	}
	l := quantisedLayer{function: "Concat"}
	for k := 2; k < len(n.Input); k += 3 {
		l.arguments = append(l.arguments, k)
	}
	return l
}

func quantisedLayerRule(t *tape, n *node) error {
	l := layerOf(n)
	if n.integer("channels_last", 0) != 0 {
		return n.refuse("no gradient is known for channels in the last place")
	}
	f := &node{NodeProto: &onnxpb.NodeProto{OpType: proto.String(l.function), Name: proto.String(n.GetName()), Attribute: n.Attribute}}
	for i, k := range l.arguments {
		along := 0
		if i == 1 && l.function != "Conv" { // the second matrix may have one scale for each column
			along = len(t.shape(n.input(k))) - 1
			if l.function == "Gemm" && n.integer("transB", 0) != 0 {
				along = 0
			}
		}
		f.Input = append(f.Input, t.dequantised(n, k, along))
	}
	d := n.d[0]
	y := n.output()
	if scale := n.input(l.result); scale != "" { // without this scale, QGemm returns floats
		ends, known := limits[t.types[y]]
		if !known {
			return n.refuse("no gradient is known for this quantisation")
		}
		d = t.maskedBetween(y, t.Cast(y, graph.Float32), ends[0], ends[1], t.Op("Div", d, scale))
		y = t.scaled(y, scale, n.input(l.result+1), []int64{})
		t.facts.Shapes[y], t.types[y] = t.shape(n.output()), graph.Float32
	}
	f.Output, f.d = []string{y}, []string{d}
	if err := rules[operator{standard, l.function}](t, f); err != nil {
		return err
	}
	if err := t.checkGiven(f); err != nil {
		return err
	}
	for i, k := range l.arguments {
		t.give(n, k, func() string { return t.mul(t.total(f.Input[i]), n.input(k+1)) })
	}
	return nil
}

// The method 'dequantised' adds nodes that dequantise the argument at input k. The argument has either one scale, or
// one scale for each index along an axis.
func (t *tape) dequantised(n *node, k, along int) string {
	x := n.input(k)
	shape := []int64{}
	if scales := product(t.shape(n.input(k + 1))); scales > 1 {
		shape = slices.Repeat([]int64{1}, len(t.shape(x)))
		shape[along] = scales
	}
	v := t.scaled(x, n.input(k+1), n.input(k+2), shape)
	t.facts.Shapes[v], t.types[v], t.depends[v] = t.shape(x), graph.Float32, t.depends[x]
	return v
}

// The method 'scaled' adds nodes that compute (x − zero)·scale. The nodes first reshape the scale and the zero point to
// the given shape.
func (t *tape) scaled(x, scale, zero string, shape []int64) string {
	x = t.Cast(x, graph.Float32)
	if zero != "" {
		x = t.Op("Sub", x, t.reshape(t.Cast(zero, graph.Float32), shape))
	}
	return t.mul(x, t.reshape(scale, shape))
}
