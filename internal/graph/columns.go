package graph

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// oneColumnEach reports whether the model has two or more inputs and each of them is one column of a table. Each input
// must have the shape [N,1], or the shape [N] with N free or 1. All inputs must have the same N. skl2onnx exports a
// data frame in this way.
func oneColumnEach(inputs []TensorInfo) bool {
	if len(inputs) < 2 {
		return false
	}
	first := func(t TensorInfo) int { return t.Shape[0].Size }
	for _, t := range inputs {
		column := t.Kind == "tensor" && t.Type.feedable() && !t.Unknown &&
			(len(t.Shape) == 1 && t.Shape[0].Size <= 1 || len(t.Shape) == 2 && t.Shape[1].Size == 1)
		if !column || first(t) != first(inputs[0]) {
			return false
		}
	}
	return true
}

// joinColumns joins D inputs into one input [N,D]. Each of the D inputs is one column. It matches the old inputs with
// the data's columns by name. If the columns have no names, it takes the inputs in the order of the graph. The added
// nodes split the new input into columns, and convert each column to the type and shape of the old input.
func (a *Adaptation) joinColumns(m *onnxpb.ModelProto, inputs []TensorInfo, columns []string) error {
	order, err := orderOf(inputs, columns)
	if err != nil {
		return err
	}
	g := m.Graph
	e := newEditor(g)
	joined := "columns"
	if e.uses(joined) {
		joined = e.unused(joined)
	}
	split := Node("Split", []string{joined}, "", IntAttribute("axis", 1))
	split.Output = nil
	for range order {
		split.Output = append(split.Output, e.unused("column"))
	}
	if sizes := slices.Repeat([]int64{1}, len(order)); Opset(m) >= 13 {
		split.Input = append(split.Input, e.Ints(sizes...))
	} else {
		split.Attribute = append(split.Attribute, IntsAttribute("split", sizes))
	}
	e.Add(split)
	var names []string
	for i, k := range order {
		input := inputs[k]
		e.feedColumn(split.Output[i], input)
		names = append(names, quote.Name(input.Name))
		if intakeOf(input.Type) != Floats {
			a.Intake = Integers
			a.rounded(input)
		}
	}
	e.finish()
	replaceInputs(g, inputs, joined)
	a.Change("columns '%s', one input each, in this order: joined", strings.Join(names, "', '"))
	return nil
}

// feedColumn adds nodes that convert a float32 column [N,1] to the input's type and shape.
func (e *editor) feedColumn(column string, input TensorInfo) {
	if len(input.Shape) == 1 {
		flat := e.unused("flat")
		e.Add(Node("Reshape", []string{column, e.Ints(-1)}, flat))
		column = flat
	}
	switch {
	case intakeOf(input.Type) != Floats:
		e.round(column, input.Name, input.Type)
	case input.Type != Float32:
		e.Add(castNode(column, input.Name, input.Type))
	default:
		e.Add(Node("Identity", []string{column}, input.Name))
	}
}

// replaceInputs declares one float32 input [N,D] in place of the column inputs.
func replaceInputs(g *onnxpb.GraphProto, inputs []TensorInfo, joined string) {
	var batch *onnxpb.TensorShapeProto_Dimension
	g.Input = slices.DeleteFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool {
		if !slices.ContainsFunc(inputs, func(t TensorInfo) bool { return t.Name == v.GetName() }) {
			return false
		}
		batch = v.GetType().GetTensorType().GetShape().GetDim()[0]
		return true
	})
	in := FloatTensor(joined, []int64{1, int64(len(inputs))})
	in.GetType().GetTensorType().GetShape().Dim[0] = batch
	g.Input = slices.Insert(g.Input, 0, in)
}

// orderOf returns, for each column of the data, the index of the column's input.
func orderOf(inputs []TensorInfo, columns []string) ([]int, error) {
	order := make([]int, len(inputs))
	for i := range order {
		order[i] = i
	}
	if columns == nil {
		return order, nil
	}
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return identifier(a) == identifier(b) },
	} {
		if order, ok := match(inputs, columns, same); ok {
			return order, nil
		}
	}
	problem := fmt.Sprintf("the model has %d inputs, one for each column, and the data have %d columns", len(inputs), len(columns))
	for _, t := range inputs {
		if !slices.ContainsFunc(columns, func(c string) bool { return identifier(c) == identifier(t.Name) }) {
			problem = fmt.Sprintf("no column of the data is called '%s', as an input of the model is", quote.Name(t.Name))
			break
		}
	}
	return nil, hint.New(problem, fmt.Sprintf("the model's columns are %s; if the file has no header line, its columns are taken in this order", List(inputs)))
}

// The function 'match' returns, for each column, the index of the input whose name equals the column's name. The
// argument 'same' compares two names. match succeeds only if 'same' pairs every column with exactly one input, and
// every input with exactly one column.
func match(inputs []TensorInfo, columns []string, same func(a, b string) bool) ([]int, bool) {
	var order []int
	for _, c := range columns {
		k := slices.IndexFunc(inputs, func(t TensorInfo) bool { return same(t.Name, c) })
		if k < 0 || slices.Contains(order, k) {
			return nil, false
		}
		order = append(order, k)
	}
	return order, len(order) == len(inputs)
}

// identifier spells a column's name as skl2onnx and other exporters do. It converts letters to lower case, keeps
// digits, and replaces each run of other characters between them with one '_'. It drops other characters at the start
// and at the end.
func identifier(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "_")
}

// IntsAttribute returns a node attribute that holds a list of integers.
func IntsAttribute(name string, v []int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
}
