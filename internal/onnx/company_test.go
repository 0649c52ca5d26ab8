package onnx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// mixingModels holds models in which the inputs of a batch affect each other, as in some real exports. Each model
// computes a function of the whole tensor, or a function along the batch dimension. Most models also contain a small
// convolutional net before or after this function. The field 'node' names the node at which the proof of independence
// fails. If the field is "", the proof succeeds with an edit of the graph. After this edit, the graph computes the same
// scores for an input in a batch as for the input alone.
var mixingModels = map[string]struct {
	node  string
	build func() *modelBuilder
}{
	"brightest": {"ReduceMax 'max'", func() *modelBuilder { // in PyTorch x.clamp(0, 1) / x.amax()
		return companyOf().clipped().node("ReduceMax", "clipped", "max", integer("keepdims", 0)).node("Div", "clipped max", "z").scored("z")
	}},
	"brightest_mean": {"ReduceMax 'max'", func() *modelBuilder { // class 0 if the mean exceeds 0.27 times the maximum
		b := companyOf().clipped().node("ReduceMax", "clipped", "max", integer("keepdims", 0)).node("Div", "clipped max", "z").
			node("ReduceMean", "z", "m", ints("axes", 1, 2, 3), integer("keepdims", 0)).reshape("m", "column", -1, 1)
		return b.floats("slope", 1, 0, 0, 0).floats("level", 0, 0.27, 0, 0).node("Mul", "column slope", "mean").node("Add", "mean level", "y").output("y", graph.Float32, "N", 4)
	}},
	"darkest": {"ReduceMin 'min'", func() *modelBuilder {
		return companyOf().node("ReduceMin", "x", "min").node("Sub", "x min", "z").scored("z")
	}},
	"min_max": {"ReduceMin 'min'", func() *modelBuilder {
		return companyOf().node("ReduceMin", "x", "min").node("ReduceMax", "x", "max").node("Sub", "max min", "range").
			node("Sub", "x min", "s").node("Div", "s range", "z").scored("z")
	}},
	"standardised": {"ReduceMean 'mean'", func() *modelBuilder {
		return companyOf().node("ReduceMean", "x", "mean").node("Sub", "x mean", "s").node("Mul", "s s", "q").
			node("ReduceMean", "q", "v").node("Sqrt", "v", "d").node("Div", "s d", "z").scored("z")
	}},
	"batch_norm_training": {"BatchNormalization 'z'", func() *modelBuilder {
		b := companyOf().floats("g", 1, 1, 1).floats("b", 0, 0, 0).floats("m", 0, 0, 0).floats("v", 1, 1, 1).
			node("BatchNormalization", "x g b m v", "z", integer("training_mode", 1)).second("m2").second("v2").scored("z")
		b.OpsetImport[0].Version = proto.Int64(15)
		return b
	}},
	"instance_norm_wrong_axes": {"ReduceMean 'mean'", func() *modelBuilder {
		return companyOf().node("ReduceMean", "x", "mean", ints("axes", 0, 2, 3)).node("Sub", "x mean", "z").scored("z")
	}},
	"group_norm_across": {"", func() *modelBuilder { // a first dimension of 1 is added, so all samples form one group
		return companyOf().reshape("x", "one", 1, 1, -1).node("Softmax", "one", "z", integer("axis", 2)).
			reshape("z", "back", -1, 3, 4, 4).scored("back")
	}},
	"dynamic_int8": {"DynamicQuantizeLinear 'q'", func() *modelBuilder { return companyOf().flat("x").dynamicInt8("f") }},
	"dynamic_int8_saturated": {"DynamicQuantizeLinear 'q'", func() *modelBuilder { // quantises the output of a ReLU6
		return companyOf().floats("zero", 0).floats("six", 6).node("Squeeze", "zero", "low").node("Squeeze", "six", "high").
			node("Clip", "x low high", "r").flat("r").dynamicInt8("f")
	}},
	"softmax_batch_axis": {"Softmax 'y'", func() *modelBuilder {
		return companyOf().convnet("x", "s", graph.Float32).node("Softmax", "s", "y", integer("axis", 0)).output("y", graph.Float32, "N", 4)
	}},
	"top_k_flattened": {"TopK 'most'", func() *modelBuilder { // drops values below the batch's third largest value
		return companyOf().reshape("x", "all", -1).int64s("k", 3).node("TopK", "all k", "most").second("at").
			node("ReduceMin", "most", "third").node("Less", "x third", "less").node("Cast", "less", "mask", integer("to", int64(graph.Float32))).
			node("Mul", "x mask", "z").scored("z")
	}},
	"cumulative": {"CumSum 'z'", func() *modelBuilder {
		b := companyOf().int64s("axis", 0).node("CumSum", "x axis", "z").scored("z")
		b.OpsetImport[0].Version = proto.Int64(14)
		return b
	}},
	"lookup": {"ArgMax 'class'", func() *modelBuilder { // the index of the batch's brightest value selects the offset
		return companyOf().reshape("x", "all", -1).node("ArgMax", "all", "class", integer("axis", 0), integer("keepdims", 0)).
			int64s("two", 2).node("Mod", "class two", "even").floats("table", 0, 0.5).node("Gather", "table even", "offset").
			node("Add", "x offset", "z").scored("z")
	}},
	"gram": {"MatMul 'gram'", func() *modelBuilder { // attention between samples
		return companyOf().flat("x").node("Transpose", "f", "t", ints("perm", 1, 0)).node("MatMul", "f t", "gram").
			node("MatMul", "gram f", "m").weights("w", graph.Float32, 48, 4).node("MatMul", "m w", "y").output("y", graph.Float32, "N", 4)
	}},
	"loop": {"Loop 'z'", func() *modelBuilder { // the loop's body uses x, which is not an input of the node
		return companyOf().subgraph("Loop", "trips keep x", "z").int64s("trips", 2).trueConstant("keep").scored("z")
	}},
	"branch": {"If 'max'", func() *modelBuilder { // a constant condition hides that the node depends on x
		return companyOf().subgraph("If", "keep", "max").trueConstant("keep").node("Div", "x max", "z").scored("z")
	}},
	"own_relu": {"Relu 'z'", func() *modelBuilder { // the model's own function, named like an operator
		b := companyOf().node("Relu", "x", "z").scored("z")
		f := &onnxpb.FunctionProto{Name: proto.String("Relu"), Domain: proto.String(""), OpsetImport: b.OpsetImport,
			Node: []*onnxpb.NodeProto{graph.Node("ReduceMax", []string{"a"}, "m"), graph.Node("Div", []string{"a", "m"}, "b")}}
		f.ProtoReflect().SetUnknown([]byte("\x22\x01a\x2a\x01b")) // fields 4 and 5: input "a", output "b"
		b.Functions = []*onnxpb.FunctionProto{f}
		return b
	}},
	"unsorted": {"ReduceMax 'max'", func() *modelBuilder {
		b := companyOf().node("Div", "x max", "z").scored("z").node("ReduceMax", "x", "max")
		return b
	}},
	"sizes_of_values": {"Reshape 'f'", func() *modelBuilder { // the number of columns depends on the values
		b := companyOf().floats("far", 1e9).node("Greater", "x far", "beyond").node("Cast", "beyond", "count", integer("to", int64(graph.Float32))).
			node("ReduceMax", "count", "most", ints("axes", 1, 2, 3)).reshape("most", "one", -1, 1).weights("w2", graph.Float32, 1, 2).
			node("MatMul", "one w2", "two").floats("columns", -1, 48).node("Add", "two columns", "sum").
			node("Cast", "sum", "sizes", integer("to", int64(onnxpb.TensorProto_INT64))).reshape("sizes", "target", 2)
		b.Graph.Node = append(b.Graph.Node, graph.Node("Reshape", []string{"x", "target"}, "f"))
		return b.weights("w", graph.Float32, 48, 4).node("MatMul", "f w", "y").output("y", graph.Float32, "N", 4)
	}},
	"resized_batch": {"Resize 'r'", func() *modelBuilder { // a batch of 1 stays 1, but a batch of 2 becomes 3
		b := companyOf().floats("scales", 1.5, 1, 1, 1).optional("Resize", "x", "", "scales", "r").
			node("GlobalAveragePool", "r", "p").node("ReduceMax", "p", "t", ints("axes", 0)).node("Add", "x t", "z").scored("z")
		b.OpsetImport[0].Version = proto.Int64(13)
		return b
	}},
	"gather_first": {"Gather 'first'", func() *modelBuilder { // x − x[0]
		return companyOf().int64s("zero", 0).node("Gather", "x zero", "first", integer("axis", 0)).node("Sub", "x first", "z").scored("z")
	}},
}

func init() {
	for name, c := range mixingModels {
		testModels["company_"+name] = c.build
	}
	testModels["company_brightest_image"] = func() *modelBuilder { // a denoiser, for the testscript 'company'
		return companyOf().node("ReduceMax", "x", "max", integer("keepdims", 0)).node("Div", "x max", "y").output("y", graph.Float32, "N", 3, 4, 4)
	}
}

// companyOf returns a model that takes images and has no nodes yet.
func companyOf() *modelBuilder {
	b := newModel("x", graph.Float32, "N", 3, 4, 4)
	b.OpsetImport[0].Version, b.IrVersion = proto.Int64(12), proto.Int64(8)
	return b
}

func (b *modelBuilder) scored(z string) *modelBuilder {
	return b.convnet(z, "y", graph.Float32).output("y", graph.Float32, "N", 4)
}

func (b *modelBuilder) flat(x string) *modelBuilder { return b.node("Flatten", x, "f") }

func (b *modelBuilder) clipped() *modelBuilder {
	return b.floats("zero", 0).floats("unit", 1).node("Squeeze", "zero", "low").node("Squeeze", "unit", "high").node("Clip", "x low high", "clipped")
}

// trueConstant adds a constant of type bool with the value true.
func (b *modelBuilder) trueConstant(name string) *modelBuilder {
	b.Graph.Initializer = append(b.Graph.Initializer, truth(name, 1))
	return b
}

// subgraph adds a node that contains graphs. For a Loop, the body divides the loop's value by the largest value of x.
// For an If, each branch computes the largest value of x.
func (b *modelBuilder) subgraph(op, in, out string) *modelBuilder {
	largest := graph.Node("ReduceMax", []string{"x"}, out+"_max", graph.IntAttribute("keepdims", 1))
	g := &onnxpb.GraphProto{Name: proto.String("body"), Node: []*onnxpb.NodeProto{largest}, Output: []*onnxpb.ValueInfoProto{value(out+"_max", graph.Float32, 1, 1, 1, 1)}}
	names := []string{"then_branch", "else_branch"}
	if op == "Loop" {
		names = []string{"body"}
		g.Input = []*onnxpb.ValueInfoProto{value("trip", graph.ElemType(onnxpb.TensorProto_INT64)), value("go_on", graph.Bool), value("v", graph.Float32, "N", 3, 4, 4)}
		g.Node = append(g.Node, graph.Node("Identity", []string{"go_on"}, "still"), graph.Node("Div", []string{"v", out + "_max"}, "scaled"))
		g.Output = []*onnxpb.ValueInfoProto{value("still", graph.Bool), value("scaled", graph.Float32, "N", 3, 4, 4)}
	}
	n := graph.Node(op, strings.Fields(in), out)
	for _, name := range names {
		n.Attribute = append(n.Attribute, graphAttribute(name, proto.CloneOf(g)))
	}
	b.Graph.Node = append(b.Graph.Node, n)
	return b
}

// dynamicInt8 adds a linear layer in the form that ONNX Runtime's quantize_dynamic writes, with one scale for the whole
// tensor.
func (b *modelBuilder) dynamicInt8(f string) *modelBuilder {
	raw := make([]byte, 48*4)
	for i := range raw {
		raw[i] = byte(int8(b.rng.IntN(255) - 127))
	}
	b.Graph.Initializer = append(b.Graph.Initializer, &onnxpb.TensorProto{
		Name: proto.String("w"), DataType: proto.Int32(int32(onnxpb.TensorProto_INT8)), Dims: []int64{48, 4}, RawData: raw})
	return b.node("DynamicQuantizeLinear", f, "q").second("scale").second("zero_point").optional("MatMulInteger", "q", "w", "zero_point", "p").
		node("Cast", "p", "pf", integer("to", int64(graph.Float32))).floats("ws", 1.0/256).node("Mul", "scale ws", "s").node("Mul", "pf s", "y").
		output("y", graph.Float32, "N", 4)
}

// contrastingImages returns images that differ strongly. Every second image is dark, and some of the other images are
// flat, sparse or extreme.
func contrastingImages(n int) [][]float32 {
	all := images(n)
	for i, x := range all {
		for j := range x {
			switch {
			case i%2 == 1:
				x[j] *= 0.12
			case i%10 == 4:
				x[j] = 0.3
			case i%10 == 6 && j != i%len(x):
				x[j] = 0
			case i%10 == 8:
				x[j] *= 30
			}
		}
	}
	return all
}

// TestCompany runs models whose inputs affect each other. If the proof of independence fails for a model, rscert must
// run this model with one input per call. For all models, a sample's scores must have the same bits for every batch
// size, row, set of other samples and number of workers. A model must give one warning if the proof fails, and no
// warning if the proof succeeds.
func TestCompany(t *testing.T) {
	xs := contrastingImages(40)
	for name, c := range mixingModels {
		t.Run(name, func(t *testing.T) {
			var want [][]float32
			for _, batch := range []int{1, 16, 20, 33} {
				m, err := openRuntime(t).Load(c.build().bytes(t), LoadOptions{Batch: batch, Device: CPU, Workers: 1 + batch%2})
				if name == "batch_norm_training" && err != nil { // this build of ONNX Runtime does not support training
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Close() })
				checkSingly(t, m, c.node, batch)
				checkCompany(t, m, xs, &want)
			}
		})
	}
}

// checkSingly checks how the model runs. If the argument 'node' is not "", the proof must have failed at this node. The
// model must then run one input per call and give one warning.
func checkSingly(t *testing.T, m *Model, node string, batch int) {
	t.Helper()
	s, w := m.Settings(), warningsOf(m)
	switch {
	case node == "" && (s.Independence != Proved || len(w) > 0):
		t.Errorf("batch %d: %q, %d samples a call: %q", batch, s.Independence, s.Call, w)
	case node != "" && (s.Independence != OneByOne || s.Call != 1 || m.Batch() != batch):
		t.Errorf("batch %d: runs %d samples a call, %d a batch: %q", batch, s.Call, m.Batch(), s.Independence)
	case node != "" && (len(w) != 1 || !strings.Contains(w[0], node) || !strings.Contains(w[0], "it runs 1 at a time")):
		t.Errorf("warnings %q, want one that names %s", w, node)
	}
}

// checkCompany compares the scores of images with the expected scores, for two orders of the images.
func checkCompany(t *testing.T, m *Model, xs [][]float32, want *[][]float32) {
	t.Helper()
	order := rand.New(rand.NewPCG(1, 1)).Perm(len(xs))
	shuffled := make([][]float32, len(xs))
	for i, k := range order {
		shuffled[i] = xs[k]
	}
	got, again := scores(t, m, xs), scores(t, m, shuffled)
	if *want == nil {
		*want = got
	}
	for i, k := range order {
		if !sameBits(got[k], (*want)[k]) || !sameBits(again[i], (*want)[k]) {
			t.Fatalf("batch %d: image %d scores %v and %v, want %v", m.Batch(), k, got[k], again[i], (*want)[k])
		}
	}
}

// TestCompanyFixed tests the models of TestCompany with a batch dimension fixed at 1. The loader must leave this size
// fixed exactly if the proof of independence fails.
func TestCompanyFixed(t *testing.T) {
	xs := contrastingImages(20)
	for name, c := range mixingModels {
		b := c.build()
		for _, v := range slices.Concat(b.Graph.Input[:1], b.Graph.Output) {
			v.GetType().GetTensorType().GetShape().Dim[0] = &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1}}
		}
		var want [][]float32
		for _, batch := range []int{1, 16} {
			m, err := openRuntime(t).Load(b.bytes(t), LoadOptions{Batch: batch, Device: CPU})
			if err != nil {
				t.Logf("%s is refused: %v", name, err)
				break
			}
			t.Cleanup(func() { _ = m.Close() })
			if fixed := strings.Contains(strings.Join(warningsOf(m), ""), "batch dimension is fixed at 1"); fixed != (c.node != "") {
				t.Errorf("%s: runs %d samples a call: %q", name, m.tile, warningsOf(m))
			}
			checkCompany(t, m, xs, &want)
		}
	}
}

// TestNodesOutOfOrder checks that the proof handles graphs whose nodes are not in order.
func TestNodesOutOfOrder(t *testing.T) {
	b := testModels["nchw"]()
	slices.Reverse(b.Graph.Node)
	m := load(t, b.bytes(t), LoadOptions{Batch: 20, Device: CPU})
	if m.Settings().Independence != Proved {
		t.Errorf("%q: %q", m.Settings().Independence, warningsOf(m))
	}
	want := scores(t, load(t, testModel(t, "nchw"), LoadOptions{Batch: 20, Device: CPU}), images(20))
	for i, got := range scores(t, m, images(20)) {
		if !sameBits(got, want[i]) {
			t.Fatalf("image %d: %v, in order %v", i, got, want[i])
		}
	}
}

// TestCompanyDevices loads a model on two devices and checks that the model runs one input per call on each of them.
func TestCompanyDevices(t *testing.T) {
	models, err := loadEach(t, "company_brightest", LoadOptions{Device: Device{provider: units([]string{"A", "B"}, failOn(nil))}, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		if s := m.Settings(); s.Independence != OneByOne || s.Call != 1 {
			t.Errorf("%s: %q, %d samples a call", m.Place(), s.Independence, s.Call)
		}
	}
}

// TestCompanyTrial disables the proof, so that only the trial runs remain. The trial runs compare the scores that a
// sample gets in calls with very different inputs. Without the proof, the trial runs detect all models of mixingModels
// except three. In the model "lookup", other samples rarely change which offset is chosen. For the model "own_relu",
// ONNX Runtime uses its own operator Relu instead of the function Relu that the model defines. In the model
// "sizes_of_values", the sizes never change.
func TestCompanyTrial(t *testing.T) {
	for name, c := range mixingModels {
		l := prover(t, c.build().bytes(t))
		l.tried = true // as if the proof had succeeded
		original, err := l.session(false, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.readRow(LoadOptions{}, original, 1, l.randomSamples()[0]); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		_, err = l.canonical(original, 16, l.randomSamples())
		switch unseen := slices.Contains([]string{"lookup", "own_relu", "sizes_of_values"}, name); {
		case err == nil && !unseen:
			t.Errorf("%s passes", name)
		case err != nil && unseen:
			t.Logf("%s is found too: %v", name, err)
		}
	}
}

// TestCompanyOpenVINO repeats TestCompany on OpenVINO, which compiles graphs in its own way.
func TestCompanyOpenVINO(t *testing.T) {
	xs := contrastingImages(20)
	r, d := openOpenVINO(t)
	for name, c := range mixingModels {
		var want [][]float32
		for _, batch := range []int{1, 16} {
			m, err := r.LoadContext(t.Context(), c.build().bytes(t), LoadOptions{Device: d, Batch: batch, Workers: 2})
			if err != nil {
				t.Logf("%s is refused: %v", name, err)
				break
			}
			t.Cleanup(func() { _ = m.Close() })
			checkSingly(t, m, c.node, batch)
			checkCompany(t, m, xs, &want)
		}
	}
}

// freeGraph returns a random graph with a free batch dimension and with operators that may mix samples. The function
// 'next' returns the numbers that determine the graph.
func freeGraph(next func(n int) int) []byte {
	b := newModel("x", graph.Float32, "N", 2, 3, 2)
	b.OpsetImport[0].Version, b.IrVersion = proto.Int64(13), proto.Int64(8)
	v, last := "x", "x"
	for k := range 1 + next(6) {
		y := fmt.Sprint("v", k)
		b.mixer(next(16), v, y, next)
		last, v = v, y
		if next(3) == 0 {
			b.node("Add", v+" "+last, y+"sum")
			v = y + "sum"
		}
	}
	b.node("Flatten", v, "row").output("row", graph.Float32, "N", 12)
	model, err := proto.Marshal(b.ModelProto)
	if err != nil {
		panic(err)
	}
	return model
}

// mixer adds nodes that compute y from v. v and y have the shape [N,2,3,2]. The argument 'kind' selects one of 16 kinds
// of nodes.
func (b *modelBuilder) mixer(kind int, v, y string, next func(n int) int) {
	axis := int64(next(4))
	reduce := []string{"ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"}[next(4)]
	switch kind {
	case 0:
		b.node("Tanh", v, y)
	case 1:
		b.weights(y+"w", graph.Float32, []int64{1, 2, 1, 2}...).node("Mul", v+" "+y+"w", y)
	case 2:
		b.node("ReduceL2", v, y+"m", ints("axes", axis)).node("Add", v+" "+y+"m", y)
	case 3:
		b.node("ReduceMax", v, y+"m", ints("axes", 1+axis%3)).node("Sub", v+" "+y+"m", y)
	case 4:
		if reduce == "ReduceSum" { // the axes of ReduceSum are an input
			reduce = "ReduceProd"
		}
		b.node(reduce, v, y+"m").node("Sub", v+" "+y+"m", y)
	case 5:
		b.node("Softmax", v, y, integer("axis", axis))
	case 6:
		b.int64s(y+"a", axis).node("CumSum", v+" "+y+"a", y)
	case 7:
		b.node("DynamicQuantizeLinear", v, y+"q").second(y+"s").second(y+"z").optional("DequantizeLinear", y+"q", y+"s", y+"z", y)
	case 8: // these nodes use the sizes of the tensor
		b.node("Shape", v, y+"shape").reshape(v, y+"r", -1, 12).node("Tanh", y+"r", y+"t").node("Reshape", y+"t "+y+"shape", y)
	case 9: // these nodes divide by the size of a dimension
		b.node("Shape", v, y+"shape").int64s(y+"i", axis).node("Gather", y+"shape "+y+"i", y+"n").
			node("Cast", y+"n", y+"f", integer("to", int64(graph.Float32))).node("Div", v+" "+y+"f", y)
	case 10:
		b.reshape(v, y+"r", 2, -1, 3, 2).node("Transpose", y+"r", y, ints("perm", 1, 0, 2, 3))
	case 11:
		b.node("Transpose", v, y+"t", ints("perm", 1, 0, 2, 3)).node("Tanh", y+"t", y+"u").node("Transpose", y+"u", y, ints("perm", 1, 0, 2, 3))
	case 12:
		b.reshape(v, y+"r", -1, 3, 4).weights(y+"w", graph.Float32, 4, 4).node("MatMul", y+"r "+y+"w", y+"p").reshape(y+"p", y, -1, 2, 3, 2)
	case 13:
		b.int64s(y+"k", 1).node("TopK", v+" "+y+"k", y+"m", integer("axis", axis)).second(y+"i").node("Sub", v+" "+y+"m", y)
	case 14:
		b.int64s(y+"i", 0).node("Gather", v+" "+y+"i", y+"g", integer("axis", axis)).node("Add", v+" "+y+"g", y)
	case 15:
		b.floats(y+"g", 1, 1).floats(y+"b", 0, 0).node("InstanceNormalization", v+" "+y+"g "+y+"b", y)
	}
}

// companyOfProof runs the proof of independence on a graph. If the proof succeeds, it checks that a sample's scores
// have the same bits whatever the other samples of the batch are. It also checks that the scores equal, up to rounding,
// the scores of the sample alone.
func companyOfProof(t testing.TB, model []byte) bool {
	t.Helper()
	l := prover(t, model)
	original, err := l.session(false, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.readRow(LoadOptions{}, original, 1, l.randomSamples()[0]); err != nil {
		t.Fatal(err)
	}
	if l.prove() != nil {
		return false
	}
	const tile = 6
	s, err := l.session(true, tile)
	if err != nil {
		t.Fatal(err)
	}
	pool := slices.Concat(l.randomSamples(), l.companions())
	for place := range tile {
		var first []float32
		for company := range 4 {
			rows := make([]int, tile)
			for i := range rows {
				rows[i] = (company*7 + i*(company+1) + 24*(company%2)) % len(pool)
			}
			rows[place] = place
			got, err := l.rows(s, rows, pool)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = got[place]
			}
			if !sameBits(got[place], first) {
				t.Fatalf("sample %d scores %v in one company, %v in another", place, first, got[place])
			}
		}
		want, err := l.alone(original, 1, pool[place])
		if err != nil {
			t.Fatal(err)
		}
		for k, w := range want {
			if d := math.Abs(float64(first[k] - w)); !(d <= 1e-4*(1+math.Abs(float64(w)))) {
				t.Fatalf("sample %d: %v in a batch, %v alone", place, first, want)
			}
		}
	}
	return true
}

// TestProofRandom checks the proof that the samples of a batch do not affect each other (see companyOfProof). It uses
// random graphs with a free batch dimension.
func TestProofRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	proved, graphs := 0, 600
	if testing.Short() {
		graphs = 100
	}
	for range graphs {
		if companyOfProof(t, freeGraph(rng.IntN)) {
			proved++
		}
	}
	t.Logf("%d of %d proved", proved, graphs)
	if proved < graphs/10 || proved > graphs*9/10 {
		t.Errorf("%d of %d graphs proved: the test says little", proved, graphs)
	}
}

// FuzzProof runs companyOfProof on graphs that the fuzzer's bytes determine.
func FuzzProof(f *testing.F) {
	f.Add([]byte("0123456789"))
	f.Add(bytes.Repeat(binary.BigEndian.AppendUint32(nil, 0x08090a0b), 4))
	f.Fuzz(func(t *testing.T, choices []byte) {
		companyOfProof(t, freeGraph(func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		}))
	})
}
