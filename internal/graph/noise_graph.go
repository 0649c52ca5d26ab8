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

// This file adds noise in front of a model's graph and votes behind it. Nodes of the graph then compute the noise and
// the votes.
//
// The nodes in front of the model use only integers and look-ups, so every provider that supports their operators
// computes the same bits as smoothing.LatticeInput. The table below lists all operators of the added nodes. These
// operators exist from operator set 7 on, except Mod, which exists from operator set 10 on. ONNX Runtime's CUDA
// provider has kernels for the types in the table, according to ONNX Runtime's file docs/OperatorKernels.md (looked up
// on 22 November 2026). TestNoiseGraphKernels lists the same types.
//
//	Add, Mul, Div, Mod     uint64; Add and Mul also int32; Mul also float
//	Gather                 uint64, int32 and float, with int32 indices
//	Cast                   uint64 to int32 and bool, bool to int32 and float, float to int32
//	Less                   float
//	Not                    bool
//	ReduceMax, ReduceMin   float; from operator set 18 on, the axes are an input
//	Reshape                float
//
// The graph avoids operators that some providers or operator sets lack. Min of uint64 exists only from operator set 12
// on, and Equal of floats only from 11 on. The CUDA provider has no BitShift, and has Where for only a few types. The
// graph also avoids ArgMax, because on CUDA the library cuDNN decides which of several equal scores ArgMax takes and
// how ArgMax treats NaN.

// noiseOpset is the oldest operator set that the nodes for noise and votes support. From operator set 7 on, operators
// broadcast their operands by themselves.
const noiseOpset = 7

// maxRank limits the number of classes so that their ranks are exact in float32 (see AddVotes).
const maxRank = 1 << 24

// NoiseNames holds the names of a graph's inputs and output after AddNoise and AddVotes. The graph computes T noisy
// rows of D coordinates from any number E of examples.
type NoiseNames struct {
	Places  string // int32 [E, D]; the lattice points of the examples
	Example string // int32 [T]; the index of the row's example, less than E
	Key     string // uint64 [T, 1]; the key of each row's stream of random numbers
	Start   string // uint64 [T, 1]; the key of each row times the first counter value of the row
	Votes   string // int32 [T, 1]; m − class for a model of m classes, or 0 if the row has no class
}

// Around describes a model's graph. AddNoise and AddVotes add nodes to this graph.
type Around struct {
	graph   *onnxpb.GraphProto
	opset   int64
	Rows    int64   // T, or −1 if free
	values  int     // D, the number of values per row
	Shape   []int64 // shape of the input: [number of rows, sizes of a sample…], or only the sizes of a sample
	classes int     // m, the number of classes
}

// AroundModel describes the model's graph. The argument 'values' is D, the number of values in each row of the input.
// The argument 'classes' is m, the number of classes. The number of rows is free.
func AroundModel(m *onnxpb.ModelProto, values, classes int) (Around, error) {
	version := Opset(m)
	switch {
	case version < noiseOpset:
		return Around{}, hint.Add(
			fmt.Errorf("the model is of operator set %d, and noise can be put only in front of models of operator set %d or newer", version, noiseOpset),
			"export it for a newer one, or leave the noise to %s host", param.NoiseOn)
	case classes > maxRank:
		return Around{}, fmt.Errorf("the model has %d classes: votes on the device work for at most %d", classes, maxRank)
	}
	return Around{graph: m.Graph, opset: version, Rows: -1, values: values, classes: classes}, nil
}

// AddNoise adds nodes in front of the graph. The nodes compute the graph's float32 input as smoothing.Rows defines it.
func (a Around) AddNoise(input string, draws smoothing.Draws) NoiseNames {
	g := a.graph
	e := newEditor(g)
	names := NoiseNames{
		Places: e.unused("places"), Example: e.unused("example"), Key: e.unused("key"), Start: e.unused("start"),
	}
	word := e.words(names.Key, names.Start, a.values)

	columns := int64(len(draws.Next))
	column := e.Cast(e.modulo(word, uint64(columns), a.opset), Int32)
	next := e.Op("Gather", e.uint64s([]int64{columns}, draws.Next...), column)
	aliased := e.Cast(e.Cast(e.Op("Div", word, next), Bool), Int32) // 1 if word ≥ next
	step := e.Op("Gather", e.int32s(draws.Step...), column)
	label := e.Op("Add", column, e.Op("Mul", aliased, step))

	place := e.Op("Gather", names.Places, names.Example)
	values := e.Op("Gather", e.Floats(nil, draws.Values...), e.Op("Add", place, label))
	e.Add(Node("Reshape", []string{values, e.Ints(a.Shape...)}, input))
	e.finish()

	// The graph's previous input becomes a value inside the graph. Its shape keeps the names of its sizes, because ONNX
	// Runtime uses these names to decide which sums to fuse with convolutions. These fusions affect the last bits of
	// the scores.
	k := slices.IndexFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == input })
	g.ValueInfo = append(g.ValueInfo, g.Input[k])
	g.Input = slices.Delete(g.Input, k, k+1)
	g.Input = append(g.Input, tensorOf(names.Places, Int32, -1, int64(a.values)), tensorOf(names.Example, Int32, a.Rows),
		tensorOf(names.Key, Uint64, a.Rows, 1), tensorOf(names.Start, Uint64, a.Rows, 1))
	return names
}

// The method 'words' adds nodes that compute the random 64-bit words [T, d] of smoothing.Stream.Words. The random
// number generator is Squares with five rounds. The argument 'key' is the name of a tensor [T, 1] that holds the keys
// of the streams. The argument 'start' is the name of a tensor [T, 1]. For each row, this tensor holds the product of
// the row's key and the row's first counter value.
func (e *editor) words(key, start string, d int) string {
	coordinates := make([]uint64, d)
	for i := range coordinates {
		coordinates[i] = uint64(i)
	}
	half := e.uint64s(scalar, 1<<32)
	rotated := func(x string) string { return e.Op("Add", e.Op("Mul", x, half), e.Op("Div", x, half)) }
	square := func(x, plus string) string { return e.Op("Add", e.Op("Mul", x, x), plus) }

	y := e.Op("Add", e.Op("Mul", key, e.uint64s([]int64{1, int64(d)}, coordinates...)), start)
	z := e.Op("Add", y, key)
	x := rotated(square(y, y))
	x = rotated(square(x, z))
	x = rotated(square(x, y))
	t := square(x, z)
	x = rotated(t)
	return e.Op("Add", t, e.Op("Div", square(x, y), half))
}

// The method 'modulo' adds nodes that compute x mod n. In operator sets without Mod, the nodes compute
// (x + (x div n)·(2⁶⁴ − n)) mod 2⁶⁴.
func (e *editor) modulo(x string, n uint64, opset int64) string {
	if opset >= 10 {
		return e.Op("Mod", x, e.uint64s(scalar, n))
	}
	return e.Op("Add", x, e.Op("Mul", e.Op("Div", x, e.uint64s(scalar, n)), e.uint64s(scalar, -n)))
}

// AddVotes adds nodes behind the graph. The nodes turn the graph's float32 output into votes, as smoothing.Vote defines
// them. The output holds m scores per row. AddVotes makes the votes an output of the graph. Class k has rank m − k. A
// row's vote is the highest rank among the classes with the row's largest score, so the first of these classes wins.
// The vote is 0 if a score is NaN or +∞, because the nodes require that every score is below +∞. The vote is also 0 if
// the largest score is −∞.
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
	// The variable 'best' is 1 for the largest score, and also for a NaN score. In this case the factor 'below' of the
	// vote is 0, so the vote is 0.
	best := e.Cast(e.Op("Not", e.Op("Less", scores, largest)), Float32)
	rank := reduce("ReduceMax", e.Op("Mul", best, e.Floats(nil, ranks...)))
	below := reduce("ReduceMin", e.Cast(e.Op("Less", scores, e.Floats(nil, infinity)), Float32))
	above := e.Cast(e.Op("Less", e.Floats(nil, -infinity), largest), Float32)
	votes = e.Cast(e.Op("Mul", e.Op("Mul", rank, below), above), Int32)

	g.Node = append(g.Node, e.Nodes...)
	g.Output = append(g.Output, tensorOf(votes, Int32, a.Rows, 1))
	return votes
}

// reduceRows reduces each row of a matrix to one value. The result has one row for each row of the matrix, and one
// column.
func (e *editor) reduceRows(op, x string, opset int64) string {
	if opset < 18 {
		return e.Node(op, []string{x}, IntsAttribute("axes", []int64{1}))
	}
	return e.Op(op, x, e.Ints(1))
}

// tensorOf declares an input or output with the given type and sizes; −1 means free.
func tensorOf(name string, t ElemType, sizes ...int64) *onnxpb.ValueInfoProto {
	v := FloatTensor(name, sizes)
	setType(v, t)
	for i, d := range v.GetType().GetTensorType().GetShape().GetDim() {
		if sizes[i] < 0 { // each free size gets its own name; ONNX Runtime finds out by itself which sizes are equal
			d.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: fmt.Sprintf("%s_%d", name, i)}
		}
	}
	return v
}
