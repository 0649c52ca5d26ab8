package graph

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

// This file proves that a model treats the samples of a batch independently. It also edits the model so that the batch
// dimension may have any size.
//
// A certificate is about a function of one input, so samples in a batch must not affect each other. The proof follows
// the batch through the graph, from the input to the scores. It uses the shapes of all values in one run. In this run,
// the batch has one sample, or the fixed size that the file states. The values of a tensor, in memory order, form a
// row. If the tensor depends on the input, its sizes are
//
//	sizes[0] × … × (outer · batch · inner) × …
//
// The product in parentheses is the size of dimension dim. In this dimension the outer indices run slowest, and the
// inner indices run fastest. So the batch may share a dimension with other indices. For example, exported graphs
// contain tensors of shape [197, 3, 64], where 3 is the product of the batch size and the number of heads.
//
// Each known operator has a rule. If the operator treats all samples alike and independently, the rule returns the
// position of the batch in the result. Otherwise the rule returns no position. For example, the rule returns no
// position for a softmax or a sum over the batch, and none for a matrix product that sums over the batch. It also
// returns no position for a scale that is computed from the whole tensor. The result of an operator without a rule has
// no position either. A Reshape may leave a choice: in [197, 3, 64], either 3 or 197 may hold the batch. The search
// tries all choices and drops the choices that a later rule refuses.
//
// The proof succeeds if the graph's output ends up as [batch, m]. Under two conditions, every node then computes the
// same values for a batch as for each sample alone. First, sizes that contain the batch must be free. Second, sizes
// that a Shape node takes from a tensor must equal the sizes in the analysed run. The edits establish these conditions.
// If the proof fails, the model runs one input per call.

// A position locates the batch in a tensor.
type position struct {
	dim          int
	outer, inner int64
}

// maxVisits limits the search. The search stops when the number of its visits exceeds maxVisits times the number of
// nodes. In all graphs seen so far, a rule refused a wrong choice within a few nodes.
const maxVisits = 20

// A rebatching holds the state of the search.
type rebatching struct {
	graph   *onnxpb.GraphProto
	opset   int64
	batch   int64 // n, the batch size of the run
	output  string
	local   map[opKey]bool      // operators that the model defines itself
	shapes  map[string][]int64  // shapes of the values for a batch of n samples, by name of the value
	ints    map[string][]int64  // integer vectors, by name: constants, and node parameters that the run computed
	scales  map[string]float32  // first element of each float vector in the file, by name of the vector
	needed  []bool              // for each node, whether the output depends on it
	places  map[string]position // for each value that depends on the input, where its batch dimension is
	edits   Edits
	visits  int
	blocked int // index of the furthest node that the search reached
}

// Edits maps the index of a node to the edit of this node.
type Edits map[int]edit

// FixSizes reports whether the edits replace a Shape or Size node by a constant.
func (e Edits) FixSizes() bool {
	for _, edit := range e {
		if edit.sizes != nil {
			return true
		}
	}
	return false
}

// An edit describes the changes to one node. It can repeat inputs of the node. In this case, the field 'rank' is the
// number of dimensions of each of these inputs.
type edit struct {
	reshape   bool    // the node becomes a Reshape
	target    []int64 // new sizes for Reshape, Expand or Resize; for Resize, the batch size replaces target[0]
	repeats   []int   // indices of inputs that are repeated along dimension dim, once per sample
	dim, rank int
	sizes     *onnxpb.TensorProto // constant that replaces a Shape or Size node
}

// Facts describes the values of a model in one run (see Learn).
type Facts struct {
	Shapes map[string][]int64 // shapes, by name of the value
	Ints   map[string][]int64 // contents of the integer vectors that are parameters of nodes, by name of the vector
}

// rebatch proves that the samples of a batch are independent. It also finds the edits that make the graph accept
// batches of any size. The batch dimension is the first dimension of the input. The argument 'known' describes a run
// with a batch of n. If the proof fails, the error names the node at which it fails.
func rebatch(m *onnxpb.ModelProto, input, output string, n int64, known Facts) (Edits, error) {
	if name, sorted := sortNodes(m.Graph); !sorted {
		return nil, fmt.Errorf("%s needs its own result", name)
	}
	r := &rebatching{
		graph: m.Graph, opset: Opset(m), batch: n, output: output, local: localFunctions(m), shapes: known.Shapes, ints: known.Ints,
		scales: firstFloats(m.Graph), needed: neededFor(m.Graph, output),
		places: map[string]position{input: {0, 1, 1}}, edits: make(Edits),
	}
	if r.follow(0) {
		return r.edits, nil
	}
	node := r.graph.Node[min(r.blocked, len(r.graph.Node)-1)]
	return nil, fmt.Errorf("%s may let inputs of a batch see each other", nodeName(node))
}

// nodeName returns a node's operator and name for an error message.
func nodeName(n *onnxpb.NodeProto) string {
	name := n.GetName()
	if name == "" && len(n.Output) > 0 {
		name = n.Output[0]
	}
	return fmt.Sprintf("%s '%s'", quote.Name(n.GetOpType()), quote.Name(name))
}

// sortNodes puts every node behind the nodes that compute its inputs. ONNX demands this order, but some converters to
// float16 write nodes in another order. ONNX Runtime accepts such files, because it sorts the nodes by itself. If a
// cycle prevents sorting, sortNodes returns false and the name of a node that is in the cycle or depends on it.
func sortNodes(g *onnxpb.GraphProto) (string, bool) {
	users, missing := dependencies(g)
	order := &nodeHeap{}
	for i, n := range missing {
		if n == 0 {
			heap.Push(order, i)
		}
	}
	sorted := make([]*onnxpb.NodeProto, 0, len(g.Node))
	for order.Len() > 0 {
		n := g.Node[heap.Pop(order).(int)]
		sorted = append(sorted, n)
		for _, v := range n.Output {
			for _, i := range users[v] {
				if missing[i]--; missing[i] == 0 {
					heap.Push(order, i)
				}
			}
			delete(users, v)
		}
	}
	if len(sorted) < len(g.Node) {
		i := slices.IndexFunc(missing, func(n int) bool { return n > 0 })
		return nodeName(g.Node[i]), false
	}
	g.Node = sorted
	return "", true
}

// dependencies maps the name of each value that a node computes to the indices of the nodes that use the value. For
// each node it returns the number of inputs that other nodes compute.
func dependencies(g *onnxpb.GraphProto) (users map[string][]int, missing []int) {
	makers := make(map[string]bool)
	for _, n := range g.Node {
		for _, v := range n.Output {
			makers[v] = v != ""
		}
	}
	users, missing = make(map[string][]int), make([]int, len(g.Node))
	for i, n := range g.Node {
		for _, v := range inputsOf(n) {
			if makers[v] {
				users[v] = append(users[v], i)
				missing[i]++
			}
		}
	}
	return users, missing
}

// nodeHeap holds the indices of nodes. The smallest index comes first, so a sorted graph keeps its order.
type nodeHeap struct{ sort.IntSlice }

func (h *nodeHeap) Push(i any) { h.IntSlice = append(h.IntSlice, i.(int)) }

func (h *nodeHeap) Pop() any {
	last := len(h.IntSlice) - 1
	i := h.IntSlice[last]
	h.IntSlice = h.IntSlice[:last]
	return i
}

// inputsOf returns the values that a node uses. These are its inputs and all names in its subgraphs, because a name in
// a subgraph may be a value of the surrounding graph.
func inputsOf(n *onnxpb.NodeProto) []string {
	if !hasSubgraph(n) {
		return n.Input
	}
	all := slices.Clone(n.Input)
	for _, a := range n.Attribute {
		for _, g := range subgraphs(a) {
			for _, inner := range g.Node {
				all = append(all, inputsOf(inner)...)
			}
			for _, o := range g.Output {
				all = append(all, o.GetName())
			}
		}
	}
	return all
}

// neededFor reports for each node whether the value depends on this node.
func neededFor(g *onnxpb.GraphProto, value string) []bool {
	values := map[string]bool{value: true}
	needed := make([]bool, len(g.Node))
	for i := len(g.Node) - 1; i >= 0; i-- {
		n := g.Node[i]
		if !slices.ContainsFunc(n.Output, func(v string) bool { return values[v] }) {
			continue
		}
		needed[i] = true
		for _, v := range inputsOf(n) {
			values[v] = true
		}
	}
	return needed
}

// firstFloats returns, by name, the first element of each float32 vector stored in the file.
func firstFloats(g *onnxpb.GraphProto) map[string]float32 {
	first := make(map[string]float32)
	for name, t := range constantsOf(g.Initializer, g.Node) {
		if t.GetDataType() != int32(Float32) || len(t.Dims) != 1 || t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
			continue
		}
		switch {
		case len(t.FloatData) > 0:
			first[name] = t.FloatData[0]
		case len(t.RawData) >= 4:
			first[name] = math.Float32frombits(binary.LittleEndian.Uint32(t.RawData))
		}
	}
	return first
}

// The method 'follow' tracks the batch through the nodes from index i on. It reports whether the proof succeeds.
func (r *rebatching) follow(i int) bool {
	for ; i < len(r.graph.Node); i++ {
		n := r.graph.Node[i]
		if !r.needed[i] || !r.depends(n) {
			r.forget(n)
			continue
		}
		r.visits++
		r.blocked = max(r.blocked, i)
		if r.visits > maxVisits*len(r.graph.Node) || !r.known(n) {
			return false
		}
		if sizes := r.sizes(n); sizes != nil {
			r.edits[i] = edit{sizes: sizes}
			r.forget(n)
			continue
		}
		return r.choose(i, n)
	}
	at, ok := r.places[r.output]
	return ok && at == position{0, 1, 1} && r.fits(r.output, at)
}

// The method 'forget' records that the node's results do not depend on the model's input.
func (r *rebatching) forget(n *onnxpb.NodeProto) {
	for _, v := range n.Output {
		delete(r.places, v)
	}
}

// If a node returns the sizes of a tensor, the method 'sizes' returns the constant that replaces the node. It returns
// nil for other nodes.
func (r *rebatching) sizes(n *onnxpb.NodeProto) *onnxpb.TensorProto {
	shape := r.shape(n, 0)
	switch n.GetOpType() {
	case "Shape":
		from, to := int64(0), int64(len(shape))
		if a := attribute(n, "start"); a != nil {
			from = clampIndex(a.GetI(), to)
		}
		if a := attribute(n, "end"); a != nil {
			to = clampIndex(a.GetI(), to)
		}
		return intsTensor(slices.Clone(shape[from:max(from, to)]))
	case "Size":
		size := int64(1)
		for _, s := range shape {
			size *= s
		}
		t := intsTensor([]int64{size})
		t.Dims = nil // a scalar
		return t
	}
	return nil
}

// The method 'choose' tries the options of the node's rule in turn. It reports whether the proof succeeds with one of
// these options.
func (r *rebatching) choose(i int, n *onnxpb.NodeProto) bool {
	rule := rules[opKey{domainOf(n.GetDomain()), n.GetOpType()}]
	if rule == nil {
		return false
	}
	for _, option := range rule(r, n) {
		if !r.place(n, option.places) {
			continue
		}
		if option.edit != nil {
			r.edits[i] = *option.edit
		}
		if r.follow(i + 1) {
			return true
		}
	}
	delete(r.edits, i)
	return false
}

// The method 'known' reports whether a rule can apply. The node must be an operator, and not a function that the model
// defines. It must have no subgraphs. The shapes of its inputs must be known.
func (r *rebatching) known(n *onnxpb.NodeProto) bool {
	if hasSubgraph(n) || r.local[opKey{domainOf(n.GetDomain()), n.GetOpType()}] {
		return false
	}
	return !slices.ContainsFunc(n.Input, func(v string) bool { _, known := r.shapes[v]; return v != "" && !known })
}

// An option is a possible position of the batch in a node's results, together with the edit that this position
// requires.
type option struct {
	places []position // position of the batch in each result; a single element is the position in all results
	edit   *edit
}

// The method 'place' records the positions of the batch in the node's results. It returns false if the sizes of a
// result contradict the batch's position in this result.
func (r *rebatching) place(n *onnxpb.NodeProto, places []position) bool {
	for k, v := range n.Output {
		if v == "" {
			continue
		}
		at := places[min(k, len(places)-1)]
		if !r.fits(v, at) {
			return false
		}
		r.places[v] = at
	}
	return true
}

func (r *rebatching) fits(v string, at position) bool {
	sizes, known := r.shapes[v]
	return known && at.dim >= 0 && at.dim < len(sizes) && sizes[at.dim] == at.outer*r.batch*at.inner
}

// The method 'depends' reports whether the node uses a value that depends on the model's input.
func (r *rebatching) depends(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(inputsOf(n), r.fed)
}

// The method 'fed' reports whether the value depends on the model's input.
func (r *rebatching) fed(v string) bool { _, fed := r.places[v]; return fed }

// The method 'position' returns the position of the batch in input k of the node, if input k depends on the model's
// input.
func (r *rebatching) position(n *onnxpb.NodeProto, k int) (position, bool) {
	if k >= len(n.Input) {
		return position{}, false
	}
	at, fed := r.places[n.Input[k]]
	return at, fed
}

// solePosition returns the position of the batch in the node's first input. It fails if another input depends on the
// model's input.
func (r *rebatching) solePosition(n *onnxpb.NodeProto) (position, bool) {
	if slices.ContainsFunc(n.Input[1:], r.fed) {
		return position{}, false
	}
	return r.position(n, 0)
}

func (r *rebatching) shape(n *onnxpb.NodeProto, k int) []int64 {
	if k >= len(n.Input) {
		return nil
	}
	return r.shapes[n.Input[k]]
}

func (r *rebatching) rank(n *onnxpb.NodeProto, k int) int { return len(r.shape(n, k)) }

func (r *rebatching) result(n *onnxpb.NodeProto) []int64 { return r.shapes[n.Output[0]] }

// The method 'constant' returns the integer vector in input k, if this vector does not depend on the model's input.
func (r *rebatching) constant(n *onnxpb.NodeProto, k int) ([]int64, bool) {
	if k >= len(n.Input) || n.Input[k] == "" {
		return nil, false
	}
	if r.fed(n.Input[k]) {
		return nil, false
	}
	v, ok := r.ints[n.Input[k]]
	return v, ok
}

func hasSubgraph(n *onnxpb.NodeProto) bool {
	return slices.ContainsFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return len(subgraphs(a)) > 0 })
}

// clampIndex interprets an index as Slice does. Negative indices count from the end, and indices beyond the ends are
// clamped.
func clampIndex(i, size int64) int64 {
	if i < 0 {
		i = max(i, -size) + size // avoids overflow of i+size
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

// Apply edits the graph. The graph's nodes must be in the same order as when the edits were found. The argument 'size'
// is the new size of the graph's batch dimension.
func (edits Edits) Apply(g *onnxpb.GraphProto, input string, size int64) {
	freeSizes(g, input, size)
	e := newEditor(g)
	var nodes []*onnxpb.NodeProto
	for i, n := range g.Node {
		edit := edits[i]
		switch op := n.GetOpType(); {
		case edit.sizes != nil:
			n.OpType, n.Input = proto.String("Constant"), nil
			n.Attribute = []*onnxpb.AttributeProto{constantValue(edit.sizes)}
		case len(edit.target) == 0:
		case op == "Reshape", edit.reshape:
			if edit.reshape {
				n.OpType, n.Attribute = proto.String("Reshape"), nil
			}
			n.Input = []string{n.Input[0], e.Ints(edit.target...)}
			n.Attribute = slices.DeleteFunc(n.Attribute, func(a *onnxpb.AttributeProto) bool { return a.GetName() == "allowzero" })
		case op == "Expand":
			n.Input[1] = e.Ints(edit.target...)
		default: // the operator Resize
			n.Input[3] = e.batchAnd(input, nil, edit.target[1:])
		}
		for _, k := range edit.repeats {
			v, out := n.Input[k], e.unused("repeated")
			ones := slices.Repeat([]int64{1}, edit.rank)
			nodes = append(nodes, Node("Expand", []string{v, e.batchAnd(input, ones[:edit.dim], ones[edit.dim+1:])}, out))
			n.Input[k] = out
		}
		nodes = append(nodes, n)
	}
	g.Node = nodes
	e.finish()
}

// batchAnd adds nodes that compute a vector of sizes. The first sizes of the vector come from the argument 'before'.
// The next size is the number of samples of the input. The last sizes come from the argument 'after'.
func (e *editor) batchAnd(input string, before, after []int64) string {
	shape, batch, sizes := e.unused("shape"), e.unused("batch"), e.unused("sizes")
	first := e.Ints(0)
	parts := []string{batch}
	if len(before) > 0 {
		parts = append([]string{e.Ints(before...)}, parts...)
	}
	if len(after) > 0 {
		parts = append(parts, e.Ints(after...))
	}
	e.Add(
		Node("Shape", []string{input}, shape),
		Node("Gather", []string{shape, first}, batch),
		Node("Concat", parts, sizes, IntAttribute("axis", 0)))
	return sizes
}
