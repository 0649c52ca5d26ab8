package onnx

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
)

// refusals lists exported models without a gradient. It maps the start of a model's name to a text that the error must
// contain.
var refusals = map[string]string{
	"sklearn_boosting": "TreeEnsembleClassifier, node", "sklearn_forest": "TreeEnsembleClassifier, node",
	"torch_bytes": "Cast, node '/Cast'", "torch_quantised": "the model runs one input a call",
}

// TestGradientExports compares the gradients of exported models with finite differences. For the models in the map
// 'refusals', it checks the error instead.
func TestGradientExports(t *testing.T) {
	files, err := filepath.Glob("testdata/exports/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal("no models", err)
	}
	for _, file := range append(files, filepath.Join("..", "..", "testdata", "mnist-cnn.onnx")) {
		name := strings.TrimSuffix(filepath.Base(file), ".onnx")
		if name == "torch_double_legacy" || name == "torch_tokens_legacy" {
			continue // ONNX Runtime or rscert refuses to load this model, so there is no gradient to check
		}
		t.Run(name, func(t *testing.T) {
			model, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkGradient(t, load(t, model, LoadOptions{Device: CPU}), refusalOf(name))
		})
	}
}

func refusalOf(name string) string {
	for prefix, node := range refusals {
		if strings.HasPrefix(name, prefix) {
			return node
		}
	}
	return ""
}

// checkGradient computes the gradient of the sum of three examples' margins. It compares the norm of this gradient with
// the finite difference along the gradient's direction.
func checkGradient(t *testing.T, m *Model, refusal string) {
	const n = 3
	ctx := context.Background()
	g, err := m.Gradient(ctx, grad.Objective{Loss: grad.Margin, Examples: n})
	if refusal != "" {
		if advice, _ := hint.Of(err); err == nil || !strings.Contains(err.Error(), refusal) || advice != grad.Advice {
			t.Fatalf("got %v (hint: %s), want a refusal of %s", err, advice, refusal)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	size := n * m.InputLen()
	x, labels := make([]float32, size), []int64{0, 1, 0}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = rng.Float32()
	}
	at := func(step float64, along []float32) (total float64, gradient []float32) {
		moved := make([]float32, size)
		for i := range x {
			moved[i] = x[i]
			if along != nil {
				moved[i] += float32(step * float64(along[i]))
			}
		}
		scores, loss := make([]float32, n*m.Classes()), make([]float32, n)
		gradient = make([]float32, size)
		if err := g.Run(ctx, moved, nil, labels, scores, loss, gradient); err != nil {
			t.Fatal(err)
		}
		for _, l := range loss {
			total += float64(l)
		}
		return total, gradient
	}
	_, along := at(0, nil)
	square := 0.
	for _, v := range along {
		square += float64(v) * float64(v)
	}
	h := 1e-3 / math.Sqrt(square)
	above, _ := at(h, along)
	below, _ := at(-h, along)
	if slope := (above - below) / (2 * h); !(square > 1e-4) || !(math.Abs(slope-square) <= .02*square) {
		t.Errorf("the gradient's squared norm is %g, differences along it say %g", square, slope)
	}
}
