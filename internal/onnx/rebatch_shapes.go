package onnx

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

// This file learns the shapes of all values of a graph by running it once, with
// one sample or the batch that its file fixes, on ONNX Runtime's CPU provider.

// prove proves that the model treats the inputs of a batch independently, once for all devices.
func (l *loader) prove() error {
	if !l.tried {
		l.tried = true
		native := int64(max(l.contract.batch, 1))
		var known learnt
		if known, l.unproved = l.learnShapes(int(native)); l.unproved == nil {
			l.edits, l.unproved = rebatch(l.model, l.contract.input.Name, l.contract.output.Name, native, known)
		}
	}
	return l.unproved
}

// parameters are the inputs of nodes, by operator, that hold axes or places.
var parameters = map[string][]int{
	"Slice": {1, 2, 3, 4}, "Squeeze": {1}, "Unsqueeze": {1}, "Gather": {1}, "Pad": {1}, "CumSum": {1},
	"ReduceMean": {1}, "ReduceSum": {1}, "ReduceMax": {1}, "ReduceMin": {1}, "ReduceProd": {1},
	"ReduceL1": {1}, "ReduceL2": {1}, "ReduceLogSumExp": {1}, "ReduceSumSquare": {1},
}

// learnShapes runs the graph with Shape nodes behind all values that its output
// needs, and returns their shapes and the parameters of nodes that are vectors.
func (l *loader) learnShapes(native int) (known learnt, err error) {
	edited := proto.CloneOf(l.model)
	g := edited.Graph
	constants := constantsOf(g.Initializer, g.Node)
	values, asked := unknowns(g, l.contract.output.Name, constants)
	keepOutput(g, l.contract.output.Name)
	more := addOutputs(g, values, asked)
	dropValueInfo(g)
	built, err := l.build(edited)
	if err != nil {
		return known, err
	}
	built.more = more
	s, err := openSession(built, &cpuProvider, settings{workers: 1})
	if err != nil {
		return known, err
	}
	defer s.close()
	shape, _ := l.shapes(native)
	found, err := s.integers(l.ctx, shape, make([]float32, shape.FlattenedSize()), len(more))
	if err != nil {
		return known, err
	}
	shapes, ints := map[string][]int64{l.contract.input.Name: shape}, make(map[string][]int64)
	for name, t := range constants {
		shapes[name] = t.Dims
		if v, ok := int64sOf(t); ok {
			ints[name] = v
		}
	}
	for i, v := range values {
		shapes[v] = found[i]
	}
	for i, v := range asked {
		ints[v] = found[len(values)+i]
	}
	return learnt{shapes, ints}, nil
}

// unknowns are the values whose shapes, and the parameters of nodes which
// themselves, are known only when the graph runs.
func unknowns(g *onnxpb.GraphProto, output string, constants map[string]*onnxpb.TensorProto) (values, asked []string) {
	needed := neededFor(g, output)
	for i, n := range g.Node {
		if !needed[i] {
			continue
		}
		for _, k := range parameters[n.GetOpType()] {
			if present(n, k) && constants[n.Input[k]] == nil && !slices.Contains(asked, n.Input[k]) {
				asked = append(asked, n.Input[k])
			}
		}
		for _, v := range n.Output {
			if v != "" && constants[v] == nil {
				values = append(values, v)
			}
		}
	}
	return values, asked
}

// addOutputs makes the shapes of values, and the vectors asked for as int64,
// outputs of the graph.
func addOutputs(g *onnxpb.GraphProto, values, asked []string) (names []string) {
	e := newEditor(g)
	for i, v := range slices.Concat(values, asked) {
		name := e.name("learnt")
		n := node("Shape", []string{v}, name)
		if i >= len(values) {
			n = castNode(v, name, ElemType(onnxpb.TensorProto_INT64))
		}
		g.Node = append(g.Node, n)
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
			TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(onnxpb.TensorProto_INT64))}}}})
		names = append(names, name)
	}
	return names
}
