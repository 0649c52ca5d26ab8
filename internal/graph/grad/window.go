package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// The type 'window' describes, for each spatial axis, the windows of a convolution or a pooling operator. Window j
// begins at element stride·j of the padded input. Relative to this element, the window covers the elements 0, dilation,
// 2·dilation, …, dilation·(kernel−1).
type window struct {
	kernel, strides, dilations []int64
	span                       []int64 // dilation·(kernel−1) + 1
	before, after              []int64 // padding
	in, out                    []int64 // spatial sizes of the input and the result
}

// windowOf reads a node's windows from its attributes. The arguments 'kernel', 'in' and 'out' are the spatial sizes of
// the kernel, the input and the result.
func windowOf(n *node, kernel, in, out []int64) window {
	rank := len(kernel)
	w := window{kernel: kernel, strides: n.list("strides", rank, 1), dilations: n.list("dilations", rank, 1), in: in, out: out}
	for i, k := range kernel {
		w.span = append(w.span, w.dilations[i]*(k-1)+1)
	}
	w.before, w.after = make([]int64, rank), make([]int64, rank)
	switch auto := n.text("auto_pad", "NOTSET"); auto {
	case "SAME_UPPER", "SAME_LOWER":
		for i := range kernel {
			total := max(0, w.strides[i]*(out[i]-1)+w.span[i]-in[i])
			w.before[i] = total / 2
			if auto == "SAME_LOWER" {
				w.before[i] = total - total/2
			}
			w.after[i] = total - w.before[i]
		}
	case "NOTSET":
		pads := n.list("pads", 2*rank, 0)
		w.before, w.after = pads[:rank], pads[rank:]
	}
	return w
}

// The method 'uniform' reports whether all strides equal s and all dilations are 1.
func (w window) uniform(s int64) bool {
	return !slices.ContainsFunc(w.strides, func(x int64) bool { return x != s }) && !slices.ContainsFunc(w.dilations, func(x int64) bool { return x != 1 })
}

// The method 'apart' reports whether no two windows overlap.
func (w window) apart() bool {
	for i, s := range w.strides {
		if s < w.span[i] {
			return false
		}
	}
	return true
}

// The method 'spread' adds nodes that compute the gradient in the input of a convolution with weights [M, C/g,
// kernel…]. The argument 'd' is the gradient in the convolution's result and has the shape [N, M, out…]. Each element
// of d belongs to one window of input elements. The nodes add the products of this element and the weights to the
// gradients in these input elements. Together, these products and sums form another convolution, which is applied to d.
// Its kernel is the original kernel, reversed, with the two channel axes exchanged in each group. If the weights are
// constant, ONNX Runtime computes this kernel only once, when it opens the graph. The argument 'v' names the
// convolution's input. The result has the same element type as gradients with respect to v (see floatType).
func (t *tape) spread(v, d, weights string, shape []int64, w window, groups int64) string {
	s := w.strides[0]
	switch {
	case slices.Max(w.strides) == 1:
		return t.spreadDensely(v, d, weights, shape, w, groups)
	case len(w.kernel) == 2 && w.uniform(s) && slices.Max(w.kernel) > 1:
		return t.spreadByPhase(v, d, weights, shape, w, groups)
	}
	channels := shape[0]
	d, w = t.insertZeros(v, d, channels, w), w.dense()
	return t.spreadDensely(v, d, weights, shape, w, groups)
}

// The method 'dense' returns a copy of w with stride 1. The copy's field 'out' holds the sizes of d after insertZeros
// has put zeros between the elements of d.
func (w window) dense() window {
	out := slices.Clone(w.out)
	for i, s := range w.strides {
		out[i] = s*(out[i]-1) + 1
	}
	w.out, w.strides = out, slices.Repeat([]int64{1}, len(out))
	return w
}

// insertZeros adds nodes that put stride−1 zeros between the elements of d along each spatial axis. The nodes multiply
// each element by a mask whose first value is 1 and whose other values are 0.
func (t *tape) insertZeros(v, d string, channels int64, w window) string {
	split, mask := []int64{-1, channels}, []int64{1, 1}
	joined, starts, ends, axes := []int64{-1, channels}, []int64{}, []int64{}, []int64{}
	for i, s := range w.strides {
		split, mask, joined = append(split, w.out[i], 1), append(mask, 1, s), append(joined, w.out[i]*s)
		starts, ends, axes = append(starts, 0), append(ends, s*(w.out[i]-1)+1), append(axes, int64(2+i))
	}
	first := make([]float64, product(mask))
	first[0] = 1
	d = t.mul(t.reshape(d, split), t.numbers(v, mask, first...))
	return t.slice(t.reshape(d, joined), starts, ends, axes)
}

// spreadDensely does the work of spread for stride 1.
func (t *tape) spreadDensely(v, d, weights string, shape []int64, w window, groups int64) string {
	rank := len(w.kernel)
	turned := weights
	for i, k := range w.kernel {
		turned = t.reverse(turned, 2+i, k)
	}
	m, c := shape[0]/groups, shape[1]
	inner := make([]int64, rank)
	for i := range inner {
		inner[i] = int64(3 + i)
	}
	split := append([]int64{groups, m, c}, w.kernel...)
	turned = t.transpose(t.reshape(turned, split), append([]int64{0, 2, 1}, inner...))
	turned = t.reshape(turned, append([]int64{groups * c, m}, w.kernel...))
	before, after := make([]int64, rank), make([]int64, rank)
	for i := range before { // with this padding, the result has the same size as the input of the original convolution
		before[i] = w.span[i] - 1 - w.before[i]
		after[i] = w.in[i] + w.span[i] - 1 - w.out[i] - before[i]
	}
	return t.convolve(v, d, turned, window{strides: w.strides, dilations: w.dilations, before: before, after: after}, groups)
}

// The method 'convolve' adds a convolution of d over the windows w. Negative padding crops d.
func (t *tape) convolve(v, d, weights string, w window, groups int64) string {
	cropBefore, cropAfter := []int64{0, 0}, []int64{0, 0}
	var pads []int64
	for _, p := range w.before {
		cropBefore, pads = append(cropBefore, min(0, p)), append(pads, max(0, p))
	}
	for _, p := range w.after {
		cropAfter, pads = append(cropAfter, min(0, p)), append(pads, max(0, p))
	}
	d = t.pad(v, d, cropBefore, cropAfter)
	return t.Node("Conv", []string{d, weights}, graph.IntAttribute("group", groups), graph.IntsAttribute("pads", pads),
		graph.IntsAttribute("strides", w.strides), graph.IntsAttribute("dilations", w.dilations))
}

// spreadByPhase does the work of spread for images if the stride is s along both axes. For the element s·a + r of the
// padded input, with 0 ≤ r < s, the gradient along one axis is
//
//	dx[s·a + r] = Σ_t weights[r + s·t]·d[a − t].
//
// For each of the s² phases r this is a convolution of stride 1. Together, the phases are one convolution with s² times
// as many channels. interleave then moves the values from the channels to their pixels. Another method would put zeros
// between the elements of d (see insertZeros) and then apply one convolution. It would need s² times as many
// multiplications. The gradient in the padding is not needed. For each index a there are s elements s·a + r. If all of
// them are in the padding, the nodes omit this index.
func (t *tape) spreadByPhase(v, d, weights string, shape []int64, w window, groups int64) string {
	s := w.strides[0]
	m, c := shape[0]/groups, shape[1]
	taps, before, after, fill := make([]int64, 2), make([]int64, 2), make([]int64, 2), []int64{0, 0}
	rows, cropBefore, cropAfter := make([]int64, 2), []int64{0, 0}, []int64{0, 0}
	for i, k := range w.kernel {
		taps[i] = (k + s - 1) / s
		fill = append(fill, s*taps[i]-k)
		first, end := w.before[i]/s, (w.before[i]+w.in[i]+s-1)/s
		rows[i] = end - first
		before[i], after[i] = taps[i]-1-first, end-w.out[i]
		cropBefore = append(cropBefore, s*first-w.before[i])
		cropAfter = append(cropAfter, w.before[i]+w.in[i]-s*end)
	}
	turned := t.pad(v, weights, make([]int64, 4), fill)
	turned = t.reshape(turned, []int64{groups, m, c, taps[0], s, taps[1], s})
	turned = t.reverse(t.reverse(turned, 3, taps[0]), 5, taps[1])
	turned = t.transpose(turned, []int64{0, 2, 4, 6, 1, 3, 5})
	turned = t.reshape(turned, []int64{groups * c * s * s, m, taps[0], taps[1]})
	ones := []int64{1, 1}
	phases := t.convolve(v, d, turned, window{strides: ones, dilations: ones, before: before, after: after}, groups)
	return t.pad(v, t.interleave(phases, groups*c, s, rows), cropBefore, cropAfter)
}

// The method 'interleave' adds nodes that do the same as DepthToSpace in mode CRD. These nodes exchange neighbouring
// axes twice. On ONNX Runtime's CPU provider the two exchanges take half the time of DepthToSpace.
func (t *tape) interleave(phases string, channels, s int64, rows []int64) string {
	height, width := rows[0], rows[1]
	x := t.transpose(t.reshape(phases, []int64{-1, s, height * width}), []int64{0, 2, 1}) // interleaves the columns
	x = t.transpose(t.reshape(x, []int64{-1, s, height, width * s}), []int64{0, 2, 1, 3}) // interleaves the rows
	return t.reshape(x, []int64{-1, channels, height * s, width * s})
}
