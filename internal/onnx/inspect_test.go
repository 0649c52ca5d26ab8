package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

func TestInspect(t *testing.T) {
	for _, c := range []struct{ model, inputs, outputs string }{
		{"nchw", "['x' float32 [N,3,4,4]]", "['y' float32 [N,4]]"},
		{"free_size", "['x' float32 [N,3,H,W]]", "['y' float32 [N,4]]"},
		{"old", "['x' float32 [1,3,4,4]]", "['y' float32 [1,4]]"}, // without its weights
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
	info, err := inspect(shared(t, "vnncomp2021/cifar10_resnet_2b.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if in, out := fmt.Sprint(info.Inputs), fmt.Sprint(info.Outputs); in != "['input.1' float32 [1,3,32,32]]" || out != "['33' float32 [1,10]]" || info.Opset != 9 {
		t.Errorf("inputs %s, outputs %s, opset %d", in, out, info.Opset)
	}
}

func inspect(model []byte) (*Info, error) {
	file, err := newFile(model, "", "")
	if err != nil {
		return nil, err
	}
	return file.Info()
}

func TestInspectErrors(t *testing.T) {
	whole := testModel(t, "nchw")
	huge := testModels["nchw"]()
	huge.Graph.Input[0].Type.GetTensorType().Shape.Dim[1].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1 << 40}
	for _, c := range []struct {
		name  string
		model []byte
		want  string
	}{
		{"empty", nil, "not an ONNX model: it holds no graph"},
		{"text", []byte("this is not a model"), "not an ONNX model"},
		{"cut", whole[:len(whole)/2], "not an ONNX model: damaged"},
		{"huge", huge.bytes(t), "input 'x': dimension 1 is 1099511627776"},
	} {
		if _, err := inspect(c.model); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Outputs that are no tensors, and weights in other files.
func TestContractErrors(t *testing.T) {
	zipmap := testModels["label_and_scores"]()
	zipmap.Graph.Output[1].Type = &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{SequenceType: &onnxpb.TypeProto_Sequence{}}}
	external := testModels["nchw"]()
	external.Graph.Initializer[0].DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
	for name, c := range map[string]struct {
		model *modelBuilder
		want  string
		hint  string
	}{
		"zipmap":   {zipmap, "no output of the model looks like scores [N,m] of m classes: 'label' int64 [N], 'scores' (a sequence)", "zipmap=False"},
		"external": {external, "the model keeps its weights in files beside it", "save_as_external_data=False"},
	} {
		_, err := openRuntime(t).Load(c.model.bytes(t), LoadOptions{})
		e, ok := err.(*hint.Error)
		if !ok || e.Error() != c.want || !strings.Contains(e.Hint(), c.hint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A round trip through rscert's few messages keeps all that they leave out.
func TestUnknownFieldsSurvive(t *testing.T) {
	const docString = "\x32\x05hello" // field 6 of ModelProto
	model := append(testModel(t, "nchw"), docString...)
	parsed, err := parse(model)
	if err != nil {
		t.Fatal(err)
	}
	again, err := proto.Marshal(parsed)
	if err != nil || !strings.Contains(string(again), docString) {
		t.Errorf("the doc string is lost: %v", err)
	}
}

// FuzzInspect feeds damaged models to everything that reads a model before
// ONNX Runtime does: inspection, the contract, and the graph edits.
func FuzzInspect(f *testing.F) {
	files, err := filepath.Glob("testdata/*.onnx")
	more, _ := filepath.Glob("testdata/exports/*.onnx")
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
		parsed, err := parse(model)
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
		fit(c.sample, []int{3, 4, 4}, HWC)
		fit(c.sample, []int{48}, CHW)
		if err := checkOperators(parsed); err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Fatalf("error with control characters: %q", err)
		}
		hasLoops(parsed)
		outputKind(parsed.Graph, c.output.Name, []float32{0, 1}, 2)
		keepOutput(parsed.Graph, c.output.Name)
		tryRebatch(parsed, c)
		c.output.Name = splitLone(parsed.Graph, c.output.Name, Probabilities)
		fixBatch(parsed.Graph, c.input.Name, 2)
		feedFloat32(parsed.Graph, c.input.Name, c.output.Name)
		if _, err := proto.Marshal(parsed); err != nil {
			t.Fatal(err)
		}
	})
}

// tryRebatch follows the batch through a graph all of whose values have the same shape: whatever is wrong with it, the
// search ends, and what it finds can be applied.
func tryRebatch(m *onnxpb.ModelProto, c contract) {
	shapes, ints := map[string][]int64{c.input.Name: {1, 2, 3, 4}}, make(map[string][]int64)
	for _, n := range m.Graph.Node {
		for _, v := range slices.Concat(n.Input, n.Output) {
			shapes[v] = []int64{1, 2, 3, 4}
			ints[v] = []int64{1}
		}
	}
	edits, err := rebatch(m, c.input.Name, c.output.Name, 1, learnt{shapes, ints})
	if err == nil {
		applyRebatch(proto.CloneOf(m).Graph, c.input.Name, 1, edits)
	}
}
