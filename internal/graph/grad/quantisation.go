package grad

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file holds the rules of quantisation. The gradients that these rules add are surrogates, because the true slope
// of rounding is 0 almost everywhere. The rules pass the gradient straight through the rounding (Bengio et al. 2013),
// as if the result were the unrounded value. Where a value saturates, the slope is 0. The slope is also 0 where the
// result equals the smallest or the largest value of its type. This matters for ReLU. Quantisation tools replace ReLU
// by the saturation at the smallest value, and the slope of ReLU at 0 is 0.

// The table 'limits' gives the smallest and the largest value of each quantised type.
var limits = map[graph.ElemType][2]float64{
	graph.ElemType(onnxpb.TensorProto_UINT8): {0, math.MaxUint8}, graph.ElemType(onnxpb.TensorProto_INT8): {math.MinInt8, math.MaxInt8},
	graph.ElemType(onnxpb.TensorProto_UINT16): {0, math.MaxUint16}, graph.ElemType(onnxpb.TensorProto_INT16): {math.MinInt16, math.MaxInt16},
}

// quantScale adds nodes that reshape the node's scale for broadcasting against input 0.
func (t *tape) quantScale(n *node) string {
	rank := len(t.shape(n.input(0)))
	if product(t.shape(n.input(1))) == 1 {
		return t.reshape(n.input(1), []int64{})
	}
	shape := slices.Repeat([]int64{1}, rank)
	shape[axis(n.integer("axis", 1), rank)] = -1
	return t.reshape(n.input(1), shape)
}

// quantize is the gradient rule of the function saturate(round(x/scale) + zero), where zero is the zero point.
func quantize(t *tape, n *node) error {
	ends, known := limits[t.types[n.output()]]
	if !known || n.integer("block_size", 0) != 0 {
		return n.refuse("no gradient is known for this quantisation")
	}
	t.give(n, 0, func() string {
		x := n.input(0)
		y := t.Cast(n.output(), t.floatType(x))
		return t.maskedBetween(x, y, ends[0], ends[1], t.Op("Div", n.d[0], t.quantScale(n)))
	})
	return nil
}

// dequantize is the rule of (x − zero)·scale, where zero is the zero point.
func dequantize(t *tape, n *node) error {
	if n.integer("block_size", 0) != 0 {
		return n.refuse("no gradient is known for this quantisation")
	}
	t.give(n, 0, func() string { return t.mul(n.d[0], t.quantScale(n)) })
	return nil
}
