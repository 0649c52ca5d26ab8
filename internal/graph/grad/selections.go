package grad

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of operators that join, cut, select and pad.

// The rule 'concat' gives each input its piece of the gradient.
func concat(t *tape, n *node) error {
	t.divide(n, axis(n.integer("axis", 0), len(t.shape(n.output()))))
	return nil
}

// The method 'divide' cuts the gradient into pieces along one axis, and gives each input its piece. The argument
// 'along' is the axis.
func (t *tape) divide(n *node, along int) {
	start := int64(0)
	for k, v := range n.Input {
		end := start + t.shape(v)[along]
		from, axes := []int64{start}, []int64{int64(along)}
		t.give(n, k, func() string { return t.slice(n.d[0], from, []int64{end}, axes) })
		start = end
	}
}

// The rule 'split' joins the gradients with respect to the pieces. If no node uses a piece, the gradient in this piece
// consists of zeros.
func split(t *tape, n *node) error {
	t.give(n, 0, func() string {
		parts := slices.Clone(n.d)
		for k, d := range parts {
			if d == "" {
				parts[k] = t.zeros(t.floatType(n.input(0)), t.shape(n.Output[k]))
			}
		}
		along := axis(n.integer("axis", 0), len(t.shape(n.input(0))))
		return t.Node("Concat", parts, graph.IntAttribute("axis", int64(along)))
	})
	return nil
}

// Each element of the result of a Slice node is a copy of an element of the node's input. The rule 'slice' moves the
// gradient from the copy back to the original, axis by axis.
func slice(t *tape, n *node) error {
	x, xs, ys := n.input(0), t.shape(n.input(0)), t.shape(n.output())
	c, err := t.cutsOf(n)
	if err != nil {
		return err
	}
	t.give(n, 0, func() string {
		d, shape := n.d[0], slices.Clone(ys)
		for i, a := range c.axes {
			along := axis(a, len(xs))
			size := xs[along]
			indices := indicesOf(c.starts[i], c.ends[i], c.steps[i], size)
			if int64(len(indices)) == size && c.steps[i] == 1 {
				continue
			}
			d = t.selection(x, d, shape, along, indices, size)
			shape[along] = size
		}
		return d
	})
	return nil
}

// The type 'cuts' holds the parameters of Slice. The four lists have equal lengths.
type cuts struct{ starts, ends, axes, steps []int64 }

// cutsOf reads the parameters of Slice. From operator set 10 on, the parameters are inputs. In older operator sets they
// are attributes.
func (t *tape) cutsOf(n *node) (c cuts, err error) {
	if a := n.attribute("starts"); a != nil {
		c.starts = a.Ints
		c.ends = n.list("ends", len(c.starts), 0)
		if a := n.attribute("axes"); a != nil {
			c.axes = a.Ints
		}
	} else {
		for k, to := range []*[]int64{&c.starts, &c.ends, &c.axes, &c.steps} {
			if *to, err = t.integers(n, 1+k); err != nil {
				return c, err
			}
		}
	}
	if c.axes == nil {
		c.axes = upTo(len(c.starts))
	}
	if c.steps == nil {
		c.steps = slices.Repeat([]int64{1}, len(c.starts))
	}
	return c, nil
}

// indicesOf lists the indices start, start+step, … that Slice takes along an axis of the given size. The list stops
// before it reaches the argument 'end'.
func indicesOf(start, end, step, size int64) (indices []int64) {
	within := func(i, low, high int64) int64 {
		if i < 0 {
			i = max(i, math.MinInt64+size) + size
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		for i, stop := within(start, 0, size), within(end, 0, size); i < stop; i += step {
			indices = append(indices, i)
		}
		return indices
	}
	for i, stop := within(start, 0, size-1), within(end, -1, size-1); i > stop; i += step {
		indices = append(indices, i)
	}
	return indices
}

// The rule 'gather' sums the gradients in all copies of each element of the input.
func gather(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	indices, err := t.integers(n, 1)
	if err != nil {
		return err
	}
	along := axis(n.integer("axis", 0), len(xs))
	from := make([]int64, len(indices))
	for i, at := range indices {
		from[i] = int64(axis(at, int(xs[along])))
	}
	t.give(n, 0, func() string {
		flat := slices.Concat(xs[:along], []int64{int64(len(from))}, xs[along+1:])
		return t.selection(x, t.reshape(n.d[0], flat), flat, along, from, xs[along])
	})
	return nil
}

// The rule 'pad' crops the gradient. If the padding repeats elements, pad also adds the gradients in the repeated
// elements to the gradients in the original elements.
func pad(t *tape, n *node) error {
	x, xs, ys := n.input(0), t.shape(n.input(0)), t.shape(n.output())
	pads, err := t.integers(n, 1)
	if a := n.attribute("pads"); a != nil {
		pads = a.Ints
	}
	if err != nil {
		return err
	}
	axes, err := t.integers(n, 3)
	if err != nil {
		return err
	}
	if axes == nil {
		axes = upTo(len(xs))
	}
	source, known := paddings[n.text("mode", "constant")]
	if !known {
		return n.refuse("no gradient is known for the mode '%s'", n.text("mode", ""))
	}
	t.give(n, 0, func() string {
		d, shape := n.d[0], slices.Clone(ys)
		for i, a := range axes {
			along := axis(a, len(xs))
			low, high, size := pads[i], pads[i+len(axes)], xs[along]
			if low == 0 && high == 0 {
				continue
			}
			if source == nil {
				before, after := make([]int64, len(xs)), make([]int64, len(xs))
				before[along], after[along] = -low, -high
				d = t.pad(x, d, before, after)
			} else {
				indices := make([]int64, size+low+high)
				for j := range indices {
					indices[j] = source(int64(j)-low, size)
				}
				d = t.selection(x, d, shape, along, indices, size)
			}
			shape[along] = size
		}
		return d
	})
	return nil
}

// paddings maps each mode of the operator Pad to a function. The function gets an index i along the padded axis,
// counted from the first element of the input, so i can be negative. It returns the index of the element that is copied
// to i. The function is nil if the mode copies no elements.
var paddings = map[string]func(i, size int64) int64{
	"constant": nil,
	"edge":     func(i, size int64) int64 { return min(max(i, 0), size-1) },
	"reflect": func(i, size int64) int64 {
		if i < 0 {
			i = -i
		}
		if i >= size {
			i = 2*(size-1) - i
		}
		return i
	},
	"wrap": func(i, size int64) int64 { return (i + size) % size },
}
