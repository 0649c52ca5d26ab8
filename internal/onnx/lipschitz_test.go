package onnx

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/lipschitz"
)

// TestLipschitzBoundOfPairs tests 300 pairs of inputs for each of two models. The scores of a pair must not differ by
// more than the bound of package lipschitz allows. The inputs of a pair differ by a random vector plus a unit vector.
// The unit vector has the direction in which the inputs of one earlier pair differed. Of all pairs so far, this earlier
// pair had the largest ratio of the change of the scores to the distance between the inputs. The inputs of the first
// pair differ only by the random vector.
func TestLipschitzBoundOfPairs(t *testing.T) {
	for _, path := range []string{"../../testdata/mnist-torch.onnx", "../../testdata/mnist-cnn.onnx"} {
		file, err := graph.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := lipschitz.Of(file, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := openRuntime(t).LoadFile(t.Context(), file, LoadOptions{Device: CPU, Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		best, largest := make([]float64, m.InputLen()), 0.0
		for range 300 {
			x, y := make([]float32, m.InputLen()), make([]float32, m.InputLen())
			direction, squared := make([]float64, len(x)), 0.0
			for i := range x {
				direction[i] = r.NormFloat64()*0.03 + best[i]
				x[i] = float32(r.Float64())
				y[i] = x[i] + float32(direction[i])
				squared += float64(y[i]-x[i]) * float64(y[i]-x[i])
			}
			s := scores(t, m, [][]float32{x, y})
			change := 0.0
			for k := range s[0] {
				change += math.Pow(float64(s[0][k]-s[1][k]), 2)
			}
			if ratio := math.Sqrt(change / squared); ratio > largest {
				largest = ratio
				for i := range best {
					best[i] = direction[i] / math.Sqrt(squared)
				}
			}
		}
		t.Logf("%s: the largest ratio is %.3g, the bound is %.3g", path, largest, bound.Bound)
		if largest > bound.Bound || largest < 0.1 {
			t.Errorf("%s: the largest ratio is %v, the bound %v", path, largest, bound.Bound)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
