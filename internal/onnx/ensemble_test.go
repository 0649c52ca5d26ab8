package onnx

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The function 'second' returns the net of testModels["nchw"] with other weights.
func second() *modelBuilder {
	b := newModel("x", graph.Float32, "N", 3, 4, 4)
	b.weights("unused", graph.Float32, 77) // this uses up random numbers, so that the net's weights differ
	return b.convnet("x", "y", graph.Float32).output("y", graph.Float32, "N", 4)
}

// joinAll joins classifiers and loads the ensemble.
func joinAll(t *testing.T, e graph.Ensemble, files ...*graph.File) (*Model, []graph.EnsembleMember) {
	t.Helper()
	names := make([]string, len(files))
	for k := range names {
		names[k] = string(rune('a'+k)) + ".onnx"
	}
	file, members, err := e.Join(files, names)
	if err != nil {
		t.Fatal(err)
	}
	if file.SHA256() != graph.EnsembleDigest(e.Average, members) {
		t.Error("the digest is not that of the members")
	}
	m, err := openRuntime(t).LoadFile(t.Context(), file,
		LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}, Outputs: e.Average.Outputs(), Output: e.Output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, members
}

// softmaxOf returns the probabilities of rows of logits.
func softmaxOf(rows [][]float32) [][]float32 {
	all := make([][]float32, len(rows))
	for i, row := range rows {
		sum := 0.0
		for _, z := range row {
			sum += math.Exp(float64(z))
		}
		for _, z := range row {
			all[i] = append(all[i], float32(math.Exp(float64(z))/sum))
		}
	}
	return all
}

// compareMean checks that an ensemble's scores equal the mean of its members' scores. The members ran separately, and
// the argument 'members' holds one row of scores for each member and each sample.
func compareMean(t *testing.T, m *Model, samples [][]float32, members ...[][]float32) {
	t.Helper()
	for i, row := range scores(t, m, samples) {
		for c, got := range row {
			want := 0.0
			for _, s := range members {
				want += float64(s[i][c]) / float64(len(members))
			}
			if math.Abs(float64(got)-want) > 1e-5*max(1, math.Abs(want)) {
				t.Fatalf("score %d of sample %d is %v, want %v", c, i, got, want)
			}
		}
	}
}

// TestEnsemble compares the scores of ensembles with the means of their members' scores. Each member runs separately in
// ONNX Runtime.
func TestEnsemble(t *testing.T) {
	samples := randomSamples(48)[:16]
	one, two := testModels["nchw"](), second()
	alone := func(b *modelBuilder) [][]float32 {
		return scores(t, load(t, b.bytes(t), LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}, Outputs: graph.Logits}), samples)
	}
	a, b := alone(one), alone(two)
	if math.Abs(float64(a[0][0]-b[0][0])) < 1e-3 {
		t.Fatal("the models are the same")
	}
	logits, probabilities := graph.Ensemble{Average: graph.AverageLogits}, graph.Ensemble{Average: graph.AverageProbabilities}
	m, members := joinAll(t, logits, one.file(t), two.file(t))
	compareMean(t, m, samples, a, b)
	if len(warningsOf(m)) > 0 || m.Batch() != 16 || m.Outputs() != graph.Logits || members[0].Outputs != graph.Logits {
		t.Errorf("%v, batch %d, %v, %v", warningsOf(m), m.Batch(), m.Outputs(), members)
	}
	m, _ = joinAll(t, logits, one.file(t), two.file(t), one.file(t))
	compareMean(t, m, samples, a, b, a)
	m, _ = joinAll(t, probabilities, one.file(t), two.file(t))
	compareMean(t, m, samples, softmaxOf(a), softmaxOf(b))
	if m.Outputs() != graph.Probabilities {
		t.Error(m.Outputs())
	}

	// Members may return probabilities, use another number format, or fix the batch. The user may name the members'
	// output.
	ends := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "z", graph.Float32).
		node("Softmax", "z", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	m, members = joinAll(t, probabilities, ends.file(t), two.file(t))
	compareMean(t, m, samples, softmaxOf(a), softmaxOf(b))
	if members[0].Outputs != graph.Probabilities || members[1].Outputs != graph.Logits {
		t.Error(members)
	}
	half := testModels["float16"]()
	joinAll(t, logits, half.file(t), two.file(t))
	fixed := testModels["nchw"]()
	for _, v := range []*onnxpb.ValueInfoProto{fixed.Graph.Input[0], fixed.Graph.Output[0]} {
		v.Type.GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1}
	}
	m, _ = joinAll(t, logits, fixed.file(t), two.file(t))
	compareMean(t, m, samples, a, b)
	m, _ = joinAll(t, graph.Ensemble{Average: graph.AverageLogits, Output: "y"}, one.file(t), two.file(t))
	compareMean(t, m, samples, a, b)
	m, _ = joinAll(t, logits, one.file(t), raised(two, 13).file(t)) // another operator set
	compareMean(t, m, samples, a, b)
	// in operator set 18, the axes of ReduceMean are an input
	m, _ = joinAll(t, logits, raised(one, 18).file(t), raised(two, 18).file(t))
	compareMean(t, m, samples, a, b)
}

// The function 'raised' returns a copy of a model. The copy declares a later operator set, in which the model's
// operators have the same meaning.
func raised(b *modelBuilder, opset int64) *modelBuilder {
	c := &modelBuilder{proto.CloneOf(b.ModelProto), b.rng}
	c.OpsetImport[0].Version, c.IrVersion = proto.Int64(opset), proto.Int64(8)
	return c
}

// TestEnsembleLone averages models that return one number for each sample.
func TestEnsembleLone(t *testing.T) {
	samples := randomSamples(48)[:16]
	lone := func(seed int) *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).weights("unused", graph.Float32, int64(seed)).node("Flatten", "x", "f").
			weights("w", graph.Float32, 48, 1).node("MatMul", "f w", "y").output("y", graph.Float32, "N", 1)
	}
	alone := func(b *modelBuilder) [][]float32 {
		return scores(t, load(t, b.bytes(t), LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}, Outputs: graph.Logits}), samples)
	}
	a, b := alone(lone(1)), alone(lone(2))
	m, _ := joinAll(t, graph.Ensemble{Average: graph.AverageLogits}, lone(1).file(t), lone(2).file(t))
	compareMean(t, m, samples, a, b)
	m, _ = joinAll(t, graph.Ensemble{Average: graph.AverageProbabilities}, lone(1).file(t), lone(2).file(t))
	compareMean(t, m, samples, softmaxOf(a), softmaxOf(b))
}

// TestEnsembleNames joins models whose names clash. In some cases, values, nodes and functions have the same names in
// both models. In other cases, one model uses names that Join adds.
func TestEnsembleNames(t *testing.T) {
	samples := randomSamples(48)[:16]
	one, two := testModels["nchw"](), second()
	alone := func(b *modelBuilder) [][]float32 {
		return scores(t, load(t, b.bytes(t), LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}, Outputs: graph.Logits}), samples)
	}
	a, b := alone(one), alone(two)
	hostile := second()
	rename(hostile.Graph, func(name string) string { return "ensemble.1." + name })
	shadow := second()
	rename(shadow.Graph, func(name string) string {
		return map[string]string{"x": "ensemble.input", "y": "ensemble.scores"}[name] + name
	})
	calls := func(op, body string) *modelBuilder {
		c := raised(second(), 15)
		c.OpsetImport = append(c.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("own"), Version: proto.Int64(1)})
		for _, n := range c.Graph.Node {
			if n.GetOpType() == op {
				n.Domain = proto.String("own")
			}
		}
		f := &onnxpb.FunctionProto{}
		if err := proto.Unmarshal(functionOf(t, op, "own", body, 13), f); err != nil {
			t.Fatal(err)
		}
		c.Functions = []*onnxpb.FunctionProto{f}
		return c
	}
	for name, other := range map[string]*modelBuilder{"prefix": hostile, "shadow": shadow, "function": calls("Relu", "Relu")} {
		t.Run(name, func(t *testing.T) {
			m, _ := joinAll(t, graph.Ensemble{Average: graph.AverageLogits}, one.file(t), other.file(t))
			compareMean(t, m, samples, a, b)
			named := other.Graph.Output[0].GetName()
			if name != "function" {
				m, _ = joinAll(t, graph.Ensemble{Average: graph.AverageLogits, Output: named}, other.file(t), other.file(t))
				compareMean(t, m, samples, b)
			}
		})
	}
	// Two different functions with the same name must not be confused.
	tanh, relu := calls("Relu", "Tanh"), calls("Relu", "Relu")
	m, _ := joinAll(t, graph.Ensemble{Average: graph.AverageLogits}, tanh.file(t), relu.file(t))
	compareMean(t, m, samples, alone(tanh), b)
}

func TestEnsembleRefused(t *testing.T) {
	logits := graph.Ensemble{Average: graph.AverageLogits}
	plain := testModels["nchw"]()
	outputs := func(m int64) *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).node("Flatten", "x", "f").weights("w", graph.Float32, 48, m).
			node("MatMul", "f w", "y").output("y", graph.Float32, "N", int(m))
	}
	ends := func(op string, attributes ...*onnxpb.AttributeProto) *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "z", graph.Float32).node(op, "z", "y", attributes...).output("y", graph.Float32, "N", 4)
	}
	none := testModels["nchw"]()
	none.OpsetImport = nil
	domain := func(version int64) *modelBuilder {
		b := testModels["nchw"]()
		b.OpsetImport = append(b.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(version)})
		return b
	}
	mean := newModel("x", graph.Float32, "N", 3, 4, 4).node("ReduceMean", "x", "p", ints("axes", 2, 3), integer("keepdims", 0)).
		weights("w", graph.Float32, 3, 4).node("MatMul", "p w", "y").output("y", graph.Float32, "N", 4)
	shapeless := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "y", graph.Float32).shapeless("y", graph.Float32)
	free := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "y", graph.Float32).output("y", graph.Float32, "N", "M")
	tests := []struct {
		e     graph.Ensemble
		other *modelBuilder
		want  string
	}{
		{logits, outputs(5), "b.onnx: it has 5 scores a sample, a.onnx has 4: the models of an ensemble need the same classes"},
		{logits, outputs(1), "it has 1 scores a sample"},
		{logits, testModels["nhwc"](), "b.onnx: it takes inputs [N,4,4,3], another model of the ensemble [N,3,4,4]: their sizes must be the same"},
		{logits, testModels["flat"](), "their sizes must be the same"},
		{logits, testModels["unbatched"](), "b.onnx: its input 'x' float32 [3,4,4] is no batch of floats"},
		{logits, testModels["bytes_input"](), "is no batch of floats"},
		{logits, testModels["two_inputs"](), "the model has 2 inputs"},
		{logits, testModels["segmentation"](), "no output of the model looks like scores"},
		{logits, shapeless, "does not say how many classes it has"},
		{logits, free, "does not say how many classes it has"},
		{logits, ends("Softmax", integer("axis", 1)), "b.onnx: it returns probabilities, and the ensemble averages logits"},
		{logits, ends("Relu"), "its scores come from Relu, and may be logits or probabilities"},
		{graph.Ensemble{Average: graph.AverageProbabilities}, ends("Sigmoid"), "its scores come from Sigmoid, and may be logits or probabilities"},
		{graph.Ensemble{Average: graph.AverageLogits, Outputs: graph.Probabilities}, plain, "a.onnx: it returns probabilities"},
		{graph.Ensemble{Average: graph.AverageLogits, Output: "z"}, ends("Identity"), "a.onnx: the model has no output 'z'"},
		{logits, none, "a model does not say which version of ONNX's operators it uses"},
		{logits, raised(second(), 99), "may not mean the same in 99"},
	}
	for _, c := range tests {
		_, _, err := c.e.Join([]*graph.File{plain.file(t), c.other.file(t)}, []string{"a.onnx", "b.onnx"})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for want, pair := range map[string][]*modelBuilder{
		"operators of 'ai.onnx.ml' are of version 1 in one model and 3 in another": {domain(1), domain(3)},
		"ReduceMean of operator set 11 may not mean the same in 18":                {mean, raised(second(), 18)},
	} {
		for range 2 {
			_, _, err := logits.Join([]*graph.File{pair[0].file(t), pair[1].file(t)}, []string{"a.onnx", "b.onnx"})
			if slices.Reverse(pair); err == nil || !strings.Contains(err.Error(), want[:20]) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// TestEnsembleLies joins a model that declares four scores but returns only one. Broadcasting would copy this score to
// all classes, so LoadFile must refuse the ensemble.
func TestEnsembleLies(t *testing.T) {
	liar := newModel("x", graph.Float32, "N", 3, 4, 4).node("Flatten", "x", "f").weights("w", graph.Float32, 48, 1).
		node("MatMul", "f w", "z").node("Relu", "z", "r").node("Neg", "r", "s").int64s("shape", -1, 1).node("Reshape", "s shape", "q").
		node("Add", "q q", "y").output("y", graph.Float32, "N", 4)
	file, _, err := graph.Ensemble{Average: graph.AverageLogits, Outputs: graph.Logits}.Join(
		[]*graph.File{testModels["nchw"]().file(t), liar.file(t)}, []string{"a.onnx", "b.onnx"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := openRuntime(t).LoadFile(t.Context(), file, LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}, Outputs: graph.Logits})
	if err == nil {
		_ = m.Close()
		t.Error("no error")
	}
}

// TestEnsembleOfFiles averages the bundled models. One of them keeps its weights in another file.
func TestEnsembleOfFiles(t *testing.T) {
	var files []*graph.File
	var members [][][]float32
	samples := randomSamples(784)[:16]
	for _, path := range []string{"../../testdata/mnist-cnn.onnx", "../../testdata/mnist-torch.onnx", "../../testdata/mnist-cnn.onnx"} {
		file, err := graph.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := openRuntime(t).LoadFile(t.Context(), file, LoadOptions{Device: CPU, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		files, members = append(files, file), append(members, scores(t, m, samples))
		_ = m.Close()
	}
	pair := []*graph.File{files[0], files[1]}
	m, sums := joinImages(t, graph.Ensemble{Average: graph.AverageLogits}, pair)
	compareMean(t, m, samples, members[0], members[1])
	if sums[0].SHA256 != files[0].SHA256() || sums[1].SHA256 != files[1].SHA256() {
		t.Error(sums)
	}
	m, _ = joinImages(t, graph.Ensemble{Average: graph.AverageProbabilities}, files)
	compareMean(t, m, samples, softmaxOf(members[0]), softmaxOf(members[1]), softmaxOf(members[2]))
	m, _ = joinImages(t, graph.Ensemble{Average: graph.AverageLogits}, []*graph.File{files[0], files[2]})
	for i, row := range scores(t, m, samples) {
		if !slices.Equal(row, members[0][i]) { // (a + a)/2 = a in floats
			t.Fatalf("%v, want %v", row, members[0][i])
		}
	}
}

// joinImages joins models that take images of 28×28 pixels.
func joinImages(t *testing.T, e graph.Ensemble, files []*graph.File) (*Model, []graph.EnsembleMember) {
	t.Helper()
	file, members, err := e.Join(files, []string{"a.onnx", "b.onnx", "c.onnx"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := openRuntime(t).LoadFile(t.Context(), file, LoadOptions{Device: CPU, Batch: 16, Outputs: e.Average.Outputs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, members
}

// TestEnsembleDigest checks the digest against
//
//	printf 'rscert ensemble 1: mean of logits\naa  logits\nbb  probabilities\n' | sha256sum
func TestEnsembleDigest(t *testing.T) {
	members := []graph.EnsembleMember{{SHA256: "aa", Outputs: graph.Logits}, {SHA256: "bb", Outputs: graph.Probabilities}}
	if got := graph.EnsembleDigest(graph.AverageLogits, members); got != wantEnsembleDigest {
		t.Error(got)
	}
}

const wantEnsembleDigest = "adffaadcab576d7f79d0562a0dd09f8c41d34ec49911afe3e610473408f6a03b"
