package onnx

import (
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// prove tries to prove that the model treats the inputs of a batch independently. The proof holds for all devices.
// To learn the shapes of the values in the graph, prove runs the model on ONNX Runtime's CPU provider.
func (l *loader) prove() error {
	if !l.tried {
		l.tried = true
		native := max(l.contract.Batch, 1)
		shape, _ := l.shapes(native)
		l.edits, l.unproved = graph.Prove(l.model, l.contract.Input.Name, l.contract.Output.Name, int64(native), shape, l.runForShapes)
	}
	return l.unproved
}

// runForShapes runs the edited model once, on ONNX Runtime's CPU provider. The argument 'more' names outputs of
// type int64. runForShapes returns the values of each of these outputs.
func (l *loader) runForShapes(edited *onnxpb.ModelProto, more []string) ([][]int64, error) {
	built, err := l.build(edited)
	if err != nil {
		return nil, err
	}
	built.outputs = append(built.outputs, more...)
	s, err := openSession(built, &cpuProvider, settings{workers: 1})
	if err != nil {
		return nil, err
	}
	defer s.close()
	shape, _ := l.shapes(max(l.contract.Batch, 1))
	found, out := make([]result[int64], len(more)), make([]tensor, len(more))
	for k, name := range more {
		found[k].name, out[k] = name, &found[k]
	}
	if err := s.run(l.ctx, []tensor{&held[float32]{s.inputs[0], shape, make([]float32, shape.FlattenedSize())}}, out); err != nil {
		return nil, err
	}
	vectors := make([][]int64, len(more))
	for k, r := range found {
		vectors[k] = r.data
	}
	return vectors, nil
}
