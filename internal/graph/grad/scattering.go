package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of operators that read or write elements at given indices. Before operator set 16, no
// operator can add updates at given indices. For models of older operator sets, the rules of GatherElements and
// GatherND therefore require constant indices.

// addsAtIndices is the first operator set in which ScatterElements and ScatterND can add updates to elements.
const addsAtIndices = 16

// gatherElements is the rule of GatherElements. Each element of the result is a copy of an element of the input. The
// rule adds the gradient in the copy to the gradient in the original.
func gatherElements(t *tape, n *node) error {
	x, xs, is := n.input(0), t.shape(n.input(0)), t.shape(n.input(1))
	along := axis(n.integer("axis", 0), len(xs))
	if t.opset >= addsAtIndices {
		t.give(n, 0, func() string {
			return t.single(x, n.d[0], func(zeros, d string) string { return t.scatter(zeros, n.input(1), d, int64(along), true) })
		})
		return nil
	}
	indices, err := t.integers(n, 1)
	if err != nil {
		return err
	}
	from := make([]int64, len(indices))
	for i, at := range indices {
		place := places(int64(i), is)
		place[along] = int64(axis(at, int(xs[along])))
		from[i] = flatIndex(place, xs)
	}
	t.give(n, 0, func() string { return t.addAt(x, n.d[0], from) })
	return nil
}

// gatherND is the rule of GatherND. Each slice of the result is a copy of a slice of the input. The rule adds the
// gradient in the copy to the gradient in the original.
func gatherND(t *tape, n *node) error {
	x, xs, is := n.input(0), t.shape(n.input(0)), t.shape(n.input(1))
	batch := int(n.integer("batch_dims", 0))
	last := len(is) - 1
	if t.opset >= addsAtIndices {
		t.give(n, 0, func() string {
			return t.single(x, n.d[0], func(zeros, d string) string {
				return t.Node("ScatterND", []string{zeros, t.withBatch(n.input(1), is, batch), d}, textAttribute("reduction", "add"))
			})
		})
		return nil
	}
	indices, err := t.integers(n, 1)
	if err != nil {
		return err
	}
	depth := int(is[last])
	size := product(xs[batch+depth:]) // number of elements of a slice
	var from []int64
	for i := range product(is[:last]) {
		place := places(i, is[:last])[:batch]
		for k, at := range indices[int(i)*depth : (int(i)+1)*depth] {
			place = append(place, int64(axis(at, int(xs[batch+k]))))
		}
		start := flatIndex(place, xs[:batch+depth]) * size
		for k := range size {
			from = append(from, start+k)
		}
	}
	t.give(n, 0, func() string { return t.addAt(x, n.d[0], from) })
	return nil
}

// withBatch adds nodes that turn indices within each batch into indices of the whole tensor. These nodes put the
// coordinates of the batch axes in front of the indices.
func (t *tape) withBatch(indices string, shape []int64, axes int) string {
	if axes == 0 {
		return indices
	}
	last := len(shape) - 1
	var coordinates []int64
	for i := range product(shape[:last]) {
		coordinates = append(coordinates, places(i, shape[:last])[:axes]...)
	}
	leading := t.reshape(t.Ints(coordinates...), append(slices.Clone(shape[:last]), int64(axes)))
	return t.concat([]string{leading, indices}, -1)
}

// The function 'places' returns the coordinates of element i of a tensor.
func places(i int64, shape []int64) []int64 {
	at := make([]int64, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k], i = i%shape[k], i/shape[k]
	}
	return at
}

func flatIndex(place, shape []int64) int64 {
	at := int64(0)
	for k, n := range shape {
		at = at*n + place[k]
	}
	return at
}

// The method 'single' calls the function 'scatter' with d and with zeros of the shape of x. For float16 it converts d
// to float32 and the result back to float16, because ONNX Runtime's CPU provider cannot add float16 at indices.
func (t *tape) single(x, d string, scatter func(zeros, d string) string) string {
	if of := t.floatType(x); of != graph.Float16 {
		return scatter(t.zeros(of, t.shape(x)), d)
	}
	return t.Cast(scatter(t.zeros(graph.Float32, t.shape(x)), t.Cast(d, graph.Float32)), graph.Float16)
}

// addAt adds nodes that compute the gradient in the input x of an operator that copies elements. Element i of d is the
// gradient in a copy of x[from[i]]. For each element of x, the nodes sum the gradients in the copies of this element.
// If the most frequently copied element has k copies, the nodes sum k tensors.
func (t *tape) addAt(x, d string, from []int64) string {
	size := product(t.shape(x))
	// Copy k of element x[j] has the index terms[k][j] in d. If this copy does not exist, terms[k][j] is len(from).
	var terms [][]int64
	count := make([]int, size)
	for i, at := range from {
		if count[at] == len(terms) {
			terms = append(terms, slices.Repeat([]int64{int64(len(from))}, int(size)))
		}
		terms[count[at]][at] = int64(i)
		count[at]++
	}
	flat := t.concat([]string{t.reshape(d, []int64{-1}), t.numbers(x, []int64{1}, 0)}, 0)
	var parts []string
	for _, indices := range terms {
		parts = append(parts, t.Node("Gather", []string{flat, t.Ints(indices...)}, graph.IntAttribute("axis", 0)))
	}
	sum := t.zeros(t.floatType(x), []int64{size})
	switch len(parts) {
	case 0:
	case 1:
		sum = parts[0]
	default:
		sum = t.Op("Sum", parts...)
	}
	return t.reshapeTo(sum, x)
}

// The rule 'scatter' is for operators that take indices and updates. These operators overwrite the elements at the
// indices with the updates, or add the updates to these elements. If an update overwrites an element, the gradient with
// respect to the element's old value is 0.
func scatter(t *tape, n *node) error {
	indices, updates, d := n.input(1), n.input(2), n.d[0]
	reduction := n.text("reduction", "none")
	if reduction != "none" && reduction != "add" {
		return n.refuse("no gradient is known for the reduction '%s'", reduction)
	}
	along := graph.IntAttribute("axis", n.integer("axis", 0))
	t.give(n, 0, func() string {
		if reduction == "add" {
			return d
		}
		cleared := t.zeros(t.floatType(updates), t.shape(updates))
		if n.GetOpType() == "ScatterND" {
			return t.Op("ScatterND", d, indices, cleared)
		}
		return t.Node("ScatterElements", []string{d, indices, cleared}, along)
	})
	t.give(n, 2, func() string {
		if n.GetOpType() == "ScatterND" {
			return t.Op("GatherND", d, indices)
		}
		return t.Node("GatherElements", []string{d, indices}, along)
	})
	return nil
}
