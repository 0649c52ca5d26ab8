package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of pooling operators.

// averagePool distributes the gradient in each average evenly over the elements of the average's window.
func averagePool(t *tape, n *node) error {
	x := n.input(0)
	xs, ys := t.shape(x), t.shape(n.output())
	w := windowOf(n, n.list("kernel_shape", 0, 0), xs[2:], ys[2:])
	t.give(n, 0, func() string {
		d := t.mul(n.d[0], t.numbers(x, append([]int64{1, 1}, w.out...), w.shares(n.integer("count_include_pad", 0) != 0)...))
		ones := slices.Repeat([]float64{1}, int(product(w.kernel)))
		kernel := t.numbers(x, append([]int64{1, 1}, w.kernel...), ones...)
		shape := append([]int64{xs[1], 1}, w.kernel...)
		return t.spread(x, d, t.expand(kernel, shape), shape, w, xs[1])
	})
	return nil
}

// The method 'shares' returns 1/n for each window, where n is the number of elements that the window averages. The
// window averages its elements in the input. If the argument 'padded' is true, it also averages its elements in the
// padding. Elements beyond the padding never count.
func (w window) shares(padded bool) []float64 {
	shares := []float64{1}
	for i, n := range w.out {
		low, high := w.before[i], w.before[i]+w.in[i]
		if padded {
			low, high = 0, high+w.after[i]
		}
		var next []float64
		for _, share := range shares {
			for j := range n {
				count := 0
				for k := range w.kernel[i] {
					if at := w.strides[i]*j + w.dilations[i]*k; at >= low && at < high {
						count++
					}
				}
				next = append(next, share/float64(count))
			}
		}
		shares = next
	}
	return shares
}

// globalPool is the rule of the mean or the maximum over all pixels.
func globalPool(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	places := upTo(len(xs))[2:]
	t.give(n, 0, func() string {
		if n.GetOpType() == "GlobalMaxPool" {
			return t.shareExtremes(x, n.output(), n.d[0], places)
		}
		return t.expand(t.scale(x, n.d[0], 1/float64(product(xs[2:]))), xs)
	})
	return nil
}

// maxPool passes the gradient in each maximum to the element that has the maximum. If several elements equal the
// maximum, the first of them gets the gradient. MaxPool's second output gives the index of this element.
func maxPool(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	w := windowOf(n, n.list("kernel_shape", 0, 0), xs[2:], t.shape(n.output())[2:])
	if n.integer("storage_order", 0) != 0 {
		return n.refuse("no gradient is known for indices column by column")
	}
	if len(n.Output) == 1 {
		n.Output = append(n.Output, t.name())
	}
	t.give(n, 0, func() string {
		if !w.apart() && t.opset < 16 {
			return t.spreadChosen(n, w)
		}
		d, half := n.d[0], t.floatType(x) == graph.Float16
		if half { // ScatterElements cannot add float16 numbers in ONNX Runtime's CPU provider
			d = t.Cast(d, graph.Float32)
		}
		of := t.floatType(x)
		if half {
			of = graph.Float32
		}
		indices := t.reshape(n.Output[1], []int64{-1})
		d = t.scatter(t.zeros(of, []int64{product(xs)}), indices, t.reshape(d, []int64{-1}), 0, !w.apart())
		if half {
			d = t.Cast(d, graph.Float16)
		}
		return t.reshape(d, xs)
	})
	return nil
}

// spreadChosen adds nodes that compute maxPool's gradient for overlapping windows. It serves operator sets in which
// ScatterElements cannot add. For each position in the window, a mask marks the windows whose maximum is at this
// position. A convolution then moves the masked gradients to the positions of the maxima in the input.
func (t *tape) spreadChosen(n *node, w window) string {
	x, xs := n.input(0), t.shape(n.input(0))
	batch, channels, places := xs[0], xs[1], product(w.kernel)
	row := t.Op("Sub", n.Output[1], t.channelStarts(batch*channels, product(w.in), len(w.in), batch, channels)) // index within the channel
	var parts []string
	for place := range places {
		mask := t.Op("Equal", row, t.placeIndices(w, place))
		masked := t.masked(x, mask, n.d[0])
		parts = append(parts, t.reshape(masked, append([]int64{batch, channels, 1}, w.out...)))
	}
	d := t.reshape(t.Node("Concat", parts, graph.IntAttribute("axis", 2)), append([]int64{batch, channels * places}, w.out...))
	one := make([]float64, places*places)
	for place := range places {
		one[place*places+place] = 1
	}
	kernel := t.numbers(x, append([]int64{1, places, 1}, w.kernel...), one...)
	shape := append([]int64{channels * places, 1}, w.kernel...)
	weights := t.reshape(t.expand(kernel, append([]int64{channels, places, 1}, w.kernel...)), shape)
	return t.spread(x, d, weights, shape, w, channels)
}

// channelStarts adds a constant of shape [N, C, 1, …] that holds the flat index of each channel's first element.
func (t *tape) channelStarts(count, size int64, rank int, batch, channels int64) string {
	starts := make([]int64, count)
	for i := range starts {
		starts[i] = int64(i) * size
	}
	return t.reshape(t.Ints(starts...), append([]int64{batch, channels}, slices.Repeat([]int64{1}, rank)...))
}

// placeIndices adds a constant of shape [1, 1, out…]. The argument 'place' is the number of a position in a window. For
// each window, the constant holds the index of the element at this position. The index counts from the channel's first
// element. An element in the padding has the index −1.
func (t *tape) placeIndices(w window, place int64) string {
	indices := []int64{0}
	at := slices.Clone(w.kernel) // the position in the window along each axis
	for i := len(at) - 1; i >= 0; i-- {
		at[i], place = place%at[i], place/at[i]
	}
	for i, n := range w.out {
		var next []int64
		for _, index := range indices {
			for j := range n {
				k := w.strides[i]*j + w.dilations[i]*at[i] - w.before[i]
				if index < 0 || k < 0 || k >= w.in[i] {
					next = append(next, -1)
				} else {
					next = append(next, index*w.in[i]+k)
				}
			}
		}
		indices = next
	}
	return t.reshape(t.Ints(indices...), append([]int64{1, 1}, w.out...))
}
