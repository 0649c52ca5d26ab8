package lipschitz

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// Layer holds a node of a model and two bounds on Lipschitz constants.
type Layer struct {
	Name string `json:"name"`
	Op   string `json:"op"`
	// Factor bounds the node's own Lipschitz constant. For a node that adds or joins several values, Factor is the
	// bound of the result divided by the largest of the inputs' bounds.
	Factor float64 `json:"factor"`
	// Bound is an upper bound on the Lipschitz constant of the function that maps the model's input to the node's
	// result.
	Bound float64 `json:"bound"`
}

// Model holds the bound on a model's Lipschitz constant, and the bounds of the model's nodes.
type Model struct {
	Output string
	Bound  float64
	Layers []Layer // nodes on which the output depends, except nodes that only move values
	// Kind tells whether the output holds probabilities or logits, if the last operator shows which.
	Kind graph.OutputKind
}

// Of returns a bound on the Lipschitz constant of the function that maps a model's only input to one of the model's
// outputs. If 'output' is empty, the model must have a single output. The function visits the nodes in their order and
// computes a bound for each result from the bounds of the node's inputs. For a chain of layers, the bound is the
// product of the layers' spectral norms, as in Moutaouakil et al. 2024. The function refuses an operator for which it
// has no rule. The argument 'shape' may fix sizes of the input that the model leaves open. If 'shape' is nil and the
// first size is open, the function assumes that the first size is the size of a batch. It computes the bound for a
// batch of 1, and refuses the model if the bound for a batch of 2 is larger.
func Of(f *graph.File, output string, shape []int64) (Model, error) {
	info, err := f.Info()
	if err != nil {
		return Model{}, err
	}
	input, output, err := ends(info, output)
	if err != nil {
		return Model{}, err
	}
	at, err := inputShape(input, shape, 1)
	if err != nil {
		return Model{}, err
	}
	m, err := along(f, input.Name, output, at)
	if err != nil || shape != nil || at == nil || input.Shape[0].Size >= 0 {
		return m, err
	}
	if at, err = inputShape(input, nil, 2); err != nil {
		return Model{}, err
	}
	if two, err := along(f, input.Name, output, at); errors.Is(err, errRepeated) || err == nil && two.Bound > m.Bound {
		return Model{}, hint.Add(errors.New("the first size of the input is open and is no batch: the bound grows with this size"),
			"%s fixes the sizes of the input", param.Shape)
	}
	return m, nil
}

// errRepeated means that a node repeats a value by broadcasting.
var errRepeated = errors.New("repeated by broadcasting")

// The function 'along' bounds the Lipschitz constant of the map from an input of the given shape to an output.
func along(f *graph.File, input, output string, shape []int64) (Model, error) {
	w := walk{file: f, values: map[string]value{}}
	for _, t := range f.Model.Graph.Initializer {
		w.values[t.GetName()] = constant(t)
	}
	if len(f.Model.Graph.SparseInitializer) > 0 {
		return Model{}, fmt.Errorf("the model has sparse weights")
	}
	w.values[input] = value{shape: shape, bound: 1}
	needed := neededFor(f.Model.Graph, output)
	for i, n := range f.Model.Graph.Node {
		if !needed[i] {
			continue
		}
		if err := w.visit(n); err != nil {
			return Model{}, err
		}
	}
	result, ok := w.values[output]
	switch {
	case !ok:
		return Model{}, fmt.Errorf("no node computes the output '%s'", quote.Name(output))
	case math.IsInf(result.bound, 0) || math.IsNaN(result.bound):
		return Model{}, fmt.Errorf("the bound is not finite: a weight is not a number, or the bound overflows")
	}
	m := Model{Output: output, Bound: result.bound, Layers: w.layers(f.Model.Graph, needed)}
	switch last := graph.Producer(f.Model.Graph, output); {
	case last == "Softmax":
		m.Kind = graph.Probabilities
	case slices.Contains(graph.Unbounded, last):
		m.Kind = graph.Logits
	}
	return m, nil
}

// ends returns the model's only input and the name of one output. The argument 'output' gives this name. If the
// argument is empty, the model must have only one output.
func ends(info *graph.Info, output string) (input graph.TensorInfo, name string, err error) {
	if len(info.Inputs) != 1 {
		return input, "", fmt.Errorf("the model has %d inputs: want one", len(info.Inputs))
	}
	if output == "" {
		if len(info.Outputs) != 1 {
			var names []string
			for _, t := range info.Outputs {
				names = append(names, quote.Name(t.Name))
			}
			return input, "", hint.Add(fmt.Errorf("the model has %d outputs: %s", len(info.Outputs), strings.Join(names, ", ")),
				"%s names one", param.Output)
		}
		output = info.Outputs[0].Name
	}
	if !slices.ContainsFunc(info.Outputs, func(t graph.TensorInfo) bool { return t.Name == output }) {
		return input, "", fmt.Errorf("the model has no output '%s'", quote.Name(output))
	}
	return info.Inputs[0], output, nil
}

// inputShape returns the shape of the input. The sizes in 'given' replace sizes that the model leaves open. If 'given'
// is nil, the argument 'batch' replaces an open first size. If 'given' is nil and a size other than the first is open,
// the result is nil.
func inputShape(input graph.TensorInfo, given []int64, batch int64) ([]int64, error) {
	if input.Unknown {
		return given, nil
	}
	if given != nil && len(given) != len(input.Shape) {
		return nil, fmt.Errorf("the input has %d dimensions, not %d", len(input.Shape), len(given))
	}
	var shape []int64
	for i, d := range input.Shape {
		size := int64(d.Size)
		switch {
		case given != nil && d.Size >= 0 && given[i] != size:
			return nil, fmt.Errorf("dimension %d of the input is %d, not %d", i, size, given[i])
		case given != nil:
			size = given[i]
		case d.Size < 0 && i == 0:
			size = batch
		case d.Size < 0:
			return nil, nil
		}
		shape = append(shape, size)
	}
	return shape, nil
}

// A value holds what is known about a tensor of the graph.
type value struct {
	shape  []int64 // nil if the shape is not known
	bound  float64 // bound on the Lipschitz constant of the map from the model's input to this tensor; 0 for a constant
	ints   []int64 // elements of an integer constant, if 'known' is true
	tensor *onnxpb.TensorProto
	factor float64
	known  bool // 'ints' holds the elements
}

func constant(t *onnxpb.TensorProto) value {
	return value{shape: append([]int64{}, t.Dims...), tensor: t}
}

// A walk visits the nodes in order.
type walk struct {
	file   *graph.File
	values map[string]value
}

// node holds a node of the graph and the values of the node's inputs.
type node struct {
	*onnxpb.NodeProto
	in   []value // absent inputs are constants without a tensor
	file *graph.File
}

// The method 'visit' sets the values of a node's outputs.
func (w *walk) visit(raw *onnxpb.NodeProto) error {
	n := node{NodeProto: raw, file: w.file}
	depends := false
	for _, name := range raw.Input {
		v, ok := w.values[name]
		if name != "" && !ok {
			return n.refuse("unknown input '%s'", quote.Name(name))
		}
		n.in = append(n.in, v)
		depends = depends || v.bound > 0
	}
	if len(raw.Output) == 0 || raw.Output[0] == "" || len(raw.Input) < leastInputs(raw.GetOpType()) {
		return n.refuse("%d inputs, %d outputs", len(raw.Input), len(raw.Output))
	}
	for _, a := range raw.Attribute {
		if a.G != nil || len(a.Graphs) > 0 {
			return n.unsupported()
		}
	}
	out, err := n.constantResult()
	if rule := rules[raw.GetOpType()]; depends && (raw.GetDomain() == "" || raw.GetDomain() == "ai.onnx") && rule != nil {
		out, err = rule(n)
	} else if depends {
		return n.unsupported()
	}
	if err != nil {
		return err
	}
	switch {
	case math.IsNaN(out.bound): // 0·∞
		out.bound = math.Inf(1)
	case out.bound > 0:
		out.bound = max(out.bound, smallestBound)
	}
	w.set(n, out, depends)
	return nil
}

// If a bound is positive but below smallestBound, the method 'visit' replaces it by smallestBound. The method 'floats'
// refuses a finite stored number unless it is 0 or its absolute value is between smallestWeight and largestWeight. So
// every factor in a rule is 0 or at least 2⁻⁶⁰⁰, also if it is the reciprocal of a stored number. With these limits,
// the product of a bound and a factor never underflows to 0, which would be a false bound.
const (
	smallestBound  = 0x1p-400
	smallestWeight = 0x1p-250
	largestWeight  = 0x1p250
)

// leastInputs returns the smallest number of inputs that an operator must have. The operator's rule reads these inputs
// without checking that they exist.
func leastInputs(op string) int {
	switch op {
	case "Constant":
		return 0
	case "Gemm", "MatMul", "Add", "Sub", "Mul", "Div":
		return 2
	}
	return 1
}

// The method 'set' sets the values of the node's outputs. The first output gets the value 'out'.
func (w *walk) set(n node, out value, depends bool) {
	largest := 0.0
	for _, v := range n.in {
		largest = max(largest, v.bound)
	}
	if out.bound > 0 && largest > 0 {
		out.factor = out.bound / largest
	}
	for k, name := range n.Output {
		if k > 0 && depends && name != "" {
			out = value{bound: math.Inf(1)} // no rule bounds a second output, such as the indices of MaxPool
		}
		w.values[name] = out
	}
}

// movers lists the operators that only move values. The list of layers omits them.
var movers = []string{"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Cast", "Slice",
	"DepthToSpace", "SpaceToDepth"}

// layers returns the list of layers. It omits nodes on which the output does not depend, nodes that only move values,
// and nodes whose result is constant.
func (w *walk) layers(g *onnxpb.GraphProto, needed []bool) (all []Layer) {
	for i, n := range g.Node {
		if !needed[i] || slices.Contains(movers, n.GetOpType()) {
			continue
		}
		v := w.values[n.Output[0]]
		if v.bound == 0 {
			continue
		}
		name := n.GetName()
		if name == "" {
			name = n.Output[0]
		}
		all = append(all, Layer{quote.Name(name), n.GetOpType(), v.factor, v.bound})
	}
	return all
}

// neededFor tells for each node whether the output depends on this node.
func neededFor(g *onnxpb.GraphProto, output string) []bool {
	wanted := map[string]bool{output: true}
	needed := make([]bool, len(g.Node))
	for i, n := range slices.Backward(g.Node) {
		needed[i] = slices.ContainsFunc(n.Output, func(o string) bool { return o != "" && wanted[o] })
		if needed[i] {
			for _, in := range n.Input {
				wanted[in] = true
			}
		}
	}
	return needed
}

// constantResult returns the value of a node whose inputs are constants. It computes this value for Constant and
// Identity nodes, for the transposition of a stored matrix, and for integers that describe shapes. For any other
// result, it returns an empty value.
func (n node) constantResult() (value, error) {
	switch n.GetOpType() {
	case "Constant":
		for _, a := range n.Attribute {
			switch a.GetName() {
			case "value":
				if a.T == nil {
					return value{}, n.refuse("no value")
				}
				return constant(a.T), nil
			case "value_float":
				return constant(&onnxpb.TensorProto{DataType: proto.Int32(int32(graph.Float32)), FloatData: []float32{a.GetF()}}), nil
			case "value_int":
				return value{shape: []int64{}, ints: []int64{a.GetI()}, known: true}, nil
			case "value_ints":
				return value{shape: []int64{int64(len(a.Ints))}, ints: a.Ints, known: true}, nil
			}
		}
		return value{}, nil
	case "Identity":
		return n.in[0], nil
	case "Transpose":
		if v := n.in[0]; v.tensor != nil && len(v.shape) == 2 {
			v.shape = []int64{v.shape[1], v.shape[0]} // transposition keeps the norm and the largest element
			return v, nil
		}
		return value{}, nil
	}
	return n.shapeResult(), nil
}

// shapeResult computes the integer results of the operators that exporters use to build the target shape of a Reshape.
// For other operators, it returns an empty value.
func (n node) shapeResult() value {
	switch op := n.GetOpType(); {
	case op == "Gather" && n.axis(0) == 0:
		return n.gathered()
	case op == "Unsqueeze" || op == "Squeeze" || op == "Cast":
		v, ok := n.list(0)
		shape := n.in[0].shape
		if !ok || op != "Cast" && len(v) != 1 || op == "Unsqueeze" && len(shape) != 0 {
			return value{}
		}
		switch op {
		case "Unsqueeze":
			shape = []int64{1}
		case "Squeeze":
			shape = []int64{}
		}
		return value{shape: shape, ints: v, known: true}
	case op == "Concat":
		out := value{known: true}
		for k := range n.in {
			v, ok := n.list(k)
			if !ok {
				return value{}
			}
			out.ints = append(out.ints, v...)
		}
		out.shape = []int64{int64(len(out.ints))}
		return out
	}
	return value{}
}

// gathered computes the integers that Gather picks from a list.
func (n node) gathered() value {
	from, ok := n.list(0)
	index, ok2 := n.list(1)
	if !ok || !ok2 {
		return value{}
	}
	out := value{shape: n.in[1].shape, known: true}
	for _, i := range index {
		if i < 0 {
			i += int64(len(from))
		}
		if i < 0 || i >= int64(len(from)) {
			return value{}
		}
		out.ints = append(out.ints, from[i])
	}
	return out
}

// list returns the integers of a constant input that is a number or a list.
func (n node) list(k int) ([]int64, bool) {
	v, ok := n.ints(k)
	return v, ok && n.in[k].shape != nil && len(n.in[k].shape) <= 1
}

// ints returns the integers of a constant input.
func (n node) ints(k int) ([]int64, bool) {
	if k >= len(n.in) {
		return nil, false
	}
	v := n.in[k]
	if v.known || v.tensor == nil {
		return v.ints, v.known
	}
	return n.file.Ints(v.tensor)
}

// floats returns the elements of input k, which must be a stored tensor of real numbers.
func (n node) floats(k int) ([]float64, error) {
	if k < len(n.in) && n.in[k].tensor != nil {
		if v, ok := n.file.Floats(n.in[k].tensor); ok {
			for _, x := range v {
				if x = math.Abs(x); 0 < x && x < smallestWeight || largestWeight < x && x < math.Inf(1) {
					return nil, n.refuse("input %d has the number %g", k, x)
				}
			}
			return v, nil
		}
	}
	return nil, n.refuse("input %d is not a stored tensor of real numbers", k)
}

func (n node) attribute(name string) *onnxpb.AttributeProto {
	for _, a := range n.Attribute {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

// number returns the value of a float attribute.
func (n node) number(name string, absent float64) float64 {
	if a := n.attribute(name); a != nil {
		return float64(a.GetF())
	}
	return absent
}

// integer returns the value of an integer attribute.
func (n node) integer(name string, absent int64) int64 {
	if a := n.attribute(name); a != nil {
		return a.GetI()
	}
	return absent
}

// axis returns the attribute 'axis'. A negative axis counts from the end. If the rank is known, the method returns a
// negative axis as the equivalent non-negative number.
func (n node) axis(absent int64) int64 {
	axis := n.integer("axis", absent)
	if axis < 0 && n.in[0].shape != nil {
		axis += int64(len(n.in[0].shape))
	}
	return axis
}

// sizes returns an attribute with a size for each spatial axis.
func (n node) sizes(name string, axes int, absent int) ([]int, error) {
	out := slices.Repeat([]int{absent}, axes)
	a := n.attribute(name)
	if a == nil {
		return out, nil
	}
	if len(a.Ints) != axes {
		return nil, n.refuse("%s has %d numbers for %d axes", name, len(a.Ints), axes)
	}
	for i, x := range a.Ints {
		if x < 1 || x > math.MaxInt32 {
			return nil, n.refuse("%s is %d", name, x)
		}
		out[i] = int(x)
	}
	return out, nil
}

// The method 'refuse' returns an error about the node.
func (n node) refuse(format string, arguments ...any) error {
	name := n.GetName()
	if name == "" && len(n.Output) > 0 {
		name = n.Output[0]
	}
	return fmt.Errorf("node '%s', %s: %w", quote.Name(name), quote.Name(n.GetOpType()), fmt.Errorf(format, arguments...))
}

func (n node) unsupported() error {
	return hint.Add(n.refuse("no bound is known for this operator"), "it must be one of: %s", supported())
}
