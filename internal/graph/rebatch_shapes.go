package graph

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file learns the shapes of all values of a graph from one run. The run has one sample, or the batch size that the
// model's file fixes. The caller performs the run.

// Prove proves that a model's scores for one input of a batch do not depend on the other inputs (see rebatch.go). It
// returns the edits that make the model accept batches of any size. The argument 'shape' is the shape of the model's
// input for a batch of n. The function 'run' gets a model with additional int64 outputs. It runs this model on an input
// of the given shape and returns each of these outputs as one vector.
func Prove(m *onnxpb.ModelProto, input, output string, n int64, shape []int64,
	run func(m *onnxpb.ModelProto, outputs []string) ([][]int64, error),
) (Edits, error) {
	known, err := Learn(m, output, map[string][]int64{input: shape}, parameters, run)
	if err != nil {
		return nil, err
	}
	return rebatch(m, input, output, n, known)
}

// Learn finds the shapes of all values that the graph's output needs. For this purpose it adds Shape nodes to a copy of
// the graph and runs the copy. It also returns the integer vectors that are parameters of nodes. The map 'parameters'
// lists, by operator, the inputs that hold such vectors. The map 'given' holds the shapes of the graph's inputs. The
// function 'run' gets a model with additional int64 outputs, runs it, and returns each of these outputs as one vector.
func Learn(m *onnxpb.ModelProto, output string, given map[string][]int64, parameters map[string][]int,
	run func(m *onnxpb.ModelProto, outputs []string) ([][]int64, error),
) (known Facts, err error) {
	edited := proto.CloneOf(m)
	g := edited.Graph
	constants := constantsOf(g.Initializer, g.Node)
	values, asked := unknowns(g, output, parameters, constants)
	KeepOutput(g, output)
	more := addOutputs(g, values, asked)
	dropValueInfo(g)
	found, err := run(edited, more)
	if err != nil {
		return known, err
	}
	shapes, ints := maps.Clone(given), make(map[string][]int64)
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
	return Facts{shapes, ints}, nil
}

// The map 'parameters' lists, by operator, the inputs that hold axes, indices or paddings.
var parameters = map[string][]int{
	"Slice": {1, 2, 3, 4}, "Squeeze": {1}, "Unsqueeze": {1}, "Gather": {1}, "Pad": {1}, "CumSum": {1},
	"ReduceMean": {1}, "ReduceSum": {1}, "ReduceMax": {1}, "ReduceMin": {1}, "ReduceProd": {1},
	"ReduceL1": {1}, "ReduceL2": {1}, "ReduceLogSumExp": {1}, "ReduceSumSquare": {1},
}

// The function 'unknowns' returns two lists of names. The first list holds the values whose shapes are known only at
// run time. The second list holds the node parameters whose contents are known only at run time.
func unknowns(g *onnxpb.GraphProto, output string, parameters map[string][]int, constants map[string]*onnxpb.TensorProto) (values, asked []string) {
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

// addOutputs adds outputs to the graph. The first outputs are the shapes of the values in 'values'. The other outputs
// are the vectors in 'asked', converted to int64.
func addOutputs(g *onnxpb.GraphProto, values, asked []string) (names []string) {
	e := newEditor(g)
	for i, v := range slices.Concat(values, asked) {
		name := e.unused("learnt")
		n := Node("Shape", []string{v}, name)
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
