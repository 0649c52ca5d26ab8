package grad

import (
	"slices"
)

// This file holds the rules of normalisations. Their scales and shifts are constants.

// batchNormalization is the rule of BatchNormalization in inference mode. It scales the gradient by one number for each
// channel.
func batchNormalization(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	if n.integer("training_mode", 0) != 0 || len(n.Output) > 1 {
		return n.refuse("no gradient is known in training mode")
	}
	t.give(n, 0, func() string {
		scale, variance := n.input(1), n.input(4)
		sd := t.Op("Sqrt", t.Op("Add", variance, t.numberFor(variance, n.float("epsilon", 1e-5))))
		factor := t.Op("Div", scale, sd)
		if t.types[scale] != t.types[x] {
			factor = t.Cast(factor, t.floatType(x))
		}
		return t.mul(n.d[0], t.reshape(factor, t.perChannel(xs)))
	})
	return nil
}

// perChannel returns the shape [1, −1, 1, …] of a tensor that holds one number for each channel.
func (t *tape) perChannel(shape []int64) []int64 {
	ones := slices.Repeat([]int64{1}, len(shape))
	ones[1] = -1
	return ones
}

// standardise adds nodes that compute h = (x − mean)/sd and 1/sd, where sd² = variance + epsilon. Mean and variance are
// taken over the axes.
func (t *tape) standardise(v, x string, axes []int64, epsilon float64) (h, inverse string) {
	centred := t.Op("Sub", x, t.mean(x, axes...))
	variance := t.mean(t.mul(centred, centred), axes...)
	inverse = t.Op("Reciprocal", t.Op("Sqrt", t.Op("Add", variance, t.numberFor(v, epsilon))))
	return t.mul(centred, inverse), inverse
}

// standardiseSlope adds nodes that compute the gradient in x (see standardise). This gradient is (e − mean(e) −
// h·mean(e·h))/sd, where e is the gradient in h.
func (t *tape) standardiseSlope(e, h, inverse string, axes []int64) string {
	along := t.mul(h, t.mean(t.mul(e, h), axes...))
	return t.mul(inverse, t.Op("Sub", t.Op("Sub", e, t.mean(e, axes...)), along))
}

// layerNormalization is the rule of a normalisation over the last axes.
func layerNormalization(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	axes := upTo(len(xs))[axis(n.integer("axis", -1), len(xs)):]
	t.give(n, 0, func() string {
		h, inverse := t.standardise(x, x, axes, n.float("epsilon", 1e-5))
		return t.standardiseSlope(t.mul(n.d[0], n.input(1)), h, inverse, axes)
	})
	return nil
}

// rmsNormalization is the rule of h·scale, where h = x/√(mean(x²) + ε). The gradient in x is (e −
// h·mean(e·h))/√(mean(x²) + ε), where e is the gradient in h.
func rmsNormalization(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	axes := upTo(len(xs))[axis(n.integer("axis", -1), len(xs)):]
	t.give(n, 0, func() string {
		square := t.mean(t.mul(x, x), axes...)
		inverse := t.Op("Reciprocal", t.Op("Sqrt", t.Op("Add", square, t.numberFor(x, n.float("epsilon", 1e-5)))))
		h, e := t.mul(x, inverse), t.mul(n.d[0], n.input(1))
		return t.mul(inverse, t.Op("Sub", e, t.mul(h, t.mean(t.mul(e, h), axes...))))
	})
	return nil
}

// groupNormalization is the rule of a normalisation over groups of channels. In InstanceNormalization each group is one
// channel. From operator set 21 on, the scale has one number for each channel. In older operator sets,
// GroupNormalization's scale has one number for each group.
func groupNormalization(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	groups := n.integer("num_groups", xs[1])
	rows := []int64{xs[0], groups, product(xs[1:]) / groups}
	t.give(n, 0, func() string {
		scale, e := n.input(1), n.d[0]
		if product(t.shape(scale)) == xs[1] {
			e = t.reshape(t.mul(e, t.reshape(scale, t.perChannel(xs))), rows)
		} else {
			e = t.mul(t.reshape(e, rows), t.reshape(scale, []int64{1, groups, 1}))
		}
		axes := []int64{2}
		h, inverse := t.standardise(x, t.reshape(x, rows), axes, n.float("epsilon", 1e-5))
		return t.reshape(t.standardiseSlope(e, h, inverse, axes), xs)
	})
	return nil
}

// lpNormalization is the rule of y = x/‖x‖ along an axis. The gradient in x is (d − g·Σ d·y)/‖x‖, where d is the
// gradient in y and g is the gradient of the norm. For the Euclidean norm g is y, and for the sum of magnitudes g holds
// the signs of x.
func lpNormalization(t *tape, n *node) error {
	x, y, d := n.input(0), n.output(), n.d[0]
	along := int64(axis(n.integer("axis", -1), len(t.shape(x))))
	t.give(n, 0, func() string {
		norm, g := "ReduceL2", y
		if n.integer("p", 2) == 1 {
			norm, g = "ReduceL1", t.Op("Sign", x)
		}
		return t.Op("Div", t.Op("Sub", d, t.mul(g, t.sum(t.mul(d, y), along))), t.reduce(norm, x, []int64{along}, true))
	})
	return nil
}

// localResponse is the gradient rule of the function y = x/s^β with s = bias + α/size·Σ x², where the sum runs over a
// window of channels. The gradient in x is d·s^−β − 2αβ/size·x·Σ d·x·s^(−β−1), where d is the gradient in y. The second
// sum runs over the channels whose windows contain the channel of x.
func localResponse(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	size, alpha, beta := n.integer("size", 1), n.float("alpha", 1e-4), n.float("beta", .75)
	t.give(n, 0, func() string {
		channels := xs[1]
		// ONNX Runtime accepts only windows of odd size, so this band matrix is symmetric.
		band := make([]float64, channels*channels)
		for c := range channels {
			for k := max(0, c-size/2); k <= min(channels-1, c+size/2); k++ {
				band[c*channels+k] = 1
			}
		}
		images := []int64{xs[0], channels, 1, product(xs[2:])}
		over := func(v string) string {
			sums := t.Op("Conv", t.reshape(v, images), t.numbers(x, []int64{channels, channels, 1, 1}, band...))
			return t.reshape(sums, xs)
		}
		s := t.Op("Add", t.scale(x, over(t.mul(x, x)), alpha/float64(size)), t.numberFor(x, n.float("bias", 1)))
		direct := t.mul(n.d[0], t.Op("Pow", s, t.numberFor(x, -beta)))
		shared := over(t.mul(n.d[0], t.mul(x, t.Op("Pow", s, t.numberFor(x, -beta-1)))))
		return t.Op("Sub", direct, t.scale(x, t.mul(x, shared), 2*alpha*beta/float64(size)))
	})
	return nil
}
