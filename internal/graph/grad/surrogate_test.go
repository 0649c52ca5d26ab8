package grad_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
)

// gradientAt returns the terms of a sum, and the gradient of the sum in x. The terms are the elements of f's result y
// at the input x, times random weights.
func gradientAt(t *testing.T, f *function, y string, x []float64) (terms, gradient []float64) {
	t.Helper()
	openLibrary(t)
	d, err := differentiate(t.Context(), f, y)
	if err != nil {
		t.Fatal(err)
	}
	defer d.graph.Close()
	return d.run(t, x)
}

// TestKinks checks the gradients at points where a function has no derivative. A gradient must be zero if PyTorch's
// gradient is zero there, and must not be zero otherwise.
func TestKinks(t *testing.T) {
	limits := func(f *function) []string { return in("x", f.floats(nil, 0), f.floats(nil, 1)) }
	for _, c := range []struct {
		name  string
		build func(f *function) string
		x     []float64
		zero  []bool
	}{
		{"ReLU at 0", oneNode("Relu"), []float64{-1, 0, 1}, []bool{true, true, false}},
		{"Clip at its limits", func(f *function) string { return f.op("Clip", limits(f)) }, []float64{-.5, 0, .5, 1, 1.5}, []bool{true, false, false, false, true}},
		{"Abs at 0", oneNode("Abs"), []float64{-1, 0, 1}, []bool{false, true, false}},
	} {
		f := newFunction(graph.Float64, 20, []int64{int64(len(c.x))})
		_, gradient := gradientAt(t, f, c.build(f), c.x)
		for i, g := range gradient {
			if (g == 0) != c.zero[i] {
				t.Errorf("%s: slope %g at %g", c.name, g, c.x[i])
			}
		}
	}
}

// TestTies checks the gradients if several elements equal the maximum. MaxPool gives the whole gradient to the first of
// these elements. ReduceMax and Max divide the gradient evenly among them.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(f *function) string
		want  []float64 // each input's share of the gradient; the maximum of the inputs is 2
	}{
		{"MaxPool", oneNode("MaxPool", ints("kernel_shape", 4)), []float64{0, 1, 0, 0}},
		{"ReduceMax", constantSecond("ReduceMax", numbers(2)), []float64{0, .5, .5, 0}},
		{"Max", func(f *function) string {
			parts := f.several("Split", 4, in("x", f.ints(1, 1, 1, 1)), integer("axis", 2))
			return f.op("Max", parts)
		}, []float64{0, .5, .5, 0}},
	} {
		f := newFunction(graph.Float64, 20, []int64{1, 1, 4})
		terms, gradient := gradientAt(t, f, c.build(f), []float64{1, 2, 2, 1})
		for i, share := range c.want {
			// terms[0] is a random weight times the maximum, which is 2
			if want := share * terms[0] / 2; gradient[i] != want {
				t.Errorf("%s: gradient %d is %g, want %g", c.name, i, gradient[i], want)
			}
		}
	}
}

// TestStraightThrough checks that quantisation passes gradients on, except where it saturates. The test uses one scale
// for each channel.
func TestStraightThrough(t *testing.T) {
	f := newFunction(graph.Float32, 20, []int64{2, 3})
	zero := &onnxpb.TensorProto{Name: proto.String("zero"), Dims: []int64{3}, DataType: proto.Int32(int32(onnxpb.TensorProto_INT8)), Int32Data: []int32{0, 10, -128}}
	f.Graph.Initializer = append(f.Graph.Initializer, zero)
	scale := f.floats([]int64{3}, .5, .25, .125)
	q := f.op("QuantizeLinear", in("x", scale, "zero"), integer("axis", 1))
	y := f.op("DequantizeLinear", in(f.op("Transpose", in(q), ints("perm", 1, 0)), scale, "zero"), integer("axis", 0))
	x := []float64{3, -4, 2, 100, 1, -1} // 2 rows of 3 channels; in the third channel, negative values saturate
	terms, gradient := gradientAt(t, f, y, x)
	for i, inside := range []bool{true, true, true, false, true, false} {
		row, column := i/3, i%3
		want := 0.
		if inside {
			want = terms[column*2+row] / x[i]
		}
		if got := gradient[i]; !(got-want < 1e-6 && want-got < 1e-6) {
			t.Errorf("gradient %d is %g, want %g", i, got, want)
		}
	}
}

// TestRefusals checks errors about models without a gradient. If one node is the cause, the error must name its
// operator and the node. In every case the hint must say which attacks work.
func TestRefusals(t *testing.T) {
	openLibrary(t)
	for _, c := range []struct {
		name  string
		opset int64
		build func(f *function) string
		want  string
	}{
		{"no rule", 20, oneNode("Asinh"), "no gradient is known: Asinh, node 'v1'"},
		{"integers", 20, func(f *function) string {
			return f.op("Cast", in(f.op("Cast", in("x"), integer("to", int64(graph.Int64)))), integer("to", int64(f.of)))
		}, "values of type int64 have no gradient: Cast, node 'v2'"},
		{"only a mask", 20, func(f *function) string {
			return f.op("Cast", in(f.op("Less", in("x", f.floats(nil, .3)))), integer("to", int64(f.of)))
		}, "the loss has no gradient in the model's input"},
		{"weights from the data", 20, func(f *function) string { return f.op("Conv", in(f.weights(0, 1, 1, 2, 3, 3), "x")) },
			"no gradient is known in input 1, which depends on the data: Conv, node 'v2'"},
		{"limits from the data", 20, func(f *function) string {
			return f.op("Clip", in("x", f.op("ReduceMin", in("x"), integer("keepdims", 0))))
		},
			"no gradient is known in input 1, which depends on the data: Clip, node 'v2'"},
		{"indices from the data", 20, func(f *function) string {
			return f.op("Gather", in(f.op("Neg", in("x")), f.op("Cast", in("x"), integer("to", int64(graph.Int64)))))
		}, "its parameters depend on the data: Gather, node 'v3'"},
		{"a branch that uses the input", 20, branches, "no gradient is known: If, node 'v1'"},
		{"old", 8, oneNode("Relu"), "the model has operator set 8, gradients need 9"},
	} {
		f := newFunction(graph.Float32, c.opset, []int64{1, 2, 3, 3})
		_, err := differentiate(t.Context(), f, c.build(f))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		} else if advice, _ := hint.Of(err); advice != grad.Advice {
			t.Errorf("%s: hint %q", c.name, advice)
		}
	}
}

// branches adds an If node with a constant condition. The node's branches use the input of the surrounding graph.
func branches(f *function) string {
	f.Graph.Initializer = append(f.Graph.Initializer, &onnxpb.TensorProto{Name: proto.String("on"), Dims: []int64{}, DataType: proto.Int32(int32(graph.Bool)), Int32Data: []int32{1}})
	var attributes []*onnxpb.AttributeProto
	for _, name := range []string{"then_branch", "else_branch"} {
		g := &onnxpb.GraphProto{
			Name: proto.String(name), Node: []*onnxpb.NodeProto{graph.Node("Exp", in("x"), name+"_y")},
			Output: []*onnxpb.ValueInfoProto{graph.FloatTensor(name+"_y", f.shapeOf("x"))},
		}
		attributes = append(attributes, &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_GRAPH.Enum(), G: g})
	}
	return f.op("If", in("on"), attributes...)
}
