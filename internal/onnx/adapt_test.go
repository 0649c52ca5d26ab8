package onnx

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/smoothing"
)

// TestColumns checks that each input of the model gets the data column with the input's name. If an input has an
// integer type, the column's values must be rounded. The model returns its inputs as scores.
func TestColumns(t *testing.T) {
	row := []float32{41.5, 1.75, -3.25, 300}
	for _, c := range []struct {
		name    string
		columns []string
		want    []float32 // age, body height, weight, flag
	}{
		{"no names: the graph's order", nil, []float32{42, 1.75, -3.25, 255}},
		{"names in the graph's order", []string{"age", "body height", "weight", "flag"}, []float32{42, 1.75, -3.25, 255}},
		{"names in another order", []string{"weight", "flag", "age", "body height"}, []float32{-3, 300, 41.5, 2}},
		{"names written in another way", []string{"Flag", "Age", "body_height", " WEIGHT"}, []float32{2, -3.25, 300, 42}},
	} {
		for _, opset := range []int64{11, 13, 18} {
			b := testModels["table"]()
			b.OpsetImport[0].Version, b.IrVersion = proto.Int64(opset), proto.Int64(8)
			m := load(t, b.bytes(t), LoadOptions{Batch: 3, Example: []int{4}, Columns: c.columns})
			got := scores(t, m, [][]float32{row, {0, 0, 0, 0}, row})
			if !slices.Equal(got[0], c.want) || !slices.Equal(got[2], c.want) || !slices.Equal(got[1], []float32{0, 0, 0, 0}) {
				t.Errorf("%s, opset %d: %v, want %v", c.name, opset, got, c.want)
			}
			if m.Intake() != graph.Integers || m.InputLen() != 4 || m.tile != 3 {
				t.Errorf("%s: intake %v, %d values, %d a call", c.name, m.Intake(), m.InputLen(), m.tile)
			}
		}
	}
	for _, c := range []struct {
		columns []string
		problem string
	}{
		{[]string{"age", "height", "weight", "flag"}, "no column of the data is called 'body height', as an input of the model is"},
		{[]string{"age", "body height", "weight"}, "no column of the data is called 'flag'"},
		{[]string{"age", "body height", "weight", "flag", "x"}, "the model has 4 inputs, one for each column, and the data have 5 columns"},
		{[]string{"age", "age", "body height", "weight"}, "no column of the data is called 'flag'"},
		{[]string{"age", "age", "body height", "weight", "flag"}, "and the data have 5 columns"},
	} {
		_, err := openRuntime(t).Load(testModel(t, "table"), LoadOptions{Example: []int{4}, Columns: c.columns})
		var e *hint.Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), c.problem) ||
			!strings.Contains(e.Hint(), "'age' int64 [N,1], 'body height' float64 [N,1], 'weight' float32 [N], 'flag' uint8 [N,1]") {
			t.Errorf("%v: %v", c.columns, err)
		}
	}
}

// TestRounding checks the values that reach a model with an integer input. The model returns its inputs as scores.
func TestRounding(t *testing.T) {
	in := []float32{-1e30, -300, -128.5, -1.5, -.5, -.25, .49, .5, 1.5, 2.5, 254.5, 255.4, 300, 70000, 1e30}
	for typ, r := range map[graph.ElemType][2]float32{ // smallest and largest float32 that each type can hold
		graph.ElemType(onnxpb.TensorProto_UINT8):  {0, 255},
		graph.ElemType(onnxpb.TensorProto_INT8):   {-128, 127},
		graph.ElemType(onnxpb.TensorProto_UINT16): {0, 65535},
		graph.ElemType(onnxpb.TensorProto_INT16):  {-32768, 32767},
		graph.Int32:                               {-1 << 31, 1<<31 - 1<<7},
		graph.Int64:                               {-1 << 63, 1<<63 - 1<<39},
	} {
		b := newModel("x", typ, "N", len(in)).node("Cast", "x", "y", integer("to", int64(graph.Float64))).output("y", graph.Float64, "N", len(in))
		m := load(t, b.bytes(t), LoadOptions{Batch: 2})
		if want := map[bool]graph.Intake{true: graph.Bytes, false: graph.Integers}[typ == graph.ElemType(onnxpb.TensorProto_UINT8)]; m.Intake() != want {
			t.Errorf("%s: intake %v", typ, m.Intake())
		}
		for i, got := range scores(t, m, [][]float32{in})[0] {
			want := min(max(math.Floor(float64(in[i])+.5), float64(r[0])), float64(r[1]))
			if float64(got) != want {
				t.Errorf("%s: %v becomes %v, want %v", typ, in[i], got, want)
			}
		}
	}
}

// TestSplitLone checks the two scores that SplitLone computes from a logit z or a probability p. The score of class 1
// must be greater than the score of class 0 exactly if z > 0 or p > ½. If both scores are equal, the class must be 0.
func TestSplitLone(t *testing.T) {
	half := float32(.5)
	below, above := math.Nextafter32(half, 0), math.Nextafter32(half, 1)
	tiny := math.Float32frombits(1)
	for _, c := range []struct {
		kind graph.OutputKind
		v    float32
		want []float32
		vote int
	}{
		{graph.Logits, 0, []float32{0, 0}, 0},
		{graph.Logits, tiny, []float32{0, tiny}, 1},
		{graph.Logits, -tiny, []float32{0, -tiny}, 0},
		{graph.Logits, 3, []float32{0, 3}, 1},
		{graph.Probabilities, half, []float32{half, half}, 0},
		{graph.Probabilities, above, []float32{1 - above, above}, 1},
		{graph.Probabilities, below, []float32{half, below}, 0},
		{graph.Probabilities, 1, []float32{0, 1}, 1},
		{graph.Probabilities, 0, []float32{1, 0}, 0},
	} {
		// The model has a single output number, which equals its input. The model computes this number as y = Relu(x) −
		// Relu(−x).
		b := newModel("x", graph.Float32, "N", 1).node("Neg", "x", "n").node("Relu", "x", "a").node("Relu", "n", "b").
			node("Sub", "a b", "y").output("y", graph.Float32, "N", 1)
		scores1 := graph.SplitLone(b.Graph, "y", c.kind)
		s, err := openSession(program{model: b.bytes(t), inputs: []string{"x"}, outputs: []string{scores1}}, &cpuProvider, settings{workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 2)
		if err := s.scores(t.Context(), []int64{1, 1}, []int64{1, 2}, []float32{c.v}, got); err != nil {
			t.Fatal(err)
		}
		_ = s.close()
		// The score of class 0 is 1 − p, rounded to float32, so it may differ slightly from the expected score.
		if got[1] != c.want[1] || math.Abs(float64(got[0]-c.want[0])) > 1e-7 || smoothing.Vote(got) != c.vote {
			t.Errorf("%v %v: scores %v, vote %d, want %v and %d", c.kind, c.v, got, smoothing.Vote(got), c.want, c.vote)
		}
	}
}

// TestLone checks models that return one number per sample. rscert must turn this number into two scores. The models
// declare various shapes, types and batch dimensions.
func TestLone(t *testing.T) {
	linear := func(dims ...any) *modelBuilder {
		return newModel("x", graph.Float32, dims...).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "z")
	}
	for name, c := range map[string]struct {
		model *modelBuilder
		told  graph.OutputKind
		want  graph.OutputKind
		tile  int
	}{
		"logit":               {linear("N", 48).node("Identity", "z", "y").output("y", graph.Float32, "N", 1), graph.OutputsAuto, graph.Logits, 16},
		"vector of logits":    {linear("N", 48).reshape("z", "y", -1).output("y", graph.Float32, "N"), graph.OutputsAuto, graph.Logits, 16},
		"batch of 1":          {linear(1, 48).reshape("z", "y", 1).output("y", graph.Float32, 1), graph.OutputsAuto, graph.Logits, 16},
		"one sample":          {newModel("x", graph.Float32, 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "y").output("y", graph.Float32, 1), graph.OutputsAuto, graph.Logits, 1},
		"probability":         {linear("N", 48).node("Sigmoid", "z", "y").output("y", graph.Float32, "N", 1), graph.OutputsAuto, graph.Probabilities, 16},
		"told a logit":        {linear("N", 48).node("Relu", "z", "y").output("y", graph.Float32, "N", 1), graph.Logits, graph.Logits, 16},
		"told a probability":  {linear("N", 48).node("Sigmoid", "z", "p").node("Abs", "p", "y").output("y", graph.Float32, "N", 1), graph.Probabilities, graph.Probabilities, 16},
		"float16":             {linear("N", 48).node("Cast", "z", "y", integer("to", int64(graph.Float16))).output("y", graph.Float16, "N", 1), graph.OutputsAuto, graph.Logits, 16},
		"of unknown shape":    {linear("N", 48).node("Sigmoid", "z", "y").shapeless("y", graph.Float32), graph.OutputsAuto, graph.Probabilities, 16},
		"with a label beside": {linear("N", 48).node("Sigmoid", "z", "y").node("ArgMax", "x", "label").output("label", graph.ElemType(onnxpb.TensorProto_INT64), 1, 48).output("y", graph.Float32, "N", 1), graph.OutputsAuto, graph.Probabilities, 16},
	} {
		m := load(t, c.model.bytes(t), LoadOptions{Batch: 16, Outputs: c.told, Scores: true, Example: []int{48}})
		if m.Classes() != 2 || m.Outputs() != c.want || m.tile != c.tile {
			t.Errorf("%s: %d classes, %v, %d a call, want 2, %v, %d", name, m.Classes(), m.Outputs(), m.tile, c.want, c.tile)
		}
		changes := 1
		if name == "batch of 1" { // the loader lets this batch dimension take any size
			changes = 2
		}
		if !strings.HasPrefix(m.Output(), "'y' ") || len(m.Changes()) != changes {
			t.Errorf("%s: output %s, changes %q", name, m.Output(), m.Changes())
		}
		var w []float64
		for _, b := range slices.Collect(slices.Chunk(newModel("x", graph.Float32).weights("w1", graph.Float32, 48).Graph.Initializer[0].RawData, 4)) {
			w = append(w, float64(math.Float32frombits(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)))
		}
		xs := images(5)
		for i, got := range scores(t, m, xs) {
			z := 0.
			for j, v := range xs[i] {
				z += w[j] * float64(v)
			}
			want := []float64{0, z}
			switch p := 1 / (1 + math.Exp(-z)); {
			case c.want == graph.Probabilities:
				want = []float64{1 - p, p}
			case c.told == graph.Logits:
				want[1] = max(z, 0)
			}
			if d := math.Abs(float64(got[0])-want[0]) + math.Abs(float64(got[1])-want[1]); !(d < 2e-3) {
				t.Errorf("%s: scores %v, want %v", name, got, want)
			}
		}
	}
}

// shapeless adds an output without a declared shape.
func (b *modelBuilder) shapeless(name string, t graph.ElemType) *modelBuilder {
	b.output(name, t)
	b.Graph.Output[len(b.Graph.Output)-1].GetType().GetTensorType().Shape = nil
	return b
}

// If the output kind that the user states contradicts the detected kind, the loader must warn.
func TestLoneWarnings(t *testing.T) {
	b := newModel("x", graph.Float32, "N", 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "z").node("Sigmoid", "z", "y").output("y", graph.Float32, "N", 1)
	m := load(t, b.bytes(t), LoadOptions{Outputs: graph.Logits})
	if w := strings.Join(warningsOf(m), "\n"); !strings.Contains(w, "ends in Sigmoid, but its output is taken for a logit") {
		t.Errorf("warnings %q", w)
	}
	b = newModel("x", graph.Float32, "N", 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "z").node("Sigmoid", "z", "p").node("Abs", "p", "y").output("y", graph.Float32, "N", 1)
	if _, err := openRuntime(t).Load(b.bytes(t), LoadOptions{}); err == nil || !strings.Contains(err.Error(), "from Abs, and on random inputs it is 0.") {
		t.Errorf("between 0 and 1, of unknown origin: %v", err)
	}
	regressor := newModel("x", graph.Float32, "N", 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "y").output("y", graph.Float32, "N", 1)
	l := prover(t, regressor.bytes(t), 48)
	l.model.Graph.Node[0].OpType = proto.String("LinearRegressor")
	if _, err := l.loneKind(LoadOptions{}, []float32{-1, 2}); err == nil || !strings.Contains(err.Error(), "from LinearRegressor") {
		t.Errorf("a regressor: %v", err)
	}
	if _, err := l.loneKind(LoadOptions{}, []float32{float32(math.NaN())}); err == nil {
		t.Error("no number at all: no error")
	}
}
