package onnx

import (
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/graph"
)

// TestSmaller checks which smaller batches models offer. In batches of every size, a sample's scores must have the same
// bits as in batches of the reference size. The model "columns" is like the model in TestLoadBatchBits: the last bits
// of its scores may change with the size of a call.
func TestSmaller(t *testing.T) {
	columns := newModel("x", graph.Float32, "N", 48).weights("w", graph.Float32, 10, 48).
		node("Transpose", "x", "t", ints("perm", 1, 0)).node("MatMul", "w t", "z").
		node("Transpose", "z", "y", ints("perm", 1, 0)).output("y", graph.Float32, "N", 10).bytes(t)
	xs := images(150)
	for _, c := range []struct {
		name  string
		model []byte
		batch int
		want  []int
	}{
		{"nchw", testModel(t, "nchw"), 100, []int{16, 32, 64}},
		{"nchw", testModel(t, "nchw"), 16, nil},
		{"nchw", testModel(t, "nchw"), 8, nil},
		{"float16", testModel(t, "float16"), 64, []int{16, 32}},
		{"fixed_full", testModel(t, "fixed_full"), 64, []int{16, 32}},
		{"unbatched", testModel(t, "unbatched"), 40, []int{16, 32}},
		{"stuck", testModel(t, "stuck"), 40, []int{16, 32}},
		{"batch_mean", testModel(t, "batch_mean"), 40, []int{16, 32}},
		{"columns", columns, 64, nil},
	} {
		m := load(t, c.model, LoadOptions{Device: CPU, Batch: c.batch, Smaller: true})
		var sizes []int
		want := scores(t, load(t, c.model, LoadOptions{Device: CPU, Batch: 16}), xs)
		for _, smaller := range m.Smaller() {
			sizes = append(sizes, smaller.Batch())
			for i, got := range scores(t, smaller, xs) {
				if !sameBits(got, want[i]) {
					t.Fatalf("%s, batches of %d: sample %d scores %v, %v in batches of 16", c.name, smaller.Batch(), i, got, want[i])
				}
			}
		}
		if c.want != nil && !slices.Equal(sizes, c.want) || m.batch <= 16 && sizes != nil {
			t.Errorf("%s, batch %d: smaller batches of %v, want %v", c.name, c.batch, sizes, c.want)
		}
		if m := load(t, c.model, LoadOptions{Device: CPU, Batch: c.batch}); m.Smaller() != nil {
			t.Errorf("%s: smaller batches that were not asked for", c.name)
		}
	}
}

// TestSmallerFixed uses a provider that opens a session for each batch size. The model must offer no smaller batches,
// and the default batch size of a server must be 16.
func TestSmallerFixed(t *testing.T) {
	openRuntime(t)
	fixed := cpuProvider
	fixed.fixSizes, fixed.measured = true, true
	opt := LoadOptions{Smaller: true}
	l, err := newLoader(t.Context(), testModels["nchw"]().file(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.loadOn(Device{provider: &fixed}, opt); err != nil {
		t.Fatal(err)
	}
	defer l.Model.Close()
	if l.Batch() != 16 || l.Smaller() != nil {
		t.Errorf("batches of %d, smaller %v", l.Batch(), l.Smaller())
	}
}
