package grad

import "slices"

// conv is the rule of convolutions with constant weights.
func conv(t *tape, n *node) error {
	x, weights := n.input(0), n.input(1)
	shape := t.shape(weights)
	w := windowOf(n, shape[2:], t.shape(x)[2:], t.shape(n.output())[2:])
	t.give(n, 0, func() string { return t.spread(x, n.d[0], weights, shape, w, n.integer("group", 1)) })
	t.give(n, 2, func() string { // the bias has one number for each channel
		sum := t.sum(n.d[0], append([]int64{0}, upTo(len(t.shape(x)))[2:]...)...)
		return t.reshapeTo(sum, n.input(2))
	})
	return nil
}

// convTranspose is the rule of transposed convolutions. The gradient in the input is a convolution with the same
// weights.
func convTranspose(t *tape, n *node) error {
	weights := n.input(1)
	kernel := t.shape(weights)[2:]
	in, out := t.shape(n.input(0))[2:], t.shape(n.output())[2:]
	w := windowOf(n, kernel, out, in) // input and output exchange their roles
	if n.attribute("output_shape") != nil || n.text("auto_pad", "NOTSET") != "NOTSET" {
		return n.refuse("no gradient is known where the size of the result is given")
	}
	t.give(n, 0, func() string {
		after := slices.Clone(w.after)
		for i := range after { // with this padding, the last window ends where the padded gradient ends
			after[i] = w.strides[i]*(in[i]-1) + w.span[i] - out[i] - w.before[i]
		}
		w.after = after
		return t.convolve(n.input(0), n.d[0], weights, w, n.integer("group", 1))
	})
	return nil
}
