package onnx

import (
	"context"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// Tensor is the value of one input or one output of a graph.
type Tensor = tensor

// Held returns a tensor in Go's memory, which a run reads or writes in place.
func Held[T ort.TensorData](name string, shape []int64, data []T) Tensor {
	return &held[T]{name, shape, data}
}

// Graph is a graph that is open on ONNX Runtime's CPU provider.
type Graph struct{ *session }

// OpenGraph opens a graph for runs with the given inputs and outputs. The argument 'weights' holds the graph's external
// weights.
func OpenGraph(m *onnxpb.ModelProto, weights graph.Weights, inputs, outputs []string) (*Graph, error) {
	model, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	s, err := openSession(program{
		model: model, inputs: inputs, outputs: outputs, loops: graph.HasLoops(m), frugal: true,
		tensors: weights.Initializers(m.Graph), weights: weights,
	}, &cpuProvider, settings{workers: 1})
	if err != nil {
		return nil, err
	}
	return &Graph{s}, nil
}

// Run runs the graph once. The argument 'in' holds all inputs. Run writes the outputs that the argument 'out' requests.
func (g *Graph) Run(ctx context.Context, in, out []Tensor) error { return g.run(ctx, in, out) }

// Close frees the graph.
func (g *Graph) Close() error { return g.close() }

// Learner returns the function that graph.Learn needs to run graphs. This function runs each graph on the inputs 'in'.
func Learner(ctx context.Context, weights graph.Weights, in []Tensor) func(*onnxpb.ModelProto, []string) ([][]int64, error) {
	var names []string
	for _, t := range in {
		names = append(names, t.label())
	}
	return func(m *onnxpb.ModelProto, more []string) ([][]int64, error) {
		g, err := OpenGraph(m, weights, names, more)
		if err != nil {
			return nil, err
		}
		defer g.Close()
		found, out := make([]result[int64], len(more)), make([]Tensor, len(more))
		for k, name := range more {
			found[k].name, out[k] = name, &found[k]
		}
		if err := g.Run(ctx, in, out); err != nil {
			return nil, err
		}
		vectors := make([][]int64, len(more))
		for k, r := range found {
			vectors[k] = r.data
		}
		return vectors, nil
	}
}
