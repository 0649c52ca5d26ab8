package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
)

// noisyLinear implements NoisyGradients for a model of two classes. The scores of the classes are 0 and w·x + b +
// bend·‖x‖².
type noisyLinear struct {
	*linear
	copies int
	bend   float64
}

func (g noisyLinear) Copies() int { return g.copies }

func (g noisyLinear) Run(_ context.Context, x, noise []float32, label int, scores, gradient []float32) (float64, error) {
	d, mean := len(x), 0.
	slope := make([]float64, d)
	sign := g.backward
	if label == 0 {
		sign = -sign
	}
	for k := range g.copies {
		in := make([]float32, d)
		z := 0.
		for i := range in {
			in[i] = x[i] + noise[k*d+i]
			z += g.bend * float64(in[i]) * float64(in[i])
		}
		z += g.value(in)
		scores[2*k], scores[2*k+1] = 0, float32(z)
		p := 1 / (1 + math.Exp(-sign*g.backward*z))
		mean += p / float64(g.copies)
		for i, v := range in {
			slope[i] += p * (1 - p) * sign * (g.w[i] + 2*g.bend*float64(v)) / float64(g.copies)
		}
	}
	for i, v := range slope {
		gradient[i] = float32(-v / mean)
	}
	return -math.Log(mean), nil
}

const testSigma = .5

// newSmoothed returns a search. The noise is Gaussian, and the candidates are on the lattice of bytes.
func newSmoothed(t *testing.T, l *linear) *SmoothedSearch {
	t.Helper()
	fine, _, ok := smoothing.Lattice{Step: bytesLattice.Step, Low: 0, High: 255}.Refine(law.Gaussian, testSigma)
	table, err := smoothing.NewLawTable(law.Gaussian, testSigma, fine.Step)
	if !ok || err != nil {
		t.Fatal("no table", err)
	}
	noise, err := smoothing.NewLatticeNoise(fine, table, []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	return &SmoothedSearch{
		Threat: Threat{L2, math.Inf(1), 0, 1}, Lattice: &bytesLattice, Scale: testSigma,
		Gradients: noisyLinear{l, 8, 0}, Classifier: l,
		Input: func(values []float32) (smoothing.Input, error) {
			integers := make([]int32, len(values))
			for i, v := range values {
				integers[i] = int32(bytesLattice.Index(v))
			}
			return noise.Input(integers, func(int) int { return 0 })
		},
		Steps: 60, Restarts: 2, Samples: 32, Screen: 20_000, Seed: 3, Workers: 2,
	}
}

// wideLinear returns a linear classifier of inputs with 60 values between 0 and 1. It also returns examples and their
// distances from the boundary.
func wideLinear(examples int) (l *linear, all []Example, distances []float64) {
	const d = 60
	rng := rand.New(rand.NewPCG(7, 8))
	l = &linear{batch: 16, backward: 1}
	norm, middle := 0., 0.
	for range d {
		w := rng.NormFloat64()
		l.w = append(l.w, w)
		norm, middle = norm+w*w, middle+w/2
	}
	l.b = -middle
	for i := range examples {
		x := Example{Index: i}
		for _, w := range l.w { // the values are near the middle of the box, so that the nearest point of the boundary is inside the box
			x.Values = append(x.Values, bytesLattice.Value(int(127.5+60*rng.Float64()-30+float64(i%2*2-1)*12*w)))
		}
		z := l.value(x.Values)
		if z > 0 {
			x.Label = 1
		}
		all, distances = append(all, x), append(distances, math.Abs(z)/math.Sqrt(norm))
	}
	return l, all, distances
}

// TestSmoothedLinear: because the noise is symmetric, a linear classifier and its smoothed version have the same
// boundary. The test knows the distance to this boundary. For the nearest candidate that truly changes the class, the
// distance from the example must agree with the distance to the boundary within 2 %.
func TestSmoothedLinear(t *testing.T) {
	l, all, distances := wideLinear(4)
	for _, c := range []struct {
		name   string
		change func(*SmoothedSearch)
	}{
		{"lattice", func(*SmoothedSearch) {}},
		{"floats", func(s *SmoothedSearch) { s.Lattice = nil }},
	} {
		s := newSmoothed(t, l)
		c.change(s)
		for i, x := range all {
			found, err := s.Candidates(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			nearest, below := math.Inf(1), math.Inf(1)
			for _, candidate := range found {
				if candidate.Rival != 1-x.Label {
					t.Errorf("%s, example %d: rival %d", c.name, i, candidate.Rival)
				}
				if exactNorm(t, L2, candidate.Values, x.Values, candidate.Distance+1e-7) > 0 || candidate.Distance >= below {
					t.Errorf("%s, example %d: distance %v after %v", c.name, i, candidate.Distance, below)
				}
				below = candidate.Distance
				if (l.value(candidate.Values) > 0) == (x.Label == 0) {
					nearest = min(nearest, candidate.Distance)
				}
			}
			if !(nearest >= distances[i]*(1-1e-6) && nearest <= 1.02*distances[i]) {
				t.Errorf("%s, example %d: the boundary is at %.4f, found at %.4f", c.name, i, distances[i], nearest)
			}
			if len(found) < 5 {
				t.Errorf("%s, example %d: %d candidates", c.name, i, len(found))
			}
		}
	}
}

// sameForEveryBatch checks that a search has the same result for every batch size and number of goroutines, and another
// result for another seed. The function 'find' makes a search, lets its argument 'change' modify the search, and then
// runs it.
func sameForEveryBatch[T any](t *testing.T, find func(change func(*SmoothedSearch, *linear)) T) {
	t.Helper()
	first := find(func(*SmoothedSearch, *linear) {})
	for _, batch := range []int{1, 7, 4096} {
		if again := find(func(s *SmoothedSearch, l *linear) { l.batch, s.Workers = batch, batch%5 }); !reflect.DeepEqual(first, again) {
			t.Errorf("batch %d changes the result", batch)
		}
	}
	if reflect.DeepEqual(first, find(func(s *SmoothedSearch, _ *linear) { s.Seed++ })) {
		t.Error("another seed gives the same result")
	}
}

// TestSmoothedSame: candidates depend on the seed. They do not depend on the batch size or on the number of goroutines.
func TestSmoothedSame(t *testing.T) {
	l, all, _ := wideLinear(2)
	find := func(change func(*SmoothedSearch, *linear)) []Candidate {
		own := *l
		s := newSmoothed(t, &own)
		s.Screen = 1000
		change(s, &own)
		found, err := s.Candidates(t.Context(), all[1])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	sameForEveryBatch(t, find)
}

// TestSmoothedRuns splits the copies of one step into several runs. The gradient must be the same as in one run with
// all copies, and the label must lose in both cases or in neither. The classifier is not linear, so the copies have
// different gradients and losses.
func TestSmoothedRuns(t *testing.T) {
	l, all, _ := wideLinear(1)
	gradient := func(copies int) (along []float64, lost bool) {
		s := newSmoothed(t, l)
		s.Gradients = noisyLinear{l, copies, .3}
		b, err := s.newBlurred(all[0])
		if err != nil {
			t.Fatal(err)
		}
		if lost, err = b.run(t.Context(), make([]float64, len(l.w)), 59); err != nil {
			t.Fatal(err)
		}
		norm := length(b.gradient)
		for i := range b.gradient {
			b.gradient[i] /= norm
		}
		return b.gradient, lost
	}
	whole, lost := gradient(32)
	for _, copies := range []int{1, 4, 16} {
		along, again := gradient(copies)
		for i, v := range along {
			if math.Abs(v-whole[i]) > 1e-5 || again != lost {
				t.Fatalf("%d copies a run: %v, want %v; lost: %v, want %v", copies, v, whole[i], again, lost)
			}
		}
	}
}

// TestSmoothedEpsilon: no candidate is farther than Epsilon. If the boundary is farther than Epsilon, the search finds
// no candidate.
func TestSmoothedEpsilon(t *testing.T) {
	l, all, distances := wideLinear(1)
	for _, factor := range []float64{.9, 1.1, 1.5} {
		s := newSmoothed(t, l)
		s.Epsilon = factor * distances[0]
		found, err := s.Candidates(t.Context(), all[0])
		if err != nil {
			t.Fatal(err)
		}
		if (factor > 1) != (len(found) > 0) {
			t.Fatalf("%v of the distance to the boundary: %d candidates", factor, len(found))
		}
		if len(found) > 0 && !(found[0].Distance <= s.Epsilon && found[0].Distance > .99*s.Epsilon) {
			t.Errorf("the farthest candidate is at %v, allowed is %v", found[0].Distance, s.Epsilon)
		}
	}
}

// TestSmoothedLost: if the label loses without a perturbation, the example itself is the candidate.
func TestSmoothedLost(t *testing.T) {
	l, all, _ := wideLinear(1)
	x := all[0]
	x.Label = 1 - x.Label
	found, err := newSmoothed(t, l).Candidates(t.Context(), x)
	if err != nil || !reflect.DeepEqual(found, []Candidate{{x.Values, 0, 1 - x.Label}}) {
		t.Errorf("%v, %v", found, err)
	}
}

// TestSmoothedRefusals: a search with a missing or invalid setting returns an error.
func TestSmoothedRefusals(t *testing.T) {
	l, all, _ := wideLinear(1)
	for i, change := range []func(*SmoothedSearch, *Example){
		func(s *SmoothedSearch, _ *Example) { s.Norm = Linf },
		func(s *SmoothedSearch, _ *Example) { s.Restarts = 0 },
		func(s *SmoothedSearch, _ *Example) { s.Steps = 1 << 30 },
		func(_ *SmoothedSearch, x *Example) { x.Label = -1 },
		func(_ *SmoothedSearch, x *Example) { x.Label = 2 },
		func(s *SmoothedSearch, _ *Example) { s.High = .1 },
	} {
		s, x := newSmoothed(t, l), all[0]
		change(s, &x)
		if _, err := s.Candidates(t.Context(), x); err == nil {
			t.Errorf("case %d is not refused", i)
		}
	}
}

// TestScoreGradients: with scores alone, the search finds a candidate beyond the boundary. The distance of this
// candidate is at most 1.05 times the distance of the boundary.
func TestScoreGradients(t *testing.T) {
	l, all, distances := wideLinear(2)
	for i, x := range all {
		s := newSmoothed(t, l)
		s.Gradients = &ScoreGradients{
			Classifier: l, Size: 64,
			Feed:  func(in, values []float32) { copy(in, values) },
			Slope: func(values, in []float32) { copy(values, in) },
		}
		s.Samples, s.Steps = 512, 60
		found, err := s.Candidates(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		nearest := math.Inf(1)
		for _, candidate := range found {
			if (l.value(candidate.Values) > 0) == (x.Label == 0) {
				nearest = min(nearest, candidate.Distance)
			}
		}
		if !(nearest <= 1.05*distances[i]) {
			t.Errorf("example %d: the boundary is at %.4f, found at %.4f", i, distances[i], nearest)
		}
	}
}

// TestScoreGradientsOffset: a large mean margin does not make the estimate less accurate. For 512 copies of 60 values,
// the cosine between the estimate and the true gradient is about √(512/572) = .95.
func TestScoreGradientsOffset(t *testing.T) {
	l, all, _ := wideLinear(1)
	l.b += 100
	s := newSmoothed(t, l)
	s.Gradients = &ScoreGradients{
		Classifier: l, Size: 512,
		Feed:  func(in, values []float32) { copy(in, values) },
		Slope: func(values, in []float32) { copy(values, in) },
	}
	x := all[0]
	x.Label = 1
	b, err := s.newBlurred(x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), make([]float64, len(l.w)), 0); err != nil {
		t.Fatal(err)
	}
	cosine := 0.
	for i, g := range b.gradient {
		cosine -= g * l.w[i]
	}
	if cosine /= length(b.gradient) * length(l.w); !(cosine > .9) {
		t.Errorf("cosine %.3f", cosine)
	}
}
