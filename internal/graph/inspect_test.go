package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
)

func TestInspect(t *testing.T) {
	for _, c := range []struct{ model, inputs, outputs string }{
		{"nchw", "['x' float32 [N,3,4,4]]", "['y' float32 [N,4]]"},
		{"free_size", "['x' float32 [N,3,H,W]]", "['y' float32 [N,4]]"},
		{"old", "['x' float32 [1,3,4,4]]", "['y' float32 [1,4]]"}, // the weights in the graph's input list are left out
		{"float64", "['x' float64 [N,48]]", "['y' float64 [N,4]]"},
		{"two_inputs", "['x' float32 [N,48] 'mask' float32 [N,48]]", "['y' float32 [N,4]]"},
		{"label_and_scores", "['x' float32 [N,3,4,4]]", "['label' int64 [N] 'scores' float32 [N,4]]"},
	} {
		info, err := inspect(testModel(t, c.model))
		if err != nil {
			t.Fatal(err)
		}
		if in, out := fmt.Sprint(info.Inputs), fmt.Sprint(info.Outputs); in != c.inputs || out != c.outputs {
			t.Errorf("%s: inputs %s, outputs %s", c.model, in, out)
		}
		if info.Opset != 11 || info.Producer != "rscert tests" {
			t.Errorf("%s: %+v", c.model, info)
		}
	}
	resnet, err := os.ReadFile("../../../shared/data/vnncomp2021/cifar10_resnet_2b.onnx")
	if err != nil {
		t.Skip(err)
	}
	info, err := inspect(resnet)
	if err != nil {
		t.Fatal(err)
	}
	if in, out := fmt.Sprint(info.Inputs), fmt.Sprint(info.Outputs); in != "['input.1' float32 [1,3,32,32]]" || out != "['33' float32 [1,10]]" || info.Opset != 9 {
		t.Errorf("inputs %s, outputs %s, opset %d", in, out, info.Opset)
	}
}

func inspect(model []byte) (*Info, error) {
	file, err := Parse(model, "", "")
	if err != nil {
		return nil, err
	}
	return file.Info()
}

func TestInspectErrors(t *testing.T) {
	whole := testModel(t, "nchw")
	huge, err := parseProto(whole)
	if err != nil {
		t.Fatal(err)
	}
	huge.Graph.Input[0].Type.GetTensorType().Shape.Dim[1].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1 << 40}
	for _, c := range []struct {
		name  string
		model []byte
		want  string
	}{
		{"empty", nil, "not an ONNX model: it holds no graph"},
		{"text", []byte("this is not a model"), "not an ONNX model"},
		{"cut", whole[:len(whole)/2], "not an ONNX model: damaged"},
		{"huge", marshalled(t, huge), "input 'x': dimension 1 is 1099511627776"},
	} {
		if _, err := inspect(c.model); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestContractErrors checks the errors for a model whose scores are not a tensor, and for a model whose weights are in
// other files.
func TestContractErrors(t *testing.T) {
	edited := func(name string, edit func(*onnxpb.GraphProto)) []byte {
		m, err := parseProto(testModel(t, name))
		if err != nil {
			t.Fatal(err)
		}
		edit(m.Graph)
		return marshalled(t, m)
	}
	zipmap := edited("label_and_scores", func(g *onnxpb.GraphProto) {
		g.Output[1].Type = &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{SequenceType: &onnxpb.TypeProto_Sequence{}}}
	})
	external := edited("nchw", func(g *onnxpb.GraphProto) {
		g.Initializer[0].DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
	})
	for name, c := range map[string]struct {
		model []byte
		want  string
		hint  string
	}{
		"zipmap":   {zipmap, "no output of the model looks like scores [N,m] of m classes: 'label' int64 [N], 'scores' (a sequence)", "zipmap=False"},
		"external": {external, "the model keeps its weights in files beside it", "save_as_external_data=False"},
	} {
		file, err := Parse(c.model, "", "")
		if err == nil {
			_, err = file.Adapt(nil, "")
		}
		e, ok := err.(*hint.Error)
		if !ok || e.Error() != c.want || !strings.Contains(e.Hint(), c.hint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Errors must print the names of outputs on one line, even if a name has control characters.
func TestChooseOutputNames(t *testing.T) {
	const evil = "\x1b]0;x\a\n"
	outputs := []TensorInfo{
		{Name: evil, Type: Float32, Kind: "tensor", Shape: []Dim{{Size: -1, Name: evil}, {Size: 4}}},
		{Name: evil, Type: Float32, Kind: "tensor", Shape: []Dim{{Size: -1, Name: evil}, {Size: 4}}},
	}
	for _, o := range []string{"", "other" + evil} {
		if _, err := chooseOutput(outputs, o); err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
			t.Errorf("error %q", err)
		}
	}
}

// rscert's onnx.proto has only a subset of ONNX's fields. Parsing and writing a model must keep the fields outside this
// subset.
func TestUnknownFieldsSurvive(t *testing.T) {
	const docString = "\x32\x05hello" // field 6 of ModelProto
	model := append(testModel(t, "nchw"), docString...)
	parsed, err := parseProto(model)
	if err != nil {
		t.Fatal(err)
	}
	again, err := proto.Marshal(parsed)
	if err != nil || !strings.Contains(string(again), docString) {
		t.Errorf("the doc string is lost: %v", err)
	}
}

// FuzzInspect feeds damaged models to all code that handles a model before ONNX Runtime does. This code inspects the
// model, reads its contract and edits its graph.
func FuzzInspect(f *testing.F) {
	files, err := filepath.Glob("../onnx/testdata/*.onnx")
	more, _ := filepath.Glob("../onnx/testdata/exports/*.onnx")
	files = append(files, more...)
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		seed, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, model []byte) {
		info, err := inspect(model)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		parsed, err := parseProto(model)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := adapt(parsed, info, nil); err != nil {
			return
		}
		if info, err = describe(parsed); err != nil {
			t.Fatal(err)
		}
		c, err := readContract(info, "")
		if err != nil {
			return
		}
		Fit(c.Sample, []int{3, 4, 4}, HWC)
		Fit(c.Sample, []int{48}, CHW)
		if err := checkOperators(parsed); err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Fatalf("error with control characters: %q", err)
		}
		HasLoops(parsed)
		TellOutputs(parsed.Graph, c.Output.Name, []float32{0, 1}, 2)
		KeepOutput(parsed.Graph, c.Output.Name)
		tryRebatch(parsed, c)
		c.Output.Name = SplitLone(parsed.Graph, c.Output.Name, Probabilities)
		FixBatch(parsed.Graph, c.Input.Name, 2)
		FeedFloat32(parsed.Graph, c.Input.Name, c.Output.Name)
		if _, err := proto.Marshal(parsed); err != nil {
			t.Fatal(err)
		}
	})
}

// tryRebatch calls rebatch as if all tensors of the graph had the same shape. It then applies the edits that rebatch
// returns. Even if the graph is damaged, rebatch must end, and Apply must not crash.
func tryRebatch(m *onnxpb.ModelProto, c Contract) {
	shapes, ints := map[string][]int64{c.Input.Name: {1, 2, 3, 4}}, make(map[string][]int64)
	for _, n := range m.Graph.Node {
		for _, v := range slices.Concat(n.Input, n.Output) {
			shapes[v] = []int64{1, 2, 3, 4}
			ints[v] = []int64{1}
		}
	}
	edits, err := rebatch(m, c.Input.Name, c.Output.Name, 1, Facts{shapes, ints})
	if err == nil {
		edits.Apply(proto.CloneOf(m).Graph, c.Input.Name, 1)
	}
}

func marshalled(t *testing.T, m *onnxpb.ModelProto) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testModel reads a model file that the tests of internal/onnx built.
func testModel(t testing.TB, name string) []byte {
	t.Helper()
	model, err := os.ReadFile("../onnx/testdata/" + name + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	return model
}
