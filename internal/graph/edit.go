package graph

import (
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file edits graphs in place.

// batchName is the name that freeSizes gives to the batch dimension.
const batchName = "rscert_batch"

// freeSizes declares that the batch dimension of the graph's input and outputs may have any size. The argument 'size'
// is the fixed batch size that the graph declares before this edit.
func freeSizes(g *onnxpb.GraphProto, input string, size int64) {
	for _, v := range slices.Concat(g.Input, g.Output) {
		if v.GetName() != input && !slices.Contains(g.Output, v) {
			continue
		}
		if dims := v.GetType().GetTensorType().GetShape().GetDim(); len(dims) > 0 && dims[0].GetDimValue() == size {
			dims[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: batchName}
		}
	}
	dropValueInfo(g) // the shapes of inner values are valid only for the old size; ONNX Runtime infers them again
}

// FixBatch sets a free batch dimension to a fixed size.
func FixBatch(g *onnxpb.GraphProto, input string, size int64) {
	for _, v := range slices.Concat(g.Input, g.Output) {
		if v.GetName() != input && !slices.Contains(g.Output, v) {
			continue
		}
		if dims := v.GetType().GetTensorType().GetShape().GetDim(); len(dims) > 0 {
			dims[0].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: size}
		}
	}
	dropValueInfo(g)
}

// FeedFloat32 changes the type of the graph's input and output to float32. Added nodes convert the input from float32
// to its old type, and the output from its old type to float32. Inner values keep their names.
func FeedFloat32(g *onnxpb.GraphProto, input, output string) (in, out string) {
	e := newEditor(g)
	in, out = input, output
	for _, v := range g.Input {
		if t := v.GetType().GetTensorType(); v.GetName() == input && ElemType(t.GetElemType()) != Float32 {
			in = e.unused("input")
			e.Add(castNode(in, input, ElemType(t.GetElemType())))
			v.Name, t.ElemType = proto.String(in), proto.Int32(int32(Float32))
		}
	}
	e.finish()
	for _, v := range g.Output {
		if t := v.GetType().GetTensorType(); v.GetName() == output && ElemType(t.GetElemType()) != Float32 {
			out = e.unused("output")
			g.Node = append(g.Node, castNode(output, out, Float32))
			v.Name, t.ElemType = proto.String(out), proto.Int32(int32(Float32))
		}
	}
	return in, out
}

// castNode returns a node that converts a value to type t. The argument 'from' is the name of the value, and the
// argument 'to' is the name of the result.
func castNode(from, to string, t ElemType) *onnxpb.NodeProto {
	return Node("Cast", []string{from}, to, IntAttribute("to", int64(t)))
}

// Node returns a node with one output and no name.
func Node(op string, in []string, out string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{OpType: proto.String(op), Input: in, Output: []string{out}, Attribute: attributes}
}

// KeepOutput drops all outputs of the graph except the given one. A run then computes only the nodes that the kept
// output needs.
func KeepOutput(g *onnxpb.GraphProto, output string) {
	g.Output = slices.DeleteFunc(g.Output, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() != output })
}

// editor adds nodes to a graph.
type editor struct {
	graph     *onnxpb.GraphProto
	constants map[string]*onnxpb.TensorProto // the graph's constants by name, from initializers and Constant nodes
	producers map[string]*onnxpb.NodeProto
	names     int
	*Builder  // nodes to insert after the graph's Constant nodes and before all its other nodes
}

func newEditor(g *onnxpb.GraphProto) *editor {
	e := &editor{graph: g, constants: constantsOf(g.Initializer, g.Node), producers: make(map[string]*onnxpb.NodeProto)}
	e.Builder = NewBuilder(func() string { return e.unused("value") })
	for _, n := range g.Node {
		for _, o := range n.Output {
			e.producers[o] = n
		}
	}
	return e
}

// The method 'finish' puts the added nodes after the graph's Constant nodes and in front of the graph's other nodes.
// The Constant nodes come first because the added nodes may use their constants.
func (e *editor) finish() {
	var constants, others []*onnxpb.NodeProto
	for _, n := range e.graph.Node {
		if n.GetOpType() == "Constant" {
			constants = append(constants, n)
		} else {
			others = append(others, n)
		}
	}
	e.graph.Node = slices.Concat(constants, e.Nodes, others)
	e.Nodes = nil
}

// The method 'unused' returns a name that no value of the graph has.
func (e *editor) unused(what string) string {
	for {
		name := fmt.Sprintf("rscert_%s_%d", what, e.names)
		e.names++
		if !e.uses(name) {
			return name
		}
	}
}

// The method 'uses' reports whether the graph has a value with the given name.
func (e *editor) uses(name string) bool {
	_, constant := e.constants[name]
	return constant || e.producers[name] != nil ||
		slices.ContainsFunc(e.graph.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == name })
}

// int64sOf returns the elements of an int64 tensor. It returns false if the tensor has another type or if its elements
// are not in the graph (see readExternal).
func int64sOf(t *onnxpb.TensorProto) ([]int64, bool) {
	if t.GetDataType() != int32(onnxpb.TensorProto_INT64) || t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return nil, false
	}
	if len(t.RawData) == 0 {
		return slices.Clone(t.Int64Data), true
	}
	v := make([]int64, len(t.RawData)/8)
	for i := range v {
		v[i] = int64(binary.LittleEndian.Uint64(t.RawData[8*i:]))
	}
	return v, true
}

// intsTensor returns v as an int64 tensor of shape [len(v)].
func intsTensor(v []int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{DataType: proto.Int32(int32(onnxpb.TensorProto_INT64)), Dims: []int64{int64(len(v))}, Int64Data: v}
}

// IntAttribute returns a node attribute that holds an integer.
func IntAttribute(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(v)}
}

// dropValueInfo deletes the inferred shapes of inner values.
func dropValueInfo(g *onnxpb.GraphProto) {
	g.ValueInfo = nil
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			for _, sub := range subgraphs(a) {
				dropValueInfo(sub)
			}
		}
	}
}

// FloatTensor declares a float32 input or output of the given shape.
func FloatTensor(name string, shape []int64) *onnxpb.ValueInfoProto {
	dims := new(onnxpb.TensorShapeProto)
	for _, n := range shape {
		dims.Dim = append(dims.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
	}
	return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(Float32)), Shape: dims}}}}
}
