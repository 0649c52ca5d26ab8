package attack

import (
	"context"

	"github.com/rscert/rscert/internal/smoothing"
)

// ScoreGradients estimates gradients from a classifier's scores, for models without gradients. By Stein's identity the
// gradient of a mean E m(x + ε) under Gaussian noise ε of variance v is E[(m(x + ε) − E m)·ε]/v. Here m is the largest
// score of another class minus the label's score. ScoreGradients estimates a separate variance v for each number in the
// input.
type ScoreGradients struct {
	Classifier Classifier
	Feed       func(in, values []float32) // sets 'in' to the model's input, computed from 'values' without noise
	// Slope converts a gradient. The argument 'in' holds the gradient with respect to the model's input. Slope computes
	// the gradient with respect to the example's values, and writes it to the argument 'values'.
	Slope func(values, in []float32)
	// Size is the number of noisy copies per Run. The estimate ignores copies to which the classifier gives no class.
	Size int
}

// Copies implements NoisyGradients.
func (g *ScoreGradients) Copies() int { return g.Size }

// Run implements NoisyGradients. A caller weights runs by exp(−loss). These weights are meaningful only if the loss is
// −ln of a probability. The margin m is not −ln of a probability, so Run returns the loss 0 and all runs have equal
// weights.
func (g *ScoreGradients) Run(ctx context.Context, x, noise []float32, label int, scores, gradient []float32) (float64, error) {
	d, m := g.Classifier.InputLen(), g.Classifier.Classes()
	if err := g.score(ctx, x, noise, scores); err != nil {
		return 0, err
	}
	var margins []float64
	var copies [][]float32
	mean := 0.
	for k := range g.Size {
		if row := scores[k*m : (k+1)*m]; smoothing.Vote(row) >= 0 {
			margins, copies = append(margins, -margin(row, label)), append(copies, noise[k*d:(k+1)*d])
			mean += margins[len(margins)-1]
		}
	}
	mean /= float64(len(margins))
	in := make([]float32, d)
	for i := range in {
		product, square := 0., 0.
		for k, n := range copies {
			v := float64(n[i])
			product += (margins[k] - mean) * v
			square += v * v
		}
		if square > 0 {
			in[i] = float32(product / square)
		}
	}
	g.Slope(gradient, in)
	return 0, nil
}

// score runs the classifier on all copies.
func (g *ScoreGradients) score(ctx context.Context, x, noise, scores []float32) error {
	d, m, batch := g.Classifier.InputLen(), g.Classifier.Classes(), max(g.Classifier.Batch(), 1)
	clean, in, out := make([]float32, d), make([]float32, batch*d), make([]float32, batch*m)
	g.Feed(clean, x)
	for first := 0; first < g.Size; first += batch {
		for row := range batch { // the last copy fills the rest of the last batch
			k := min(first+row, g.Size-1)
			for i, v := range clean {
				in[row*d+i] = v + noise[k*d+i]
			}
		}
		if err := g.Classifier.Run(ctx, in, out); err != nil {
			return err
		}
		copy(scores[first*m:], out)
	}
	return nil
}
