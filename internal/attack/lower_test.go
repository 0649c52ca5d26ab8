package attack

import (
	"math"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// blurredProbability returns E[1/(1+e^{−Z})] for Z ~ N(z, σ²‖w‖²), where z is the linear classifier's score at x. This
// is the mean probability of class 1 under Gaussian noise.
func blurredProbability(l *linear, x []float32) float64 {
	scale, sum := testSigma*length(l.w), 0.
	const pieces = 4000
	for i := range pieces {
		z := l.value(x) + scale*distuv.UnitNormal.Quantile((float64(i)+.5)/pieces)
		sum += 1 / (1 + math.Exp(-z)) / pieces
	}
	return sum
}

// TestLower: for a linear classifier, the input with the smallest probability of the label lies at distance ε along the
// weights. From the example to this input, the score changes by ε‖w‖. For the input that Lower finds, the change must
// be at least 98 % of this amount, even if the label has already lost at the example. The norm of the perturbation is
// at most ε. On a lattice, every value is a multiple of 1/255, rounded to float32. Probabilities from 20,000 samples
// agree closely with blurredProbability. The reported probabilities agree only roughly, because they come from 32
// samples.
func TestLower(t *testing.T) {
	l, all, distances := wideLinear(4)
	for i, x := range all {
		if i >= 2 {
			x.Label = 1 - x.Label
		}
		sign := float64(2*x.Label - 1) // Lower must reduce the score if the label is 1, and raise it otherwise
		for _, lattice := range []*Lattice{&bytesLattice, nil} {
			s := newSmoothed(t, l)
			s.Epsilon, s.Steps, s.Lattice = .5*distances[i], 20, lattice
			found, _, err := s.Lower(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if lattice != nil {
				for _, v := range found.Values {
					if bytesLattice.Value(bytesLattice.Index(v)) != v {
						t.Fatalf("example %d: the value %v is no byte", i, v)
					}
				}
			}
			if exactNorm(t, L2, found.Values, x.Values, found.Distance+1e-7) > 0 || !(found.Distance <= s.Epsilon) {
				t.Errorf("example %d: distance %v, allowed is %v", i, found.Distance, s.Epsilon)
			}
			fall, most := sign*(l.value(x.Values)-l.value(found.Values)), s.Epsilon*length(l.w)
			if !(fall >= .98*most && fall <= most*(1+1e-6)) {
				t.Errorf("example %d: the score falls by %v, at most %v is possible", i, fall, most)
			}
			s.Samples = 20_000
			for _, c := range []struct {
				values []float32
				got    float64
			}{{x.Values, found.Before}, {found.Values, found.After}} {
				want := blurredProbability(l, c.values)
				if x.Label == 0 {
					want = 1 - want
				}
				precise, err := s.probability(t.Context(), x, c.values)
				if err != nil || math.Abs(precise-want) > .01 || math.Abs(c.got-want) > .25 {
					t.Errorf("example %d: probability %v of 32 samples, %v of 20,000 samples, want %v (%v)", i, c.got, precise, want, err)
				}
			}
		}
	}
}

// TestLowerSame: the input that Lower returns depends on the seed. It does not depend on the batch size or on the
// number of goroutines.
func TestLowerSame(t *testing.T) {
	l, all, distances := wideLinear(1)
	find := func(change func(*SmoothedSearch, *linear)) Lowered {
		own := *l
		s := newSmoothed(t, &own)
		s.Epsilon, s.Steps = .3*distances[0], 4
		change(s, &own)
		found, _, err := s.Lower(t.Context(), all[0])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	sameForEveryBatch(t, find)
}

// TestLowerKeepsExample: if every perturbation that Lower tries raises the probability of the label, Lower returns the
// example itself. In this test, the gradient points the wrong way.
func TestLowerKeepsExample(t *testing.T) {
	l, all, distances := wideLinear(1)
	s := newSmoothed(t, l)
	wrong := *l
	wrong.backward = -1
	s.Gradients, s.Epsilon, s.Steps, s.Samples, s.Restarts = noisyLinear{&wrong, 8, 0}, distances[0], 5, 256, 1
	found, _, err := s.Lower(t.Context(), all[0])
	if err != nil || !reflect.DeepEqual(found.Values, all[0].Values) || found.Distance != 0 || found.After != found.Before {
		t.Errorf("%+v, %v", found, err)
	}
	s.Epsilon = math.Inf(1)
	if _, _, err := s.Lower(t.Context(), all[0]); err == nil {
		t.Error("an infinite distance is not refused")
	}
}
