package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/smoothing"
)

// This file puts noise in front of a model and votes behind it, in the graph.
//
// In front there are integers and look-ups only, so every provider that has the operators makes the bits that
// smoothing.LatticeInput makes. All of them are of operator set 7 (Mod of 10) and have kernels of ONNX Runtime's CUDA
// provider for the types here, by its table docs/OperatorKernels.md (looked up on 22 November 2026;
// TestNoiseGraphKernels has it):
//
//	Add, Mul, Div, Mod     uint64, Add and Mul int32 too, Mul float
//	Gather                 uint64, int32 and float, by int32
//	Cast                   uint64 to int32 and bool, bool to int32 and float, float to int32
//	Less                   float
//	Not                    bool
//	ReduceMax, ReduceMin   float; from 18 on their axes are an input
//	Reshape                float
//
// Not used, as they are not everywhere: Min of uint64 (from 12), Equal of floats (from 11), BitShift (none on CUDA),
// Where (few types), ArgMax (which of equals it takes, and what NaN does, is cuDNN's).

// noiseOpset is the least operator set of a model that noise can be put in front of: the first whose operators stretch
// their operands to one shape by themselves.
const noiseOpset = 7

// maxRank bounds the classes whose ranks are exact in float32.
const maxRank = 1 << 24

// NoiseNames are the inputs of a graph that makes noise, and its votes. For T rows of D coordinates, and any number E
// of examples:
type NoiseNames struct {
	Places  string // int32 [E, D]
	Example string // int32 [T], below E
	Key     string // uint64 [T, 1]
	Start   string // uint64 [T, 1]
	Votes   string // int32 [T, 1]: m − class, 0 for nobody
}

// Around is a graph that noise and votes are put around.
type Around struct {
	graph   *onnxpb.GraphProto
	opset   int64
	Rows    int64   // T; −1: free
	values  int     // of a row, D
	Shape   []int64 // of the input: rows and the sample's sizes, or these alone
	classes int     // m
}

// AroundModel is the model's graph, of inputs of D values and m classes, with a free number of rows.
func AroundModel(m *onnxpb.ModelProto, values, classes int) (Around, error) {
	version := Opset(m)
	switch {
	case version < noiseOpset:
		return Around{}, hint.Add(
			fmt.Errorf("the model is of operator set %d, and noise can be put in front of %d and newer", version, noiseOpset),
			"export it for a newer one, or leave the noise to %s host", param.NoiseOn)
	case classes > maxRank:
		return Around{}, fmt.Errorf("the model has %d classes: on the device votes are those of up to %d", classes, maxRank)
	}
	return Around{graph: m.Graph, opset: version, Rows: -1, values: values, classes: classes}, nil
}

// AddNoise puts nodes in front of the graph that make its float32 input of what smoothing.Rows says.
func (a Around) AddNoise(input string, draws smoothing.Draws) NoiseNames {
	g := a.graph
	e := newEditor(g)
	names := NoiseNames{
		Places: e.unused("places"), Example: e.unused("example"), Key: e.unused("key"), Start: e.unused("start"),
	}
	word := e.words(names.Key, names.Start, a.values)

	columns := int64(len(draws.Next))
	column := e.Cast(e.modulo(word, uint64(columns), a.opset), Int32)
	next := e.Op("Gather", e.Uint64s([]int64{columns}, draws.Next...), column)
	aliased := e.Cast(e.Cast(e.Op("Div", word, next), Bool), Int32) // 1 if w ≥ next
	step := e.Op("Gather", e.Int32s(draws.Step...), column)
	label := e.Op("Add", column, e.Op("Mul", aliased, step))

	place := e.Op("Gather", names.Places, names.Example)
	values := e.Op("Gather", e.Floats(nil, draws.Values...), e.Op("Add", place, label))
	e.Add(Node("Reshape", []string{values, e.Ints(a.Shape...)}, input))
	e.finish()

	// The input is a value now, and its shape stays known by the names of its sizes: by them ONNX Runtime tells which
	// sums it can fuse with convolutions, and so the last bits.
	k := slices.IndexFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == input })
	g.ValueInfo = append(g.ValueInfo, g.Input[k])
	g.Input = slices.Delete(g.Input, k, k+1)
	g.Input = append(g.Input, tensorOf(names.Places, Int32, -1, int64(a.values)), tensorOf(names.Example, Int32, a.Rows),
		tensorOf(names.Key, Uint64, a.Rows, 1), tensorOf(names.Start, Uint64, a.Rows, 1))
	return names
}

// words computes the words [T, d] of smoothing.Stream.Words, Squares of five rounds, for the keys [T, 1] of streams and
// the products [T, 1] of key and counter at which the rows start.
func (e *editor) words(key, start string, d int) string {
	coordinates := make([]uint64, d)
	for i := range coordinates {
		coordinates[i] = uint64(i)
	}
	half := e.Uint64s(scalar, 1<<32)
	rotated := func(x string) string { return e.Op("Add", e.Op("Mul", x, half), e.Op("Div", x, half)) }
	square := func(x, plus string) string { return e.Op("Add", e.Op("Mul", x, x), plus) }

	y := e.Op("Add", e.Op("Mul", key, e.Uint64s([]int64{1, int64(d)}, coordinates...)), start)
	z := e.Op("Add", y, key)
	x := rotated(square(y, y))
	x = rotated(square(x, z))
	x = rotated(square(x, y))
	t := square(x, z)
	x = rotated(t)
	return e.Op("Add", t, e.Op("Div", square(x, y), half))
}

// modulo is x mod n. Before Mod it is x + (x div n)·(2⁶⁴ − n), mod 2⁶⁴.
func (e *editor) modulo(x string, n uint64, opset int64) string {
	if opset >= 10 {
		return e.Op("Mod", x, e.Uint64s(scalar, n))
	}
	return e.Op("Add", x, e.Op("Mul", e.Op("Div", x, e.Uint64s(scalar, n)), e.Uint64s(scalar, -n)))
}

// AddVotes puts nodes behind the graph that turn its float32 output, of m scores a row, into votes as smoothing.Vote
// has them, and makes them an output too. Class k has the rank m − k; of the classes with the row's largest score the
// first has the highest rank, and the row's is 0 if a score is NaN or +∞ (not below +∞), or the largest −∞ (not above
// it).
func (a Around) AddVotes(output string) (votes string) {
	g, m := a.graph, a.classes
	e := newEditor(g)
	ranks := make([]float32, m)
	for k := range ranks {
		ranks[k] = float32(m - k)
	}
	infinity := float32(math.Inf(1))
	reduce := func(op, x string) string { return e.reduceRows(op, x, a.opset) }

	scores := e.Op("Reshape", output, e.Ints(a.Rows, int64(m)))
	largest := reduce("ReduceMax", scores)
	best := e.Cast(e.Op("Not", e.Op("Less", scores, largest)), Float32) // NaN too
	rank := reduce("ReduceMax", e.Op("Mul", best, e.Floats(nil, ranks...)))
	below := reduce("ReduceMin", e.Cast(e.Op("Less", scores, e.Floats(nil, infinity)), Float32))
	above := e.Cast(e.Op("Less", e.Floats(nil, -infinity), largest), Float32)
	votes = e.Cast(e.Op("Mul", e.Op("Mul", rank, below), above), Int32)

	g.Node = append(g.Node, e.Nodes...)
	g.Output = append(g.Output, tensorOf(votes, Int32, a.Rows, 1))
	return votes
}

// reduceRows reduces the rows of a matrix to one value each, [T, 1].
func (e *editor) reduceRows(op, x string, opset int64) string {
	if opset < 18 {
		return e.Node(op, []string{x}, IntsAttribute("axes", []int64{1}))
	}
	return e.Op(op, x, e.Ints(1))
}

// tensorOf is an input or output of the type and sizes, of which −1 are free.
func tensorOf(name string, t ElemType, sizes ...int64) *onnxpb.ValueInfoProto {
	v := FloatTensor(name, sizes)
	setType(v, t)
	for i, d := range v.GetType().GetTensorType().GetShape().GetDim() {
		if sizes[i] < 0 { // of its own for each input: ONNX Runtime finds out which are the same
			d.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: fmt.Sprintf("%s_%d", name, i)}
		}
	}
	return v
}
