package lipschitz

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// floatTensor returns a stored tensor of float32.
func floatTensor(name string, dims []int64, v ...float32) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: proto.String(name), DataType: proto.Int32(int32(graph.Float32)), Dims: dims, FloatData: v}
}

func intTensor(name string, v ...int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: proto.String(name), DataType: proto.Int32(int32(graph.Int64)), Dims: []int64{int64(len(v))}, Int64Data: v}
}

// op returns a node. The argument 'values' holds the names of the inputs, then ">", then the names of the outputs.
func op(kind, values string, attributes ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
	in, out, _ := strings.Cut(values, " > ")
	return &onnxpb.NodeProto{OpType: proto.String(kind), Name: proto.String(out), Input: strings.Split(in, " "), Output: strings.Split(out, " "),
		Attribute: attributes}
}

func ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
}

func integer(name string, v int64) *onnxpb.AttributeProto { return graph.IntAttribute(name, v) }

func number(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_FLOAT.Enum(), F: proto.Float32(v)}
}

func text(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_STRING.Enum(), S: []byte(v)}
}

// tensorValue returns the declaration of an input or output. The number 0 stands for an open size.
func tensorValue(name string, shape ...int64) *onnxpb.ValueInfoProto {
	t := &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(graph.Float32)), Shape: &onnxpb.TensorShapeProto{}}
	for _, n := range shape {
		t.Shape.Dim = append(t.Shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
	}
	return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
}

// weights are the stored tensors of all test models.
func weights() []*onnxpb.TensorProto {
	return []*onnxpb.TensorProto{
		floatTensor("w34", []int64{3, 4}, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, -2),                                                       // norm 4
		floatTensor("w44", []int64{4, 4}, 1, 0, 0, 0, 0, 0, 2, 0, 0, 5, 0, 0, 0, 0, 0, 1), floatTensor("v4", []int64{4}, 3, 0, 4, 0), // norm 5
		floatTensor("stack", []int64{2, 4, 4}, make([]float32, 32)...),
		floatTensor("bias", []int64{1, 4}, 1, 2, 3, 4), floatTensor("column", []int64{3, 1}, 1, 2, 3),
		floatTensor("two", nil, -2), floatTensor("zero", nil, 0), floatTensor("nan", nil, float32(math.NaN())),
		{Name: proto.String("near"), DataType: proto.Int32(int32(graph.Float64)), RawData: []byte{1, 0, 0, 0, 0, 0, 0, 0}},
		{Name: proto.String("table"), DataType: proto.Int32(int32(graph.Int64)), Dims: []int64{1, 2}, Int64Data: []int64{1, 4}},
		{Name: proto.String("zero64"), DataType: proto.Int32(int32(graph.Int64)), Int64Data: []int64{0}},
		floatTensor("small", []int64{1}, 1e-38), floatTensor("big", []int64{1}, 1e38),
		floatTensor("k", []int64{2, 1, 1, 1}, 3, 4), floatTensor("k3", []int64{1, 2, 1, 1}, 3, 4), // norm 5
		floatTensor("slopes", []int64{4}, 0.5, -3, 1, 0), floatTensor("gamma", []int64{2}, -6, 1), floatTensor("var", []int64{2}, 3, 0.01),
		intTensor("to14", 1, 4), intTensor("flat", 0, -1), intTensor("first", 0), intTensor("minus", -1), intTensor("spatial", 2, 3),
	}
}

// bound builds a model with the input x and the output y. It returns the result of the function Of for this model.
func bound(shape []int64, nodes ...*onnxpb.NodeProto) (Model, error) {
	g := &onnxpb.GraphProto{Input: []*onnxpb.ValueInfoProto{tensorValue("x", shape...)}, Node: nodes, Initializer: weights(),
		Output: []*onnxpb.ValueInfoProto{tensorValue("y")}}
	return Of(&graph.File{Model: &onnxpb.ModelProto{Graph: g}}, "", nil)
}

func TestRules(t *testing.T) {
	vector, image := []int64{0, 4}, []int64{1, 2, 6, 6}
	for _, c := range []struct {
		name  string
		shape []int64
		want  float64
		nodes []*onnxpb.NodeProto
	}{
		{"matrix from the right", []int64{1, 3}, 4, []*onnxpb.NodeProto{op("MatMul", "x w34 > y")}},
		{"matrix from the left", []int64{4, 2}, 4, []*onnxpb.NodeProto{op("MatMul", "w34 x > y")}},
		{"vector", vector, 5, []*onnxpb.NodeProto{op("MatMul", "x v4 > y")}},
		{"Gemm with alpha and a bias", vector, 6, []*onnxpb.NodeProto{op("Gemm", "x w34 bias > y", integer("transB", 1), number("alpha", -1.5))}},
		{"Gemm with a residual", vector, 5 + 0.5, []*onnxpb.NodeProto{op("Gemm", "x w44 x > y", number("beta", -0.5))}},
		{"transposed matrix", vector, 4, []*onnxpb.NodeProto{op("Transpose", "w34 > t"), op("MatMul", "x t > y")}},
		{"two layers", vector, 20, []*onnxpb.NodeProto{op("MatMul", "x w44 > a"), op("Relu", "a > b"), op("Gemm", "b w34 > y", integer("transB", 1))}},
		{"residual", vector, 1 + 5, []*onnxpb.NodeProto{op("MatMul", "x w44 > a"), op("Add", "a x > y")}},
		{"difference", vector, 1 + 5, []*onnxpb.NodeProto{op("MatMul", "x w44 > a"), op("Sub", "a x > y")}},
		{"sum of three", vector, 3, []*onnxpb.NodeProto{op("Sum", "x x x > y")}},
		{"bias", vector, 1, []*onnxpb.NodeProto{op("Add", "x bias > y")}},
		{"product with a constant", vector, 4, []*onnxpb.NodeProto{op("Mul", "bias x > y")}},
		{"quotient", vector, 0.5, []*onnxpb.NodeProto{op("Div", "x two > y")}},
		{"concat", vector, math.Sqrt(1 + 25 + 0), []*onnxpb.NodeProto{op("MatMul", "x w44 > a"), op("Concat", "a x bias > y", integer("axis", 1))}},
		{"LeakyRelu", vector, 3, []*onnxpb.NodeProto{op("LeakyRelu", "x > y", number("alpha", -3))}},
		{"LeakyRelu of small slope", vector, 1, []*onnxpb.NodeProto{op("LeakyRelu", "x > y")}},
		{"PRelu", vector, 3, []*onnxpb.NodeProto{op("PRelu", "x slopes > y")}},
		{"Elu", vector, 2, []*onnxpb.NodeProto{op("Elu", "x > y", number("alpha", 2))}},
		{"Selu", vector, 1.05070102214813232421875 * 1.67326319217681884765625, []*onnxpb.NodeProto{op("Selu", "x > y")}},
		{"HardSigmoid", vector, float64(float32(0.2)), []*onnxpb.NodeProto{op("HardSigmoid", "x > y")}},
		{"Sigmoid", vector, 0.25, []*onnxpb.NodeProto{op("Sigmoid", "x > y")}},
		{"Erf", vector, 1.1283791670955126, []*onnxpb.NodeProto{op("Erf", "x > y")}},
		{"Softmax", vector, 0.5, []*onnxpb.NodeProto{op("Softmax", "x > y")}},
		{"Dropout and Cast", vector, 1, []*onnxpb.NodeProto{op("Dropout", "x > a"), op("Cast", "a > y", integer("to", 10))}},
		{"BatchNormalization", image, 3, []*onnxpb.NodeProto{op("BatchNormalization", "x gamma gamma var var > y", number("epsilon", 1))}},
		{"MaxPool 3/2", image, 2, []*onnxpb.NodeProto{op("MaxPool", "x > y", ints("kernel_shape", 3, 3), ints("strides", 2, 2))}},
		{"MaxPool of a huge window", []int64{1, 1, 2, 2, 2}, 0x1p33, []*onnxpb.NodeProto{op("MaxPool", "x > y", ints("kernel_shape", 1<<22, 1<<22, 1<<22))}},
		{"MaxPool 2/2", image, 1, []*onnxpb.NodeProto{op("MaxPool", "x > y", ints("kernel_shape", 2, 2), ints("strides", 2, 2))}},
		{"MaxPool 3/2, dilation 2", image, 3, []*onnxpb.NodeProto{op("MaxPool", "x > y", ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("dilations", 2, 2))}},
		{"AveragePool 2/2", image, 0.5, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 2, 2), ints("strides", 2, 2))}},
		{"AveragePool 3/2", image, 2.0 / 3, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 3, 3), ints("strides", 2, 2))}},
		{"AveragePool 3/1", image, 1, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 3, 3))}},
		{"AveragePool 3/1, padded", image, 3, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1))}},
		{"AveragePool with padding in the mean", image, 1, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1), integer("count_include_pad", 1))}},
		{"GlobalAveragePool", image, 1.0 / 6, []*onnxpb.NodeProto{op("GlobalAveragePool", "x > y")}},
		{"GlobalAveragePool after a pool", image, 2.0 / 2, []*onnxpb.NodeProto{op("MaxPool", "x > a", ints("kernel_shape", 3, 3), ints("strides", 2, 2)), op("GlobalAveragePool", "a > y")}},
		{"GlobalMaxPool", image, 1, []*onnxpb.NodeProto{op("GlobalMaxPool", "x > y")}},
		{"ReduceMean, input", image, 1.0 / 6, []*onnxpb.NodeProto{op("ReduceMean", "x spatial > y")}},
		{"ReduceMean, attribute", image, 1.0 / 6, []*onnxpb.NodeProto{op("ReduceMean", "x > y", ints("axes", -1, 2), integer("keepdims", 0))}},
		{"Conv", []int64{1, 1, 6, 6}, 5, []*onnxpb.NodeProto{op("Conv", "x k > y")}},
		{"Conv after Conv", []int64{1, 1, 6, 6}, 25, []*onnxpb.NodeProto{op("Conv", "x k > a"), op("Conv", "a k3 > y")}},
		{"Conv in groups", image, 4, []*onnxpb.NodeProto{op("Conv", "x k > y", integer("group", 2))}},
		{"ConvTranspose", image, 5, []*onnxpb.NodeProto{op("ConvTranspose", "x k > y")}},
		{"Flatten", []int64{1, 1, 2, 2}, 5, []*onnxpb.NodeProto{op("Flatten", "x > a"), op("MatMul", "a w44 > y")}},
		{"Reshape, then a bias", []int64{1, 1, 2, 2}, 1, []*onnxpb.NodeProto{op("Reshape", "x flat > a"), op("Add", "a bias > y")}},
		{"Reshape to a computed shape", []int64{0, 2, 2}, 1, []*onnxpb.NodeProto{op("Shape", "x > s"), op("Gather", "s first > n"),
			op("Concat", "n minus > to", integer("axis", 0)), op("Reshape", "x to > a"), op("Add", "a bias > y")}},
		{"Transpose, Slice and Pad", image, 1, []*onnxpb.NodeProto{op("Transpose", "x > a", ints("perm", 0, 2, 3, 1)), op("Slice", "a first minus > b"), op("Pad", "b first > y")}},
		{"a label that is not needed", vector, 1, []*onnxpb.NodeProto{op("Relu", "x > y"), op("ArgMax", "y > label")}},
		{"a constant result", vector, 0, []*onnxpb.NodeProto{op("Mul", "x zero > y")}},
	} {
		got, err := bound(c.shape, c.nodes...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got.Bound < c.want*(1-1e-15) || got.Bound > c.want*1.003 {
			t.Errorf("%s: %v, want %v", c.name, got.Bound, c.want)
		}
	}
}

// A product of many small factors must not underflow to 0, because large factors can follow.
func TestUnderflow(t *testing.T) {
	var nodes []*onnxpb.NodeProto
	last := "x"
	for i, factor := range strings.Fields(strings.Repeat("small ", 10) + strings.Repeat("big ", 10)) {
		name := fmt.Sprint("v", i)
		nodes = append(nodes, op("Mul", last+" "+factor+" > "+name))
		last = name
	}
	got, err := bound([]int64{1, 2}, append(nodes, op("Relu", last+" > y"))...)
	if err != nil || got.Bound < 0.99 {
		t.Errorf("%v: %v", got.Bound, err)
	}
}

// A convolution with huge strides must get a bound without its Fourier transform, which would need too much memory.
func TestHugeStrides(t *testing.T) {
	got, err := bound([]int64{1, 1, 4, 4}, op("Conv", "x k > y", ints("strides", 1<<16, 1<<16)))
	if err != nil || got.Bound < 5 || got.Bound > 5.01 {
		t.Errorf("%v: %v", got.Bound, err)
	}
}

// The model computes the N×N matrix x + xᵀ from an N×1 input x. Its Lipschitz constant is 2 for N = 1, and at least 4
// for N = 4. For N = 4, the input (1, 1, 1, 1)ᵀ has the norm 2. All 16 elements of its result are 2, so the norm of the
// result is 8. The bound for N = 1 is thus false for N = 4, and an open N must be refused.
func TestOpenSizeIsABatch(t *testing.T) {
	nodes := []*onnxpb.NodeProto{op("Transpose", "x > t", ints("perm", 1, 0)), op("Add", "x t > y")}
	if got, err := bound([]int64{1, 1}, nodes...); err != nil || math.Abs(got.Bound-2) > 1e-9 {
		t.Errorf("at N = 1: %v, %v", got.Bound, err)
	}
	if got, err := bound([]int64{0, 1}, nodes...); err == nil || !strings.Contains(err.Error(), "is open and is no batch") {
		t.Errorf("with N open: %v, %v", got.Bound, err)
	}
	if got, err := bound([]int64{0, 4}, op("MatMul", "x w44 > a"), op("Add", "x a > y")); err != nil || math.Abs(got.Bound-6) > 0.03 {
		t.Errorf("a batch: %v, %v", got.Bound, err)
	}
}

// Gelu's slope is at most 1.129, and it is largest at √2.
func TestGelu(t *testing.T) {
	got, err := bound([]int64{4}, op("Gelu", "x > y"))
	if err != nil {
		t.Fatal(err)
	}
	largest := 0.0
	for x := -10.0; x < 10; x += 1e-4 {
		largest = max(largest, math.Abs(math.Erfc(-x/math.Sqrt2)/2+x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)))
	}
	if got.Bound < largest || got.Bound > largest*1.001 {
		t.Errorf("%v, the largest slope is %v", got.Bound, largest)
	}
	hard, err := bound([]int64{4}, op("HardSwish", "x > y"))
	if err != nil || hard.Bound < 1.5 || hard.Bound > 1.501 {
		t.Errorf("HardSwish: %v: %v", hard.Bound, err)
	}
}

// Each refusal names the node.
func TestRefusals(t *testing.T) {
	vector, image := []int64{0, 4}, []int64{1, 2, 6, 6}
	for _, c := range []struct {
		name, want string
		shape      []int64
		nodes      []*onnxpb.NodeProto
	}{
		{"unknown operator", "node 'y', LayerNormalization: no bound", vector, []*onnxpb.NodeProto{op("LayerNormalization", "x bias > y")}},
		{"attention", "node 'y', MatMul: both factors depend", vector, []*onnxpb.NodeProto{op("Transpose", "x > t"), op("MatMul", "x t > y")}},
		{"square", "node 'y', Mul: both factors depend", vector, []*onnxpb.NodeProto{op("Mul", "x x > y")}},
		{"reciprocal", "node 'y', Div: the divisor depends", vector, []*onnxpb.NodeProto{op("Div", "bias x > y")}},
		{"repetition", "repeated by broadcasting", []int64{1, 4}, []*onnxpb.NodeProto{op("Add", "x column > y")}},
		{"repetition in Mul", "repeated by broadcasting", []int64{1, 4}, []*onnxpb.NodeProto{op("Mul", "x column > y")}},
		{"repetition in Gemm", "repeated by broadcasting", []int64{3, 4}, []*onnxpb.NodeProto{op("Slice", "x first > s"), op("Gemm", "x w44 s > y")}},
		{"batch of matrices", "more than two dimensions", vector, []*onnxpb.NodeProto{op("MatMul", "x stack > y")}},
		{"weights that are computed", "not a stored tensor", vector, []*onnxpb.NodeProto{op("Sqrt", "w44 > s"), op("MatMul", "x s > y")}},
		{"weights that depend on the input", "input 1 depends", image, []*onnxpb.NodeProto{op("Conv", "x x > y")}},
		{"training", "training mode", vector, []*onnxpb.NodeProto{op("Dropout", "x two two > y")}},
		{"training of BatchNormalization", "training mode", image, []*onnxpb.NodeProto{op("BatchNormalization", "x gamma gamma var var > y", integer("training_mode", 1))}},
		{"training of an old BatchNormalization", "training mode", image, []*onnxpb.NodeProto{op("BatchNormalization", "x gamma gamma var var > y mean")}},
		{"repetition in PRelu", "repeated by broadcasting", []int64{1, 1}, []*onnxpb.NodeProto{op("PRelu", "x slopes > y")}},
		{"pool without sizes", "no numbers", image, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape"))}},
		{"constant without a value", "no value", vector, []*onnxpb.NodeProto{op("Constant", " > c", &onnxpb.AttributeProto{Name: proto.String("value")}), op("Add", "x c > y")}},
		{"a row of a table as a shape", "shape are not known", []int64{1, 16}, []*onnxpb.NodeProto{op("Gather", "table zero64 > row"),
			op("Concat", "row minus > to", integer("axis", 0)), op("Reshape", "x to > r"), op("ReduceMean", "r > y", ints("axes", -1))}},
		{"a list that becomes a table", "shape are not known", []int64{1, 16}, []*onnxpb.NodeProto{op("Unsqueeze", "spatial first > t"), op("Gather", "t zero64 > row"),
			op("Concat", "row minus > to", integer("axis", 0)), op("Reshape", "x to > r"), op("ReduceMean", "r > y", ints("axes", -1))}},
		{"a weight near 0", "has the number", vector, []*onnxpb.NodeProto{op("Mul", "x near > y")}},
		{"quantisation", "node 'y', Cast", vector, []*onnxpb.NodeProto{op("Cast", "x > y", integer("to", 3))}},
		{"reflection", "mode reflect", image, []*onnxpb.NodeProto{op("Pad", "x first > y", text("mode", "reflect"))}},
		{"tanh approximation", "approximation", vector, []*onnxpb.NodeProto{op("Gelu", "x > y", text("approximate", "tanh"))}},
		{"indices of MaxPool", "not finite", image, []*onnxpb.NodeProto{op("MaxPool", "x > m y", ints("kernel_shape", 2, 2))}},
		{"zero times indices", "not finite", image, []*onnxpb.NodeProto{op("MaxPool", "x > m i", ints("kernel_shape", 2, 2)), op("Concat", "i x > c", integer("axis", 0)), op("Flatten", "c > y")}},
		{"weights that are not numbers", "not finite", vector, []*onnxpb.NodeProto{op("Mul", "x nan > y")}},
		{"division by zero", "not finite", vector, []*onnxpb.NodeProto{op("Div", "x zero > y")}},
		{"ceil_mode", "ceil_mode", image, []*onnxpb.NodeProto{op("AveragePool", "x > y", ints("kernel_shape", 2, 2), integer("ceil_mode", 1))}},
		{"missing input", "1 inputs", vector, []*onnxpb.NodeProto{op("MatMul", "x > y")}},
		{"another domain", "no bound", vector, []*onnxpb.NodeProto{{OpType: proto.String("Relu"), Domain: proto.String("com.microsoft"), Input: []string{"x"}, Output: []string{"y"}}}},
		{"unknown value", "unknown input 'z'", vector, []*onnxpb.NodeProto{op("Add", "x z > y")}},
		{"no output", "no node computes", vector, []*onnxpb.NodeProto{op("Relu", "x > z")}},
	} {
		if _, err := bound(c.shape, c.nodes...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The function lipschitz.Of must bound only the requested output and list the layers on the way to this output. It must
// also detect whether the output holds logits or probabilities.
func TestOf(t *testing.T) {
	g := &onnxpb.GraphProto{Initializer: weights(), Input: []*onnxpb.ValueInfoProto{tensorValue("x", 0, 4)},
		Node:   []*onnxpb.NodeProto{op("MatMul", "x w44 > a"), op("Relu", "a > b"), op("Reshape", "b to14 > c"), op("Softmax", "c > p"), op("ArgMax", "p > label")},
		Output: []*onnxpb.ValueInfoProto{tensorValue("p"), tensorValue("label"), tensorValue("a")}}
	f := &graph.File{Model: &onnxpb.ModelProto{Graph: g}}
	m, err := Of(f, "p", nil)
	if err != nil || m.Kind != graph.Probabilities || m.Output != "p" || len(m.Layers) != 3 {
		t.Fatalf("%+v: %v", m, err)
	}
	for k, want := range []Layer{{"a", "MatMul", 5, 5}, {"b", "Relu", 1, 5}, {"p", "Softmax", 0.5, 2.5}} {
		if l := m.Layers[k]; l.Name != want.Name || l.Op != want.Op || math.Abs(l.Factor/want.Factor-1) > 0.003 || math.Abs(l.Bound/want.Bound-1) > 0.003 {
			t.Errorf("layer %d: %+v, want %+v", k, l, want)
		}
	}
	if m, err := Of(f, "a", []int64{2, 4}); err != nil || m.Kind != graph.Logits || len(m.Layers) != 1 {
		t.Errorf("%+v: %v", m, err)
	}
	for _, c := range []struct {
		output string
		shape  []int64
		want   string
	}{{"", nil, "3 outputs"}, {"q", nil, "no output 'q'"}, {"p", []int64{4}, "2 dimensions"}, {"p", []int64{1, 5}, "is 4, not 5"}, {"label", nil, "ArgMax"}} {
		if _, err := Of(f, c.output, c.shape); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.output, c.shape, err, c.want)
		}
	}
	g.Input = append(g.Input, tensorValue("mask", 1))
	if _, err := Of(f, "p", nil); err == nil || !strings.Contains(err.Error(), "2 inputs") {
		t.Errorf("two inputs: %v", err)
	}
}
