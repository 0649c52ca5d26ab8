package experiment

import (
	"math"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/spec"
)

// TestPull checks that the matrix of Pull is the transpose of the derivative of Feed. In this test, the model has
// another order of values than the data, and each channel has its own normalisation.
func TestPull(t *testing.T) {
	dims := []graph.Dim{{Size: 2}, {Size: 2}, {Size: 3}} // the model takes [H,W,C], and the data are [C,H,W]
	_, a, ok := graph.Fit(dims, []int{3, 2, 2}, graph.CHW)
	if !ok || a.Perm == nil {
		t.Fatal("no order of values to test")
	}
	p := spec.Spec{Smoothing: spec.Smoothing{Sigma: 1}, Conditions: spec.Conditions{Mean: []float64{.1, .2, .3}, Std: []float64{.5, 2, 4}}}
	float, err := newNormalisation(p, a, 12)
	if err != nil {
		t.Fatal(err)
	}
	e := &Experiment{noise: &noise{Arrangement: a, float: float}}
	x, g := make([]float32, 12), make([]float32, 12)
	for i := range x {
		x[i], g[i] = float32(i)/12, float32(i*i%7)-3
	}
	pulled, base := make([]float32, 12), make([]float32, 12)
	e.Pull(pulled, g)
	e.Feed(base, x)
	for i := range x {
		moved, in := slices.Clone(x), make([]float32, 12)
		moved[i]++
		e.Feed(in, moved)
		want := 0.
		for j := range in {
			want += float64(g[j]) * float64(in[j]-base[j])
		}
		if math.Abs(want-float64(pulled[i])) > 1e-5 {
			t.Errorf("value %d: %g, want %g", i, pulled[i], want)
		}
	}
}
