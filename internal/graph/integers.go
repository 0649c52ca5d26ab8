package graph

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// integerRanges holds the range of each integer type that an input may have: the smallest and the largest float32 that
// the type can represent.
var integerRanges = map[ElemType][2]float32{
	ElemType(onnxpb.TensorProto_UINT8):  {0, math.MaxUint8},
	ElemType(onnxpb.TensorProto_INT8):   {math.MinInt8, math.MaxInt8},
	ElemType(onnxpb.TensorProto_UINT16): {0, math.MaxUint16},
	ElemType(onnxpb.TensorProto_INT16):  {math.MinInt16, math.MaxInt16},
	ElemType(onnxpb.TensorProto_INT32):  {math.MinInt32, 1<<31 - 1<<7},
	ElemType(onnxpb.TensorProto_INT64):  {math.MinInt64, 1<<63 - 1<<39},
}

// The method 'feedable' reports whether rscert can feed an input of type t.
func (t ElemType) feedable() bool {
	_, integer := integerRanges[t]
	return integer || t.IsFloat()
}

// intakeOf says how rscert converts the values for an input of type t.
func intakeOf(t ElemType) Intake {
	switch _, integer := integerRanges[t]; {
	case t == ElemType(onnxpb.TensorProto_UINT8):
		return Bytes
	case integer:
		return Integers
	}
	return Floats
}

// roundInput turns an integer input into a float32 input. A value v becomes min(max(⌊v + ½⌋, least), greatest), where
// least and greatest are the limits of the type. The sum v + ½ is rounded to float32, so every bit of the result is
// defined. If v is a whole number and |v| < 2²², the sum is exact.
func (a *Adaptation) roundInput(g *onnxpb.GraphProto, input TensorInfo) {
	if a.Intake = intakeOf(input.Type); a.Intake == Floats {
		return
	}
	e := newEditor(g)
	for _, v := range g.Input {
		if v.GetName() != input.Name {
			continue
		}
		name := e.unused("values")
		e.round(name, input.Name, input.Type)
		v.Name = proto.String(name)
		setType(v, Float32)
	}
	e.finish()
	a.rounded(input)
}

func (a *Adaptation) rounded(input TensorInfo) {
	r := integerRanges[input.Type]
	a.Change("input '%s': values are rounded to integers, half up, and clamped to %.0f…%.0f", quote.Name(input.Name), r[0], r[1])
}

// The method 'round' adds nodes that round a float32 value and clamp it to the range of type t.
func (e *editor) round(from, to string, t ElemType) {
	half, floor, atLeast, atMost := e.unused("half"), e.unused("floor"), e.unused("atleast"), e.unused("atmost")
	r := integerRanges[t]
	e.Add(
		Node("Add", []string{from, e.Floats(nil, .5)}, half),
		Node("Floor", []string{half}, floor),
		Node("Max", []string{floor, e.Floats(nil, r[0])}, atLeast),
		Node("Min", []string{atLeast, e.Floats(nil, r[1])}, atMost),
		castNode(atMost, to, t))
}

// checkTokens refuses text models. In such a model an integer input indexes a table, so the input's values are token
// numbers. Noise would turn the tokens into other tokens.
func checkTokens(m *onnxpb.ModelProto, info *Info) error {
	for _, input := range info.Inputs {
		if intakeOf(input.Type) == Floats {
			continue
		}
		if table := lookedUp(m.Graph, input.Name); table != "" {
			return hint.New(fmt.Sprintf("model input '%s' holds token numbers: '%s' is looked up with them, so noise has no meaning there",
				quote.Name(input.Name), quote.Name(table)),
				"export the part of the model behind its embedding, with input [N,T,D], and give it embeddings as data: the certificates are then about changes of the embeddings")
		}
	}
	return nil
}

// lookedUp looks for a Gather node that uses the input's values to select rows of a constant table. It returns the name
// of the table, or "" if no node does this. Nodes between the input and the Gather node may only change the shape or
// the type.
func lookedUp(g *onnxpb.GraphProto, input string) string {
	constants := constantsOf(g.Initializer, g.Node)
	same := map[string]bool{input: true}
	for _, n := range g.Node {
		switch {
		case len(n.Input) == 0 || len(n.Output) == 0:
		case n.GetOpType() == "Gather" && len(n.Input) == 2 && same[n.Input[1]] && len(constants[n.Input[0]].GetDims()) >= 2:
			return n.Input[0]
		case slices.Contains(passThrough, n.GetOpType()) && same[n.Input[0]]:
			same[n.Output[0]] = true
		}
	}
	return ""
}
