package calibrator

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The names of the graph's ends.
const (
	GraphInput  = "outputs"       // of the model: float32 [N, Columns]
	GraphOutput = "probabilities" // float32 [N, Classes]
)

// ONNX is the map as an ONNX model in float32, operator set 13, to be put behind a model: its input is what the model
// puts out.
func (m Map) ONNX() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	g := &graph{m: m, proto: &onnxpb.GraphProto{
		Name:   proto.String("rscert_" + m.Method),
		Input:  []*onnxpb.ValueInfoProto{matrixInfo(GraphInput, m.Columns)},
		Output: []*onnxpb.ValueInfoProto{matrixInfo(GraphOutput, m.Classes)},
	}}
	if m.Bias != nil {
		g.multinomial()
	} else {
		g.classwise()
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{
		IrVersion:    proto.Int64(7),
		ProducerName: proto.String("rscert"),
		Graph:        g.proto,
		OpsetImport:  []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
	})
}

func matrixInfo(name string, columns int) *onnxpb.ValueInfoProto {
	return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{
		Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{
			ElemType: proto.Int32(int32(onnxpb.TensorProto_FLOAT)),
			Shape: &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
				{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}},
				{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(columns)}},
			}},
		}},
	}}
}

// graph is a graph in the making. Its methods return names of values.
type graph struct {
	m     Map
	proto *onnxpb.GraphProto
	named int
}

func (g *graph) name() string {
	g.named++
	return fmt.Sprintf("v%d", g.named)
}

// node adds an operator of the inputs.
func (g *graph) node(op string, attributes []*onnxpb.AttributeProto, inputs ...string) string {
	out := g.name()
	g.proto.Node = append(g.proto.Node, &onnxpb.NodeProto{
		OpType: proto.String(op), Input: inputs, Output: []string{out}, Attribute: attributes,
	})
	return out
}

func (g *graph) op(op string, inputs ...string) string { return g.node(op, nil, inputs...) }

// floats is a constant.
func (g *graph) floats(x []float64, dims ...int64) string {
	t := &onnxpb.TensorProto{Name: proto.String(g.name()), Dims: dims, DataType: proto.Int32(int32(onnxpb.TensorProto_FLOAT))}
	for _, v := range x {
		t.FloatData = append(t.FloatData, float32(v))
	}
	g.proto.Initializer = append(g.proto.Initializer, t)
	return t.GetName()
}

func (g *graph) float(x float64) string { return g.floats([]float64{x}, 1, 1) }

func (g *graph) ints(x ...int64) string {
	t := &onnxpb.TensorProto{Name: proto.String(g.name()), Dims: []int64{int64(len(x))}, Int64Data: x,
		DataType: proto.Int32(int32(onnxpb.TensorProto_INT64))}
	g.proto.Initializer = append(g.proto.Initializer, t)
	return t.GetName()
}

func attribute(name string, x int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(x)}
}

// overColumns are the attributes of a reduction over the columns.
func overColumns() []*onnxpb.AttributeProto {
	return []*onnxpb.AttributeProto{
		{Name: proto.String("axes"), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: []int64{1}}, attribute("keepdims", 1),
	}
}

// columns are the given columns of a matrix.
func (g *graph) columns(matrix string, which ...int64) string {
	return g.node("Gather", []*onnxpb.AttributeProto{attribute("axis", 1)}, matrix, g.ints(which...))
}

func (g *graph) concat(columns ...string) string {
	return g.node("Concat", []*onnxpb.AttributeProto{attribute("axis", 1)}, columns...)
}

func (g *graph) cast(x string, to onnxpb.TensorProto_DataType) string {
	return g.node("Cast", []*onnxpb.AttributeProto{attribute("to", int64(to))}, x)
}

// finish makes x the output.
func (g *graph) finish(op string, attributes []*onnxpb.AttributeProto, inputs ...string) {
	g.node(op, attributes, inputs...)
	g.proto.Node[len(g.proto.Node)-1].Output[0] = GraphOutput
}

// multinomial is Map.multinomial.
func (g *graph) multinomial() {
	z := GraphInput
	switch {
	case g.m.Columns == 1 && g.m.Input == Logits:
		z = g.concat(g.op("Sub", z, z), z)
	case g.m.Columns == 1:
		z = g.concat(g.op("Sub", g.float(1), z), z)
	}
	if g.m.Input == Probabilities {
		z = g.op("Log", g.op("Max", z, g.float(tiny)))
	}
	k := int64(g.m.Classes)
	if len(g.m.Weight) == g.m.Classes*g.m.Classes {
		z = g.op("MatMul", z, g.floats(g.m.Weight, k, k))
	} else {
		z = g.op("Mul", z, g.floats(g.m.Weight, 1, int64(len(g.m.Weight))))
	}
	z = g.op("Add", z, g.floats(g.m.Bias, 1, k))
	g.finish("Softmax", []*onnxpb.AttributeProto{attribute("axis", 1)}, z)
}

// classwise is Map.classwise.
func (g *graph) classwise() {
	if g.m.Classes == 2 {
		p := g.curve(0, 1)
		g.finish("Concat", []*onnxpb.AttributeProto{attribute("axis", 1)}, g.op("Sub", g.float(1), p), p)
		return
	}
	var each []string
	for k := range g.m.Classes {
		each = append(each, g.curve(k, k))
	}
	p := g.concat(each...)
	sum := g.node("ReduceSum", []*onnxpb.AttributeProto{attribute("keepdims", 1)}, p, g.ints(1))
	g.finish("Where", nil, g.op("Greater", sum, g.float(0)), g.op("Div", p, sum), g.float(1/float64(g.m.Classes)))
}

// odds is the function odds of class k; s where the map needs it, of probabilities.
func (g *graph) odds(k int) (s, d string) {
	clip := func(d string) string { return g.op("Min", g.op("Max", d, g.float(-maxOdds)), g.float(maxOdds)) }
	if g.m.Input == Probabilities {
		s = GraphInput
		if g.m.Columns > 1 {
			s = g.columns(s, int64(k))
		}
		return s, clip(g.op("Sub", g.op("Log", s), g.op("Log", g.op("Sub", g.float(1), s))))
	}
	d = GraphInput
	if g.m.Columns > 1 {
		z := g.op("Max", g.op("Sub", d, g.node("ReduceMax", overColumns(), d)), g.float(-1e4)) // −∞, to be subtracted
		var others []int64
		for j := range int64(g.m.Classes) {
			if j != int64(k) {
				others = append(others, j)
			}
		}
		d = g.op("Sub", g.columns(z, int64(k)), g.node("ReduceLogSumExp", overColumns(), g.columns(z, others...)))
	}
	return "", clip(d)
}

// curve is Map.curve number i, of class k.
func (g *graph) curve(i, k int) string {
	s, d := g.odds(k)
	switch {
	case g.m.Platt != nil:
		c := g.m.Platt[i]
		return g.op("Sigmoid", g.op("Add", g.op("Mul", d, g.float(c.A)), g.float(c.B)))
	case g.m.Beta != nil:
		c := g.m.Beta[i]
		a := g.op("Mul", g.op("Softplus", g.op("Neg", d)), g.float(-c.A))
		b := g.op("Mul", g.op("Softplus", d), g.float(c.B))
		return g.op("Sigmoid", g.op("Add", g.op("Add", a, b), g.float(c.C)))
	}
	c, x := g.m.Steps[i], s
	if g.m.Input == Logits {
		x = d
	}
	n := int64(len(c.At))
	at := g.floats(c.At, 1, n)
	reached := g.cast(g.op("GreaterOrEqual", x, at), onnxpb.TensorProto_FLOAT)
	count := g.node("ReduceSum", []*onnxpb.AttributeProto{attribute("keepdims", 1)}, reached, g.ints(1))
	segment := g.cast(g.op("Max", g.op("Sub", count, g.float(1)), g.float(0)), onnxpb.TensorProto_INT64)
	pick := func(x []float64) string { return g.op("Gather", g.floats(x, n), segment) }
	along := g.op("Sub", g.op("Max", x, g.float(c.At[0])), pick(c.At))
	return g.op("Add", pick(c.Value), g.op("Mul", pick(c.Slope), along))
}
