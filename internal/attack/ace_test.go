package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/smoothing"
)

// softmaxGradients computes gradients in closed form for a linear model with the scores [0, z]. The loss is −ln p_y,
// where p_k is the probability of class k and y is the label. If the field 'other' is set, the loss is ln p_k for the
// class k ≠ y.
type softmaxGradients struct {
	*linear
	examples int
	other    bool
}

func (g softmaxGradients) Examples() int { return g.examples }

func (g softmaxGradients) Run(ctx context.Context, x []float32, labels, _ []int64, scores, losses, gradient []float32) error {
	if err := g.linear.Run(ctx, x, scores); err != nil {
		return err
	}
	for i, label := range labels {
		z := g.value(x[i*len(g.w):])
		slope := 1 / (1 + math.Exp(-z)) // the slope of −ln p_0; the slope of −ln p_1 is smaller by 1
		if label == 1 {
			slope--
		}
		losses[i] = float32(math.Log1p(math.Exp((1 - 2*float64(label)) * z)))
		if g.other { // the loss is ln p_0 if the label is 1
			losses[i] = -float32(math.Log1p(math.Exp((2*float64(label) - 1) * z)))
			slope = (1 - 2*float64(label)) / (1 + math.Exp((1-2*float64(label))*z))
		}
		for j, w := range g.w {
			gradient[i*len(g.w)+j] = float32(slope * w)
		}
	}
	return nil
}

// reach returns the largest change of z that a perturbation of norm ε can cause. This is ε times the dual norm of w.
func (l *linear) reach(norm Norm, epsilon float64) float64 {
	dual := 0.
	for _, w := range l.w {
		if norm == L2 {
			dual += w * w
		} else {
			dual += math.Abs(w)
		}
	}
	if norm == L2 {
		dual = math.Sqrt(dual)
	}
	return epsilon * dual
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// TestACELinear: for a linear model of two classes, the confidence that a perfect attack reaches is known. The score
// difference z is positive for one class and negative for the other. An attack that raises the probability of the
// predicted class moves z as far away from 0 as the ball allows. An attack that lowers this probability moves z as far
// towards 0 as the ball allows. It stops at z = 0, the boundary between the classes, where the confidence is ½. If the
// example is misclassified, an attack that raises the probability of the true label lowers the probability of the
// predicted class. An attack that lowers the probability of the true label raises that of the predicted class. The
// attack changes no class.
func TestACELinear(t *testing.T) {
	for _, norm := range Norms.Values() {
		l := newLinear()
		all, _ := examplesOf(l, 40, norm)
		for i := range all {
			if i%3 == 0 {
				all[i].Label = 1 - all[i].Label
			}
		}
		const epsilon = .3
		s := newSearch(l, ACE, norm, epsilon)
		s.Gradients, s.Steps, s.StepSize = softmaxGradients{l, 3, false}, 400, 10
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		boundary := 0
		for i, f := range found {
			size, reach := math.Abs(l.value(all[i].Values)), l.reach(norm, epsilon)
			if want := sigmoid(size); math.Abs(f.Confidence-want) > 1e-6 {
				t.Errorf("%s: clean confidence %g, want %g", norm, f.Confidence, want)
			}
			if size < reach {
				boundary++
			}
			for k, setting := range Settings {
				up := setting.Eta < 0
				if setting.Omega == TrueLabel && f.Clean != f.Label {
					up = !up
				}
				want := sigmoid(max(size-reach, 0))
				if up {
					want = sigmoid(size + reach)
				}
				a := f.Altered[k]
				if math.Abs(a.Confidence-want) > 2e-3 {
					t.Errorf("%s %s: confidence %.5f of |z| = %.3g, want %.5f", norm, setting, a.Confidence, size, want)
				}
				if a.Class != f.Clean || a.Distance > epsilon || exactNorm(t, norm, a.Values, all[i].Values, epsilon) > 0 {
					t.Errorf("%s %s: class %d of %d, distance %g", norm, setting, a.Class, f.Clean, a.Distance)
				}
				in, out := slices.Clone(a.Values), make([]float32, 2)
				if err := l.Run(t.Context(), in, out); err != nil || smoothing.Vote(out) != a.Class {
					t.Errorf("the model gives class %d, want %d", smoothing.Vote(out), a.Class)
				}
			}
			if f.Adversarial != nil {
				t.Error("ACE gives no adversarial input")
			}
		}
		if boundary < 3 || boundary > 37 {
			t.Errorf("%s: %d of 40 reach the boundary", norm, boundary)
		}
	}
}

// TestACEConfirms: if the graph that computes gradients and the classifier answer different classes, the answer of the
// classifier counts. The attack shortens the perturbation until the classifier keeps the class.
func TestACEConfirms(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 40, L2)
	s := newSearch(l, ACE, L2, .3)
	shifted := *l
	shifted.b += .4 // the graph that computes gradients has another boundary than the classifier
	s.Gradients, s.StepSize, s.Steps = softmaxGradients{&shifted, 4, false}, 10, 100
	found, err := s.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	shorter := 0
	for _, f := range found {
		for _, a := range f.Altered {
			if a.Class != f.Clean {
				t.Errorf("example %d changed its class", f.Index)
			}
			if a.Distance > 0 && a.Distance < .2 {
				shorter++
			}
		}
	}
	if shorter == 0 {
		t.Error("no perturbation was shortened")
	}
}

// TestACEPlateau: the rate falls to a tenth after 11 steps without progress. The rate halves if a step would change the
// class.
func TestACEPlateau(t *testing.T) {
	l := newLinear()
	s := newSearch(l, ACE, L2, .3)
	x := make([]float32, len(l.w))
	s.StepSize = 10
	c := s.newGradual(&target{Example: Example{Values: x}, found: &Found{Clean: 0}}, 1)
	look := func(scores ...float32) {
		c.watch(scores)
		c.observe(false, 0, []float32{1, 0, 0, 0, 0, 0})
	}
	for step := range 12 {
		if c.rate != 10 {
			t.Fatalf("the rate is %g at step %d", c.rate, step)
		}
		look(1, 0)
	}
	if c.rate != 1 {
		t.Errorf("the rate is %g after 12 equal steps, want 1", c.rate)
	}
	at := slices.Clone(c.at)
	look(0, 1)
	if c.rate != .5 || !slices.Equal(c.at, at) {
		t.Errorf("the rate is %g after a crossing, want 0.5", c.rate)
	}
	look(1, .001) // improves by more than 1e-4
	if c.waiting != 0 {
		t.Error("an improvement does not end the plateau")
	}
	look(1, .00101) // improves by less than 1e-4
	if c.waiting != 1 {
		t.Error("a tiny improvement ends the plateau")
	}
}

// TestConfidences compares cross-entropies and confidences with their definitions, for logits and for probabilities.
func TestConfidences(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		scores := make([]float32, 4)
		for k := range scores {
			scores[k] = float32(8 * rng.NormFloat64())
		}
		sum, top := 0., 0.
		for _, z := range scores {
			sum += math.Exp(float64(z))
			top = max(top, math.Exp(float64(z)))
		}
		s, p := &Search{}, &Search{Probabilities: true}
		if got := s.confidence(scores); math.Abs(got-top/sum) > 1e-12 {
			t.Fatalf("confidence %g, want %g", got, top/sum)
		}
		probabilities := make([]float32, len(scores))
		for k, z := range scores {
			want := -math.Log(math.Exp(float64(z)) / sum)
			if got := s.crossEntropy(scores, k); math.Abs(got-want) > 1e-9*(1+want) {
				t.Fatalf("cross-entropy %g, want %g", got, want)
			}
			probabilities[k] = float32(math.Exp(float64(z)) / sum)
		}
		for k := range scores {
			if got, want := p.crossEntropy(probabilities, k), s.crossEntropy(scores, k); math.Abs(got-want) > 1e-5*(1+want) {
				t.Fatalf("cross-entropy of probabilities %g, want %g", got, want)
			}
		}
		if got := p.confidence(probabilities); math.Abs(got-top/sum) > 1e-6 {
			t.Fatalf("confidence of probabilities %g, want %g", got, top/sum)
		}
	}
	s := &Search{}
	if got := s.crossEntropy([]float32{40, 0}, 0); math.Abs(got/math.Exp(-40)-1) > 1e-9 {
		t.Errorf("a tiny cross-entropy is %g", got)
	}
	masked := []float32{1, float32(math.Inf(-1)), 1}
	if s.crossEntropy(masked, 1) != math.Inf(1) || math.Abs(s.confidence(masked)-.5) > 1e-12 {
		t.Error("a masked class")
	}
}

// TestNoClass: if the classifier answers no class for an example, the attacks on confidences return an error.
func TestNoClass(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 3, L2)
	l.b = math.NaN()
	for _, method := range []Method{ACE, PGDConf} {
		if _, err := newSearch(l, method, L2, .1).Run(t.Context(), all); err == nil {
			t.Errorf("%s attacks examples without a class", method)
		}
	}
}
