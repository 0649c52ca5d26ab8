package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// affine is a classifier with the scores W·x + b for several classes. The tests can therefore compute the distance to
// the boundary between any two classes.
type affine struct {
	w      [][]float64
	b      []float64
	batch  int
	zero   bool // all gradients are zero
	calls  int
	rivals []int64 // for each call, the target class of the call's first example
}

func newAffine(classes, values int) *affine {
	rng := rand.New(rand.NewPCG(7, 8))
	a := &affine{batch: 5}
	for range classes {
		row := make([]float64, values)
		for i := range row {
			row[i] = rng.NormFloat64()
		}
		a.w, a.b = append(a.w, row), append(a.b, .1*rng.NormFloat64())
	}
	return a
}

func (a *affine) InputLen() int { return len(a.w[0]) }
func (a *affine) Classes() int  { return len(a.w) }
func (a *affine) Batch() int    { return a.batch }
func (a *affine) Examples() int { return 3 }

func (a *affine) score(class int, x []float32) float64 {
	z := a.b[class]
	for i, w := range a.w[class] {
		z += w * float64(x[i])
	}
	return z
}

func (a *affine) Run(_ context.Context, in, out []float32) error {
	for i := range len(in) / a.InputLen() {
		for k := range a.w {
			out[i*len(a.w)+k] = float32(a.score(k, in[i*a.InputLen():]))
		}
	}
	return nil
}

// affineGradients computes the difference of two scores, and its gradient.
type affineGradients struct{ *affine }

func (a affineGradients) Run(ctx context.Context, x []float32, labels, rivals []int64, scores, differences, gradient []float32) error {
	a.calls++
	a.rivals = append(a.rivals, rivals[0])
	d := a.InputLen()
	for i := range labels {
		at := x[i*d : (i+1)*d]
		differences[i] = float32(a.score(int(rivals[i]), at) - a.score(int(labels[i]), at))
		for j := range d {
			gradient[i*d+j] = float32(a.w[rivals[i]][j] - a.w[labels[i]][j])
			if a.zero {
				gradient[i*d+j] = 0
			}
		}
	}
	return a.affine.Run(ctx, x, scores)
}

// distances returns, for each class, how far x is from the boundary between this class and the label. For the label
// itself the distance is infinite.
func (a *affine) distances(x []float32, label int, norm Norm) []float64 {
	all := make([]float64, len(a.w))
	for k := range a.w {
		difference := make([]float32, len(x))
		for i := range x {
			difference[i] = float32(a.w[k][i] - a.w[label][i])
		}
		all[k] = (a.score(label, x) - a.score(k, x)) / norm.dual(difference)
	}
	all[label] = math.Inf(1)
	return all
}

func (a *affine) examples(n int, low, high float32) (all []Example) {
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range n {
		x, scores := make([]float32, a.InputLen()), make([]float32, a.Classes())
		for j := range x {
			x[j] = low + (high-low)*rng.Float32()
		}
		if err := a.Run(context.Background(), x, scores); err != nil {
			panic(err)
		}
		label := 0
		for k, z := range scores {
			if z > scores[label] {
				label = k
			}
		}
		all = append(all, Example{i, label, x})
	}
	return all
}

func (a *affine) search(method Method, threat Threat) *Search {
	return &Search{
		Threat: threat, Method: method, Targets: method.Targets(), Classifier: a, Gradients: affineGradients{a},
		Shape: []int{a.InputLen()}, Steps: 30, Restarts: 1, Seed: 3, Workers: 1,
	}
}

// TestFABExact: for a linear classifier, FAB finds the distance to the nearest boundary with a relative error of at
// most 1e-3. It finds nothing if the nearest boundary is beyond ε.
func TestFABExact(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, method := range []Method{FAB, FABT} {
		for _, norm := range Norms.Values() {
			a := newAffine(6, 20)
			all := a.examples(25, -2, 2)
			epsilon := map[Norm]float64{Linf: .08, L2: .35}[norm]
			found, err := a.search(method, Threat{norm, epsilon, -inf, inf}).Run(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			broken := 0
			for i, f := range found {
				distances := a.distances(all[i].Values, f.Label, norm)
				nearest := slices.Min(distances)
				if f.Robust() != (nearest > epsilon) {
					t.Errorf("%s %s: distance %g, robust %v", method, norm, nearest, f.Robust())
				}
				if f.Adversarial == nil {
					continue
				}
				broken++
				// The targeted attack stops at the first class that it reaches within ε.
				if method == FABT {
					nearest = distances[f.Class]
				}
				if f.Distance < nearest*(1-1e-6) || f.Distance > nearest*(1+1e-3) {
					t.Errorf("%s %s: found %g, the boundary is at %g", method, norm, f.Distance, nearest)
				}
				if f.Distance > epsilon || f.Flat != 0 {
					t.Errorf("%s %s: %+v", method, norm, f)
				}
			}
			if broken < 5 || broken > 20 {
				t.Errorf("%s %s: %d of 25 broken", method, norm, broken)
			}
		}
	}
}

// TestFABBox: for a linear classifier with inputs in a box, FAB finds the norm of the smallest perturbation. The
// relative error of this norm is at most 3e-3. FAB does not reach the exact result: each step goes a little past the
// decision boundary, and the box then clips some values of the step but not others. The reference comes from linear
// programming for Linf and from Dykstra's algorithm for L2.
func TestFABBox(t *testing.T) {
	for _, norm := range Norms.Values() {
		a := newAffine(2, 8)
		a.b[1] += a.score(0, slices.Repeat([]float32{.5}, 8)) - a.score(1, slices.Repeat([]float32{.5}, 8))
		threat := Threat{norm, 10, 0, 1}
		all := a.examples(20, 0, 1)
		for i := range all { // two values are at the ends of the box, and can move only inwards
			all[i].Values[i%8], all[i].Values[(i+3)%8] = 0, 1
		}
		s := a.search(FAB, threat)
		s.Steps = 100
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for i, f := range found {
			if !f.Correct() {
				continue
			}
			tried++
			w, x := make([]float64, 8), all[i].Values
			for j := range w {
				w[j] = a.w[1-f.Label][j] - a.w[f.Label][j]
			}
			gap := a.score(f.Label, x) - a.score(1-f.Label, x)
			want, reached := smallestLinf(t, threat, x, w, gap)
			if norm == L2 {
				want = L2.length(dykstra(threat, x, w, gap))
			}
			if f.Robust() == reached || reached && (f.Distance < want*(1-1e-5) || f.Distance > want*(1+3e-3)) {
				t.Errorf("%s: found %g, the smallest is %g, %v", norm, f.Distance, want, reached)
			}
		}
		if tried < 12 {
			t.Errorf("%s: %d of 20 examples are right", norm, tried)
		}
	}
}

// TestFABRivals: the targeted attack aims at 9 classes other than the label, in the order of their scores, largest
// first. Every restart aims at the same classes.
func TestFABRivals(t *testing.T) {
	a := newAffine(12, 4)
	all := a.examples(3, -1, 1)
	s := a.search(FABT, Threat{Linf, 1e-9, -1, 1})
	s.Steps, s.Restarts = 4, 2
	if _, err := s.Run(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if want := 9 * 4 * 2; a.calls != want {
		t.Errorf("%d gradients of three examples, want %d", a.calls, want)
	}
	scores := make([]float32, 12)
	if err := a.Run(t.Context(), all[0].Values, scores); err != nil {
		t.Fatal(err)
	}
	for call, rival := range a.rivals {
		if want := others(scores, all[0].Label)[call/8]; int(rival) != want {
			t.Fatalf("gradient %d is towards class %d, want %d", call, rival, want)
		}
	}
}

// TestFABClosest: an adversarial input does not replace an earlier adversarial input that is closer to the example.
func TestFABClosest(t *testing.T) {
	inf := float32(math.Inf(1))
	a := newAffine(2, 5)
	s := a.search(FAB, Threat{L2, 100, -inf, inf})
	x := a.examples(1, -1, 1)[0]
	c := s.newChase(&target{Example: x, found: new(Found), others: []int{1 - x.Label}}, 0)
	slope, difference := make([]float64, 5), a.score(1-x.Label, x.Values)-a.score(x.Label, x.Values)
	near := slices.Clone(x.Values)
	for i := range slope {
		slope[i] = a.w[1-x.Label][i] - a.w[x.Label][i]
	}
	for i, d := range s.towards(x.Values, slope, -difference) {
		near[i] += float32(1.01 * d)
	}
	c.best, c.distance = near, s.Distance(near, x.Values)
	// the step ends at 1.05 times the distance to the boundary, but the best input so far, 'near', is at only 1.01
	// times this distance
	s.Steps = 1
	if err := s.chase(t.Context(), []*chase{c}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.best, near) {
		t.Errorf("%v replaces %v", c.best, near)
	}
}

// TestFABCross compares one step with the paper's formula, computed by hand. The point is x = (2,1), the example is x₀
// = (0,0), and the boundary is the line where the first coordinate is 3.
func TestFABCross(t *testing.T) {
	s := &Search{Threat: Threat{L2, 1, -10, 10}}
	c := &chase{target: &target{Example: Example{Values: []float32{0, 0}}}, x: []float32{2, 1}, slope: []float64{2, 0}, difference: -2}
	s.cross(c)
	// With d = (1,0), d₀ = (3,0) and α = min(1/4, .1), the new coordinates are .9·(2 + 1.05) + .1·(0 + 3.15) and .9·1 +
	// .1·0.
	if want := []float32{3.06, .9}; math.Abs(float64(c.x[0]-want[0])) > 1e-6 || math.Abs(float64(c.x[1]-want[1])) > 1e-6 {
		t.Errorf("x = %v, want %v", c.x, want)
	}
	c.x, c.difference = []float32{2.9, 0}, -.2 // α = .1/(.1+3)
	s.cross(c)
	alpha := .1 / 3.1
	if want := (1-alpha)*(2.9+1.05*.1) + alpha*3.15; math.Abs(float64(c.x[0])-want) > 1e-6 {
		t.Errorf("x = %v, want %g", c.x, want)
	}
}

// TestFABStart: the first run for a class begins at the example. Each restart begins at a different point at distance
// ε/2.
func TestFABStart(t *testing.T) {
	for _, norm := range Norms.Values() {
		s := &Search{Threat: Threat{norm, .5, -10, 10}, Seed: 1, Restarts: 3}
		x0 := &target{Example: Example{Values: make([]float32, 50)}}
		var starts [][]float32
		for round := range 6 {
			x := s.newChase(x0, round).x
			want := .25
			if round%3 == 0 {
				want = 0
			}
			if d := s.Distance(x, x0.Values); math.Abs(d-want) > 1e-6 {
				t.Errorf("%s: round %d begins at distance %g, want %g", norm, round, d, want)
			}
			starts = append(starts, x)
		}
		if slices.Equal(starts[1], starts[2]) || slices.Equal(starts[1], starts[4]) {
			t.Errorf("%s: two restarts begin at the same input", norm)
		}
	}
}

// TestFABFlat: steps with a gradient of zero are counted, and break no example.
func TestFABFlat(t *testing.T) {
	a := newAffine(4, 6)
	a.zero = true
	found, err := a.search(FAB, Threat{Linf, 1, -2, 2}).Run(t.Context(), a.examples(5, -1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Flat != 30 || f.Adversarial != nil {
			t.Errorf("a gradient of zero: %+v", f)
		}
	}
}
