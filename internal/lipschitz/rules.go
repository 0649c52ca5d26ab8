package lipschitz

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// A rule bounds the Lipschitz constant of a node's first output. It is called only if at least one of the node's inputs
// depends on the model's input.
type rule func(n node) (value, error)

// rules holds the rule of each operator.
var rules map[string]rule

func init() { // Go would refuse an initializer of 'rules' as a cycle, because some rules use this map
	rules = map[string]rule{
		"Identity": same, "Dropout": dropout, "Cast": cast, "Shape": shapeOf,
		"Relu": same, "Tanh": same, "Neg": same, "Abs": same, "Clip": clip, "Softplus": same, "Sin": same, "Cos": same,
		"Sigmoid": scaled(0.25), "Softsign": same,
		"LeakyRelu": func(n node) (value, error) { return n.times(max(1, math.Abs(n.number("alpha", 0.01)))), nil },
		"Elu":       func(n node) (value, error) { return n.times(max(1, math.Abs(n.number("alpha", 1)))), nil },
		"Selu":      selu, "HardSigmoid": func(n node) (value, error) { return n.times(math.Abs(n.number("alpha", hardSigmoidAlpha))), nil },
		"PRelu": prelu, "Erf": scaled(2 / math.SqrtPi * up), "Gelu": gelu, "HardSwish": scaled(1.5),
		"Softmax": scaled(0.5),
		"Flatten": flatten, "Reshape": reshape, "Squeeze": moved, "Unsqueeze": moved, "Transpose": transpose, "Slice": moved, "Pad": pad,
		"DepthToSpace": moved, "SpaceToDepth": moved,
		"Gemm": gemm, "MatMul": matMul, "Conv": conv, "ConvTranspose": conv,
		"Add": sum, "Sub": sum, "Mul": multiply, "Div": divide, "Concat": concat, "Sum": sum,
		"MaxPool": maxPool, "AveragePool": averagePool, "GlobalMaxPool": globalMaxPool, "GlobalAveragePool": globalAveragePool,
		"ReduceMean": reduceMean, "ReduceMax": moved, "BatchNormalization": batchNorm,
	}
}

// The function 'supported' lists the operators.
func supported() string { return strings.Join(slices.Sorted(maps.Keys(rules)), ", ") }

// The method 'times' returns the first input with its bound multiplied by a factor.
func (n node) times(factor float64) value {
	return value{shape: n.in[0].shape, bound: n.in[0].bound * factor * up}
}

// The rule 'same' is for operators that apply a function with slopes of at most 1 to each element.
func same(n node) (value, error) { return value{shape: n.in[0].shape, bound: n.in[0].bound}, nil }

// The rule 'moved' is for operators that move elements or leave some out. The rule does not compute the shape of the
// result. It is also the rule of ReduceMax, because |max x − max y| ≤ max|x − y|.
func moved(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	return value{bound: n.in[0].bound}, nil
}

// The method 'constants' returns an error if input k or a later input of the node depends on the model's input.
func (n node) constants(k int) error {
	for i := k; i < len(n.in); i++ {
		if n.in[i].bound > 0 {
			return n.refuse("input %d depends on the input of the model", i)
		}
	}
	return nil
}

// scaled returns the rule of functions whose Lipschitz constant is the argument 'factor'. This constant is ¼ for the
// sigmoid. It is ½ for the softmax. The softmax has the Jacobian J = diag p − ppᵀ, so vᵀJv is the variance of v under
// p. This variance is at most (max v − min v)²/4 ≤ ½‖v‖². HardSwish is x·clip(x/6+½, 0, 1). For |x| ≤ 3 its slope is
// (2x+3)/6, which lies between −½ and 3/2.
func scaled(factor float64) rule { return func(n node) (value, error) { return n.times(factor), nil } }

func dropout(n node) (value, error) {
	if len(n.in) > 2 && n.Input[2] != "" {
		return value{}, n.refuse("it has a training mode")
	}
	return same(n)
}

// The rule 'cast' accepts only conversions to floating-point types. Like all rules, it ignores rounding.
func cast(n node) (value, error) {
	switch n.integer("to", 1) {
	case 1, 10, 11, 16: // float32, float16, float64, bfloat16
		return same(n)
	}
	return value{}, n.refuse("it converts to a type that is not a real number")
}

// shapeOf returns a constant, because the shape does not depend on the elements.
func shapeOf(n node) (value, error) {
	if n.in[0].shape == nil || n.attribute("start") != nil || n.attribute("end") != nil {
		return value{}, nil
	}
	return value{shape: []int64{int64(len(n.in[0].shape))}, ints: n.in[0].shape, known: true}, nil
}

func clip(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	return same(n)
}

// These are ONNX's default values of attributes. They are rounded to float32, which makes some of them larger than the
// decimal numbers in ONNX's specification.
const (
	seluAlpha        = 1.67326319217681884765625
	seluGamma        = 1.05070102214813232421875
	hardSigmoidAlpha = 0.20000000298023223876953125
)

// selu has the slope γ for x > 0, and the slope αγe^x for x < 0.
func selu(n node) (value, error) {
	alpha, gamma := n.number("alpha", seluAlpha), n.number("gamma", seluGamma)
	return n.times(math.Abs(gamma) * max(1, math.Abs(alpha))), nil
}

// prelu refuses a node if ONNX Runtime would broadcast the input to the shape of the slopes, because this would repeat
// the input.
func prelu(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	slopes, err := n.floats(1)
	if err != nil {
		return value{}, err
	}
	if len(slopes) > 1 {
		if _, err := n.broadcast(); err != nil {
			return value{}, err
		}
	}
	return n.times(max(1, largest(slopes))), nil
}

// gelu has the slope Φ(x) + xφ(x). The slope is largest at x = √2, where it is below 1.129.
func gelu(n node) (value, error) {
	if a := n.attribute("approximate"); a != nil && string(a.S) != "none" {
		return value{}, n.refuse("its approximation has no known bound")
	}
	return n.times(1.129), nil
}

func flatten(n node) (value, error) {
	out := value{bound: n.in[0].bound}
	if s := n.in[0].shape; s != nil {
		axis := int(n.axis(1))
		if axis < 0 || axis > len(s) {
			return value{}, n.refuse("axis %d", axis)
		}
		out.shape = []int64{elements(s[:axis]), elements(s[axis:])}
	}
	return out, nil
}

// reshape is the rule of Reshape. It computes the shape of the result only if the shape of the input and the target
// shape are known.
func reshape(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	out := value{bound: n.in[0].bound}
	target, ok := n.ints(1)
	from := n.in[0].shape
	if !ok || from == nil || n.integer("allowzero", 0) != 0 {
		return out, nil
	}
	left, open := elements(from), -1
	for i, size := range target {
		if size == 0 && i < len(from) {
			size = from[i]
		}
		if size < 0 {
			open, size = i, 1
		}
		if size == 0 || left%size != 0 {
			return value{bound: out.bound}, nil
		}
		left /= size
		out.shape = append(out.shape, size)
	}
	if open >= 0 {
		out.shape[open] = left
	} else if left != 1 {
		out.shape = nil
	}
	return out, nil
}

func transpose(n node) (value, error) {
	out := value{bound: n.in[0].bound}
	s := n.in[0].shape
	perm := n.attribute("perm")
	if s == nil {
		return out, nil
	}
	for i := range s {
		from := len(s) - 1 - i
		if perm != nil && i < len(perm.Ints) {
			from = int(perm.Ints[i])
		}
		if from < 0 || from >= len(s) {
			return value{}, n.refuse("axis %d", from)
		}
		out.shape = append(out.shape, s[from])
	}
	return out, nil
}

// The rule 'pad' is for paddings with constants. It refuses the other modes, because they repeat elements.
func pad(n node) (value, error) {
	if a := n.attribute("mode"); a != nil && string(a.S) != "constant" {
		return value{}, n.refuse("mode %s", a.S)
	}
	return moved(n)
}

// The method 'broadcast' returns the shape of the result of a node whose inputs are broadcast. If an input depends on
// the model's input, broadcast refuses to repeat it, because a repetition multiplies the Lipschitz constant.
func (n node) broadcast() ([]int64, error) {
	var shape []int64
	for _, v := range n.in {
		if v.shape == nil {
			return nil, n.refuse("a shape is not known")
		}
		if len(v.shape) > len(shape) {
			shape = append(slices.Repeat([]int64{1}, len(v.shape)-len(shape)), shape...)
		}
		for i, size := range v.shape {
			if at := len(shape) - len(v.shape) + i; shape[at] == 1 {
				shape[at] = size
			}
		}
	}
	for _, v := range n.in {
		if v.bound > 0 && elements(v.shape) != elements(shape) {
			return nil, n.refuse("an input is %w", errRepeated)
		}
	}
	return shape, nil
}

// sum is the rule of Add, Sub and Sum: ‖a+b‖ ≤ ‖a‖ + ‖b‖.
func sum(n node) (value, error) {
	shape, err := n.broadcast()
	out := value{shape: shape}
	for _, v := range n.in {
		out.bound = (out.bound + v.bound) * up
	}
	return out, err
}

// The rule 'multiply' is for products with a constant.
func multiply(n node) (value, error) { return n.scaleBy(0, 1, func(x float64) float64 { return x }) }

func divide(n node) (value, error) {
	if n.in[1].bound > 0 {
		return value{}, n.refuse("the divisor depends on the input of the model")
	}
	return n.scaleBy(1, 1, func(x float64) float64 { return 1 / x })
}

// scaleBy is for nodes that multiply one input by factors, element by element. The other input must be a constant, and
// the function 'factor' turns each element of this constant into a factor. The bound of the result is the bound of the
// multiplied input times the largest absolute factor. The constant must be one of the inputs from 'first' to 'last'.
func (n node) scaleBy(first, last int, factor func(float64) float64) (value, error) {
	for k := first; k <= last; k++ {
		if n.in[k].bound > 0 || n.in[1-k].bound == 0 {
			continue
		}
		shape, err := n.broadcast()
		if err != nil {
			return value{}, err
		}
		numbers, err := n.floats(k)
		if err != nil {
			return value{}, err
		}
		for i := range numbers {
			numbers[i] = factor(numbers[i])
		}
		return value{shape: shape, bound: n.in[1-k].bound * largest(numbers) * up}, nil
	}
	return value{}, n.refuse("both factors depend on the input of the model")
}

// concat is the rule of Concat. The squared norm of the result is the sum of the squared norms of the inputs.
func concat(n node) (value, error) {
	out := value{}
	for _, v := range n.in {
		out.bound = math.Hypot(out.bound, v.bound) * up
	}
	axis := n.axis(0)
	for k, v := range n.in {
		switch {
		case v.shape == nil || axis < 0 || axis >= int64(len(v.shape)):
			return value{bound: out.bound}, nil
		case k == 0:
			out.shape = slices.Clone(v.shape)
		default:
			out.shape[axis] += v.shape[axis]
		}
	}
	return out, nil
}

// gemm is the rule of αA·B + βC. Transposition does not change a norm.
func gemm(n node) (value, error) {
	for k := range 2 {
		if n.in[1-k].bound > 0 {
			continue
		}
		factor, err := n.matrixNorm(1 - k)
		if err != nil {
			return value{}, err
		}
		out := value{bound: n.in[k].bound * factor * math.Abs(n.number("alpha", 1)) * up}
		out.shape = n.gemmShape()
		if len(n.in) > 2 && n.in[2].bound > 0 {
			c := n.in[2]
			if c.shape == nil || out.shape == nil || elements(c.shape) != elements(out.shape) {
				return value{}, n.refuse("input 2 is %w", errRepeated)
			}
			out.bound = (out.bound + c.bound*math.Abs(n.number("beta", 1))*up) * up
		}
		return out, nil
	}
	return value{}, n.refuse("both factors depend on the input of the model")
}

// gemmShape returns the shape of the result, or nil.
func (n node) gemmShape() []int64 {
	a, b := n.in[0].shape, n.in[1].shape
	if len(a) != 2 || len(b) != 2 {
		return nil
	}
	return []int64{a[n.integer("transA", 0)&1], b[1-n.integer("transB", 0)&1]}
}

// matMul is the rule of a product with a stored matrix or vector. If the input is a stack of matrices, the product is
// computed for each matrix of the stack. The bound is then the same.
func matMul(n node) (value, error) {
	for k := range 2 {
		if n.in[1-k].bound > 0 {
			continue
		}
		factor, err := n.matrixNorm(1 - k)
		if err != nil {
			return value{}, err
		}
		out := value{bound: n.in[k].bound * factor * up}
		if a, b := n.in[0].shape, n.in[1].shape; len(a) >= 2 && len(b) == 2 {
			out.shape = append(slices.Clone(a[:len(a)-1]), b[1])
		} else if len(a) == 2 && len(b) > 2 {
			out.shape = slices.Clone(b)
			out.shape[len(b)-2] = a[0]
		}
		return out, nil
	}
	return value{}, n.refuse("both factors depend on the input of the model")
}

// matrixNorm returns the spectral norm of a stored matrix or vector.
func (n node) matrixNorm(k int) (float64, error) {
	v, err := n.floats(k)
	if err != nil {
		return 0, err
	}
	switch d := n.in[k].tensor.Dims; len(d) {
	case 1:
		return SpectralNorm(1, len(v), v), nil
	case 2:
		return SpectralNorm(int(d[0]), int(d[1]), v), nil
	}
	return 0, n.refuse("input %d has more than two dimensions", k)
}

// conv is the rule of Conv and ConvTranspose. A ConvTranspose is the adjoint of the Conv with the same weights, so it
// has the same norm (see Convolution.Norm).
func conv(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	w, err := n.floats(1)
	if err != nil {
		return value{}, err
	}
	d := n.in[1].tensor.Dims
	groups := n.integer("group", 1)
	if len(d) < 3 || groups < 1 || d[0]%groups != 0 || len(w) == 0 {
		return value{}, n.refuse("the weights have the shape %v, for %d groups", d, groups)
	}
	c := Convolution{Out: int(d[0] / groups), In: int(d[1]), Groups: int(groups), Weights: w}
	axes := len(d) - 2
	for _, k := range d[2:] {
		c.Kernel = append(c.Kernel, int(k))
	}
	if c.Strides, err = n.sizes("strides", axes, 1); err != nil {
		return value{}, err
	}
	if c.Dilations, err = n.sizes("dilations", axes, 1); err != nil {
		return value{}, err
	}
	out := value{shape: n.window(c.Kernel, c.Strides, c.Dilations)}
	if n.GetOpType() == "ConvTranspose" {
		out.shape = nil
	}
	if out.shape != nil {
		out.shape[1] = d[0]
		c.Single = !slices.ContainsFunc(out.shape[2:], func(size int64) bool { return size != 1 })
	}
	out.bound = n.in[0].bound * c.Norm() * up
	return out, nil
}

// window returns the shape of the result of a convolution or pooling, but keeps the number of channels of the input. It
// returns nil if the shape is not known.
func (n node) window(kernel, strides, dilations []int) []int64 {
	s := n.in[0].shape
	auto := n.attribute("auto_pad")
	if len(s) != len(kernel)+2 || auto != nil && string(auto.S) != "NOTSET" && string(auto.S) != "VALID" || n.integer("ceil_mode", 0) != 0 {
		return nil
	}
	out := slices.Clone(s)
	for i := range kernel {
		size := s[i+2]
		if pads := n.attribute("pads"); pads != nil {
			if len(pads.Ints) != 2*len(kernel) {
				return nil
			}
			size += pads.Ints[i] + pads.Ints[i+len(kernel)]
		}
		out[i+2] = (size-int64((kernel[i]-1)*dilations[i])-1)/int64(strides[i]) + 1
	}
	return out
}

// pool returns the sizes of a pooling window.
func (n node) pool() (kernel, strides, dilations []int, err error) {
	k := n.attribute("kernel_shape")
	if k == nil {
		return nil, nil, nil, n.refuse("no kernel_shape")
	}
	if len(k.Ints) == 0 {
		return nil, nil, nil, n.refuse("kernel_shape has no numbers")
	}
	if kernel, err = n.sizes("kernel_shape", len(k.Ints), 1); err != nil {
		return nil, nil, nil, err
	}
	if strides, err = n.sizes("strides", len(kernel), 1); err != nil {
		return nil, nil, nil, err
	}
	dilations, err = n.sizes("dilations", len(kernel), 1)
	return kernel, strides, dilations, err
}

// maxPool is the rule of MaxPool. In each window |max x − max y|² ≤ max|x−y|² ≤ Σ|x−y|², and each position is in at
// most r windows. So the constant is at most √r. See Convolution.Norm for r.
func maxPool(n node) (value, error) {
	kernel, strides, dilations, err := n.pool()
	if err != nil {
		return value{}, err
	}
	r := Convolution{Kernel: kernel, Strides: strides, Dilations: dilations}.overlap()
	return value{shape: n.window(kernel, strides, dilations), bound: n.in[0].bound * math.Sqrt(r) * up}, nil
}

// averagePool is the rule of AveragePool. On an axis with window size k and stride s, the means form a matrix with one
// row for each window. Its row sums are at most 1. Its column sums are at most ⌈k/s⌉/c. Each mean is a sum divided by a
// number, and c is the smallest of these numbers. By Schur's test, the norm of this matrix is at most the square root
// of the product of the two bounds. The norm of the whole operator is the product of the norms for the axes.
func averagePool(n node) (value, error) {
	kernel, strides, dilations, err := n.pool()
	if err != nil {
		return value{}, err
	}
	if n.integer("ceil_mode", 0) != 0 || slices.Max(dilations) != 1 {
		return value{}, n.refuse("ceil_mode or dilations")
	}
	squared := 1.0
	for i, k := range kernel {
		least := k
		if n.integer("count_include_pad", 0) == 0 {
			least = max(1, k-n.padding(i, k, len(kernel)))
		}
		squared *= float64((k+strides[i]-1)/strides[i]) / float64(least) * up
	}
	return value{shape: n.window(kernel, strides, dilations), bound: n.in[0].bound * math.Sqrt(squared) * up}, nil
}

// padding returns the largest number of padded positions in a window on an axis.
func (n node) padding(axis, kernel, axes int) int {
	if a := n.attribute("auto_pad"); a != nil && (string(a.S) == "SAME_UPPER" || string(a.S) == "SAME_LOWER") {
		return kernel - 1
	}
	if pads := n.attribute("pads"); pads != nil && len(pads.Ints) == 2*axes {
		return int(pads.Ints[axis] + pads.Ints[axis+axes])
	}
	return 0
}

func globalMaxPool(n node) (value, error) { return n.globalPool(1), nil }

// globalAveragePool is the rule of GlobalAveragePool. The linear function that takes the mean of m numbers has the norm
// 1/√m.
func globalAveragePool(n node) (value, error) {
	if len(n.in[0].shape) < 3 {
		return value{}, n.refuse("the shape is not known")
	}
	return n.globalPool(1 / math.Sqrt(float64(elements(n.in[0].shape[2:])))), nil
}

func (n node) globalPool(factor float64) value {
	out := n.times(factor)
	if out.shape = slices.Clone(out.shape); len(out.shape) > 2 {
		for i := range out.shape[2:] {
			out.shape[2+i] = 1
		}
	}
	return out
}

// reduceMean is the rule of ReduceMean. See globalAveragePool.
func reduceMean(n node) (value, error) {
	s := n.in[0].shape
	axes, ok := n.ints(1)
	if a := n.attribute("axes"); a != nil {
		axes, ok = a.Ints, true
	}
	if !ok || len(axes) == 0 || s == nil {
		return value{}, n.refuse("the axes or the shape are not known")
	}
	count, keep := int64(1), n.integer("keepdims", 1) == 1
	out := slices.Clone(s)
	for _, a := range axes {
		if a < 0 {
			a += int64(len(s))
		}
		if a < 0 || a >= int64(len(s)) || out[a] < 0 {
			return value{}, n.refuse("axis %d", a)
		}
		count *= s[a]
		out[a] = -1
	}
	var shape []int64
	for _, size := range out {
		switch {
		case size >= 0:
			shape = append(shape, size)
		case keep:
			shape = append(shape, 1)
		}
	}
	return value{shape: shape, bound: n.in[0].bound / math.Sqrt(float64(count)) * up}, nil
}

// batchNorm is the rule of BatchNormalization, which multiplies channel c by scale_c/√(variance_c + ε).
func batchNorm(n node) (value, error) {
	if err := n.constants(1); err != nil {
		return value{}, err
	}
	// Before version 14 of BatchNormalization, a node with more than one output is in training mode.
	further := slices.ContainsFunc(n.Output[1:], func(name string) bool { return name != "" })
	if further || n.integer("training_mode", 0) != 0 || n.integer("spatial", 1) != 1 || n.integer("is_test", 1) != 1 {
		return value{}, n.refuse("it is in training mode, or normalises each position")
	}
	scale, err := n.floats(1)
	if err != nil {
		return value{}, err
	}
	variance, err := n.floats(4)
	if err != nil {
		return value{}, err
	}
	if len(scale) != len(variance) {
		return value{}, n.refuse("%d scales, %d variances", len(scale), len(variance))
	}
	epsilon := n.number("epsilon", float64(float32(1e-5)))
	for i := range scale {
		scale[i] /= math.Sqrt(variance[i] + epsilon)
	}
	return n.times(largest(scale)), nil
}

// The function 'largest' returns the largest absolute value, or +∞ if a number is not finite.
func largest(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.Inf(1)
		}
		most = max(most, math.Abs(v))
	}
	return most
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, size := range shape {
		n *= size
	}
	return n
}
