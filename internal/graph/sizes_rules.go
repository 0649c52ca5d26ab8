package graph

import (
	"math"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// sizeRule derives the description of a node's first output from the descriptions of the node's inputs. It returns
// false if it cannot describe the output.
type sizeRule func(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool)

// sizeRules holds a rule for each ONNX operator that the check of tensor sizes can follow. A rule gets an empty
// knownValue for each unknown input.
var sizeRules = map[string]sizeRule{
	"ConstantOfShape": constantOfShape, "Expand": expandedSize, "Tile": tiledSize, "Range": rangeSize, "OneHot": oneHotSize,
	"Pad": paddedSize, "Resize": resizedSize, "HannWindow": windowSize, "HammingWindow": windowSize, "BlackmanWindow": windowSize,
	"MatMul": productSize, "Concat": joinedSize, "Shape": shapeNumbers, "Reshape": reshapedSize, "Unsqueeze": unsqueezedSize,
}

func init() {
	for _, op := range strings.Fields(`Identity Cast Neg Abs Floor Ceil Round Sqrt Exp Log Relu Sigmoid Tanh Erf Not Sign Sin Cos Softmax
		LogSoftmax CumSum Clip Transpose Squeeze Flatten EyeLike Trilu Reciprocal LeakyRelu Gelu`) {
		sizeRules[op] = sameSize
	}
	for op, f := range map[string]func(a, b float64) float64{
		"Add": func(a, b float64) float64 { return a + b }, "Sub": func(a, b float64) float64 { return a - b },
		"Mul": func(a, b float64) float64 { return a * b }, "Div": func(a, b float64) float64 { return math.Trunc(a / b) },
		"Max": math.Max, "Min": math.Min, "Pow": math.Pow, "Where": nil, "And": nil, "Or": nil, "Xor": nil, "Equal": nil, "Less": nil,
		"Greater": nil, "LessOrEqual": nil, "GreaterOrEqual": nil, "Sum": nil, "Mean": nil, "PRelu": nil, "Mod": nil,
	} {
		sizeRules[op] = elementwise(f)
	}
}

// sizeNode describes a node's first output.
func sizeNode(n *onnxpb.NodeProto, s *sizeScope) (knownValue, bool) {
	if n.GetOpType() == "Constant" {
		return constantSize(n)
	}
	rule := sizeRules[n.GetOpType()]
	if rule == nil || domainOf(n.GetDomain()) != "" {
		return knownValue{}, false
	}
	in := make([]knownValue, max(len(n.Input), 3))
	whole := true
	for i, name := range n.Input {
		v, ok := s.find(name)
		in[i], whole = v, whole && (ok && v.whole || name == "")
	}
	v, ok := rule(n, in)
	v.whole = whole && v.whole
	return v, ok
}

func constantSize(n *onnxpb.NodeProto) (knownValue, bool) {
	for _, a := range n.Attribute {
		switch {
		case a.GetName() == "value" && a.T != nil:
			return storedValue(a.T), true
		case a.GetName() == "value_ints":
			return storedValue(intsTensor(a.Ints)), true
		case a.GetName() == "value_int":
			return knownValue{numbers: []float64{float64(a.GetI())}, width: 8, whole: true}, true
		case a.GetName() == "value_float":
			return knownValue{numbers: []float64{float64(a.GetF())}, width: 4, whole: true}, true
		case a.GetName() == "sparse_value":
			return denseValue(a.SparseTensor), true
		}
	}
	return knownValue{}, false
}

// sizesOf converts numbers into sizes. A number of math.MaxInt64 or more becomes math.MaxInt64.
func sizesOf(numbers []float64) []int64 {
	sizes := make([]int64, len(numbers))
	for i, x := range numbers {
		switch {
		case x >= math.MaxInt64:
			sizes[i] = math.MaxInt64
		case x > 0:
			sizes[i] = int64(x)
		}
	}
	return sizes
}

func constantOfShape(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{dims: sizesOf(in[0].numbers), width: 4, whole: true}
	if t := attribute(n, "value").GetT(); t != nil {
		v.width = widthOf(t.GetDataType())
		if fill := storedValue(t).numbers; len(fill) == 1 && v.elements() <= maxFollowed {
			v.numbers = slices.Repeat(fill, int(v.elements()))
		}
	}
	return v, in[0].numbers != nil || in[0].whole && in[0].elements() == 0
}

// broadcastSizes returns the shape that results from broadcasting two shapes. A size of 1 stretches to the other size.
func broadcastSizes(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, n := range b {
		if k := len(a) - len(b) + i; out[k] == 1 || n > out[k] {
			out[k] = n
		}
	}
	return out
}

func expandedSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{dims: broadcastSizes(in[0].dims, sizesOf(in[1].numbers)), width: max(in[0].width, 1), whole: true}
	if len(in[0].numbers) == 1 && v.elements() <= maxFollowed {
		v.numbers = slices.Repeat(in[0].numbers, int(v.elements()))
	}
	return v, in[1].numbers != nil
}

func tiledSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{dims: sizesOf(in[1].numbers), width: max(in[0].width, 1), whole: true}
	for i := range v.dims {
		if i < len(in[0].dims) {
			v.dims[i] = saturatedProduct([]int64{v.dims[i], in[0].dims[i]})
		}
	}
	return v, in[1].numbers != nil
}

func rangeSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	for _, v := range in[:3] {
		if len(v.numbers) != 1 {
			return knownValue{}, false
		}
	}
	start, limit, delta := in[0].numbers[0], in[1].numbers[0], in[2].numbers[0]
	v := knownValue{dims: sizesOf([]float64{math.Ceil((limit - start) / delta)}), width: in[0].width, whole: true}
	for i := range min(v.dims[0], maxFollowed+1) {
		v.numbers = append(v.numbers, start+float64(i)*delta)
	}
	if v.dims[0] > maxFollowed {
		v.numbers = nil
	}
	return v, true
}

func oneHotSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{dims: append(sizesOf(in[1].numbers), in[0].dims...), width: max(in[2].width, 1), whole: true}
	return v, len(in[1].numbers) == 1
}

func windowSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	return knownValue{dims: sizesOf(in[0].numbers), width: 4, whole: true}, len(in[0].numbers) == 1
}

// paddedSize describes the result of Pad from operator set 11 on. If the input's shape is unknown, every size of the
// input counts as 1.
func paddedSize(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	pads := in[1].numbers
	if len(n.Input) > 3 || len(pads)%2 != 0 || len(pads) == 0 {
		return knownValue{}, false
	}
	v := knownValue{width: max(in[0].width, 1), whole: true}
	for i := range len(pads) / 2 {
		size := 1.0
		if i < len(in[0].dims) {
			size = float64(in[0].dims[i])
		}
		v.dims = append(v.dims, sizesOf([]float64{size + pads[i] + pads[len(pads)/2+i]})...)
	}
	return v, true
}

// resizedSize describes the result of Resize. The node must give constant sizes, or constant scales for an input of
// known shape.
func resizedSize(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{width: max(in[0].width, 1), whole: true}
	switch {
	case len(in) > 3 && in[3].numbers != nil && attribute(n, "axes") == nil:
		v.dims = sizesOf(in[3].numbers)
		return v, true
	case len(in[2].numbers) > 0 && len(in[2].numbers) == len(in[0].dims):
		for i, scale := range in[2].numbers {
			v.dims = append(v.dims, sizesOf([]float64{math.Floor(scale * float64(in[0].dims[i]))})...)
		}
		return v, true
	}
	return v, false
}

// productSize describes the result of MatMul if both inputs are constants.
func productSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	a, b := in[0].dims, in[1].dims
	if !in[0].whole || !in[1].whole || len(a) < 2 || len(b) < 2 {
		return knownValue{}, false
	}
	outer := broadcastSizes(a[:len(a)-2], b[:len(b)-2])
	return knownValue{dims: append(outer, a[len(a)-2], b[len(b)-1]), width: in[0].width, whole: true}, true
}

func joinedSize(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{whole: true}
	for i := range n.Input {
		if !in[i].whole || len(in[i].dims) != len(in[0].dims) {
			return v, false
		}
	}
	v.dims, v.width = slices.Clone(in[0].dims), in[0].width
	axis := axisOf(n, 0, len(v.dims))
	if axis < 0 || axis >= len(v.dims) {
		return v, false
	}
	sum, followed := 0.0, len(v.dims) == 1
	for i := range n.Input {
		sum += float64(in[i].dims[axis])
		v.numbers = append(v.numbers, in[i].numbers...)
		followed = followed && int64(len(in[i].numbers)) == in[i].dims[0]
	}
	v.dims[axis] = sizesOf([]float64{sum})[0]
	if !followed || sum > maxFollowed {
		v.numbers = nil
	}
	return v, true
}

func shapeNumbers(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := knownValue{dims: []int64{int64(len(in[0].dims))}, width: 8, whole: true}
	for _, d := range in[0].dims {
		v.numbers = append(v.numbers, float64(d))
	}
	return v, in[0].whole && len(n.Attribute) == 0
}

// reshapedSize describes the result of Reshape, which has as many elements as the input. If a target size is −1 (free)
// or 0 (copied from the input), the result counts as a vector.
func reshapedSize(_ *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := in[0]
	v.dims = sizesOf(in[1].numbers)
	if saturatedProduct(v.dims) != in[0].elements() {
		v.dims = []int64{in[0].elements()}
	}
	return v, in[0].whole && in[1].numbers != nil
}

// unsqueezedSize describes the result of Unsqueeze, which inserts sizes of 1 at the axes.
func unsqueezedSize(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	axes := attribute(n, "axes").GetInts()
	for _, x := range in[1].numbers {
		axes = append(axes, int64(x))
	}
	v := in[0]
	rank := int64(len(v.dims) + len(axes))
	ones := make(map[int64]bool)
	for _, a := range axes {
		ones[(a+rank)%max(rank, 1)] = true
	}
	v.dims = nil
	rest := in[0].dims
	for i := range rank {
		if ones[i] {
			v.dims = append(v.dims, 1)
		} else if len(rest) > 0 {
			v.dims, rest = append(v.dims, rest[0]), rest[1:]
		}
	}
	return v, in[0].whole
}

// sameSize describes the results of operators that keep the number of elements. For Squeeze it drops every size of 1,
// and for Flatten it keeps the input's shape. After these two operators only the product of the sizes is right.
func sameSize(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
	v := in[0]
	switch n.GetOpType() {
	case "Cast":
		v.width = widthOf(int32(attribute(n, "to").GetI()))
	case "Transpose":
		v.dims = slices.Clone(v.dims)
		slices.Reverse(v.dims)
		if perm := attribute(n, "perm").GetInts(); len(perm) == len(v.dims) {
			for i, p := range perm {
				v.dims[i] = in[0].dims[clampIndex(p, int64(len(perm)-1))]
			}
		}
	case "Squeeze":
		v.dims = slices.DeleteFunc(slices.Clone(v.dims), func(d int64) bool { return d == 1 })
	case "Identity", "Floor", "Ceil":
	default:
		v.numbers = nil
	}
	return v, in[0].whole
}

// The function 'elementwise' returns the rule of an operator that broadcasts its inputs. The rule applies only if all
// inputs are computed from constants alone. If f is not nil, the rule also computes the elements of the result. For
// this, it applies f to the elements of both inputs.
func elementwise(f func(a, b float64) float64) sizeRule {
	return func(n *onnxpb.NodeProto, in []knownValue) (knownValue, bool) {
		v := knownValue{whole: true, width: 1}
		for i := range n.Input {
			if !in[i].whole {
				return v, false
			}
			v.dims, v.width = broadcastSizes(v.dims, in[i].dims), max(v.width, in[i].width)
		}
		a, b := in[0].numbers, in[1].numbers
		if f == nil || len(n.Input) != 2 || len(a) == 0 || len(b) == 0 || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
			return v, true
		}
		for i := range max(len(a), len(b)) {
			v.numbers = append(v.numbers, f(a[i%len(a)], b[i%len(b)]))
		}
		return v, true
	}
}
