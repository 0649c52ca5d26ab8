package onnx

import (
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

// This file edits graphs. Each edit changes the graph it is given.

// batchName is the name given to a batch dimension that was fixed.
const batchName = "rscert_batch"

// freeBatch makes the batch dimension, fixed at size, a free one: in the
// graph's input and outputs, and in the constant shapes that carry it inside.
// What it does not know of it leaves alone: that the edited graph computes the
// same must be checked by running it.
func freeBatch(g *onnxpb.GraphProto, input string, size int64) {
	freeSizes(g, input, size)
	e := newEditor(g)
	fed := dependsOn(g, input)
	for _, n := range g.Node {
		switch n.GetOpType() {
		case "Reshape":
			if len(n.Input) == 2 && fed[n.Input[0]] {
				e.freeReshape(n, size)
			}
		case "Expand":
			// A target of 1 keeps the size that the value has.
			if target, ok := e.constantInts(n, 1); ok && fed[n.Input[0]] && len(target) > 0 && target[0] == size {
				target[0] = 1
				n.Input[1] = e.intsConstant(target)
			}
		case "Concat":
			e.freeConcat(n, fed, input, size)
		}
	}
	e.finish()
}

// freeSizes makes the batch dimension of the graph's input and outputs free.
func freeSizes(g *onnxpb.GraphProto, input string, size int64) {
	for _, v := range slices.Concat(g.Input, g.Output) {
		if v.GetName() != input && !slices.Contains(g.Output, v) {
			continue
		}
		if dims := v.GetType().GetTensorType().GetShape().GetDim(); len(dims) > 0 && dims[0].GetDimValue() == size {
			dims[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: batchName}
		}
	}
	dropValueInfo(g) // inferred with the fixed size; ONNX Runtime infers anew
}

// fixBatch fixes a free batch dimension.
func fixBatch(g *onnxpb.GraphProto, input string, size int64) {
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

// freeReshape makes the leading size of a constant target free: −1 (inferred)
// where the target leaves nothing else to infer, 0 (copied from the value)
// where it does.
func (e *editor) freeReshape(n *onnxpb.NodeProto, size int64) {
	if target, ok := e.constantInts(n, 1); ok {
		if len(target) == 0 || target[0] != size {
			return
		}
		target[0] = -1
		if slices.Contains(target[1:], -1) {
			target[0] = 0
		}
		n.Input[1] = e.intsConstant(target)
		n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool {
			return a.GetName() == "allowzero" // there was no 0 that it could be about
		})
		return
	}
	// A target put together when the model runs, its first part constant.
	shape := e.producers[n.Input[1]]
	if shape == nil || shape.GetOpType() != "Concat" || len(shape.Input) < 2 {
		return
	}
	first, ok := e.constantInts(shape, 0)
	if !ok || len(first) == 0 || first[0] != size {
		return
	}
	first[0] = -1
	for i := range shape.Input {
		if part, ok := e.constantInts(shape, i); ok && slices.Contains(part, -1) {
			first[0] = 0
		}
	}
	shape.Input[0] = e.intsConstant(first)
}

// freeConcat repeats the constant parts of a concatenation (the class token of
// a vision transformer, say) along the batch.
func (e *editor) freeConcat(n *onnxpb.NodeProto, fed map[string]bool, input string, size int64) {
	axis := int64(0)
	for _, a := range n.Attribute {
		if a.GetName() == "axis" {
			axis = a.GetI()
		}
	}
	if axis == 0 || size != 1 || !slices.ContainsFunc(n.Input, func(v string) bool { return fed[v] }) {
		return
	}
	for i, v := range n.Input {
		dims, ok := e.constantDims(v)
		if !ok || len(dims) < 2 || dims[0] != 1 || axis < 0 && int64(len(dims))+axis == 0 {
			continue
		}
		n.Input[i] = e.repeated(v, len(dims), input)
	}
}

// repeated is the constant v, of the given rank and leading size 1, as often
// as the input has samples.
func (e *editor) repeated(v string, rank int, input string) string {
	target, out := e.batchAnd(input, nil, slices.Repeat([]int64{1}, rank-1)), e.name("repeated")
	e.added = append(e.added, node("Expand", []string{v, target}, out))
	return out
}

// feedFloat32 makes the graph's input and output float32, converting to and
// from the model's own type inside the graph. Inner values keep their names.
func feedFloat32(g *onnxpb.GraphProto, input, output string) (in, out string) {
	e := newEditor(g)
	in, out = input, output
	for _, v := range g.Input {
		if t := v.GetType().GetTensorType(); v.GetName() == input && ElemType(t.GetElemType()) != Float32 {
			in = e.name("input")
			e.added = append(e.added, castNode(in, input, ElemType(t.GetElemType())))
			v.Name, t.ElemType = proto.String(in), proto.Int32(int32(Float32))
		}
	}
	e.finish()
	for _, v := range g.Output {
		if t := v.GetType().GetTensorType(); v.GetName() == output && ElemType(t.GetElemType()) != Float32 {
			out = e.name("output")
			g.Node = append(g.Node, castNode(output, out, Float32))
			v.Name, t.ElemType = proto.String(out), proto.Int32(int32(Float32))
		}
	}
	return in, out
}

func castNode(from, to string, t ElemType) *onnxpb.NodeProto {
	return node("Cast", []string{from}, to, intAttribute("to", int64(t)))
}

func node(op string, in []string, out string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{OpType: proto.String(op), Input: in, Output: []string{out}, Attribute: attributes}
}

// keepOutput drops the graph's other outputs, so that only what the wanted one
// needs is computed.
func keepOutput(g *onnxpb.GraphProto, output string) {
	g.Output = slices.DeleteFunc(g.Output, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() != output })
}

// editor adds nodes to a graph.
type editor struct {
	graph     *onnxpb.GraphProto
	constants map[string]*onnxpb.TensorProto // initializers and Constant nodes by value name
	producers map[string]*onnxpb.NodeProto
	added     []*onnxpb.NodeProto // to go before all other nodes
	names     int
}

func newEditor(g *onnxpb.GraphProto) *editor {
	e := &editor{graph: g, constants: constantsOf(g.Initializer, g.Node), producers: make(map[string]*onnxpb.NodeProto)}
	for _, n := range g.Node {
		for _, o := range n.Output {
			e.producers[o] = n
		}
	}
	return e
}

// finish puts the added nodes in front. They need only the graph's input and
// constants; the latter go before them.
func (e *editor) finish() {
	var constants, others []*onnxpb.NodeProto
	for _, n := range e.graph.Node {
		if n.GetOpType() == "Constant" {
			constants = append(constants, n)
		} else {
			others = append(others, n)
		}
	}
	e.graph.Node = slices.Concat(constants, e.added, others)
	e.added = nil
}

// name returns a value name that the graph does not use.
func (e *editor) name(what string) string {
	for {
		name := fmt.Sprintf("rscert_%s_%d", what, e.names)
		e.names++
		if !e.uses(name) {
			return name
		}
	}
}

// uses reports whether the graph has a value of the name.
func (e *editor) uses(name string) bool {
	_, constant := e.constants[name]
	return constant || e.producers[name] != nil ||
		slices.ContainsFunc(e.graph.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == name })
}

// intsConstant adds a constant vector. It is a node, not an initializer:
// before IR version 4 each of those would have to be an input as well.
func (e *editor) intsConstant(v []int64) string {
	name := e.name("ints")
	e.added = append(e.added, node("Constant", nil, name, &onnxpb.AttributeProto{
		Name: proto.String("value"), Type: onnxpb.AttributeProto_TENSOR.Enum(), T: intsTensor(v)}))
	return name
}

// constantInts returns input i of the node, if it is a constant int64 vector.
func (e *editor) constantInts(n *onnxpb.NodeProto, i int) ([]int64, bool) {
	if i >= len(n.Input) {
		return nil, false
	}
	t := e.constants[n.Input[i]]
	if len(t.GetDims()) > 1 {
		return nil, false
	}
	return int64sOf(t)
}

// int64sOf returns the elements of a tensor of int64 that the file holds.
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

// constantDims returns the dimensions of v, if it is a constant.
func (e *editor) constantDims(v string) ([]int64, bool) {
	t := e.constants[v]
	if t == nil {
		return nil, false
	}
	return t.Dims, true
}

func intsTensor(v []int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{DataType: proto.Int32(int32(onnxpb.TensorProto_INT64)), Dims: []int64{int64(len(v))}, Int64Data: v}
}

func intAttribute(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(v)}
}

// dependsOn returns the values of the graph that depend on the input.
func dependsOn(g *onnxpb.GraphProto, input string) map[string]bool {
	fed := map[string]bool{input: true}
	for _, n := range g.Node { // in topological order, as ONNX demands
		if slices.ContainsFunc(n.Input, func(v string) bool { return fed[v] }) {
			for _, o := range n.Output {
				fed[o] = true
			}
		}
	}
	return fed
}

// dropValueInfo forgets the shapes inferred for inner values.
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
