package onnx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/smoothing"
)

const microsoft = "com.microsoft" // the domain of ONNX Runtime's own operators

const (
	boolean = graph.ElemType(onnxpb.TensorProto_BOOL)
	int64s  = graph.ElemType(onnxpb.TensorProto_INT64)
)

// graphAttribute returns the attribute that holds the body of an If, Loop or Scan.
func graphAttribute(name string, g *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_GRAPH.Enum(), G: g}
}

func truth(name string, on byte) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: proto.String(name), DataType: proto.Int32(int32(boolean)), RawData: []byte{on}}
}

// net returns a convolutional net that computes the scores s. It also holds constants for further nodes. The net's
// output is y, so a test must add a node that computes y.
func net() *modelBuilder {
	b := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).floats("half", 0.5)
	b.IrVersion, b.OpsetImport[0].Version = proto.Int64(8), proto.Int64(15)
	b.OpsetImport = append(b.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("own"), Version: proto.Int64(1)})
	b.Graph.Initializer = append(b.Graph.Initializer, truth("on", 1), truth("off", 0))
	return b.output("y", graph.Float32, "N", 4)
}

// add appends a node with the given domain and name.
func (b *modelBuilder) add(n *onnxpb.NodeProto, domain, name string) *modelBuilder {
	n.Domain, n.Name = proto.String(domain), proto.String(name)
	b.Graph.Node = append(b.Graph.Node, n)
	return b
}

// body returns a graph that consists of node n and has no inputs. Node n reads the scores from the outer graph.
func body(n *onnxpb.NodeProto) *onnxpb.GraphProto {
	return &onnxpb.GraphProto{Name: proto.String("body"), Node: []*onnxpb.NodeProto{n},
		Output: []*onnxpb.ValueInfoProto{value(n.Output[0], graph.Float32, "N", 4)}}
}

// The function 'calling' returns the net followed by a call of a function that the model defines. The function contains
// node n.
func calling(n *onnxpb.NodeProto) *modelBuilder {
	b := net().add(graph.Node("Tail", []string{"s"}, "y"), "own", "tail")
	f := &onnxpb.FunctionProto{Name: proto.String("Tail"), Domain: proto.String("own"), Node: []*onnxpb.NodeProto{n}}
	b.Functions = append(b.Functions, f)
	return b
}

// TestRandomOperators checks that rscert refuses models that draw random numbers. The random operator may be anywhere
// in the model. The error must name the operator. Models whose Dropout is in inference mode must pass. The test does
// not use ONNX Runtime.
func TestRandomOperators(t *testing.T) {
	drop := func(mode string) *onnxpb.NodeProto { return graph.Node("Dropout", []string{"s", "half", mode}, "y") }
	branch := func(n *onnxpb.NodeProto) *modelBuilder {
		other := body(graph.Node("Identity", []string{"s"}, "e"))
		return net().add(graph.Node("If", []string{"on"}, "y", graphAttribute("then_branch", body(n)), graphAttribute("else_branch", other)), "", "if")
	}
	for _, c := range []struct {
		name  string
		model *modelBuilder
		want  string // "" if the model passes
	}{
		{"RandomNormal", net().add(graph.Node("RandomNormal", nil, "y"), "", "r"), "the model draws random numbers: RandomNormal, node 'r'"},
		{"RandomNormalLike", net().add(graph.Node("RandomNormalLike", []string{"s"}, "y"), "ai.onnx", ""), "RandomNormalLike, node of 'y'"},
		{"RandomUniform", net().add(graph.Node("RandomUniform", nil, "y"), "", "r"), "RandomUniform, node 'r'"},
		{"RandomUniformLike", net().add(graph.Node("RandomUniformLike", []string{"s"}, "y"), "", "r"), "RandomUniformLike, node 'r'"},
		{"Multinomial", net().add(graph.Node("Multinomial", []string{"s"}, "y"), "", "r"), "Multinomial, node 'r'"},
		{"Bernoulli", net().add(graph.Node("Bernoulli", []string{"s"}, "y"), "", "r"), "Bernoulli, node 'r'"},
		{"Sampling", net().add(graph.Node("Sampling", []string{"s"}, "y"), microsoft, "r"), "Sampling, node 'r'"},
		{"ATen", net().add(graph.Node("ATen", []string{"s"}, "y"), "org.pytorch.aten", "a"), "the model keeps a state or runs code beside its graph: ATen, node 'a'"},
		{"EPContext", net().add(graph.Node("EPContext", []string{"s"}, "y"), microsoft, "a"), "EPContext, node 'a'"},
		{"training", net().add(drop("on"), "", "d"), "the model draws random numbers (it is in training mode): Dropout, node 'd'"},
		{"training unknown", net().node("Cast", "off", "mode", integer("to", int64(boolean))).add(drop("mode"), "", "d"),
			"its training mode is no constant): Dropout, node 'd'"},
		{"BitmaskDropout", net().add(graph.Node("BitmaskDropout", []string{"s", "half", "on"}, "y"), microsoft, "d"), "(it is in training mode): BitmaskDropout, node 'd'"},
		{"BiasDropout", net().add(graph.Node("BiasDropout", []string{"s", "s", "", "half", "on"}, "y"), microsoft, "d"), "(it is in training mode): BiasDropout, node 'd'"},
		{"inference", net().add(drop("off"), "", "d"), ""},
		{"inference by default", net().add(graph.Node("Dropout", []string{"s", "half"}, "y"), "", "d"), ""},
		{"inference, mode left out", net().add(drop(""), "", "d"), ""},
		{"in a branch", branch(graph.Node("RandomUniformLike", []string{"s"}, "z")), "RandomUniformLike, node of 'z'"},
		{"branch with an outer constant", branch(graph.Node("Dropout", []string{"s", "half", "off"}, "z")), ""},
		{"in a function", calling(graph.Node("Bernoulli", []string{"s"}, "z")), "Bernoulli, node of 'z' of function 'Tail'"},
		{"function", calling(graph.Node("Relu", []string{"s"}, "z")), ""},
		{"domain", net().add(graph.Node("Relu", []string{"s"}, "y"), "some.where", "q"), "an operator of the unknown domain 'some.where': Relu, node 'q'"},
		{"control characters", net().add(graph.Node("Relu\x1b[2J", []string{"s"}, "y"), "a\nb", "q\r"), `domain 'a\nb': Relu\x1b[2J, node 'q\r'`},
	} {
		_, err := newLoader(t.Context(), c.model.file(t), LoadOptions{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		var e *hint.Error
		if c.want != "" && (!errors.As(err, &e) || e.Hint() == "") {
			t.Errorf("%s: no hint: %v", c.name, err)
		}
	}
}

// TestRareDraws uses a model whose random numbers change each score with a probability of only 1/1000. Usually the
// outputs of two runs agree, so rscert must find the random operator in the graph.
func TestRareDraws(t *testing.T) {
	rare := net().node("RandomUniformLike", "s", "u").floats("seldom", 1e-3).node("Less", "u seldom", "hit").
		node("Cast", "hit", "h", integer("to", int64(graph.Float32))).node("Add", "s h", "y")
	if _, err := openRuntime(t).Load(rare.bytes(t), LoadOptions{}); err == nil || !strings.Contains(err.Error(), "RandomUniformLike, node of 'u'") {
		t.Errorf("error %v", err)
	}
}

// TestExternalData checks that tensors in other files are found in every part of the model. If rscert missed such a
// tensor, ONNX Runtime would read the tensor's file from the working directory, and no hash would cover the file. If
// the model is parsed without a folder, it must be refused. If the folder is given, the tensor's data must become part
// of the model.
func TestExternalData(t *testing.T) {
	external := func() *onnxpb.TensorProto {
		tensor := intsTensor([]int64{1})
		tensor.DataLocation, tensor.Int64Data = onnxpb.TensorProto_EXTERNAL.Enum(), nil
		tensor.ExternalData = entries("location", "one", "offset", "8")
		return tensor
	}
	one := append(make([]byte, 8), 7, 0, 0, 0, 0, 0, 0, 1)
	path := filepath.Join(t.TempDir(), "model")
	writeFile(t, filepath.Join(filepath.Dir(path), "one"), one)
	sparse := &onnxpb.SparseTensorProto{Values: external(), Indices: intsTensor([]int64{0})}
	indices := &onnxpb.SparseTensorProto{Values: intsTensor([]int64{0}), Indices: external()}
	attributes := map[string]*onnxpb.AttributeProto{
		"tensor": {T: external()}, "tensors": {Tensors: []*onnxpb.TensorProto{intsTensor(nil), external()}},
		"sparse": {SparseTensor: sparse}, "sparse tensors": {SparseTensors: []*onnxpb.SparseTensorProto{indices}},
		"graph":  {G: &onnxpb.GraphProto{Initializer: []*onnxpb.TensorProto{external()}}},
		"graphs": {Graphs: []*onnxpb.GraphProto{{SparseInitializer: []*onnxpb.SparseTensorProto{sparse}}}},
	}
	models := make(map[string]*modelBuilder)
	for name, a := range attributes {
		models["attribute "+name] = net().add(graph.Node("Relu", []string{"s"}, "y", a), "", "")
		models["function's "+name] = calling(graph.Node("Relu", []string{"s"}, "z", a))
		models["function's default "+name] = calling(graph.Node("Relu", []string{"s"}, "z"))
		models["function's default "+name].Functions[0].AttributeProto = []*onnxpb.AttributeProto{a}
	}
	weight, sparseWeight := net().node("Relu", "s", "y"), net().node("Relu", "s", "y")
	weight.Graph.Initializer = append(weight.Graph.Initializer, external())
	sparseWeight.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{indices}
	models["weight"], models["sparse weight"] = weight, sparseWeight
	for name, m := range models {
		if _, err := graph.Parse(m.bytes(t), "", ""); err == nil || err.Error() != "the model keeps its weights in files beside it" {
			t.Errorf("%s: error %v", name, err)
		}
		file, err := graph.ReadModel(writeFile(t, path, m.bytes(t)))
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		eachTensor(file.Model, func(t *onnxpb.TensorProto) {
			if slices.Equal(t.RawData, one[8:]) && t.DataLocation == nil && t.ExternalData == nil {
				read++
			}
		})
		if read != 1 {
			t.Errorf("%s: %d tensors were read", name, read)
		}
	}
	if _, err := newLoader(t.Context(), net().node("Relu", "s", "y").file(t), LoadOptions{}); err != nil {
		t.Error(err)
	}
}

// The function 'endless' returns a model with a loop that never ends. The argument 'nodes' holds the nodes of the
// loop's body and may be empty.
func endless(nodes ...*onnxpb.NodeProto) *modelBuilder {
	out, more := "v", "go"
	if len(nodes) > 0 {
		out = nodes[len(nodes)-1].Output[0]
	}
	loop := &onnxpb.GraphProto{Name: proto.String("body"), Node: nodes,
		Input:  []*onnxpb.ValueInfoProto{value("i", int64s), value("go", boolean), value("v", graph.Float32, "N", 4)},
		Output: []*onnxpb.ValueInfoProto{value(more, boolean), value(out, graph.Float32, "N", 4)}}
	return net().add(graph.Node("Loop", []string{"", "on", "s"}, "y", graphAttribute("body", loop)), "", "loop")
}

// TestLoadEndless cancels the trial runs of never-ending models.
func TestLoadEndless(t *testing.T) {
	r := openRuntime(t)
	for name, model := range map[string]*modelBuilder{
		"one node": endless(graph.Node("Relu", []string{"v"}, "w")),
		"no nodes": endless(),
	} {
		if name == "no nodes" && testing.Short() {
			continue // the abandoned run keeps a thread busy until the tests end
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := r.LoadContext(ctx, model.bytes(t), LoadOptions{Device: CPU})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	abandoned.Store(false) // otherwise later tests could not close the runtime
}

// TestNoiseEndless uses a model whose loop never ends on noisy inputs. RunNoisy must abandon the call, and it must be
// possible to close the model.
func TestNoiseEndless(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a call that does not end: a thread of ONNX Runtime computes it until the tests end")
	}
	loop := &onnxpb.GraphProto{Name: proto.String("body"),
		Input:  []*onnxpb.ValueInfoProto{value("i", int64s), value("go", boolean), value("v", graph.Float32, "N", 4)},
		Output: []*onnxpb.ValueInfoProto{value("go", boolean), value("v", graph.Float32, "N", 4)}}
	model := net().floats("bound", 100)
	model.Graph.Initializer[len(model.Graph.Initializer)-1].Dims = nil // a scalar
	model.node("ReduceMax", "s", "largest", graph.IntAttribute("keepdims", 0)).
		add(graph.Node("Greater", []string{"largest", "bound"}, "beyond"), "", "beyond").
		add(graph.Node("Loop", []string{"", "beyond", "s"}, "y", graphAttribute("body", loop)), "", "loop")
	m, err := openRuntime(t).LoadContext(t.Context(), model.bytes(t), LoadOptions{Batch: 8, Device: CPU})
	if err != nil {
		t.Fatal(err)
	}
	noise := testNoise(t, 63.75, []float64{0}, []float64{1e-5})
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	in := testInputs(t, noise, 1, m.InputLen(), func(int) int { return 0 })[0]
	rows := smoothing.NewRows(m.Batch())
	for i := range m.Batch() {
		rows.Noisy(i, in, smoothing.NewStream(7, 1, smoothing.Estimation), int64(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := m.RunNoisy(ctx, rows, make([]int32, m.Batch()), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if !m.noisy.abandoned.Load() || len(m.noisy.free) > 0 || m.session.abandoned.Load() {
		t.Errorf("the call is given up: %v; %d calls are kept", m.noisy.abandoned.Load(), len(m.noisy.free))
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	runtime.GC() // the memory of the abandoned call must stay pinned
	abandoned.Store(false)
}

// sizedWeight sets the shape of the last weight to the argument 'dims'.
func (b *modelBuilder) sizedWeight(dims ...int64) *modelBuilder {
	b.Graph.Initializer[len(b.Graph.Initializer)-1].Dims = dims
	return b
}

// TestHostileSizes loads models whose declared sizes are too large, negative or larger than the stored data.
func TestHostileSizes(t *testing.T) {
	sized := func(dims ...any) *modelBuilder {
		return newModel("x", graph.Float32, dims...).node("Relu", "x", "y").output("y", graph.Float32, dims[0], 4)
	}
	for name, c := range map[string]struct {
		model *modelBuilder
		want  string
	}{
		"batch of 2^31":       {sized(1<<31, 4), "dimension 0 is 2147483648"},
		"batch of 2^31 - 1":   {sized(1<<31-1, 4), "out of bounds"},
		"sample of 2^40":      {sized("N", 1<<20, 1<<20), "too large"},
		"sample of 2^28":      {sized("N", 1<<14, 1<<14), "too large"},
		"product overflows":   {sized("N", 1<<31-1, 1<<31-1, 4, 2), "too large"},
		"batch of 2^25":       {sized(1<<25, 16), "out of bounds"},
		"negative dimensions": {sized("N", -3, 4), "leaves its sizes free"},
		"a constant of 2^40":  {net().int64s("shape", 1<<40).node("ConstantOfShape", "shape", "c").node("ReduceMax", "c", "m").node("Add", "s m", "y"), "constants of more than"},
		"a weight of no data": {net().floats("w", 1).sizedWeight(1<<40).node("Add", "s w", "y"), "holds fewer elements"},
		"least dimension":     {sized("N", math.MinInt64, 4), "leaves its sizes free"},
	} {
		_, err := newLoader(t.Context(), c.model.file(t), LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, known := memory.Available(); known {
		if err := checkMemory(graph.TensorInfo{}, 1<<30, 1<<20); err == nil || !strings.Contains(err.Error(), "is too large: trying it takes 8589934752 MiB") {
			t.Errorf("2^52 bytes: error %v", err)
		}
	}
	if err := checkMemory(graph.TensorInfo{}, 256, 3*224*224); err != nil {
		t.Error(err)
	}
	// 20 MiB of empty nodes would become gigabytes of Go structs. 10⁵ nested graphs would need a deep stack.
	nodes := append([]byte{0x3a, 0x80, 0x80, 0x80, 0x0a}, slices.Repeat([]byte{0x0a, 0}, 10<<20)...) // a graph of 20 MiB
	if _, err := graph.Parse(nodes, "", ""); err == nil || !strings.Contains(err.Error(), "millions of fields") {
		t.Errorf("empty nodes: error %v", err)
	}
	deep := proto.CloneOf(net().ModelProto).Graph
	for range 100 {
		deep = &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{{Attribute: []*onnxpb.AttributeProto{{G: deep}}}}}
	}
	if _, err := graph.Parse((&modelBuilder{ModelProto: &onnxpb.ModelProto{Graph: deep}}).bytes(t), "", ""); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("deep graph: error %v", err)
	}
}

// TestReadModel checks that a regular file is read and everything else is refused immediately.
func TestReadModel(t *testing.T) {
	dir := t.TempDir()
	pipe, sparse, empty := filepath.Join(dir, "pipe"), filepath.Join(dir, "sparse"), filepath.Join(dir, "empty")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	writeFile(t, empty, nil)
	if err := os.Truncate(writeFile(t, sparse, nil), 1<<31); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/zero":                   "/dev/zero: not a file, but a device",
		pipe:                          "not a file, but a pipe",
		dir:                           "not a file, but a folder",
		sparse:                        "the model is larger than 2 GiB",
		filepath.Join(dir, "no\x1bx"): `no\x1bx: no such file`,
	} {
		if _, err := graph.ReadModel(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := graph.ReadModel(empty); err == nil || !strings.Contains(err.Error(), "not an ONNX model: it holds no graph") {
		t.Errorf("empty file: %v", err)
	}
	want := testModel(t, "nchw")
	file := filepath.Join(dir, "model")
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(want)
	if model, err := graph.ReadModel(file); err != nil || model.SHA256() != hex.EncodeToString(sum[:]) {
		t.Errorf("%v, %v", model, err)
	}
}

// TestPrintable puts control characters into names that appear in errors and warnings.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"x":                       "x",
		`"a" \ ü'`:                `"a" \ ü'`,
		"\x1b[31m\n\u202e\u2028":  `\x1b[31m\n\u202e\u2028`,
		strings.Repeat("é", 1000): strings.Repeat("é", 40) + "…",
	} {
		if got := quote.Name(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	evil := "\x1b]0;x\a\n"
	b := newModel(evil, graph.Float32, evil, 3, 4, 4).convnet(evil, evil, graph.Float32)
	for _, n := range b.Graph.Node[:1] {
		n.Input[0] = evil
	}
	b.output(evil, graph.Float32, evil, 4)
	l, err := newLoader(t.Context(), b.file(t), LoadOptions{Example: []int{1, 2, 3}})
	if l != nil || err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
		t.Errorf("error %q", err)
	}
	for _, op := range []string{"Fro\x1b\nb", "Relu"} { // the text of these errors comes from ONNX Runtime
		n := graph.Node(op, []string{evil + "?"}, "y")
		if _, err := openRuntime(t).Load(net().add(n, "", evil).bytes(t), LoadOptions{}); err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
			t.Errorf("error %q", err)
		}
	}
}

// TestLoadNaN loads models whose outputs are NaN or infinite for some or all inputs. If an output is NaN or +∞, the
// sample votes for no class. The output −∞ masks a class (see smoothing.Vote). The loader must still detect the kind of
// the outputs, run whole batches and give no warning.
func TestLoadNaN(t *testing.T) {
	softmax := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).
		node("ReduceMin", "x", "min", ints("axes", 1, 2, 3), integer("keepdims", 0)).floats("one", 1).node("Add", "min one", "a").
		node("Sqrt", "a", "root").node("Unsqueeze", "root", "column", ints("axes", 1)).node("Add", "s column", "t").
		node("Softmax", "t", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	never := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Sub", "s s", "zero").node("Div", "zero zero", "n").
		node("Softmax", "n", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	masked := net().floats("mask", 0, 0, float32(math.Inf(-1)), 0).node("Add", "s mask", "y")
	infinite := net().floats("mask", 0, 0, float32(math.Inf(1)), 0).node("Add", "s mask", "y")
	for name, c := range map[string]struct {
		model *modelBuilder
		want  graph.OutputKind
	}{
		"some NaN": {testModels["nan"](), graph.Logits}, "softmax of some NaN": {softmax, graph.Probabilities}, "softmax of NaN": {never, graph.Probabilities},
		"masked class": {masked, graph.Logits}, "infinite class": {infinite, graph.Logits},
	} {
		m := load(t, c.model.bytes(t), LoadOptions{Scores: true, Batch: 20})
		if m.Outputs() != c.want || m.tile != 20 || len(warningsOf(m)) != 0 {
			t.Errorf("%s: %v in calls of %d, want %v; %q", name, m.Outputs(), m.tile, c.want, warningsOf(m))
		}
	}
}
