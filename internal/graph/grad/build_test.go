package grad_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
)

// This file builds small graphs, runs them and their gradients, and compares the gradients with finite differences.

// The type 'function' is a graph with one input, built node by node.
type function struct {
	*onnxpb.ModelProto
	of   graph.ElemType
	name func() string
	rng  *rand.Rand
}

// newFunction returns a graph with the input "x" and no nodes.
func newFunction(of graph.ElemType, opset int64, shape []int64) *function {
	x := graph.FloatTensor("x", shape)
	x.GetType().GetTensorType().ElemType = proto.Int32(int32(of))
	return &function{
		ModelProto: &onnxpb.ModelProto{
			IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}, {Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(3)}},
			Graph: &onnxpb.GraphProto{Name: proto.String("g"), Input: []*onnxpb.ValueInfoProto{x}},
		},
		of: of, name: graph.Numbered("v"), rng: rand.New(rand.NewPCG(1, 2)),
	}
}

// op adds a node and returns its first output.
func (f *function) op(kind string, in []string, attributes ...*onnxpb.AttributeProto) string {
	return f.several(kind, 1, in, attributes...)[0]
}

// The method 'several' adds a node with the given number of outputs, and returns these outputs.
func (f *function) several(kind string, outputs int, in []string, attributes ...*onnxpb.AttributeProto) []string {
	n := graph.Node(kind, in, f.name(), attributes...)
	for range outputs - 1 {
		n.Output = append(n.Output, f.name())
	}
	f.Graph.Node = append(f.Graph.Node, n)
	return n.Output
}

// weights adds a constant of random numbers in [low, high].
func (f *function) weights(low, high float64, shape ...int64) string {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = low + (high-low)*f.rng.Float64()
	}
	return f.floats(shape, values...)
}

// floats adds a constant with the function's element type.
func (f *function) floats(shape []int64, values ...float64) string {
	t := &onnxpb.TensorProto{Name: proto.String(f.name()), Dims: shape, DataType: proto.Int32(int32(f.of))}
	if f.of == graph.Float64 {
		t.RawData = bytesOf(values)
	} else {
		for _, v := range values {
			t.FloatData = append(t.FloatData, float32(v))
		}
	}
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return t.GetName()
}

func (f *function) ints(v ...int64) string {
	t := &onnxpb.TensorProto{Name: proto.String(f.name()), DataType: proto.Int32(int32(onnxpb.TensorProto_INT64)), Dims: []int64{int64(len(v))}, Int64Data: v}
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return t.GetName()
}

func bytesOf(values []float64) (raw []byte) {
	for _, v := range values {
		bits := math.Float64bits(v)
		for i := range 8 {
			raw = append(raw, byte(bits>>(8*i)))
		}
	}
	return raw
}

func in(names ...string) []string { return names }

func ints(name string, v ...int64) *onnxpb.AttributeProto { return graph.IntsAttribute(name, v) }

func integer(name string, v int64) *onnxpb.AttributeProto { return graph.IntAttribute(name, v) }

func float(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_FLOAT.Enum(), F: proto.Float32(v)}
}

// floats returns an attribute that holds floats. They are in field 7, which rscert's onnx.proto omits.
func floats(name string, values ...float32) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_FLOATS.Enum()}
	var raw []byte
	for _, v := range values {
		raw = protowire.AppendFixed32(protowire.AppendTag(raw, 7, protowire.Fixed32Type), math.Float32bits(v))
	}
	a.ProtoReflect().SetUnknown(raw)
	return a
}

func text(name, s string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_STRING.Enum(), S: []byte(s)}
}

// openLibrary opens the ONNX Runtime library that 'rscert setup' downloaded.
func openLibrary(t testing.TB) *onnx.Runtime {
	t.Helper()
	path, err := ortlib.FindFor(ortlib.Build{}, "")
	var missing *ortlib.NotFoundError
	if errors.As(err, &missing) {
		t.Fatalf("%v\nhint: %s", err, missing.Hint())
	}
	r, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// differentiable is a function with its gradient, ready to run.
type differentiable struct {
	graph        *onnx.Graph
	of           graph.ElemType
	shape        []int64
	loss, result string
	lossShape    []int64
}

// differentiate opens a graph that computes the terms w·y and the gradient of their sum. The weights w are random, and
// y is the function's result.
func differentiate(ctx context.Context, f *function, y string) (*differentiable, error) {
	shape := f.shapeOf("x")
	zeros := []onnx.Tensor{held(f.of, "x", shape, make([]float64, size(shape)))}
	f.Graph.Output = []*onnxpb.ValueInfoProto{{Name: proto.String(y)}}
	first, err := graph.Learn(f.ModelProto, y, map[string][]int64{"x": shape}, grad.Parameters, onnx.Learner(ctx, nil, zeros))
	if err != nil {
		return nil, err
	}
	loss := f.op("Mul", in(y, f.weights(-1, 1, first.Shapes[y]...)))
	f.Graph.Output = append(f.Graph.Output, &onnxpb.ValueInfoProto{Name: proto.String(loss)})
	facts, err := graph.Learn(f.ModelProto, loss, map[string][]int64{"x": shape}, grad.Parameters, onnx.Learner(ctx, nil, zeros))
	if err != nil {
		return nil, err
	}
	g, err := grad.Append(f.ModelProto, "x", loss, facts)
	if err != nil {
		return nil, err
	}
	f.Graph.Output = []*onnxpb.ValueInfoProto{{Name: proto.String(loss)}, {Name: proto.String(g)}}
	open, err := onnx.OpenGraph(f.ModelProto, nil, in("x"), in(loss, g))
	if err != nil {
		return nil, err
	}
	return &differentiable{open, f.of, shape, loss, g, facts.Shapes[loss]}, nil
}

func (f *function) shapeOf(input string) (shape []int64) {
	for _, v := range f.Graph.Input {
		if v.GetName() == input {
			for _, d := range v.GetType().GetTensorType().GetShape().GetDim() {
				shape = append(shape, d.GetDimValue())
			}
		}
	}
	return shape
}

func size(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// The function 'held' returns an input that holds the values.
func held(of graph.ElemType, name string, shape []int64, values []float64) onnx.Tensor {
	if of == graph.Float64 {
		return onnx.Held(name, shape, values)
	}
	return onnx.Held(name, shape, singles(values))
}

func singles(values []float64) []float32 {
	f := make([]float32, len(values))
	for i, v := range values {
		f[i] = float32(v)
	}
	return f
}

// run returns two results at x: the terms w·y of the weighted sum, and the gradient of the sum (see differentiate).
func (d *differentiable) run(t testing.TB, x []float64) (terms, gradient []float64) {
	t.Helper()
	n, m := size(d.lossShape), len(x)
	in := []onnx.Tensor{held(d.of, "x", d.shape, x)}
	var err error
	if d.of == graph.Float64 {
		terms, gradient = make([]float64, n), make([]float64, m)
		err = d.graph.Run(context.Background(), in, []onnx.Tensor{onnx.Held(d.loss, d.lossShape, terms), onnx.Held(d.result, d.shape, gradient)})
	} else {
		a, b := make([]float32, n), make([]float32, m)
		err = d.graph.Run(context.Background(), in, []onnx.Tensor{onnx.Held(d.loss, d.lossShape, a), onnx.Held(d.result, d.shape, b)})
		terms, gradient = doubles(a), doubles(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return terms, gradient
}

func doubles(values []float32) []float64 {
	f := make([]float64, len(values))
	for i, v := range values {
		f[i] = float64(v)
	}
	return f
}

// slope returns a numerical derivative of the weighted sum with respect to coordinate i of x. It combines the central
// differences over ±h and ±h/2 by Richardson extrapolation. The result is exact for polynomials of degree four or less.
func (d *differentiable) slope(t testing.TB, x []float64, i int, h float64) float64 {
	t.Helper()
	over := func(h float64) float64 {
		moved := append([]float64(nil), x...)
		moved[i] = x[i] + h
		above, _ := d.run(t, moved)
		moved[i] = x[i] - h
		below, _ := d.run(t, moved)
		sum := 0.
		for k := range above { // subtract term by term, because the differences are small compared with the sum
			sum += above[k] - below[k]
		}
		return sum / (2 * h)
	}
	return (4*over(h/2) - over(h)) / 3
}

// The function 'spaced' returns n different numbers in [low, high] in random order. After sorting, neighbouring numbers
// are (high−low)/n apart. Tests of a maximum need different numbers: where two numbers are equal, their maximum has a
// kink, and finite differences are wrong.
func spaced(n int, low, high float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float64, n)
	for i, k := range rng.Perm(n) {
		x[i] = float64(float32(low + (high-low)*(float64(k)+.5)/float64(n)))
	}
	return x
}
