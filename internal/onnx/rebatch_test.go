package onnx

import (
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

// prover returns a loader for the model. The loader has not run the model, but a test can call the loader's method
// 'prove'.
func prover(t testing.TB, model []byte, example ...int) *loader {
	t.Helper()
	openRuntime(t)
	file, err := graph.Parse(model, "", "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoader(t.Context(), file, LoadOptions{Example: example})
	if err != nil {
		t.Fatal(err)
	}
	l.device, l.sessions, l.settings = CPU, make(map[sessionKey]*session), settings{workers: 1}
	t.Cleanup(l.closeSessions)
	return l
}

// freedByProof tries to prove that the model treats the samples of a batch independently. If the proof succeeds,
// freedByProof runs a batch of 5. Each sample must get the scores that the unedited model gives to the sample alone.
func freedByProof(t testing.TB, model []byte, example ...int) (found bool, why error) {
	t.Helper()
	l := prover(t, model, example...)
	native := max(l.contract.Batch, 1)
	original, err := l.session(false, native)
	if err != nil {
		t.Fatal(err)
	}
	pool := randomSamples(l.sampleLen)
	if err := l.readRow(LoadOptions{}, original, native, pool[0]); err != nil {
		t.Fatal(err)
	}
	if err := l.prove(); err != nil {
		return false, err
	}
	const batch = 5
	s, err := l.session(true, batch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.rows(s, []int{0, 1, 2, 3, 4}, pool)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range got {
		want, err := l.alone(original, native, pool[i])
		if err != nil {
			t.Fatal(err)
		}
		for k, w := range want {
			if d := math.Abs(float64(row[k] - w)); !(d <= 1e-4*(1+math.Abs(float64(w)))) {
				t.Fatalf("sample %d: %v in a batch, %v alone", i, row, want)
			}
		}
	}
	return true, nil
}

// TestRebatchRules tests each rule on images [1,2,3,4]. Some graphs treat samples separately, and others mix samples.
// The proof must refuse the graphs that mix samples, although the mixing has no effect in a batch of 1.
func TestRebatchRules(t *testing.T) {
	type build = func(b *modelBuilder)
	const opset = 13
	axes := func(v ...int64) *onnxpb.AttributeProto { return ints("axes", v...) }
	for _, c := range []struct {
		name  string
		free  bool
		opset int64
		build build
	}{
		{"elementwise", true, opset, func(b *modelBuilder) { b.node("Tanh", "x", "y") }},
		{"add a constant", true, opset, func(b *modelBuilder) { b.weights("w", graph.Float32, 1, 2, 1, 4).node("Add", "w x", "y") }},
		{"add a constant of 3 dimensions", true, opset, func(b *modelBuilder) { b.weights("w", graph.Float32, 2, 3, 4).node("Mul", "x w", "y") }},
		{"add a constant of 5 dimensions", true, opset, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 2, 1, 2, 3, 4).node("Mul", "x w", "z").node("Transpose", "z", "y", ints("perm", 1, 0, 2, 3, 4))
		}},
		{"add a constant along the batch's dimension", false, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 2, 12).weights("w", graph.Float32, 2, 12).node("Add", "z w", "y")
		}},
		{"two inputs in the same place", true, opset, func(b *modelBuilder) { b.node("Tanh", "x", "z").node("Sub", "x z", "y") }},
		{"two inputs in different places", false, opset, func(b *modelBuilder) {
			b.node("Flatten", "x", "u").int64s("a", 1).node("Unsqueeze", "u a", "q").node("Transpose", "q", "v", ints("perm", 1, 0, 2)).node("Add", "q v", "y")
		}},
		{"images", true, opset, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 2, 2, 3, 3).node("Conv", "x w", "y", ints("pads", 1, 1, 1, 1))
		}},
		{"images, the batch for channels", false, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 0, 2, 3)).weights("w", graph.Float32, 1, 1, 3, 3).node("Conv", "z w", "y", ints("pads", 1, 1, 1, 1))
		}},
		{"softmax", true, opset, func(b *modelBuilder) { b.node("Softmax", "x", "y", integer("axis", 1)) }},
		{"softmax of the batch", false, opset, func(b *modelBuilder) { b.node("Softmax", "x", "y", integer("axis", 0)) }},
		{"softmax of the batch, from the end", false, opset, func(b *modelBuilder) { b.node("Softmax", "x", "y", integer("axis", -4)) }},
		{"softmax from an axis on", true, 11, func(b *modelBuilder) { b.node("Softmax", "x", "y", integer("axis", 1)) }},
		{"softmax from the batch on", false, 11, func(b *modelBuilder) { b.node("Softmax", "x", "y", integer("axis", 0)) }},
		{"softmax from before the batch on", false, 11, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 0, 3)).node("Softmax", "z", "y", integer("axis", 1))
		}},
		{"layer normalisation", true, 17, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 3, 4).node("LayerNormalization", "x w", "y", integer("axis", 2))
		}},
		{"layer normalisation of the batch", false, 17, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 0, 3)).weights("w", graph.Float32, 1, 4).node("LayerNormalization", "z w", "y", integer("axis", 2))
		}},
		{"layer normalisation of more than the batch", false, 17, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 3, 0)).weights("w", graph.Float32, 4, 1).node("LayerNormalization", "z w", "y", integer("axis", 2))
		}},
		{"mean", true, opset, func(b *modelBuilder) { b.node("ReduceMean", "x", "y", axes(1), integer("keepdims", 0)) }},
		{"mean of the batch", false, opset, func(b *modelBuilder) { b.node("ReduceMean", "x", "y", axes(0)) }},
		{"mean of all", false, opset, func(b *modelBuilder) { b.node("ReduceMean", "x", "y") }},
		{"mean of no axes, which is of all", false, 18, func(b *modelBuilder) { b.int64s("a").node("ReduceMean", "x a", "y") }},
		{"mean behind the batch's place", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 0, 3)).node("ReduceMean", "z", "m", axes(0), integer("keepdims", 0)).node("ReduceMean", "m", "y", axes(0), integer("keepdims", 1))
		}},
		{"matrix product", true, opset, func(b *modelBuilder) { b.weights("w", graph.Float32, 4, 2).node("MatMul", "x w", "y") }},
		{"matrix product from the left", true, opset, func(b *modelBuilder) { b.weights("w", graph.Float32, 2, 3).node("MatMul", "w x", "y") }},
		{"matrix product of rows", true, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 1, 24).weights("w", graph.Float32, 24, 3).node("MatMul", "z w", "y")
		}},
		{"matrix product of columns", true, opset, func(b *modelBuilder) {
			b.node("Flatten", "x", "u").node("Transpose", "u", "z", ints("perm", 1, 0)).weights("w", graph.Float32, 3, 24).node("MatMul", "w z", "v").node("Transpose", "v", "y", ints("perm", 1, 0))
		}},
		{"matrix product that contracts the batch", false, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 3, 0)).weights("w", graph.Float32, 1, 2).node("MatMul", "z w", "y")
		}},
		{"matrix product of samples", false, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 3, 0)).node("Transpose", "x", "v", ints("perm", 1, 2, 0, 3)).node("MatMul", "z v", "y")
		}},
		{"matrix product with itself", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 0, 1, 3, 2)).node("MatMul", "x z", "y")
		}},
		{"matrix product of rows with rows", false, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 0, 3)).node("Transpose", "x", "v", ints("perm", 1, 2, 3, 0)).node("MatMul", "z v", "y")
		}},
		{"matrix product that contracts the second's batch", false, opset, func(b *modelBuilder) {
			b.int64s("s", 0).int64s("e", 3).int64s("a", 3).node("Slice", "x s e a", "u").node("ReduceMax", "u", "m", axes(1)).reshape("m", "z", 3, 3).node("MatMul", "z z", "y")
		}},
		{"gemm", true, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 1, 24).weights("w", graph.Float32, 24, 3).weights("c", graph.Float32, 1, 3).node("Gemm", "z w c", "y")
		}},
		{"gemm of columns", true, opset, func(b *modelBuilder) {
			b.node("Flatten", "x", "u").node("Transpose", "u", "z", ints("perm", 1, 0)).weights("w", graph.Float32, 24, 3).node("Gemm", "z w", "y", integer("transA", 1))
		}},
		{"gemm that contracts the batch", false, opset, func(b *modelBuilder) {
			b.node("Flatten", "x", "u").node("Transpose", "u", "z", ints("perm", 1, 0)).weights("w", graph.Float32, 1, 3).node("Gemm", "z w", "y")
		}},
		{"batch times heads", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).node("Transpose", "z", "h", ints("perm", 1, 0, 2)).
				node("Transpose", "h", "k", ints("perm", 0, 2, 1)).node("MatMul", "h k", "s").reshape("s", "y", 1, 2, 3, 3)
		}},
		{"batch in the middle, times rows", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 8).weights("w", graph.Float32, 8, 2).node("MatMul", "z w", "v").
				reshape("v", "u", 3, 1, 2).node("Transpose", "u", "y", ints("perm", 1, 0, 2))
		}},
		{"to one vector", false, opset, func(b *modelBuilder) { b.reshape("x", "z", 24).node("Softmax", "z", "y", integer("axis", 0)) }},
		{"flatten", true, opset, func(b *modelBuilder) {
			b.node("Flatten", "x", "z", integer("axis", 2)).weights("w", graph.Float32, 12, 2).node("MatMul", "z w", "y")
		}},
		{"flatten in front of the batch", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 1, 0, 2, 3)).node("Flatten", "t", "z", integer("axis", 1)).node("Softmax", "z", "v", integer("axis", 0)).
				reshape("v", "u", 2, 1, 12).node("Transpose", "u", "y", ints("perm", 1, 0, 2))
		}},
		{"squeeze", true, opset, func(b *modelBuilder) {
			b.node("ReduceMax", "x", "z", axes(1)).int64s("a", 1).node("Squeeze", "z a", "y")
		}},
		{"squeeze the batch away", false, opset, func(b *modelBuilder) { b.int64s("a", 0).node("Squeeze", "x a", "y") }},
		{"squeeze all of size 1", false, opset, func(b *modelBuilder) { b.node("Squeeze", "x", "y") }},
		{"unsqueeze", true, opset, func(b *modelBuilder) {
			b.int64s("a", 0, -1).node("Unsqueeze", "x a", "z").node("Transpose", "z", "y", ints("perm", 1, 0, 2, 3, 4, 5))
		}},
		{"concat", true, opset, func(b *modelBuilder) { b.node("Concat", "x x", "y", integer("axis", 2)) }},
		{"concat along the batch", false, opset, func(b *modelBuilder) { b.node("Concat", "x x", "y", integer("axis", 0)) }},
		{"concat with a constant", true, opset, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 1, 2, 1, 4).node("Concat", "w x", "y", integer("axis", -2))
		}},
		{"concat with a constant behind the batch's place", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).weights("w", graph.Float32, 2, 1, 2, 4).node("Concat", "t w", "z", integer("axis", 0)).
				node("Transpose", "z", "y", ints("perm", 1, 0, 2, 3))
		}},
		{"split", true, opset, func(b *modelBuilder) { b.node("Split", "x", "y", integer("axis", 1)).second("z") }},
		{"slice", true, opset, func(b *modelBuilder) { b.int64s("s", 1).int64s("e", 3).int64s("a", -1).node("Slice", "x s e a", "y") }},
		{"slice all of the batch", true, opset, func(b *modelBuilder) { b.int64s("s", 0, 1).int64s("e", math.MaxInt64, 3).node("Slice", "x s e", "y") }},
		{"slice of the batch", false, opset, func(b *modelBuilder) { b.int64s("s", 0).int64s("e", 1).int64s("a", 0).node("Slice", "x s e a", "y") }},
		{"slice of the batch from the end", false, opset, func(b *modelBuilder) {
			b.int64s("s", 0).int64s("e", math.MaxInt64).int64s("a", 0).int64s("d", 2).node("Slice", "x s e a d", "y")
		}},
		{"gather", true, opset, func(b *modelBuilder) { b.int64s("i", 1, 0, 2).node("Gather", "x i", "y", integer("axis", 2)) }},
		{"gather in front of the batch", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 1, 0, 2, 3)).int64s("i", 1, 0).node("Gather", "t i", "z", integer("axis", 0)).node("Transpose", "z", "y", ints("perm", 1, 0, 2, 3))
		}},
		{"gather of the batch", false, opset, func(b *modelBuilder) { b.int64s("i", 0).node("Gather", "x i", "y", integer("axis", 0)) }},
		{"gather of all values", true, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 24).int64s("i", counting(24)...).node("Gather", "z i", "v").reshape("v", "u", 1, 24).node("Tanh", "u", "y")
		}},
		{"gather of all values in another order", false, opset, func(b *modelBuilder) {
			i := counting(24)
			i[3], i[4] = i[4], i[3]
			b.reshape("x", "z", 24).int64s("i", i...).node("Gather", "z i", "v").reshape("v", "u", 1, 24).node("Tanh", "u", "y")
		}},
		{"pad", true, opset, func(b *modelBuilder) { b.int64s("p", 0, 1, 0, 0, 0, 0, 2, 0).node("Pad", "x p", "y") }},
		{"pad in front of the batch", false, opset, func(b *modelBuilder) { b.int64s("p", 1, 0, 0, 0, 0, 0, 0, 0).node("Pad", "x p", "y") }},
		{"pad behind the batch", false, opset, func(b *modelBuilder) { b.int64s("p", 0, 0, 0, 0, 1, 0, 0, 0).node("Pad", "x p", "y") }},
		{"largest", true, opset, func(b *modelBuilder) {
			b.node("ArgMax", "x", "z", integer("axis", 1), integer("keepdims", 0)).node("Cast", "z", "y", integer("to", int64(graph.Float32)))
		}},
		{"largest of the batch", false, opset, func(b *modelBuilder) {
			b.node("ArgMax", "x", "z", integer("axis", 0)).node("Cast", "z", "y", integer("to", int64(graph.Float32)))
		}},
		{"expand", true, opset, func(b *modelBuilder) {
			b.int64s("a", 1).node("Unsqueeze", "x a", "z").int64s("like", 1, 3, 2, 3, 4).node("Expand", "z like", "y")
		}},
		{"expand the batch", false, opset, func(b *modelBuilder) { b.int64s("like", 3, 1, 1, 1).node("Expand", "x like", "y") }},
		{"resize to sizes", true, opset, func(b *modelBuilder) { b.int64s("s", 1, 2, 6, 8).optional("Resize", "x", "", "", "s", "y") }},
		{"resize by scales", true, opset, func(b *modelBuilder) { b.floats("s", 1, 1, 2, 2).optional("Resize", "x", "", "s", "y") }},
		// the graph divides x by the square root of x's width
		{"a size of its own", true, opset, func(b *modelBuilder) {
			b.node("Shape", "x", "shape").int64s("i", 3).node("Gather", "shape i", "w").node("Cast", "w", "f", integer("to", int64(graph.Float32))).
				node("Sqrt", "f", "r").node("Div", "x r", "y")
		}},
		{"the size of the batch, which is that of one sample", true, opset, func(b *modelBuilder) {
			b.node("Shape", "x", "shape").int64s("i", 0).node("Gather", "shape i", "w").node("Cast", "w", "f", integer("to", int64(graph.Float32))).node("Div", "x f", "y")
		}},
		{"rows of a table", true, opset, func(b *modelBuilder) { b.reshape("x", "z", 1, 24).normalised("z", "y") }},
		{"columns of a table", false, opset, func(b *modelBuilder) {
			b.node("ReduceMax", "x", "m", axes(1, 2, 3), integer("keepdims", 0)).int64s("a", 0).node("Unsqueeze", "m a", "t").
				normalised("t", "v").node("Transpose", "v", "y", ints("perm", 1, 0))
		}},
		// the graph divides x by the product of x's height and width
		{"sizes from a start on", true, 15, func(b *modelBuilder) {
			b.optional("Shape", "x", "hw").attributes(integer("start", 2)).node("ReduceProd", "hw", "p", integer("keepdims", 1)).
				node("Cast", "p", "f", integer("to", int64(graph.Float32))).node("Div", "x f", "y")
		}},
		{"sizes up to an end", true, 15, func(b *modelBuilder) {
			b.optional("Shape", "x", "nc").attributes(integer("end", -2)).node("ReduceProd", "nc", "p", integer("keepdims", 1)).
				node("Cast", "p", "f", integer("to", int64(graph.Float32))).node("Div", "x f", "y")
		}},
		{"sizes sliced of a shape", true, opset, func(b *modelBuilder) {
			b.node("Shape", "x", "shape").int64s("s", -2).int64s("e", math.MaxInt64).node("Slice", "shape s e", "hw").int64s("a", 0).int64s("one", 1).
				node("ReduceProd", "hw", "p", integer("keepdims", 1)).int64s("c", 2).node("Concat", "one c p", "target", integer("axis", 0)).node("Reshape", "x target", "y")
		}},
		{"einsum", true, opset, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 4, 2, 5).node("Einsum", "x w", "y", text("equation", "nchd, dce -> nhe"))
		}},
		{"einsum of two", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 1, 0, 2, 3)).node("Einsum", "x t", "z", text("equation", "nchd,cned->hnde")).node("Transpose", "z", "y", ints("perm", 1, 0, 2, 3))
		}},
		{"einsum of columns", true, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 1, 24).weights("w", graph.Float32, 24, 3).node("Einsum", "w z", "v", text("equation", "dm,nd->mn")).node("Transpose", "v", "y", ints("perm", 1, 0))
		}},
		{"einsum of rows times the batch", true, opset, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).weights("w", graph.Float32, 4, 5).node("Einsum", "z w", "v", text("equation", "abc,cd->abd")).
				reshape("v", "u", 3, 1, 2, 5).node("Transpose", "u", "y", ints("perm", 1, 0, 2, 3))
		}},
		{"einsum that sums the batch", false, opset, func(b *modelBuilder) { b.node("Einsum", "x", "y", text("equation", "nchd->chd")) }},
		{"einsum of samples with samples", false, opset, func(b *modelBuilder) {
			b.node("Einsum", "x x", "y", text("equation", "nchd,mchd->nm"))
		}},
		{"einsum that sums one of two", false, opset, func(b *modelBuilder) {
			b.node("Einsum", "x x", "y", text("equation", "nchd,mchd->nchd"))
		}},
		{"einsum of a diagonal", false, opset, func(b *modelBuilder) {
			b.int64s("s", 0).int64s("e", 1).int64s("a", 1).node("Slice", "x s e a", "z").node("Einsum", "z", "y", text("equation", "nnhd->nhd"))
		}},
		{"einsum with a constant along the batch", false, opset, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 1, 4).node("Einsum", "x w", "y", text("equation", "nchd,nd->nch"))
		}},
		{"einsum of a batch in two places", false, opset, func(b *modelBuilder) {
			b.reshape("x", "z", 6, 4).node("Transpose", "x", "t", ints("perm", 1, 2, 0, 3)).reshape("t", "v", 6, 4).node("Einsum", "z v", "u", text("equation", "rd,rd->rd")).reshape("u", "y", 1, 24)
		}},
		{"einsum with the rest", false, opset, func(b *modelBuilder) { b.node("Einsum", "x", "y", text("equation", "a...->a...")) }},
		{"einsum without a result", false, opset, func(b *modelBuilder) { b.node("Einsum", "x", "y", text("equation", "nchd")) }},
		{"long short-term memory", true, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 1, 12, 4).weights("r", graph.Float32, 1, 12, 3).optional("LSTM", "z", "w", "r", "s").hidden(3, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"the last state of both directions", true, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 2, 9, 4).weights("r", graph.Float32, 2, 9, 3).weights("c", graph.Float32, 2, 18).optional("GRU", "z", "w", "r", "c", "").hidden(3, 2).second("s").
				node("Transpose", "s", "y", ints("perm", 1, 0, 2))
		}},
		{"the last cells", true, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 1, 12, 4).weights("r", graph.Float32, 1, 12, 3).optional("LSTM", "z", "w", "r", "").hidden(3, 1).second("").second("s").
				node("Transpose", "s", "y", ints("perm", 1, 0, 2))
		}},
		{"states to begin with", true, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 1, 12, 4).weights("r", graph.Float32, 1, 12, 3).weights("h", graph.Float32, 1, 1, 3).weights("c", graph.Float32, 1, 1, 3).
				optional("LSTM", "z", "w", "r", "", "", "h", "c", "s").hidden(3, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"a state of the samples", true, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).node("ReduceMax", "z", "h", axes(0)).
				optional("RNN", "z", "w", "r", "", "", "h", "s").hidden(4, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"states of rows times the batch", true, 14, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).node("ReduceMax", "x", "m", axes(2), integer("keepdims", 0)).reshape("m", "h", 1, 2, 4).
				weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).optional("RNN", "z", "w", "r", "", "", "h", "s").hidden(4, 1).node("Transpose", "s", "u", ints("perm", 2, 0, 1, 3)).reshape("u", "y", 1, 24)
		}},
		{"states of the batch times rows", false, 14, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).node("ReduceMax", "x", "m", axes(2), integer("keepdims", 0)).node("Transpose", "m", "v", ints("perm", 1, 0, 2)).reshape("v", "h", 1, 2, 4).
				weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).optional("RNN", "z", "w", "r", "", "", "h", "s").hidden(4, 1).node("Transpose", "s", "u", ints("perm", 2, 0, 1, 3)).reshape("u", "y", 1, 24)
		}},
		{"states for rows times the batch", false, 14, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).weights("h", graph.Float32, 1, 2, 4).
				optional("RNN", "z", "w", "r", "", "", "h", "s").hidden(4, 1).node("Transpose", "s", "u", ints("perm", 2, 0, 1, 3)).reshape("u", "y", 1, 24)
		}},
		{"rows times the batch", true, 14, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 2, 0, 1, 3)).reshape("t", "z", 3, 2, 4).weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).
				optional("RNN", "z", "w", "r", "s").hidden(4, 1).node("Transpose", "s", "u", ints("perm", 2, 0, 1, 3)).reshape("u", "y", 1, 24)
		}},
		{"the batch for time", false, 14, func(b *modelBuilder) {
			b.node("ReduceMax", "x", "z", axes(1), integer("keepdims", 0)).weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).optional("RNN", "z", "w", "r", "y").hidden(4, 1)
		}},
		{"the batch for time, of one row", false, 14, func(b *modelBuilder) {
			b.node("ReduceMax", "x", "m", axes(1, 2), integer("keepdims", 0)).int64s("a", 1).node("Unsqueeze", "m a", "z").weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).
				optional("RNN", "z", "w", "r", "s").hidden(4, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"rows for the batch, of one time", true, 14, func(b *modelBuilder) {
			b.reshape("x", "z", 1, 6, 4).weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).optional("RNN", "z", "w", "r", "s").hidden(4, 1).reshape("s", "y", 1, 24)
		}},
		{"weights of the samples", false, 14, func(b *modelBuilder) {
			b.sequence("x").node("ReduceMax", "x", "m", axes(1, 2), integer("keepdims", 0)).reshape("m", "v", 1, 1, 4).weights("r", graph.Float32, 1, 1, 1).
				optional("RNN", "z", "v", "r", "s").hidden(1, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"lengths", false, 14, func(b *modelBuilder) {
			b.sequence("x").weights("w", graph.Float32, 1, 4, 4).weights("r", graph.Float32, 1, 4, 4).int64s("n", 4).node("Cast", "n", "l", integer("to", 6)).
				optional("RNN", "z", "w", "r", "", "l", "s").hidden(4, 1).node("Transpose", "s", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"attention", true, 23, func(b *modelBuilder) { b.optional("Attention", "x", "x", "x", "y") }},
		{"attention of heads in rows", true, 23, func(b *modelBuilder) {
			b.reshape("x", "z", 1, 6, 4).weights("w", graph.Float32, 4, 4).node("MatMul", "z w", "k").optional("Attention", "z", "k", "z", "y").attributes(integer("q_num_heads", 2), integer("kv_num_heads", 2), integer("is_causal", 1))
		}},
		{"attention with a mask", true, 23, func(b *modelBuilder) {
			b.weights("m", graph.Float32, 3, 3).optional("Attention", "x", "x", "x", "m", "y")
		}},
		{"attention with a mask of the heads", true, 23, func(b *modelBuilder) {
			b.weights("m", graph.Float32, 1, 2, 3, 3).optional("Attention", "x", "x", "x", "m", "y")
		}},
		{"attention with a mask of samples", false, 23, func(b *modelBuilder) {
			b.node("Transpose", "x", "t", ints("perm", 0, 1, 3, 2)).node("MatMul", "x t", "m").optional("Attention", "x", "x", "x", "m", "y")
		}},
		{"attention between samples", false, 23, func(b *modelBuilder) {
			b.node("Transpose", "x", "z", ints("perm", 1, 2, 0, 3)).optional("Attention", "z", "z", "z", "v").node("Transpose", "v", "y", ints("perm", 2, 0, 1, 3))
		}},
		{"attention to constants", false, 23, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 1, 2, 5, 4).optional("Attention", "x", "w", "w", "y")
		}},
		{"attention of constants", false, 23, func(b *modelBuilder) {
			b.weights("w", graph.Float32, 1, 2, 5, 4).optional("Attention", "w", "x", "x", "y")
		}},
		{"attention with keys of before", false, 23, func(b *modelBuilder) {
			b.weights("k", graph.Float32, 1, 2, 5, 4).weights("v", graph.Float32, 1, 2, 5, 4).optional("Attention", "x", "x", "x", "", "k", "v", "y").second("k2").second("v2")
		}},
		{"the largest of each", true, opset, func(b *modelBuilder) { b.int64s("k", 2).node("TopK", "x k", "y").second("i") }},
		{"the largest of the batch", false, opset, func(b *modelBuilder) { b.int64s("k", 1).node("TopK", "x k", "y", integer("axis", 0)).second("i") }},
		{"a rule that is missing", false, opset, func(b *modelBuilder) { b.node("MeanVarianceNormalization", "x", "y") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newModel("x", graph.Float32, 1, 2, 3, 4)
			b.OpsetImport[0].Version, b.IrVersion = proto.Int64(c.opset), proto.Int64(8+2*(c.opset/23))
			c.build(b)
			b.reshape("y", "row", 1, -1).output("row", graph.Float32, 1, "m")
			free, err := freedByProof(t, b.bytes(t), 2, 3, 4)
			if free != c.free {
				t.Errorf("freed: %v (%v), want %v", free, err, c.free)
			}
			if err != nil && strings.Contains(err.Error(), "through Reshape") {
				t.Errorf("refused at the last node only: %v", err)
			}
		})
	}
}

func counting(n int64) (v []int64) {
	for i := range n {
		v = append(v, i)
	}
	return v
}

// The method 'second' adds an output to the last node.
func (b *modelBuilder) second(name string) *modelBuilder {
	n := b.Graph.Node[len(b.Graph.Node)-1]
	n.Output = append(n.Output, name)
	return b
}

// optional adds a node. The last name is the output, and the others are inputs. The name "" stands for an omitted
// input.
func (b *modelBuilder) optional(op string, names ...string) *modelBuilder {
	last := len(names) - 1
	b.Graph.Node = append(b.Graph.Node, graph.Node(op, names[:last], names[last]))
	return b
}

// normalised adds scikit-learn's normalisation of each row.
func (b *modelBuilder) normalised(x, y string) *modelBuilder {
	b.node("Normalizer", x, y, text("norm", "L2"))
	b.Graph.Node[len(b.Graph.Node)-1].Domain = proto.String("ai.onnx.ml")
	b.OpsetImport = append(b.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(1)})
	return b
}

// sequence adds nodes that compute z [time, batch, 4] from images.
func (b *modelBuilder) sequence(x string) *modelBuilder {
	return b.reshape(x, "rows", 1, 6, 4).node("Transpose", "rows", "z", ints("perm", 1, 0, 2))
}

// The method 'hidden' sets the size of the states and the number of directions of the last node, a recurrent layer.
func (b *modelBuilder) hidden(size, directions int64) *modelBuilder {
	direction := "forward"
	if directions == 2 {
		direction = "bidirectional"
	}
	return b.attributes(integer("hidden_size", size), text("direction", direction))
}

// attributes adds attributes to the last node.
func (b *modelBuilder) attributes(a ...*onnxpb.AttributeProto) *modelBuilder {
	n := b.Graph.Node[len(b.Graph.Node)-1]
	n.Attribute = append(n.Attribute, a...)
	return b
}

func text(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_STRING.Enum(), S: []byte(v)}
}

// randomGraph builds a graph with a batch of 1. The function 'next' returns the numbers that determine the graph.
func randomGraph(next func(n int) int) []byte {
	b := newModel("x", graph.Float32, 1, 2, 3, 2)
	b.OpsetImport[0].Version, b.IrVersion = proto.Int64(13), proto.Int64(8)
	shape, v := []int64{1, 2, 3, 2}, "x"
	for k := range 1 + next(7) {
		y := fmt.Sprint("v", k)
		axis := next(len(shape))
		switch next(10) {
		case 0:
			shape = regrouped(shape, next)
			b.reshape(v, y, slices.Clone(shape)...)
		case 1:
			perm := permutation(len(shape), next)
			was := slices.Clone(shape)
			for i, p := range perm {
				shape[i] = was[p]
			}
			b.node("Transpose", v, y, ints("perm", perm...))
		case 2:
			b.node("Softmax", v, y, integer("axis", int64(axis)))
		case 3:
			b.node("ReduceMean", v, y, ints("axes", int64(axis)), integer("keepdims", 1))
			shape[axis] = 1
		case 4:
			last := len(shape) - 1
			if last < 1 {
				b.node("Tanh", v, y)
				break
			}
			b.weights(y+"w", graph.Float32, shape[last], 2).node("MatMul", v+" "+y+"w", y)
			shape[last] = 2
		case 5:
			like := slices.Clone(shape)
			like[axis] = 1
			b.weights(y+"w", graph.Float32, like[next(len(like)):]...).node("Add", v+" "+y+"w", y)
		case 6:
			b.node("Concat", v+" "+v, y, integer("axis", int64(axis)))
			shape[axis] *= 2
		case 7:
			like := slices.Clone(shape)
			like[axis] = 1
			b.weights(y+"w", graph.Float32, like...).node("Concat", v+" "+y+"w", y, integer("axis", int64(axis)))
			shape[axis]++
		case 8:
			at := next(len(shape) + 1)
			b.int64s(y+"a", int64(at)).node("Unsqueeze", v+" "+y+"a", y)
			shape = slices.Insert(shape, at, 1)
		case 9:
			b.node("Flatten", v, y, integer("axis", int64(axis)))
			a, c := int64(1), int64(1)
			for i, s := range shape {
				if i < axis {
					a *= s
				} else {
					c *= s
				}
			}
			shape = []int64{a, c}
		}
		v = y
	}
	b.reshape(v, "row", 1, -1).output("row", graph.Float32, 1, "m")
	model, err := proto.Marshal(b.ModelProto)
	if err != nil {
		panic(err)
	}
	return model
}

// The function 'regrouped' returns another shape with the same number of values. At random places it merges
// neighbouring sizes, splits an even size s into 2 and s/2, or inserts a size of 1.
func regrouped(shape []int64, next func(int) int) []int64 {
	var sizes []int64
	for _, s := range shape {
		switch {
		case len(sizes) > 0 && next(2) == 0:
			sizes[len(sizes)-1] *= s
		case next(4) == 0:
			sizes = append(sizes, 1, s)
		case s%2 == 0 && next(2) == 0:
			sizes = append(sizes, 2, s/2)
		default:
			sizes = append(sizes, s)
		}
	}
	return sizes
}

func permutation(n int, next func(int) int) []int64 {
	perm := counting(int64(n))
	for i := n - 1; i > 0; i-- {
		j := next(i + 1)
		perm[i], perm[j] = perm[j], perm[i]
	}
	return perm
}

// TestRebatchRandom checks that the proof is right on random graphs.
func TestRebatchRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	found := 0
	const graphs = 1500
	for range graphs {
		if free, _ := freedByProof(t, randomGraph(rng.IntN), 2, 3, 2); free {
			found++
		}
	}
	t.Logf("%d of %d freed", found, graphs)
	if found < graphs/10 || found > graphs*9/10 {
		t.Errorf("%d of %d graphs freed: the test says little", found, graphs)
	}
}

// FuzzRebatch checks the proof on graphs that are built from the fuzzer's bytes.
func FuzzRebatch(f *testing.F) {
	f.Add([]byte("0123456789"))
	f.Add([]byte(strings.Repeat("\x01\x02\x00\x03", 8)))
	f.Fuzz(func(t *testing.T, choices []byte) {
		next := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0])
			choices = choices[1:]
			return c % n
		}
		freedByProof(t, randomGraph(next), 2, 3, 2)
	})
}
