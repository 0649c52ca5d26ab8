package onnx

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

// This file frees the batch dimension of a graph by proof.
//
// A graph exported with a batch of n has shapes written into it in which n is
// hidden: [1, 197, 192], but also [197, 3, 64] where 3 is batch·heads. What is
// to be free is found by following the batch through the graph. The values of a
// tensor lie in a row; if it holds the batch, then as
//
//	sizes[0] × … × (outer · batch · inner) × …        in dimension dim,
//
// indices of outer running slowest. Every operator has a rule that says where
// the batch is in its result if it treats all samples alike and each by itself,
// and no rule, or a refusal, where it does not: a softmax over the batch, a sum
// of it, a matrix product that contracts it. A Reshape may leave a choice (3 of
// [197, 3, 64] may hold the batch, and so may 197): all are tried, and those that
// a later rule refuses are given up. If the graph's output is [batch, m] at the
// end, then every node computes of a batch what it computes of its samples one by
// one, with the sizes that hold the batch free. The loader compares the results
// nevertheless.

// position is where the batch is in a tensor.
type position struct {
	dim          int
	outer, inner int64
}

// track is what is known of a value that depends on the input: the position of
// the batch in it, or that it is computed of shapes.
type track struct {
	position
	fromShapes bool
	// depends [n] says which elements of a vector of sizes depend on the batch; nil: all may.
	depends []bool
}

// maxVisits bounds the search, in visits of nodes for each there is. A choice that
// is wrong is refused a few nodes later, in all graphs seen.
const maxVisits = 20

// rebatching is the search.
type rebatching struct {
	graph   *onnxpb.GraphProto
	opset   int64
	batch   int64 // n
	output  string
	shapes  map[string][]int64 // of all values, with a batch of n
	ints    map[string][]int64 // of vectors that are parameters of nodes, and do not depend on the input
	needed  []bool             // by node: the output needs it
	tracks  map[string]track   // of values that depend on the input
	edits   map[int]edit       // by node
	visits  int
	blocked int // the last node that the search came to
}

// edit is what is done to a node.
type edit struct {
	reshape   bool    // the node becomes a Reshape
	target    []int64 // new constant input 1 (Reshape, Expand), or 3 (Resize, the first size being the batch's)
	repeats   []int   // inputs, of the given rank, that are repeated along dimension dim, as often as the batch has samples
	dim, rank int
}

// rebatch finds the edits that free the batch of the graph, whose input has it
// in front. shapes and ints are those of a run with a batch of n.
func rebatch(m *onnxpb.ModelProto, input, output string, n int64, shapes, ints map[string][]int64) (map[int]edit, error) {
	r := &rebatching{
		graph: m.Graph, opset: opset(m), batch: n, output: output, shapes: shapes, ints: ints, needed: neededFor(m.Graph, output),
		tracks: map[string]track{input: {position: position{0, 1, 1}}}, edits: make(map[int]edit),
	}
	if r.from(0) {
		return r.edits, nil
	}
	node := r.graph.Node[min(r.blocked, len(r.graph.Node)-1)]
	return nil, fmt.Errorf("the batch cannot be followed through %s '%s'", printable(node.GetOpType()), printable(node.GetName()))
}

// neededFor says which nodes the value is computed of.
func neededFor(g *onnxpb.GraphProto, value string) []bool {
	values := map[string]bool{value: true}
	needed := make([]bool, len(g.Node))
	for i := len(g.Node) - 1; i >= 0; i-- {
		n := g.Node[i]
		if !slices.ContainsFunc(n.Output, func(v string) bool { return values[v] }) {
			continue
		}
		needed[i] = true
		for _, v := range n.Input {
			values[v] = true
		}
	}
	return needed
}

// from follows the batch through the nodes from i on.
func (r *rebatching) from(i int) bool {
	for ; i < len(r.graph.Node); i++ {
		n := r.graph.Node[i]
		if !r.needed[i] || !r.depends(n) {
			continue
		}
		r.visits++
		r.blocked = max(r.blocked, i)
		if r.visits > maxVisits*len(r.graph.Node) || hasSubgraph(n) {
			return false
		}
		if r.shapesOnly(n) {
			r.followShapes(n)
			continue
		}
		return r.choose(i, n)
	}
	at, ok := r.tracks[r.output]
	return ok && !at.fromShapes && at.position == position{0, 1, 1} && r.fits(r.output, at.position)
}

// choose tries what the node's rule allows, one after the other.
func (r *rebatching) choose(i int, n *onnxpb.NodeProto) bool {
	rule := rules[n.GetOpType()]
	if rule == nil || domainOf(n.GetDomain()) != "" || !r.known(n) {
		return false
	}
	for _, option := range rule(r, n) {
		if !r.place(n, option.places) {
			continue
		}
		if option.edit != nil {
			r.edits[i] = *option.edit
		}
		if r.from(i + 1) {
			return true
		}
	}
	delete(r.edits, i)
	return false
}

// known reports whether the shapes of the node's inputs are known, and none of
// them is computed of shapes but the sizes that an edit replaces.
func (r *rebatching) known(n *onnxpb.NodeProto) bool {
	sizes := map[string]int{"Reshape": 1, "Expand": 1, "Resize": 3}[n.GetOpType()]
	for k, v := range n.Input {
		_, known := r.shapes[v]
		if t := r.tracks[v]; v != "" && !known || t.fromShapes && (sizes == 0 || k != sizes) {
			return false
		}
	}
	return true
}

// option is a possible place of the batch in a node's results, and what is to be
// done to the node for it.
type option struct {
	places []position // in each result; one: the same in all
	edit   *edit
}

// place notes the positions of the batch in the node's results. It is false if
// their sizes do not admit it.
func (r *rebatching) place(n *onnxpb.NodeProto, places []position) bool {
	for k, v := range n.Output {
		if v == "" {
			continue
		}
		at := places[min(k, len(places)-1)]
		if !r.fits(v, at) {
			return false
		}
		r.tracks[v] = track{position: at}
	}
	return true
}

func (r *rebatching) fits(v string, at position) bool {
	sizes, known := r.shapes[v]
	return known && at.dim >= 0 && at.dim < len(sizes) && sizes[at.dim] == at.outer*r.batch*at.inner
}

// depends reports whether an input of the node depends on the model's.
func (r *rebatching) depends(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(n.Input, func(v string) bool { _, fed := r.tracks[v]; return fed })
}

// at is the position of the batch in input k of the node, if it is in it.
func (r *rebatching) at(n *onnxpb.NodeProto, k int) (position, bool) {
	if k >= len(n.Input) {
		return position{}, false
	}
	t, fed := r.tracks[n.Input[k]]
	return t.position, fed && !t.fromShapes
}

// alone returns the position of the batch in the node's first input, if no other
// input depends on the model's.
func (r *rebatching) alone(n *onnxpb.NodeProto) (position, bool) {
	for _, v := range n.Input[1:] {
		if _, fed := r.tracks[v]; fed {
			return position{}, false
		}
	}
	return r.at(n, 0)
}

func (r *rebatching) shape(n *onnxpb.NodeProto, k int) []int64 {
	if k >= len(n.Input) {
		return nil
	}
	return r.shapes[n.Input[k]]
}

func (r *rebatching) rank(n *onnxpb.NodeProto, k int) int { return len(r.shape(n, k)) }

func (r *rebatching) result(n *onnxpb.NodeProto) []int64 { return r.shapes[n.Output[0]] }

// constant is the vector of integers in input k, if it does not depend on the model's.
func (r *rebatching) constant(n *onnxpb.NodeProto, k int) ([]int64, bool) {
	if k >= len(n.Input) || n.Input[k] == "" {
		return nil, false
	}
	if _, fed := r.tracks[n.Input[k]]; fed {
		return nil, false
	}
	v, ok := r.ints[n.Input[k]]
	return v, ok
}

func hasSubgraph(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return len(subgraphs(a)) > 0 })
}

// shapesOnly reports whether the node computes sizes: Shape, and what has no
// input that holds the batch.
func (r *rebatching) shapesOnly(n *onnxpb.NodeProto) bool {
	if op := n.GetOpType(); op == "Shape" || op == "Size" {
		return true
	}
	return !slices.ContainsFunc(n.Input, func(v string) bool { t, fed := r.tracks[v]; return fed && !t.fromShapes })
}

// followShapes notes which sizes depend on the batch. Results none of whose
// sizes do are constants.
func (r *rebatching) followShapes(n *onnxpb.NodeProto) {
	depends := r.dependingSizes(n)
	for _, v := range n.Output {
		delete(r.tracks, v)
		if depends == nil || slices.Contains(depends, true) {
			r.tracks[v] = track{fromShapes: true, depends: depends}
		}
	}
}

// dependingSizes says which elements of the node's result depend on the batch;
// nil: all may.
func (r *rebatching) dependingSizes(n *onnxpb.NodeProto) []bool {
	switch n.GetOpType() {
	case "Shape":
		at, fed := r.at(n, 0)
		if !fed || attribute(n, "start") != nil || attribute(n, "end") != nil {
			return nil
		}
		depends := make([]bool, r.rank(n, 0))
		depends[at.dim] = true
		return depends
	case "Cast", "Squeeze", "Unsqueeze", "Identity", "Sqrt", "Neg", "Reciprocal", "Floor":
		return r.dependingInput(n, 0)
	case "Concat":
		var all []bool
		for k := range n.Input {
			part := r.dependingInput(n, k)
			if part == nil {
				return nil
			}
			all = append(all, part...)
		}
		return all
	case "Gather", "Slice":
		return r.selected(n, r.dependingInput(n, 0))
	case "Add", "Sub", "Mul", "Div", "Mod", "Pow":
		a, b := r.dependingInput(n, 0), r.dependingInput(n, 1)
		if a != nil && b != nil && !slices.Contains(slices.Concat(a, b), true) {
			return make([]bool, max(len(a), len(b)))
		}
	}
	return nil
}

// dependingInput says which elements of input k depend on the batch; nil: all may.
func (r *rebatching) dependingInput(n *onnxpb.NodeProto, k int) []bool {
	if k >= len(n.Input) {
		return nil
	}
	if t, fed := r.tracks[n.Input[k]]; fed {
		return t.depends
	}
	size := int64(1)
	for _, s := range r.shape(n, k) {
		size *= s
	}
	if size > maxIntVector {
		return nil
	}
	return make([]bool, size)
}

// maxIntVector bounds vectors of sizes.
const maxIntVector = 64

// selected are the elements that Gather or Slice takes.
func (r *rebatching) selected(n *onnxpb.NodeProto, depends []bool) []bool {
	if depends == nil {
		return nil
	}
	size := int64(len(depends))
	if n.GetOpType() == "Gather" {
		indices, ok := r.constant(n, 1)
		if !ok || r.rank(n, 0) != 1 {
			return nil
		}
		var taken []bool
		for _, i := range indices {
			if i < 0 {
				i += size
			}
			if i < 0 || i >= size {
				return nil
			}
			taken = append(taken, depends[i])
		}
		return taken
	}
	starts, ok1 := r.constant(n, 1)
	ends, ok2 := r.constant(n, 2)
	if steps, given := r.constant(n, 4); given && !slices.Equal(steps, []int64{1}) {
		return nil
	}
	if !ok1 || !ok2 || len(starts) != 1 || len(ends) != 1 {
		return nil
	}
	from, to := clampIndex(starts[0], size), clampIndex(ends[0], size)
	return slices.Clone(depends[from:max(from, to)])
}

// clampIndex is an index as Slice reads it: from the end if negative.
func clampIndex(i, size int64) int64 {
	if i < 0 {
		i = max(i, -size) + size // i+size could overflow
	}
	return min(max(i, 0), size)
}

func attribute(n *onnxpb.NodeProto, name string) *onnxpb.AttributeProto {
	for _, a := range n.Attribute {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

// applyRebatch edits the graph, whose nodes are in the places that the edits
// were found for.
func applyRebatch(g *onnxpb.GraphProto, input string, size int64, edits map[int]edit) {
	freeSizes(g, input, size)
	e := newEditor(g)
	var nodes []*onnxpb.NodeProto
	for i, n := range g.Node {
		edit := edits[i]
		switch op := n.GetOpType(); {
		case len(edit.target) == 0:
		case op == "Reshape", edit.reshape:
			if edit.reshape {
				n.OpType, n.Attribute = proto.String("Reshape"), nil
			}
			n.Input = []string{n.Input[0], e.intsConstant(edit.target)}
			n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return a.GetName() == "allowzero" })
		case op == "Expand":
			n.Input[1] = e.intsConstant(edit.target)
		default: // Resize
			n.Input[3] = e.batchAnd(input, nil, edit.target[1:])
		}
		for _, k := range edit.repeats {
			v, out := n.Input[k], e.name("repeated")
			ones := slices.Repeat([]int64{1}, edit.rank)
			nodes = append(nodes, node("Expand", []string{v, e.batchAnd(input, ones[:edit.dim], ones[edit.dim+1:])}, out))
			n.Input[k] = out
		}
		nodes = append(nodes, n)
	}
	g.Node = nodes
	e.finish()
}

// batchAnd is the vector of sizes [before…, number of samples of the input, after…].
func (e *editor) batchAnd(input string, before, after []int64) string {
	shape, batch, sizes := e.name("shape"), e.name("batch"), e.name("sizes")
	first := e.intsConstant([]int64{0})
	parts := []string{batch}
	if len(before) > 0 {
		parts = append([]string{e.intsConstant(before)}, parts...)
	}
	if len(after) > 0 {
		parts = append(parts, e.intsConstant(after))
	}
	e.added = append(e.added,
		node("Shape", []string{input}, shape),
		node("Gather", []string{shape, first}, batch),
		node("Concat", parts, sizes, intAttribute("axis", 0)))
	return sizes
}
