package grad_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/onnx"
)

// goldenModel is a model with examples and labels. scripts/gradient_golden.py writes it.
type goldenModel struct {
	Model  string
	Labels []int64
	X      []float64
	Cases  []goldenCase
}

// goldenCase is a loss with the gradient that PyTorch's autograd computes in float64.
type goldenCase struct {
	Loss                            grad.Loss
	Targeted                        bool
	Copies                          int
	Noise, Scores, Values, Gradient []float64
}

// TestPyTorch compares the scores, losses and gradients of whole networks with the values that PyTorch computed in
// float64. The tolerance covers the rounding to float32, which is 2⁻²⁴ for each of a few hundred operations.
func TestPyTorch(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct{ Models []goldenModel }
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for _, model := range golden.Models {
		for _, c := range model.Cases {
			t.Run(fmt.Sprintf("%s %s targeted %v copies %d", model.Model, c.Loss, c.Targeted, c.Copies), func(t *testing.T) { c.check(t, model) })
		}
	}
}

func (c goldenCase) check(t *testing.T, model goldenModel) {
	data, err := os.ReadFile(filepath.Join("testdata", model.Model+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := openLibrary(t).Load(data, onnx.LoadOptions{Device: onnx.CPU})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := m.Gradient(t.Context(), grad.Objective{Loss: c.Loss, Targeted: c.Targeted, Examples: len(model.Labels), Copies: c.Copies})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	scores, values, gradient := make([]float32, len(c.Scores)), make([]float32, len(c.Values)), make([]float32, len(c.Gradient))
	if err := g.Run(t.Context(), singles(model.X), singles(c.Noise), model.Labels, scores, values, gradient); err != nil {
		t.Fatal(err)
	}
	compare(t, "score", scores, c.Scores)
	compare(t, "loss", values, c.Values)
	compare(t, "gradient", gradient, c.Gradient)
}

func compare(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	largest := 0.
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	for i, w := range want {
		if diff := math.Abs(float64(got[i]) - w); !(diff <= 1e-5*largest) {
			t.Errorf("%s %d is %g, PyTorch's %g", what, i, got[i], w)
			return
		}
	}
}
