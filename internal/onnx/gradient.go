package onnx

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
)

// Gradient computes an objective of a model's scores, and the gradient of this objective with respect to the input. The
// number of examples is fixed. Several goroutines may call Run at the same time.
type Gradient struct {
	session           *session
	names             grad.Attached
	scores, gradient  string // names of the outputs
	in, noise, labels ort.Shape
	losses, out       ort.Shape // shapes of the losses and of the scores
	onHost            error
}

// Gradient opens a graph that computes an objective and its gradient. If the model runs one input per call, the
// objective may have only one example and one copy. If the device refuses the graph, ONNX Runtime's CPU provider runs
// it, and OnHost returns the reason.
func (m *Model) Gradient(ctx context.Context, o grad.Objective) (*Gradient, error) {
	if m.model == nil {
		return nil, errors.New("the model's source was given back: its gradient can no longer be opened")
	}
	o.Copies, o.Probabilities = max(o.Copies, 1), m.outputs == graph.Probabilities
	edited, g, err := m.differentiate(ctx, o)
	if err != nil {
		return nil, err
	}
	model, err := proto.Marshal(edited)
	if err != nil {
		return nil, err
	}
	p := program{
		model: model, inputs: []string{g.names.Input, g.names.Labels}, outputs: []string{g.scores, g.names.Loss, g.gradient},
		loops: m.loops, frugal: true, tensors: m.weights.Initializers(edited.Graph), weights: m.weights,
	}
	if g.names.Noise != "" {
		p.inputs = append(p.inputs, g.names.Noise)
	}
	if g.session, g.onHost = openSession(p, m.device.provider, m.settings); g.onHost == nil {
		return g, nil
	}
	if m.device.provider == &cpuProvider {
		return nil, g.onHost
	}
	g.session, err = openSession(p, &cpuProvider, settings{workers: m.settings.workers})
	return g, err
}

// The method 'differentiate' returns a copy of the model with an objective and its gradient.
func (m *Model) differentiate(ctx context.Context, o grad.Objective) (*onnxpb.ModelProto, *Gradient, error) {
	rows := o.Examples * o.Copies
	proved := m.independence == Proved
	if !proved && (rows > 1 || m.copies > 1) {
		return nil, nil, hint.New("the model runs one input a call: its gradient cannot take a batch", grad.Advice)
	}
	batched := m.contract.Batch != graph.NoBatch
	key := sessionKey{proved: proved}
	shape := ort.NewShape()
	if batched {
		key.fixed, shape = rows, append(shape, int64(rows))
	}
	for _, n := range m.sample {
		shape = append(shape, int64(n))
	}
	edited := m.edited(key)
	in, scores := graph.FeedFloat32(edited.Graph, m.contract.Input.Name, m.contract.Output.Name)
	names, err := grad.Attach(edited, in, scores, shape, m.classes, o)
	if err != nil {
		return nil, nil, err
	}
	g := &Gradient{names: names, scores: scores, in: shape, labels: ort.NewShape(o.LabelShape()...), losses: ort.NewShape(int64(o.Examples))}
	g.out = slices.Concat(shape[:len(shape)-len(m.sample)], m.row)
	if names.Noise != "" {
		g.in = slices.Concat(ort.NewShape(int64(o.Examples)), shape[1:])
		g.noise = slices.Concat(ort.NewShape(int64(o.Examples), int64(o.Copies)), shape[1:])
	}
	given := make(map[string][]int64)
	var zeros []Tensor
	for _, t := range []struct {
		name  string
		shape ort.Shape
	}{{names.Input, g.in}, {names.Noise, g.noise}} {
		if t.name != "" {
			given[t.name] = t.shape
			zeros = append(zeros, Held(t.name, t.shape, make([]float32, t.shape.FlattenedSize())))
		}
	}
	given[names.Labels] = g.labels
	zeros = append(zeros, Held(names.Labels, g.labels, make([]int64, g.labels.FlattenedSize())))
	facts, err := graph.Learn(edited, names.Loss, given, grad.Parameters, Learner(ctx, m.weights, zeros))
	if err != nil {
		return nil, nil, fmt.Errorf("the model fails on zeros: %w", err)
	}
	if g.gradient, err = grad.Append(edited, names.Input, names.Loss, facts); err != nil {
		return nil, nil, err
	}
	edited.Graph.Output = append(edited.Graph.Output, graph.FloatTensor(g.gradient, g.in))
	return edited, g, nil
}

// OnHost returns the reason why the CPU computes the gradient although the model runs on another device. It returns nil
// if the model's device computes the gradient.
func (g *Gradient) OnHost() error { return g.onHost }

// Run computes the scores [Examples·Copies·m] and the losses [Examples] of the examples x. It also computes the
// gradient of each loss with respect to the loss's example. All gradients together have the size of x. The argument
// 'labels' has the objective's LabelShape. The argument 'noise' [Examples·Copies·values] is nil if there is one copy.
func (g *Gradient) Run(ctx context.Context, x, noise []float32, labels []int64, scores, loss, gradient []float32) error {
	in := []Tensor{Held(g.names.Input, g.in, x), Held(g.names.Labels, g.labels, labels)}
	if g.names.Noise != "" {
		in = append(in, Held(g.names.Noise, g.noise, noise))
	}
	return g.session.run(ctx, in, []Tensor{
		Held(g.scores, g.out, scores), Held(g.names.Loss, g.losses, loss), Held(g.gradient, g.in, gradient),
	})
}

// Close frees the gradient.
func (g *Gradient) Close() error { return g.session.close() }
