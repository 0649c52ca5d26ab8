package grad

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file adds nodes for single operations, in the form that the model's operator set requires.

// floatType returns the element type of gradients with respect to the value v. Gradients with respect to quantised
// values are float32.
func (t *tape) floatType(v string) graph.ElemType {
	if of := t.types[v]; of.IsFloat() {
		return of
	}
	return graph.Float32
}

// numberFor adds a constant number that has the type of gradients in v.
func (t *tape) numberFor(v string, x float64) string { return t.numbers(v, []int64{}, x) }

// numbers adds a constant tensor that holds the numbers in the argument 'values'. The tensor has the type of gradients
// in v.
func (t *tape) numbers(v string, shape []int64, values ...float64) string {
	of := t.floatType(v)
	if of == graph.Float64 {
		c := &onnxpb.TensorProto{DataType: proto.Int32(int32(of)), Dims: shape, RawData: float64Bytes(values)}
		return t.Node("Constant", nil, tensorAttribute("value", c))
	}
	floats := make([]float32, len(values))
	for i, x := range values {
		floats[i] = float32(x)
	}
	c := t.Floats(shape, floats...)
	if of != graph.Float32 {
		c = t.Cast(c, of)
	}
	return c
}

// mul adds a node that computes d·factor.
func (t *tape) mul(d, factor string) string { return t.Op("Mul", d, factor) }

// scale adds a node that computes d·factor. The type of d must be the type of gradients with respect to v.
func (t *tape) scale(v, d string, factor float64) string {
	if factor == 1 {
		return d
	}
	return t.mul(d, t.numberFor(v, factor))
}

// The method 'masked' adds nodes that keep the elements of d for which the argument 'test' is true, and set the other
// elements to 0. The nodes use a product, which is faster than Where on ONNX Runtime's CPU provider.
func (t *tape) masked(v, test, d string) string { return t.mul(d, t.Cast(test, t.floatType(v))) }

// zeros adds a tensor of zeros.
func (t *tape) zeros(of graph.ElemType, shape []int64) string {
	zero := &onnxpb.TensorProto{DataType: proto.Int32(int32(of)), Dims: []int64{1}, RawData: make([]byte, sizeOf(of))}
	return t.Node("ConstantOfShape", []string{t.Ints(shape...)}, tensorAttribute("value", zero))
}

// sizeOf returns the size in bytes of a floating-point number of the given type.
func sizeOf(of graph.ElemType) int {
	switch of {
	case graph.Float64:
		return 8
	case graph.Float16:
		return 2
	}
	return 4
}

func (t *tape) reshape(x string, shape []int64) string { return t.Op("Reshape", x, t.Ints(shape...)) }

// reshapeTo reshapes x to the shape of v.
func (t *tape) reshapeTo(x, v string) string { return t.reshape(x, t.shape(v)) }

func (t *tape) expand(x string, shape []int64) string { return t.Op("Expand", x, t.Ints(shape...)) }

func (t *tape) transpose(x string, perm []int64) string {
	if slices.IsSorted(perm) {
		return x
	}
	return t.Node("Transpose", []string{x}, graph.IntsAttribute("perm", perm))
}

// swapLast exchanges the last two axes of a value of the given rank.
func (t *tape) swapLast(x string, rank int) string {
	perm := upTo(rank)
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return t.transpose(x, perm)
}

// The method 'reduce' adds a node that reduces x over the axes. In older operator sets, the axes are an attribute of
// the node. In newer operator sets, they are an input: from 13 on for sums, and from 18 on for the other operators.
func (t *tape) reduce(op, x string, axes []int64, keep bool) string {
	if len(axes) == 0 {
		return x
	}
	keepdims := graph.IntAttribute("keepdims", 0)
	if keep {
		keepdims = graph.IntAttribute("keepdims", 1)
	}
	if t.opset >= 18 || t.opset >= 13 && op == "ReduceSum" {
		return t.Node(op, []string{x, t.Ints(axes...)}, keepdims)
	}
	return t.Node(op, []string{x}, graph.IntsAttribute("axes", axes), keepdims)
}

// The method 'sum' adds a node that sums x over the axes. In the result, these axes have size 1.
func (t *tape) sum(x string, axes ...int64) string { return t.reduce("ReduceSum", x, axes, true) }

func (t *tape) mean(x string, axes ...int64) string { return t.reduce("ReduceMean", x, axes, true) }

// slice adds a node that computes x[starts:ends] along the axes.
func (t *tape) slice(x string, starts, ends, axes []int64) string {
	if t.opset < 10 {
		return t.Node("Slice", []string{x}, graph.IntsAttribute("starts", starts), graph.IntsAttribute("ends", ends), graph.IntsAttribute("axes", axes))
	}
	return t.Op("Slice", x, t.Ints(starts...), t.Ints(ends...), t.Ints(axes...))
}

// reverse adds nodes that reverse the order of the elements along an axis of the given size.
func (t *tape) reverse(x string, axis int, size int64) string {
	if size == 1 {
		return x
	}
	backwards := upTo(int(size))
	slices.Reverse(backwards)
	return t.Node("Gather", []string{x, t.Ints(backwards...)}, graph.IntAttribute("axis", int64(axis)))
}

// pad adds nodes that extend each axis i by before[i] zeros at its start and by after[i] zeros at its end. Negative
// numbers crop the axis. x has the element type of gradients with respect to v.
func (t *tape) pad(v, x string, before, after []int64) string {
	var starts, ends, axes []int64
	pads := make([]int64, 0, 2*len(before))
	for i := range before {
		if before[i] < 0 || after[i] < 0 {
			end := int64(math.MaxInt64)
			if after[i] < 0 {
				end = after[i]
			}
			starts, ends, axes = append(starts, max(0, -before[i])), append(ends, end), append(axes, int64(i))
		}
		pads = append(pads, max(0, before[i]))
	}
	for _, p := range after {
		pads = append(pads, max(0, p))
	}
	if len(axes) > 0 {
		x = t.slice(x, starts, ends, axes)
	}
	if !slices.ContainsFunc(pads, func(p int64) bool { return p > 0 }) {
		return x
	}
	if t.opset < 11 {
		return t.Node("Pad", []string{x}, graph.IntsAttribute("pads", pads))
	}
	return t.Op("Pad", x, t.Ints(pads...), t.numberFor(v, 0))
}

// unbroadcast adds nodes that sum d over the axes along which broadcasting repeated a value. The argument 'have' is the
// shape of d. The argument 'want' is the value's shape before broadcasting.
func (t *tape) unbroadcast(d string, have, want []int64) string {
	lead := len(have) - len(want)
	axes := upTo(lead)
	for i, n := range want {
		if have[lead+i] != n {
			axes = append(axes, int64(lead+i))
		}
	}
	if len(axes) == 0 {
		return d
	}
	d = t.sum(d, axes...)
	if lead > 0 {
		d = t.reshape(d, want)
	}
	return d
}

// gemm adds a node that computes alpha·a·b. If transA is true, it uses the transpose of a in place of a. If transB is
// true, it uses the transpose of b.
func (t *tape) gemm(v, a, b string, transA, transB bool, alpha float64) string {
	in := []string{a, b}
	if t.opset < 11 { // before operator set 11, Gemm requires the matrix C that it adds to the product
		in = append(in, t.numberFor(v, 0))
	}
	flag := func(name string, on bool) *onnxpb.AttributeProto {
		if on {
			return graph.IntAttribute(name, 1)
		}
		return graph.IntAttribute(name, 0)
	}
	return t.Node("Gemm", in, flag("transA", transA), flag("transB", transB), floatAttribute("alpha", alpha))
}

// equal adds nodes that test x = y. Before operator set 11, Equal compares only integers.
func (t *tape) equal(x, y string) string {
	if t.opset >= 11 {
		return t.Op("Equal", x, y)
	}
	return t.Op("Not", t.Op("Or", t.Op("Less", x, y), t.Op("Greater", x, y)))
}

// scatter adds a node that writes the elements of 'updates' into the tensor 'zeros', at the positions that 'indices'
// gives along an axis. If a position occurs several times, the argument 'add' must be true. The node then adds up all
// updates at this position.
func (t *tape) scatter(zeros, indices, updates string, axis int64, add bool) string {
	op, attributes := "ScatterElements", []*onnxpb.AttributeProto{graph.IntAttribute("axis", axis)}
	if t.opset < 11 {
		op = "Scatter"
	}
	if add {
		attributes = append(attributes, textAttribute("reduction", "add"))
	}
	return t.Node(op, []string{zeros, indices, updates}, attributes...)
}

// upTo returns 0, 1, …, n−1.
func upTo(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return v
}

func product(sizes []int64) int64 {
	p := int64(1)
	for _, n := range sizes {
		p *= n
	}
	return p
}

// axis returns the axis i as a non-negative number. A negative i counts from the end.
func axis(i int64, rank int) int {
	if i < 0 {
		i += int64(rank)
	}
	return int(i)
}

func floatAttribute(name string, x float64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_FLOAT.Enum(), F: proto.Float32(float32(x))}
}

func textAttribute(name, s string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_STRING.Enum(), S: []byte(s)}
}

func tensorAttribute(name string, c *onnxpb.TensorProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_TENSOR.Enum(), T: c}
}

func float64Bytes(values []float64) []byte {
	raw := make([]byte, 0, 8*len(values))
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
	}
	return raw
}
