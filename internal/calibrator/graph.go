package calibrator

import (
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// These are the names of the graph's input and output.
const (
	GraphInput  = "outputs"       // the classifier's outputs: float32 [N, Columns]
	GraphOutput = "probabilities" // float32 [N, Classes]
)

// ONNX returns the map as an ONNX model in float32, operator set 13. The input of this model is the classifier's
// output.
func (m Map) ONNX() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	g := &mapGraph{m, graph.NewInitializing(graph.Numbered("v"))}
	if m.Bias != nil {
		g.multinomial()
	} else {
		g.classwise()
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{
		IrVersion:    proto.Int64(7),
		ProducerName: proto.String("rscert"),
		Graph: &onnxpb.GraphProto{
			Name:        proto.String("rscert_" + m.Method),
			Node:        g.Nodes,
			Initializer: g.Initializers,
			Input:       []*onnxpb.ValueInfoProto{matrixInfo(GraphInput, m.Columns)},
			Output:      []*onnxpb.ValueInfoProto{matrixInfo(GraphOutput, m.Classes)},
		},
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
	})
}

// matrixInfo describes a float32 matrix with any number of rows.
func matrixInfo(name string, columns int) *onnxpb.ValueInfoProto {
	v := graph.FloatTensor(name, []int64{0, int64(columns)})
	v.GetType().GetTensorType().GetShape().Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
	return v
}

// mapGraph builds the graph of the map m. The input of this graph is the classifier's outputs. The methods of mapGraph
// return names of values in the graph.
type mapGraph struct {
	m Map
	*graph.Builder
}

// The method 'floats' rounds the numbers in x to float32 and adds a constant that holds them.
func (g *mapGraph) floats(x []float64, dims ...int64) string {
	rounded := make([]float32, len(x))
	for i, v := range x {
		rounded[i] = float32(v)
	}
	return g.Floats(dims, rounded...)
}

func (g *mapGraph) float(x float64) string { return g.floats([]float64{x}, 1, 1) }

// overColumns returns the attributes of a reduction over the columns.
func overColumns() []*onnxpb.AttributeProto {
	return []*onnxpb.AttributeProto{graph.IntsAttribute("axes", []int64{1}), graph.IntAttribute("keepdims", 1)}
}

// The method 'columns' selects the given columns of a matrix.
func (g *mapGraph) columns(matrix string, which ...int64) string {
	return g.Node("Gather", []string{matrix, g.Ints(which...)}, graph.IntAttribute("axis", 1))
}

func (g *mapGraph) concat(columns ...string) string {
	return g.Node("Concat", columns, graph.IntAttribute("axis", 1))
}

// finish adds the last node, whose output is the graph's output.
func (g *mapGraph) finish(op string, attributes []*onnxpb.AttributeProto, inputs ...string) {
	g.Node(op, inputs, attributes...)
	g.Nodes[len(g.Nodes)-1].Output[0] = GraphOutput
}

// The method 'multinomial' adds nodes that compute the same as Map.logits and Map.multinomial.
func (g *mapGraph) multinomial() {
	z := GraphInput
	switch {
	case g.m.Columns == 1 && g.m.Input == Logits:
		z = g.concat(g.Op("Sub", z, z), z)
	case g.m.Columns == 1:
		z = g.concat(g.Op("Sub", g.float(1), z), z)
	}
	if g.m.Input == Probabilities {
		z = g.Op("Log", g.Op("Max", z, g.float(tiny)))
	}
	k := int64(g.m.Classes)
	if b := g.m.Before; b != nil {
		p := g.Node("Softmax", []string{g.Op("Mul", z, g.float(b.Slope))}, graph.IntAttribute("axis", 1))
		p = g.Op("Add", g.Op("Mul", p, g.float(1-b.Uniform)), g.float(b.Uniform/float64(k)))
		z = g.Op("Log", g.Op("Max", p, g.float(tiny)))
	}
	if len(g.m.Weight) == g.m.Classes*g.m.Classes {
		z = g.Op("MatMul", z, g.floats(g.m.Weight, k, k))
	} else {
		z = g.Op("Mul", z, g.floats(g.m.Weight, 1, int64(len(g.m.Weight))))
	}
	z = g.Op("Add", z, g.floats(g.m.Bias, 1, k))
	g.finish("Softmax", []*onnxpb.AttributeProto{graph.IntAttribute("axis", 1)}, z)
}

// The method 'classwise' adds nodes that compute the same as Map.classwise.
func (g *mapGraph) classwise() {
	if g.m.Classes == 2 {
		p := g.curve(0, 1)
		g.finish("Concat", []*onnxpb.AttributeProto{graph.IntAttribute("axis", 1)}, g.Op("Sub", g.float(1), p), p)
		return
	}
	var each []string
	for k := range g.m.Classes {
		each = append(each, g.curve(k, k))
	}
	p := g.concat(each...)
	sum := g.Node("ReduceSum", []string{p, g.Ints(1)}, graph.IntAttribute("keepdims", 1))
	g.finish("Where", nil, g.Op("Greater", sum, g.float(0)), g.Op("Div", p, sum), g.float(1/float64(g.m.Classes)))
}

// The method 'odds' adds the nodes that compute the probability s and the log-odds d of class k, and returns their
// names. For logits the name of s is empty, because the curves then need only d.
func (g *mapGraph) odds(k int) (s, d string) {
	clip := func(d string) string { return g.Op("Min", g.Op("Max", d, g.float(-maxOdds)), g.float(maxOdds)) }
	if g.m.Input == Probabilities {
		s = GraphInput
		if g.m.Columns > 1 {
			s = g.columns(s, int64(k))
		}
		return s, clip(g.Op("Sub", g.Op("Log", s), g.Op("Log", g.Op("Sub", g.float(1), s))))
	}
	d = GraphInput
	if g.m.Columns > 1 {
		// Max replaces −∞ by a finite number, because (−∞) − (−∞) is NaN.
		z := g.Op("Max", g.Op("Sub", d, g.Node("ReduceMax", []string{d}, overColumns()...)), g.float(-1e4))
		var others []int64
		for j := range int64(g.m.Classes) {
			if j != int64(k) {
				others = append(others, j)
			}
		}
		d = g.Op("Sub", g.columns(z, int64(k)), g.Node("ReduceLogSumExp", []string{g.columns(z, others...)}, overColumns()...))
	}
	return "", clip(d)
}

// The method 'curve' adds nodes that compute the same as Map.curve for curve number i, the curve of class k.
func (g *mapGraph) curve(i, k int) string {
	s, d := g.odds(k)
	switch {
	case g.m.Platt != nil:
		c := g.m.Platt[i]
		return g.Op("Sigmoid", g.Op("Add", g.Op("Mul", d, g.float(c.A)), g.float(c.B)))
	case g.m.Beta != nil:
		c := g.m.Beta[i]
		a := g.Op("Mul", g.Op("Softplus", g.Op("Neg", d)), g.float(-c.A))
		b := g.Op("Mul", g.Op("Softplus", d), g.float(c.B))
		return g.Op("Sigmoid", g.Op("Add", g.Op("Add", a, b), g.float(c.C)))
	}
	x := s
	if g.m.Input == Logits {
		x = d
	}
	if g.m.VennAbers != nil {
		return g.vennAbers(g.m.VennAbers[i], x)
	}
	c := g.m.Steps[i]
	n := int64(len(c.At))
	count := g.count("GreaterOrEqual", x, c.At)
	segment := g.Cast(g.Op("Max", g.Op("Sub", count, g.float(1)), g.float(0)), graph.Int64)
	pick := func(x []float64) string { return g.Op("Gather", g.floats(x, n), segment) }
	along := g.Op("Sub", g.Op("Max", x, g.float(c.At[0])), pick(c.At))
	return g.Op("Add", pick(c.Value), g.Op("Mul", pick(c.Slope), along))
}

// The method 'count' adds nodes that compare x with each number in the slice 'at'. For each row, the nodes count the
// numbers for which the comparison is true.
func (g *mapGraph) count(comparison, x string, at []float64) string {
	reached := g.Cast(g.Op(comparison, x, g.floats(at, 1, int64(len(at)))), graph.Float32)
	return g.Node("ReduceSum", []string{reached, g.Ints(1)}, graph.IntAttribute("keepdims", 1))
}

// vennAbers adds nodes that compute the same as VennAbersCurve.value.
func (g *mapGraph) vennAbers(c VennAbersCurve, x string) string {
	value := func(comparison string, p []float64) string {
		return g.Op("Gather", g.floats(p, int64(len(p))), g.Cast(g.count(comparison, x, c.At), graph.Int64))
	}
	p0, p1 := value("GreaterOrEqual", c.P0), value("Greater", c.P1)
	return g.Op("Div", p1, g.Op("Add", g.Op("Sub", g.float(1), p0), p1))
}
