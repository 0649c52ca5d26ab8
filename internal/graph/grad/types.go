package grad

import (
	"encoding/binary"
	"math"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// uint8Type is the default type of QuantizeLinear's result.
const uint8Type = graph.ElemType(onnxpb.TensorProto_UINT8)

// outputTypes maps operators to the type of their first output. It holds the operators for which this type is always
// the same.
var outputTypes = map[string]graph.ElemType{
	"Equal": graph.Bool, "Greater": graph.Bool, "Less": graph.Bool, "GreaterOrEqual": graph.Bool, "LessOrEqual": graph.Bool,
	"And": graph.Bool, "Or": graph.Bool, "Not": graph.Bool, "Xor": graph.Bool, "IsNaN": graph.Bool, "IsInf": graph.Bool,
	"Shape": graph.Int64, "Size": graph.Int64, "ArgMax": graph.Int64, "ArgMin": graph.Int64, "NonZero": graph.Int64,
	"MatMulInteger": graph.Int32, "ConvInteger": graph.Int32,
}

// typeInputs holds the operators whose first output has the type of an input other than input 0. The map's value is the
// position of the input.
var typeInputs = map[string]int{"Where": 1, "CastLike": 1, "DequantizeLinear": 1, "OneHot": 2}

// typesOf derives the element types of all values.
func typesOf(g *onnxpb.GraphProto) map[string]graph.ElemType {
	types := make(map[string]graph.ElemType)
	for _, v := range g.Input {
		types[v.GetName()] = graph.ElemType(v.GetType().GetTensorType().GetElemType())
	}
	for _, c := range g.Initializer {
		types[c.GetName()] = graph.ElemType(c.GetDataType())
	}
	for _, raw := range g.Node {
		n := &node{NodeProto: raw}
		first := n.outputType(types)
		for k, v := range n.Output {
			types[v] = first
			if n.GetDomain() == learned {
				// For outputs that hold labels this type is wrong, but these outputs have no gradient.
				types[v] = graph.Float32
			}
			if k == 1 && (n.GetOpType() == "TopK" || n.GetOpType() == "MaxPool") {
				types[v] = graph.Int64
			}
		}
	}
	return types
}

// outputType returns the type of the node's first output.
func (n *node) outputType(types map[string]graph.ElemType) graph.ElemType {
	op := n.GetOpType()
	if t, fixed := outputTypes[op]; fixed {
		return t
	}
	switch op {
	case "Cast":
		return graph.ElemType(n.integer("to", int64(graph.Float32)))
	case "Constant", "ConstantOfShape":
		return n.constantType()
	case "QuantizeLinear":
		if zero := n.input(2); zero != "" {
			return types[zero]
		}
		return graph.ElemType(n.integer("output_dtype", int64(uint8Type)))
	}
	if l := layerOf(n); l.function != "" { // the zero point of the result has the result's type
		if zero := n.input(l.result + 1); zero != "" {
			return types[zero]
		}
		return graph.Float32
	}
	if _, known := rules[operatorOf(n.GetDomain(), op)]; !known {
		return 0 // the type is unknown, for example for the operator If; 'sweep' refuses the node
	}
	return types[n.input(typeInputs[op])]
}

func (n *node) constantType() graph.ElemType {
	switch {
	case n.attribute("value").GetT() != nil:
		return graph.ElemType(n.attribute("value").GetT().GetDataType())
	case n.attribute("value_int") != nil || n.attribute("value_ints") != nil:
		return graph.Int64
	}
	return graph.Float32
}

// int32sOf returns the elements of an int32 tensor stored in the file.
func int32sOf(c *onnxpb.TensorProto) []int64 {
	var v []int64
	for _, x := range c.Int32Data {
		v = append(v, int64(x))
	}
	for raw := c.RawData; len(raw) >= 4; raw = raw[4:] {
		v = append(v, int64(int32(binary.LittleEndian.Uint32(raw))))
	}
	return v
}

// float32sOf returns the elements of a float32 tensor stored in the file.
func float32sOf(c *onnxpb.TensorProto) []float64 {
	var v []float64
	for _, x := range c.FloatData {
		v = append(v, float64(x))
	}
	for raw := c.RawData; len(raw) >= 4; raw = raw[4:] {
		v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
	}
	return v
}
