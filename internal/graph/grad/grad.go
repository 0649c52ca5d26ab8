// Package grad differentiates ONNX models in reverse mode. It appends nodes to a model's graph. These nodes compute the
// gradient of a loss with respect to the model's input, for a batch of fixed size. The result runs like any other
// graph. Throughout the package, "the gradient in a value" means the derivative of the loss with respect to this value.
//
// All sizes are constants, taken from one run of the model. Weights are constants too, so only values that depend on
// the input get gradients. The model runs in inference mode: batch normalisation keeps its statistics, and dropout does
// nothing. Where a function has a kink, gradients follow PyTorch. For example, ReLU's slope at 0 is 0, and MaxPool
// passes a gradient to the first of several equal maxima.
package grad

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// Oldest is the oldest operator set whose graphs can be differentiated. The added nodes need operators that older sets
// lack.
const Oldest = 9

// Advice tells users what to do with a model that has no gradient.
const Advice = "attacks that use no gradients work on every model"

// errUnused reports that no gradient reaches the input.
var errUnused = hint.New("the loss has no gradient in the model's input", Advice)

// Append appends nodes that compute the gradient of the loss with respect to the input. If the loss has several
// elements, their sum is differentiated. Append returns the gradient's name. Every node of the graph must follow the
// nodes that compute its inputs. The argument 'facts' holds the sizes of the values in a run of this graph. It also
// holds the values of the node inputs that the map Parameters lists. The gradient can be computed only for batches of
// the same size as in that run. Append goes through the nodes from the loss to the input. At the first node without a
// known gradient, it stops and returns an error that names the node.
func Append(m *onnxpb.ModelProto, input, loss string, facts graph.Facts) (gradient string, err error) {
	t := &tape{
		graph: m.Graph, opset: graph.Opset(m), facts: facts, types: typesOf(m.Graph),
		depends: map[string]bool{input: true}, pending: make(map[string][]string), constants: make(map[string]*onnxpb.TensorProto),
	}
	if err := checkOpset(m); err != nil {
		return "", err
	}
	t.name = graph.Numbered(unusedPrefix(m.Graph))
	t.Builder = graph.NewBuilder(t.name)
	for _, c := range m.Graph.Initializer {
		t.constants[c.GetName()] = c
	}
	for _, n := range m.Graph.Node {
		t.follow(n)
	}
	if err := t.sweep(loss, localOperators(m)); err != nil {
		return "", err
	}
	gradient = t.total(input)
	if gradient == "" {
		return "", errUnused
	}
	m.Graph.Node = append(m.Graph.Node, t.Nodes...)
	return gradient, nil
}

func checkOpset(m *onnxpb.ModelProto) error {
	if version := graph.Opset(m); version < Oldest {
		return hint.New(fmt.Sprintf("the model has operator set %d, gradients need %d", version, Oldest), Advice)
	}
	return nil
}

// unusedPrefix returns a prefix that no name in the graph has.
func unusedPrefix(g *onnxpb.GraphProto) string {
	prefix := "rscert_grad_"
	graph.EachName(g, func(name string) string {
		for strings.HasPrefix(name, prefix) {
			prefix += "_"
		}
		return name
	})
	return prefix
}

// localOperators returns the operators that the model defines itself.
func localOperators(m *onnxpb.ModelProto) map[operator]bool {
	local := make(map[operator]bool)
	for _, f := range m.Functions {
		local[operatorOf(f.GetDomain(), f.GetName())] = true
	}
	return local
}

// operator identifies an operator.
type operator struct{ domain, name string }

func operatorOf(domain, name string) operator {
	if domain == "ai.onnx" {
		domain = ""
	}
	return operator{domain, name}
}

// A rule adds nodes to the tape. These nodes compute the gradients in the inputs of one node of the model. The argument
// of type node holds the gradients in the outputs of this node.
type rule func(*tape, *node) error

// tape holds the state while the nodes of the gradient are added.
type tape struct {
	*graph.Builder // the nodes written so far

	name      func() string // returns a new name at each call
	graph     *onnxpb.GraphProto
	opset     int64
	facts     graph.Facts
	types     map[string]graph.ElemType
	constants map[string]*onnxpb.TensorProto // constants in the file, by name
	depends   map[string]bool                // values that depend on the input's contents
	pending   map[string][]string            // for each value, the gradients to be summed
}

// The method 'follow' records which outputs of the node depend on the contents of the model's input. The outputs of
// Shape and Size never depend on these contents, because all sizes are constants.
func (t *tape) follow(n *onnxpb.NodeProto) {
	switch n.GetOpType() {
	case "Shape", "Size":
		return
	case "Constant":
		for _, a := range n.Attribute {
			if a.T != nil {
				t.constants[n.Output[0]] = a.T
			}
		}
	}
	depends := slices.ContainsFunc(n.Input, func(v string) bool { return t.depends[v] })
	for _, a := range n.Attribute { // a subgraph may use any value of the graph around it
		depends = depends || a.G != nil || len(a.Graphs) > 0
	}
	for _, v := range n.Output {
		t.depends[v] = depends && v != ""
	}
}

// sweep goes through the nodes from the loss to the input and applies the rule of each node.
func (t *tape) sweep(loss string, local map[operator]bool) error {
	shape, known := t.facts.Shapes[loss]
	if !known {
		return errUnused
	}
	t.pending[loss] = []string{t.expand(t.numberFor(loss, 1), shape)}
	for _, raw := range slices.Backward(slices.Clone(t.graph.Node)) {
		n := &node{NodeProto: raw}
		for _, v := range raw.Output {
			d := ""
			if t.depends[v] {
				d = t.total(v)
			}
			n.d = append(n.d, d)
		}
		if !slices.ContainsFunc(n.d, func(d string) bool { return d != "" }) {
			continue
		}
		key := operatorOf(raw.GetDomain(), raw.GetOpType())
		rule, known := rules[key]
		if !known || local[key] {
			return n.refuse("no gradient is known")
		}
		if err := rule(t, n); err != nil {
			return err
		}
		if err := t.checkGiven(n); err != nil {
			return err
		}
	}
	return nil
}

// The method 'total' returns the gradient with respect to the value v. This gradient is the sum of the gradients that
// come from the nodes that use the value. If there are no such gradients, total returns "".
func (t *tape) total(v string) string {
	switch parts := t.pending[v]; len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	default:
		t.pending[v] = []string{t.Op("Sum", parts...)}
	}
	return t.pending[v][0]
}

// The method 'give' calls the function 'gradient' and adds the result to the gradient in the node's input k. It adds
// nothing if input k is independent of the model's input. It also adds nothing if input k holds truth values: the
// result of a comparison counts as constant, as in PyTorch.
func (t *tape) give(n *node, k int, gradient func() string) {
	n.given = append(n.given, k)
	if v := n.input(k); v != "" && t.depends[v] && t.types[v] != graph.Bool {
		t.pending[v] = append(t.pending[v], gradient())
	}
}

// checkGiven checks that the node's rule gave a gradient to every floating-point input that depends on the model's
// input. If an input got none, checkGiven refuses the node, because the gradient in this input would be wrong.
func (t *tape) checkGiven(n *node) error {
	for k, v := range n.Input {
		if t.depends[v] && t.types[v].IsFloat() && !slices.Contains(n.given, k) {
			return n.refuse("no gradient is known in input %d, which depends on the data", k)
		}
	}
	return nil
}

// shape returns a value's sizes.
func (t *tape) shape(v string) []int64 { return t.facts.Shapes[v] }

// node is a node of the graph, together with the gradients in the node's outputs.
type node struct {
	*onnxpb.NodeProto
	d     []string // for each output, the name of the gradient with respect to it; "" if there is none
	given []int    // indices of the inputs for which the rule called the method 'give'
}

// input returns the name of input k, or "" if the node has no such input.
func (n *node) input(k int) string {
	if k >= len(n.Input) {
		return ""
	}
	return n.Input[k]
}

// output returns the name of output 0.
func (n *node) output() string { return n.Output[0] }

func (n *node) attribute(name string) *onnxpb.AttributeProto {
	for _, a := range n.Attribute {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func (n *node) integer(name string, otherwise int64) int64 {
	if a := n.attribute(name); a != nil {
		return a.GetI()
	}
	return otherwise
}

func (n *node) float(name string, otherwise float32) float64 {
	if a := n.attribute(name); a != nil {
		return float64(a.GetF())
	}
	return float64(otherwise)
}

func (n *node) text(name, otherwise string) string {
	if a := n.attribute(name); a != nil {
		return string(a.GetS())
	}
	return otherwise
}

// list returns the integers of an attribute. If the node lacks the attribute, list returns the integer 'otherwise',
// repeated as often as the argument 'size' says.
func (n *node) list(name string, size int, otherwise int64) []int64 {
	if a := n.attribute(name); a != nil {
		return a.Ints
	}
	return slices.Repeat([]int64{otherwise}, size)
}

// The method 'refuse' returns an error that names the node.
func (n *node) refuse(format string, args ...any) error {
	name := n.GetName()
	if name == "" && len(n.Output) > 0 {
		name = n.Output[0]
	}
	return hint.Add(fmt.Errorf("%w: %s, node '%s'", fmt.Errorf(format, args...), quote.Name(n.GetOpType()), quote.Name(name)), Advice)
}

// Parameters lists, for each operator, the inputs that hold sizes, axes or indices. It gives each input by its index in
// the node's inputs. The rules need the values of these inputs.
var Parameters = map[string][]int{
	"Slice": {1, 2, 3, 4}, "Gather": {1}, "Pad": {1, 3}, "CumSum": {1}, "Tile": {1},
	"GatherElements": {1}, "GatherND": {1}, "LSTM": {4}, "GRU": {4}, "RNN": {4}, "ReduceProd": {1},
	"ReduceMean": {1}, "ReduceSum": {1}, "ReduceMax": {1}, "ReduceMin": {1},
	"ReduceL1": {1}, "ReduceL2": {1}, "ReduceLogSum": {1}, "ReduceLogSumExp": {1}, "ReduceSumSquare": {1},
}

var errFed = errors.New("its parameters depend on the data")

// integers returns the integers in input k, or nil if the node has no such input.
func (t *tape) integers(n *node, k int) ([]int64, error) {
	v := n.input(k)
	if v == "" {
		return nil, nil
	}
	if t.depends[v] {
		return nil, n.refuse("%w", errFed)
	}
	if ints, known := t.facts.Ints[v]; known {
		return ints, nil
	}
	if c := t.constants[v]; c.GetDataType() == int32(graph.Int32) && c.GetDataLocation() != onnxpb.TensorProto_EXTERNAL {
		return int32sOf(c), nil
	}
	return nil, n.refuse("input %d is no list of integers that the graph holds", k)
}
