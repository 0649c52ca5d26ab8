package graph

import (
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// A rule returns the possible positions of the batch in a node's results, if the node treats all samples alike and
// independently. Otherwise it returns nothing.
type rule func(*rebatching, *onnxpb.NodeProto) []option

var rules = make(map[opKey]rule)

func init() { // init fills 'rules'; one line lists all operators that share a rule
	add := func(domain, names string, rule rule) {
		for _, name := range strings.Fields(names) {
			rules[opKey{domain, name}] = rule
		}
	}
	add("", `Identity Cast Dropout Relu LeakyRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Tanh Gelu Erf Exp Log Sqrt Neg Abs
		Reciprocal Floor Ceil Round Sign Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Softplus Softsign Mish Swish
		Shrink ThresholdedRelu Clip Not IsNaN IsInf`, (*rebatching).elementwiseFirst)
	add("", "Add Sub Mul Div Pow Max Min Sum Mean Mod PRelu Where Equal Greater Less GreaterOrEqual LessOrEqual And Or Xor", (*rebatching).broadcast)
	add("", `Conv ConvTranspose MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool BatchNormalization
		InstanceNormalization GroupNormalization LRN DepthToSpace SpaceToDepth ConvInteger QLinearConv`, (*rebatching).images)
	add("", "QuantizeLinear DequantizeLinear", (*rebatching).quantize)
	add("", "MatMul", (*rebatching).matMul)
	add("", "MatMulInteger", (*rebatching).matMulInteger)
	add("", "QLinearMatMul", (*rebatching).qLinearMatMul)
	add("", "Gemm", (*rebatching).gemm)
	add("", "Softmax LogSoftmax Hardmax", (*rebatching).softmax)
	add("", "LayerNormalization RMSNormalization", (*rebatching).layerNorm)
	add("", "Transpose", (*rebatching).transpose)
	add("", "Reshape", (*rebatching).reshape)
	add("", "Flatten", (*rebatching).flatten)
	add("", "Squeeze", (*rebatching).squeeze)
	add("", "Unsqueeze", (*rebatching).unsqueeze)
	add("", "Concat", (*rebatching).concat)
	add("", "Split LpNormalization CumSum TopK", (*rebatching).split)
	add("", "Slice", (*rebatching).slice)
	add("", "Gather", (*rebatching).gather)
	add("", "Pad", (*rebatching).pad)
	add("", `ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare`,
		(*rebatching).reduce)
	add("", "ArgMax ArgMin", (*rebatching).argMax)
	add("", "Expand", (*rebatching).expand)
	add("", "Resize", (*rebatching).resize)
	add("", "Einsum", (*rebatching).einsum)
	add("", "LSTM GRU RNN", (*rebatching).recurrent)
	add("", "Attention", (*rebatching).attention)
	add(machineLearning, `TreeEnsembleClassifier TreeEnsembleRegressor TreeEnsemble LinearClassifier LinearRegressor SVMClassifier
		SVMRegressor Scaler Normalizer Imputer Binarizer ArrayFeatureExtractor FeatureVectorizer`, (*rebatching).tableRows)
	add(machineLearning, "LabelEncoder", (*rebatching).elementwiseFirst)
	add(microsoft, "Gelu FastGelu QuickGelu QLinearSigmoid QLinearLeakyRelu", (*rebatching).elementwiseFirst)
	add(microsoft, "BiasGelu", (*rebatching).broadcast)
	add(microsoft, "QLinearAdd QLinearMul", (*rebatching).qLinearBinary)
	add(microsoft, "QLinearAveragePool QLinearGlobalAveragePool", (*rebatching).images)
	add(microsoft, "QLinearConcat", (*rebatching).qLinearConcat)
	add(microsoft, "QGemm", (*rebatching).qGemm)
}

func to(at position) []option { return []option{{places: []position{at}}} }

// The method 'moved' returns a copy of the position with another dimension.
func (p position) moved(dim int) position { return position{dim, p.outer, p.inner} }

// The method 'alone' reports whether the batch shares its dimension with no other indices.
func (p position) alone() bool { return p.outer == 1 && p.inner == 1 }

// axisOf returns the axis that the node's attribute gives, or the argument 'absent' if the node has no such attribute.
// It clamps the axis to −1…rank. A negative value of the attribute counts from the last axis.
func axisOf(n *onnxpb.NodeProto, absent int64, rank int) int {
	axis := absent
	if a := attribute(n, "axis"); a != nil {
		axis = a.GetI()
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(min(max(axis, -1), int64(rank)))
}

// The rule elementwiseFirst is for operators that are elementwise in the first input. No other input may depend on the
// model's input.
func (r *rebatching) elementwiseFirst(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	if !ok {
		return nil
	}
	return to(at)
}

// The rule 'broadcast' is for operators that are elementwise in all inputs and broadcast them. The inputs' shapes are
// aligned at the last dimension.
func (r *rebatching) broadcast(n *onnxpb.NodeProto) []option {
	rank := len(r.result(n))
	var found *position
	for k := range n.Input {
		at, fed := r.position(n, k)
		if !fed {
			continue
		}
		at = at.moved(at.dim + rank - r.rank(n, k))
		if found != nil && *found != at {
			return nil
		}
		found = &at
	}
	for k := range n.Input {
		if !r.sameForAll(n, k, found.dim, rank) {
			return nil
		}
	}
	return to(*found)
}

// sameForAll reports whether the operator treats all samples alike when it broadcasts input k to the result. The
// argument 'rank' is the number of the result's dimensions, and the argument 'dim' is the dimension that holds the
// batch. Broadcasting aligns the last dimension of input k with the last dimension of the result. The answer is true if
// input k depends on the model's input, has size 1 in the batch dimension, or lacks this dimension.
func (r *rebatching) sameForAll(n *onnxpb.NodeProto, k, dim, rank int) bool {
	if r.fed(n.Input[k]) {
		return true
	}
	sizes, known := r.shapes[n.Input[k]]
	d := dim - (rank - len(sizes))
	return known && (d < 0 || sizes[d] == 1)
}

// The rule 'images' is for operators on [N, C, …] that accept any N.
func (r *rebatching) images(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	training := attribute(n, "training_mode")
	// A node with a second output is refused: in MaxPool, this output holds indices into the whole batch.
	if !ok || at.dim != 0 || training.GetI() != 0 || len(n.Output) > 1 {
		return nil
	}
	return to(at)
}

func (r *rebatching) quantize(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	if !ok || r.rank(n, 1) > 1 || r.rank(n, 1) == 1 && axisOf(n, 1, r.rank(n, 0)) == at.dim && !slices.Equal(r.shape(n, 1), []int64{1}) {
		return nil
	}
	return to(at)
}

// The rule matMul allows the batch in the rows of A, in the columns of B, or in the leading dimensions of both
// matrices.
func (r *rebatching) matMul(n *onnxpb.NodeProto) []option { return r.product(n, 0, 1) }

// The rule matMulInteger is for a matrix product of integers. Each zero point must be absent or a constant of one
// number.
func (r *rebatching) matMulInteger(n *onnxpb.NodeProto) []option {
	if !r.wholeTensor(n, 2, 3) {
		return nil
	}
	return r.product(n, 0, 1)
}

// The rule qLinearMatMul is for a matrix product of inputs 0 and 3. Each scale and each zero point must be a constant
// of one number.
func (r *rebatching) qLinearMatMul(n *onnxpb.NodeProto) []option {
	if !r.wholeTensor(n, 1, 2, 4, 5, 6, 7) {
		return nil
	}
	return r.product(n, 0, 3)
}

// wholeTensor reports whether each of the given inputs is absent or a constant of one number.
func (r *rebatching) wholeTensor(n *onnxpb.NodeProto, inputs ...int) bool {
	for _, k := range inputs {
		if !present(n, k) {
			continue
		}
		if r.fed(n.Input[k]) || len(r.shape(n, k)) > 1 || len(r.shape(n, k)) == 1 && r.shape(n, k)[0] != 1 {
			return false
		}
	}
	return true
}

// The method 'product' applies the rule for a matrix product of inputs i and j.
func (r *rebatching) product(n *onnxpb.NodeProto, i, j int) []option {
	ra, rb, rank := r.rank(n, i), r.rank(n, j), len(r.result(n))
	if ra < 2 || rb < 2 {
		return nil
	}
	a, inA := r.position(n, i)
	b, inB := r.position(n, j)
	a, b = a.moved(a.dim+rank-ra), b.moved(b.dim+rank-rb)
	leading := func(p position) bool { return p.dim < rank-2 }
	var free bool
	switch {
	case inA && inB:
		free = a == b && leading(a)
	case inA:
		free = a.dim == rank-2 || leading(a) && r.sameForAll(n, j, a.dim, rank)
	default:
		a = b
		free = b.dim == rank-1 || leading(b) && r.sameForAll(n, i, b.dim, rank)
	}
	if !free {
		return nil
	}
	return to(a)
}

func (r *rebatching) gemm(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	rows := 0
	if attribute(n, "transA").GetI() != 0 {
		rows = 1
	}
	if !ok || at.dim != rows || len(n.Input) > 2 && n.Input[2] != "" && !r.sameForAll(n, 2, 0, 2) {
		return nil
	}
	return to(at.moved(0))
}

// The rule 'softmax' is for a softmax over one axis. Before operator set 13, a softmax runs over all dimensions from
// the axis on.
func (r *rebatching) softmax(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	last := r.rank(n, 0)
	switch {
	case !ok:
		return nil
	case r.opset >= 13 && at.dim != axisOf(n, -1, last), r.opset < 13 && at.dim < axisOf(n, 1, last):
		return to(at)
	}
	return nil
}

func (r *rebatching) layerNorm(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	rank := r.rank(n, 0)
	if !ok || at.dim >= axisOf(n, -1, rank) {
		return nil
	}
	for k := 1; k < len(n.Input); k++ {
		if !r.sameForAll(n, k, at.dim, rank) {
			return nil
		}
	}
	return to(at)
}

func (r *rebatching) transpose(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	if !ok {
		return nil
	}
	dim := r.rank(n, 0) - 1 - at.dim
	if perm := attribute(n, "perm"); perm != nil {
		dim = slices.Index(perm.Ints, int64(at.dim))
	}
	return to(at.moved(dim))
}

// sizeBefore returns the product of the sizes of all indices that run slower than the batch's index.
func sizeBefore(sizes []int64, at position) int64 {
	p := at.outer
	for _, s := range sizes[:at.dim] {
		p *= s
	}
	return p
}

// The rule 'reshape' is for Reshape, which divides the row of values (see rebatch.go) into new dimensions. One of the
// new dimensions must hold the whole batch. The size of this dimension must be outer·batch·inner, where 'outer' and
// 'inner' are whole numbers. In the row of values, some indices run slower than the index of the batch. After the
// Reshape, these indices must still run slower. If several dimensions qualify, the search first tries dimensions that
// hold the batch alone. Among the other dimensions, it tries the last dimension last, because most operators sum over
// the last dimension.
func (r *rebatching) reshape(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n) // target sizes that depend on the input's values are refused
	if !ok {
		return nil
	}
	return r.cut(n, at)
}

func (r *rebatching) cut(n *onnxpb.NodeProto, at position) []option {
	p := sizeBefore(r.shape(n, 0), at)
	sizes := r.result(n)
	var own, inside, last []option
	q := int64(1) // product of the new sizes before dimension j
	for j, s := range sizes {
		if outer := p / q; p%q == 0 && s%(outer*r.batch) == 0 && outer > 0 {
			target := slices.Clone(sizes)
			target[j] = -1
			place := position{j, outer, s / (outer * r.batch)}
			o := option{[]position{place}, &edit{target: target, reshape: n.GetOpType() != "Reshape"}}
			switch {
			case place.alone():
				own = append(own, o)
			case j == len(sizes)-1:
				last = append(last, o)
			default:
				inside = append(inside, o)
			}
		}
		q *= s
		if q == 0 {
			return nil
		}
	}
	slices.Reverse(inside)
	return slices.Concat(own, inside, last)
}

func (r *rebatching) flatten(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	if !ok {
		return nil
	}
	axis := axisOf(n, 1, r.rank(n, 0))
	sizes, result := r.shape(n, 0), r.result(n)
	p := sizeBefore(sizes, at)
	switch {
	case axis < 0 || len(result) != 2 || p == 0 || result[0] == 0:
		return nil
	case at.dim < axis:
		return to(position{0, p, result[0] / (p * r.batch)})
	}
	p /= result[0]
	if p == 0 {
		return nil
	}
	return to(position{1, p, result[1] / (p * r.batch)})
}

// axesOf returns the node's axes as non-negative numbers. The axes are in an attribute or in input k.
func (r *rebatching) axesOf(n *onnxpb.NodeProto, k, rank int) ([]int, bool) {
	values, ok := r.parameter(n, k, "axes")
	var axes []int
	for _, v := range values {
		if v < 0 {
			v += int64(rank)
		}
		if v < 0 || v >= int64(rank) {
			return nil, false
		}
		axes = append(axes, int(v))
	}
	return axes, ok
}

// withoutAxes returns the position of the batch in the tensor that remains once the axes are removed.
func (p position) withoutAxes(axes []int) position {
	dim := p.dim
	for _, a := range axes {
		if a < p.dim {
			dim--
		}
	}
	return p.moved(dim)
}

func (r *rebatching) squeeze(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	axes, known := r.axesOf(n, 1, r.rank(n, 0))
	if !ok || !known || slices.Contains(axes, at.dim) {
		return nil
	}
	return to(at.withoutAxes(axes))
}

func (r *rebatching) unsqueeze(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	axes, known := r.axesOf(n, 1, len(r.result(n)))
	if !ok || !known {
		return nil
	}
	dim := at.dim
	slices.Sort(axes)
	for _, a := range axes {
		if a <= dim {
			dim++
		}
	}
	return to(at.moved(dim))
}

// The rule 'concat' allows concatenation along any dimension except the batch dimension. Its edit repeats constant
// parts for every sample.
func (r *rebatching) concat(n *onnxpb.NodeProto) []option {
	var found *position
	rank := len(r.result(n))
	e := edit{rank: rank}
	for k := range n.Input {
		at, fed := r.position(n, k)
		switch {
		case fed && found != nil && *found != at:
			return nil
		case fed:
			found = &at
		default:
			e.repeats = append(e.repeats, k)
		}
	}
	if axisOf(n, 0, rank) == found.dim {
		return nil
	}
	if len(e.repeats) == 0 {
		return to(*found)
	}
	e.dim = found.dim
	if !found.alone() || r.batch != 1 {
		return nil
	}
	for _, k := range e.repeats {
		if sizes := r.shape(n, k); len(sizes) != rank || sizes[e.dim] != 1 {
			return nil
		}
	}
	return []option{{[]position{*found}, &e}}
}

// The rule 'split' is for operators that work along one axis, which must not be the batch dimension. The axis is an
// attribute of the node. For CumSum, it is the constant in input 1 instead. If the attribute is missing, the axis is
// the last one for LpNormalization and TopK, and 0 for Split.
func (r *rebatching) split(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	absent := int64(0)
	if op := n.GetOpType(); op == "LpNormalization" || op == "TopK" {
		absent = -1
	}
	axis := axisOf(n, absent, r.rank(n, 0))
	if n.GetOpType() == "CumSum" {
		axes, known := r.constant(n, 1)
		if !known || len(axes) != 1 {
			return nil
		}
		if axis = int(axes[0]); axis < 0 {
			axis += r.rank(n, 0)
		}
	}
	if !ok || axis == at.dim {
		return nil
	}
	return to(at)
}

// The rule 'slice' allows slices along other dimensions than the batch dimension. It also allows slices that take the
// whole batch dimension.
func (r *rebatching) slice(n *onnxpb.NodeProto) []option {
	at, fed := r.position(n, 0)
	axes, whole, ok := r.sliced(n)
	if k := slices.Index(axes, at.dim); !fed || !ok || k >= 0 && !whole[k] {
		return nil
	}
	return to(at)
}

// The method 'sliced' returns the axes of a Slice node. For each axis it reports whether the node takes the whole axis,
// whatever the size of the axis is.
func (r *rebatching) sliced(n *onnxpb.NodeProto) (axes []int, whole []bool, ok bool) {
	starts, ok1 := r.parameter(n, 1, "starts")
	ends, ok2 := r.parameter(n, 2, "ends")
	axes, given := r.axesOf(n, 3, r.rank(n, 0))
	steps, stepped := r.constant(n, 4)
	if !given {
		for k := range starts {
			axes = append(axes, k)
		}
	}
	if !stepped {
		steps = slices.Repeat([]int64{1}, len(axes))
	}
	known := ok1 && ok2 && (given || !present(n, 3)) && (stepped || !present(n, 4))
	if !known || len(starts) != len(ends) || len(axes) != len(starts) || len(steps) != len(axes) {
		return nil, nil, false
	}
	const huge = 1<<31 - 1 // a value of this size or more means the end of the axis
	for k := range axes {
		whole = append(whole, starts[k] == 0 && ends[k] >= huge && steps[k] == 1)
	}
	return axes, whole, true
}

// The function 'present' reports whether the node has an input k.
func present(n *onnxpb.NodeProto, k int) bool { return k < len(n.Input) && n.Input[k] != "" }

// The method 'parameter' returns the value of a node's attribute. In later operator versions the value is in input k.
func (r *rebatching) parameter(n *onnxpb.NodeProto, k int, name string) ([]int64, bool) {
	if a := attribute(n, name); a != nil {
		return a.Ints, true
	}
	return r.constant(n, k)
}

// The rule 'gather' allows constant indices along a dimension other than the batch dimension. It also allows a batch of
// indices into a constant table.
func (r *rebatching) gather(n *onnxpb.NodeProto) []option {
	axis := axisOf(n, 0, r.rank(n, 0))
	at, data := r.position(n, 0)
	places, indices := r.position(n, 1)
	switch {
	case data && indices, axis < 0:
		return nil
	case indices:
		return to(places.moved(axis + places.dim))
	case at.dim < axis:
		return to(at)
	case at.dim > axis:
		return to(at.moved(at.dim + r.rank(n, 1) - 1))
	case r.takesAll(n):
		return r.cut(n, at)
	}
	return nil
}

// takesAll reports whether Gather takes all values of a vector in order. Such a Gather node acts as a Reshape. PyTorch
// exports such a Gather for its operator 'as_strided', if the operator takes adjacent values.
func (r *rebatching) takesAll(n *onnxpb.NodeProto) bool {
	places, ok := r.constant(n, 1)
	sizes := r.shape(n, 0)
	if !ok || len(sizes) != 1 || int64(len(places)) != sizes[0] {
		return false
	}
	for i, p := range places {
		if p != int64(i) {
			return false
		}
	}
	return true
}

func (r *rebatching) pad(n *onnxpb.NodeProto) []option {
	at, fed := r.solePosition(n)
	pads, ok := r.parameter(n, 1, "pads")
	rank := r.rank(n, 0)
	if !fed || !ok || present(n, 3) || len(pads) != 2*rank || pads[at.dim] != 0 || pads[at.dim+rank] != 0 {
		return nil
	}
	return to(at)
}

func (r *rebatching) reduce(n *onnxpb.NodeProto) []option {
	at, fed := r.solePosition(n)
	axes, ok := r.axesOf(n, 1, r.rank(n, 0))
	if !fed || !ok || len(axes) == 0 || slices.Contains(axes, at.dim) {
		return nil
	}
	return to(at.reduced(n, axes))
}

func (r *rebatching) argMax(n *onnxpb.NodeProto) []option {
	at, fed := r.solePosition(n)
	axis := axisOf(n, 0, r.rank(n, 0))
	if !fed || axis == at.dim {
		return nil
	}
	return to(at.reduced(n, []int{axis}))
}

// The method 'reduced' returns the position of the batch in the result of a reduction over the axes.
func (p position) reduced(n *onnxpb.NodeProto, axes []int) position {
	if keep := attribute(n, "keepdims"); keep == nil || keep.GetI() != 0 {
		return p
	}
	return p.withoutAxes(axes)
}

// The rule 'expand' is for the operator Expand. Where the target size is 1, Expand keeps the size of its input.
func (r *rebatching) expand(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	if !ok {
		return nil
	}
	target := slices.Clone(r.result(n))
	at = at.moved(at.dim + len(target) - r.rank(n, 0))
	target[at.dim] = 1
	return []option{{[]position{at}, &edit{target: target}}}
}

// The rule 'resize' allows a Resize node that gets its output size as a constant, in its input 'sizes'. It also allows
// scales that leave the batch unchanged.
func (r *rebatching) resize(n *onnxpb.NodeProto) []option {
	at, ok := r.solePosition(n)
	sizes := r.result(n)
	if !ok || at.dim != 0 || len(sizes) != r.rank(n, 0) || sizes[0] != r.shape(n, 0)[0] || !plainResize(n) {
		return nil
	}
	if attribute(n, "axes") != nil {
		axes, ok := r.axesOf(n, len(n.Input), len(sizes))
		if !ok || slices.Contains(axes, 0) {
			return nil
		}
		return to(at)
	}
	// the batch's scale must be 1; a scale of 1.5 would leave a batch of one sample at size 1, but turn a batch of two
	// into three
	if !present(n, 3) {
		scales := 2
		if r.opset < 11 {
			scales = 1
		}
		if !present(n, scales) || r.scales[n.Input[scales]] != 1 {
			return nil
		}
		return to(at)
	}
	if !at.alone() {
		return nil
	}
	return []option{{[]position{at}, &edit{target: slices.Clone(sizes)}}}
}

// plainResize reports whether each dimension is resized independently.
func plainResize(n *onnxpb.NodeProto) bool {
	policy, mode := attribute(n, "keep_aspect_ratio_policy"), attribute(n, "coordinate_transformation_mode")
	return (policy == nil || string(policy.GetS()) == "stretch") && string(mode.GetS()) != "tf_crop_and_resize"
}

// The rule 'einsum' requires that the batch has its own letter in the equation. This letter must be the same in all
// inputs that hold the batch. The letter must not occur in the other inputs, and must occur in the result.
func (r *rebatching) einsum(n *onnxpb.NodeProto) []option {
	equation := strings.ReplaceAll(string(attribute(n, "equation").GetS()), " ", "")
	left, result, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if !explicit || strings.Contains(equation, ".") || len(terms) != len(n.Input) {
		return nil
	}
	var found *position
	letter := ""
	for k, term := range terms {
		at, fed := r.position(n, k)
		switch {
		case !fed:
			continue
		case len(term) != r.rank(n, k), letter != "" && term[at.dim:at.dim+1] != letter:
			return nil
		}
		at, letter = at.moved(strings.Index(result, term[at.dim:at.dim+1])), term[at.dim:at.dim+1]
		if found != nil && *found != at {
			return nil
		}
		found = &at
	}
	for k, term := range terms {
		_, fed := r.position(n, k)
		if times := strings.Count(term, letter); fed && times != 1 || !fed && times != 0 {
			return nil
		}
	}
	return to(*found)
}

// The rule 'recurrent' is for sequences [time, batch, …] that all have the same length. Its edit repeats a constant
// initial state for every sample.
func (r *rebatching) recurrent(n *onnxpb.NodeProto) []option {
	const lengths, firstState, lastState = 4, 5, 6 // indices of inputs
	at, fed := r.position(n, 0)
	if !fed || at.dim != 1 || attribute(n, "layout").GetI() != 0 || present(n, lengths) {
		return nil
	}
	e := edit{rank: 3, dim: 1}
	for k := 1; k < len(n.Input); k++ {
		state, depends := r.position(n, k)
		switch isState := k == firstState || k == lastState; {
		case n.Input[k] == "", !isState && !depends, isState && depends && state == at:
		case isState && !depends && at.alone() && r.batch == 1:
			e.repeats = append(e.repeats, k)
		default:
			return nil
		}
	}
	// The outputs are [time, directions, batch, …] and [directions, batch, …].
	o := option{places: []position{at.moved(2), at.moved(1)}}
	if len(e.repeats) > 0 {
		o.edit = &e
	}
	return []option{o}
}

// The rule 'attention' is for queries, keys and values [batch, …], with a constant mask or no mask.
func (r *rebatching) attention(n *onnxpb.NodeProto) []option {
	const mask = 3
	at, _ := r.position(n, 0)
	for k := range n.Input {
		other, fed := r.position(n, k)
		switch {
		case k < mask && (other != at || at.dim != 0):
			return nil
		case k == mask && n.Input[k] != "" && (fed || !r.sameForAll(n, k, 0, 4)):
			return nil
		case k > mask && n.Input[k] != "": // the inputs after the mask, for example keys of earlier tokens, are refused
			return nil
		}
	}
	return to(at)
}

// The rule tableRows is for operators that work row by row on tables [N, columns].
func (r *rebatching) tableRows(n *onnxpb.NodeProto) []option {
	for k := range n.Input {
		at, fed := r.position(n, k)
		switch op := n.GetOpType(); {
		case !fed && op == "ArrayFeatureExtractor" && k == 1: // this input selects columns; it may be a constant
		case !fed || at != (position{0, 1, 1}) || r.rank(n, k) != 2:
			return nil
		}
	}
	return to(position{0, 1, 1})
}

// The rule qLinearBinary is for operators that are elementwise in inputs 0 and 3. Each scale and each zero point must
// be a constant of one number.
func (r *rebatching) qLinearBinary(n *onnxpb.NodeProto) []option {
	if !present(n, 3) || !r.wholeTensor(n, 1, 2, 4, 5, 6, 7) {
		return nil
	}
	return r.broadcast(&onnxpb.NodeProto{Input: []string{n.Input[0], n.Input[3]}, Output: n.Output})
}

// The rule qLinearConcat is for the concatenation of inputs 2, 5, …. Each of these inputs is followed by its scale and
// its zero point, which are constants.
func (r *rebatching) qLinearConcat(n *onnxpb.NodeProto) []option {
	parts := &onnxpb.NodeProto{Output: n.Output, Attribute: n.Attribute}
	for k := 2; k < len(n.Input); k += 3 {
		// A constant part is refused, because it would have to be repeated for every sample.
		if !r.fed(n.Input[k]) || !r.wholeTensor(n, k+1, k+2) {
			return nil
		}
		parts.Input = append(parts.Input, n.Input[k])
	}
	if !r.wholeTensor(n, 0, 1) || len(parts.Input) == 0 {
		return nil
	}
	return r.concat(parts)
}

// The rule qGemm is for the operator QGemm. Inputs 0 and 3 are the factors of the product, and input 6 is the bias.
func (r *rebatching) qGemm(n *onnxpb.NodeProto) []option {
	if len(n.Input) < 6 || slices.ContainsFunc(n.Input[3:6], r.fed) || !r.wholeTensor(n, 1, 2, 7, 8) {
		return nil
	}
	g := &onnxpb.NodeProto{Input: []string{n.Input[0], n.Input[3]}, Output: n.Output, Attribute: n.Attribute}
	if present(n, 6) {
		g.Input = append(g.Input, n.Input[6])
	}
	return r.gemm(g)
}
