package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// conv is the rule of convolutions with constant weights.
func conv(t *tape, n *node) error {
	x, weights := n.in(0), n.in(1)
	if t.depends[weights] {
		return n.refuse("no gradient is known in weights that depend on the data")
	}
	shape := t.shape(weights)
	w := windowOf(n, shape[2:], t.shape(x)[2:], t.shape(n.out())[2:])
	t.give(n, 0, func() string { return t.spread(x, n.d[0], weights, shape, w, n.integer("group", 1)) })
	t.give(n, 2, func() string { // one number for each channel
		sum := t.sum(n.d[0], append([]int64{0}, upTo(len(t.shape(x)))[2:]...)...)
		return t.reshapeTo(sum, n.in(2))
	})
	return nil
}

// convTranspose is the rule of transposed convolutions: the gradient in the input is a convolution with the weights as
// they are.
func convTranspose(t *tape, n *node) error {
	weights := n.in(1)
	if t.depends[weights] || t.depends[n.in(2)] {
		return n.refuse("no gradient is known in weights that depend on the data")
	}
	kernel := t.shape(weights)[2:]
	in, out := t.shape(n.in(0))[2:], t.shape(n.out())[2:]
	w := windowOf(n, kernel, out, in) // the roles exchanged
	if n.attribute("output_shape") != nil || n.text("auto_pad", "NOTSET") != "NOTSET" {
		return n.refuse("no gradient is known where the size of the result is given")
	}
	t.give(n, 0, func() string {
		after := slices.Clone(w.after)
		for i := range after { // the windows end where the last row of the input does
			after[i] = w.strides[i]*(in[i]-1) + w.span[i] - out[i] - w.before[i]
		}
		var pads []int64
		cropBefore, cropAfter := []int64{0, 0}, []int64{0, 0}
		for i := range kernel {
			pads = append(pads, max(0, w.before[i]))
			cropBefore, cropAfter = append(cropBefore, min(0, w.before[i])), append(cropAfter, min(0, after[i]))
		}
		for _, p := range after {
			pads = append(pads, max(0, p))
		}
		d := t.pad(n.in(0), n.d[0], cropBefore, cropAfter)
		return t.Node("Conv", []string{d, weights}, graph.IntAttribute("group", n.integer("group", 1)), graph.IntsAttribute("pads", pads),
			graph.IntsAttribute("strides", w.strides), graph.IntsAttribute("dilations", w.dilations))
	})
	return nil
}
