package attack

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// exactNorm compares ‖a − x‖ with ε in rational arithmetic.
func exactNorm(t *testing.T, n Norm, a, x []float32, epsilon float64) int {
	t.Helper()
	total, bound := new(big.Rat), new(big.Rat).SetFloat64(epsilon)
	for i := range x {
		d := new(big.Rat).Sub(new(big.Rat).SetFloat64(float64(a[i])), new(big.Rat).SetFloat64(float64(x[i])))
		switch d.Abs(d); {
		case n == L2:
			total.Add(total, d.Mul(d, d))
		case d.Cmp(total) > 0:
			total = d
		}
	}
	if n == L2 {
		bound.Mul(bound, bound)
	}
	return total.Cmp(bound)
}

// TestProject checks projections in exact arithmetic. The threat must allow the projected input, and Distance must be
// an upper bound on the norm of its perturbation. The projection must not shorten a perturbation much more than the
// threat requires.
func TestProject(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, norm := range Norms.Values() {
		for _, epsilon := range []float64{1e-9, 3e-8, 1e-5, 8. / 255, .1, .5, 3} {
			for range 50 {
				threat := Threat{norm, epsilon, -1, 2}
				x, a := make([]float32, 30), make([]float32, 30)
				for i := range x {
					x[i] = rng.Float32()
					a[i] = x[i] + float32(epsilon*(4*rng.Float64()-2))
				}
				x[0], a[0] = -1, -2 // outside the box
				x[1], a[1] = 0, float32(math.NaN())
				x[2], a[2] = 0, float32(3*epsilon)
				threat.Project(a, x)
				if _, outside := threat.Outside(a); outside {
					t.Fatalf("%s %g: outside the box", norm, epsilon)
				}
				distance := threat.Distance(a, x)
				if distance > epsilon || exactNorm(t, norm, a, x, epsilon) > 0 || exactNorm(t, norm, a, x, distance) > 0 {
					t.Fatalf("%s %g: norm %g", norm, epsilon, distance)
				}
				// Rounding can shorten the perturbation for tiny ε, and the box shortens it for ε = 3. So the test
				// checks the length of the perturbation only for the other ε.
				if a[0] != -1 || a[1] != 0 || distance < .99*epsilon && epsilon > 1e-6 && epsilon < 1 {
					t.Fatalf("%s %g: norm %g, first values %v", norm, epsilon, distance, a[:2])
				}
			}
		}
	}
}

func TestProjectKeepsAllowed(t *testing.T) {
	for _, norm := range Norms.Values() {
		threat := Threat{norm, .5, 0, 1}
		x, a := []float32{.25, .5}, []float32{.5, .25}
		threat.Project(a, x)
		if !slices.Equal(a, []float32{.5, .25}) {
			t.Errorf("%s: an allowed input became %v", norm, a)
		}
		if d := threat.Distance(x, x); d != 0 {
			t.Errorf("%s: ‖x − x‖ is %g", norm, d)
		}
	}
}

func TestThreatCheck(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		threat Threat
		ok     bool
	}{
		{Threat{L2, 1, 0, 1}, true}, {Threat{L2, 1, -inf, inf}, true}, {Threat{L2, 0, 0, 1}, false}, {Threat{L2, math.NaN(), 0, 1}, false},
		{Threat{L2, math.Inf(1), 0, 1}, false}, {Threat{L2, 1, 1, 1}, false}, {Threat{L2, 1, 0, float32(math.NaN())}, false},
	} {
		if err := c.threat.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.threat, err)
		}
	}
}

// linear is a classifier with the scores [0, w·x + b]. The tests can therefore compute the nearest input of the other
// class.
type linear struct {
	w        []float64
	b        float64
	batch    int
	backward float64 // factor by which the gradient is multiplied; 1 gives the correct gradient
	lies     bool    // if true, the scores of Gradients misclassify every example
}

func (l *linear) InputLen() int { return len(l.w) }
func (l *linear) Classes() int  { return 2 }
func (l *linear) Batch() int    { return l.batch }

func (l *linear) value(x []float32) float64 {
	z := l.b
	for i, w := range l.w {
		z += w * float64(x[i])
	}
	return z
}

func (l *linear) Run(_ context.Context, in, out []float32) error {
	for i := range len(in) / len(l.w) {
		out[2*i], out[2*i+1] = 0, float32(l.value(in[i*len(l.w):]))
	}
	return nil
}

// linearGradients computes the gradient of the margin.
type linearGradients struct {
	*linear
	examples int
}

func (g linearGradients) Examples() int { return g.examples }

func (g linearGradients) Run(ctx context.Context, x []float32, labels, _ []int64, scores, losses, gradient []float32) error {
	if err := g.linear.Run(ctx, x, scores); err != nil {
		return err
	}
	for i, label := range labels {
		losses[i] = scores[2*i+1-int(label)] - scores[2*i+int(label)]
		sign := g.backward
		if label == 1 {
			sign = -sign
		}
		for j, w := range g.w {
			gradient[i*len(g.w)+j] = float32(sign * w)
		}
		if g.lies {
			scores[2*i+int(label)], scores[2*i+1-int(label)] = 0, 1
		}
	}
	return nil
}

// examplesOf draws examples on both sides of the boundary, and returns their distances from the boundary.
func examplesOf(l *linear, n int, norm Norm) (all []Example, distances []float64) {
	rng := rand.New(rand.NewPCG(5, 6))
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
	for i := range n {
		x := make([]float32, len(l.w))
		for j := range x {
			x[j] = rng.Float32()*4 - 2
		}
		z := l.value(x)
		label := 0
		if z > 0 {
			label = 1
		}
		all, distances = append(all, Example{i, label, x}), append(distances, math.Abs(z)/dual)
	}
	return all, distances
}

func newLinear() *linear {
	return &linear{w: []float64{1, -2, .5, 0, 3, -.25}, b: .3, batch: 4, backward: 1}
}

func newSearch(l *linear, method Method, norm Norm, epsilon float64) *Search {
	inf := float32(math.Inf(1))
	return &Search{
		Threat: Threat{norm, epsilon, -inf, inf}, Method: method, Classifier: l, Gradients: linearGradients{l, 3},
		Shape: []int{len(l.w)}, Steps: 30, StepSize: epsilon / 8, Restarts: 2, Seed: 9, Workers: 2,
	}
}

// TestLinear: for a linear classifier, an example can be broken if and only if its distance from the boundary is below
// ε. The distance is |z| divided by the dual norm of w, where z is the score w·x + b. Attacks by gradients break all
// examples that can be broken.
func TestLinear(t *testing.T) {
	for _, method := range []Method{FGSM, PGD, APGDCE, APGDT, FAB, FABT} {
		for _, norm := range Norms.Values() {
			l := newLinear()
			all, distances := examplesOf(l, 40, norm)
			const epsilon = .6
			found, err := newSearch(l, method, norm, epsilon).Run(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			broken := 0
			for i, f := range found {
				if near := math.Abs(distances[i]-epsilon) < 1e-3; f.Robust() != (distances[i] > epsilon) && !near {
					t.Errorf("%s %s: distance %g, robust %v", method, norm, distances[i], f.Robust())
				}
				if f.Adversarial != nil {
					broken++
					if f.Class == f.Label || f.Distance > epsilon || f.Distance < distances[i] {
						t.Errorf("%s %s: %+v, %g from the boundary", method, norm, f, distances[i])
					}
				}
			}
			if broken < 5 || broken > 35 {
				t.Errorf("%s %s: %d of 40 broken", method, norm, broken)
			}
		}
	}
}

// TestSquareLinear: Square breaks every example that is closer to the boundary than .4, and no example that is farther
// away than ε = .6.
func TestSquareLinear(t *testing.T) {
	for _, norm := range Norms.Values() {
		l := newLinear()
		all, distances := examplesOf(l, 40, norm)
		s := newSearch(l, Square, norm, .6)
		s.Steps = 300
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range found {
			if distances[i] > .6 && !f.Robust() || distances[i] < .4 && f.Robust() {
				t.Errorf("%s: distance %g, robust %v", norm, distances[i], f.Robust())
			}
		}
	}
}

// The function 'single' returns the attacks that are not presets.
func single() []Method {
	return slices.DeleteFunc(slices.Clone(Methods.Values()), func(m Method) bool { return m.definition().run == nil })
}

// TestBatchesDoNotMatter: an example's result is the same for all batch sizes of the classifier and of the gradients.
// It does not depend on the other examples under attack either.
func TestBatchesDoNotMatter(t *testing.T) {
	for _, method := range single() {
		for _, norm := range method.Norms() {
			testBatches(t, method, norm)
		}
	}
}

func testBatches(t *testing.T, method Method, norm Norm) {
	var want []Found
	for _, c := range []struct{ batch, examples, workers int }{{4, 3, 1}, {1, 1, 3}, {7, 16, 2}, {100, 5, 4}} {
		l := newLinear()
		all, _ := examplesOf(l, 20, norm)
		s := newSearch(l, method, norm, .5)
		l.batch, s.Workers, s.Gradients = c.batch, c.workers, linearGradients{l, c.examples}
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		part, err := s.Run(t.Context(), all[7:11])
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = found
		}
		if !reflect.DeepEqual(found, want) || !reflect.DeepEqual(part, want[7:11]) {
			t.Errorf("%s %s: batches of %d change results", method, norm, c.batch)
		}
	}
}

// TestSeedMatters: with another seed, PGD starts from other points and finds other inputs.
func TestSeedMatters(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 20, Linf)
	var found [2][]Found
	for k := range found {
		s := newSearch(l, PGD, Linf, .5)
		s.Seed = uint64(k)
		var err error
		if found[k], err = s.Run(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	if reflect.DeepEqual(found[0], found[1]) {
		t.Error("two seeds give the same inputs")
	}
}

// TestHonest: an example that the classifier gets wrong without an attack does not count as robust, and the attack
// skips it. If an input is misclassified by the scores of Gradients, but not by the classifier's own scores, the attack
// has not broken the example. Steps with a gradient of zero are counted.
func TestHonest(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 10, Linf)
	all[0].Label = 1 - all[0].Label
	l.lies = true
	found, err := newSearch(l, PGD, Linf, 1e-4).Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if found[0].Correct() || found[0].Robust() || found[0].Adversarial != nil {
		t.Errorf("an example that is wrong: %+v", found[0])
	}
	for _, f := range found[1:] {
		if !f.Robust() {
			t.Errorf("the classifier confirms nothing: %+v", f)
		}
	}
	l.lies, l.backward = false, 0
	if found, err = newSearch(l, FGSM, Linf, .5).Run(t.Context(), all[1:]); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Flat != 1 || f.Adversarial != nil {
			t.Errorf("a gradient of zero: %+v", f)
		}
	}
}

// TestSquares: the first query changes each column of each channel by +ε or by −ε. The second query changes as many
// pixels of each channel as the schedule says. Both statements hold whether the channels are the first or the last
// dimension of the shape.
func TestSquares(t *testing.T) {
	for _, shape := range [][]int{{3, 8, 10}, {8, 10, 3}} {
		s := newSearch(newLinear(), Square, Linf, .25)
		s.Shape, s.Steps = shape, 100
		x := make([]float32, 240)
		w := s.newWalk(&target{Example: Example{Values: x}, found: new(Found)})
		first := w.propose(s, 0)
		for c := range 3 {
			for column := range 10 {
				for row := range 8 {
					if v := first[w.offset(c, row, column)]; v != first[w.offset(c, 0, column)] || v != .25 && v != -.25 {
						t.Fatalf("%v: no stripes of ±ε: %g", shape, v)
					}
				}
			}
		}
		w.best = x
		second := w.propose(s, 1) // the schedule's share is .2 at this query: 16 of 80 pixels
		for c := range 3 {
			changed := 0
			for row := range 8 {
				for column := range 10 {
					if second[w.offset(c, row, column)] != 0 {
						changed++
					}
				}
			}
			if changed != 16 {
				t.Errorf("%v: channel %d has %d changes, want 16", shape, c, changed)
			}
		}
	}
	for _, c := range []struct {
		query int
		want  float64
	}{{1, .8}, {10, .8}, {11, .4}, {51, .2}, {201, .1}, {501, .05}, {8001, .8 / 512}} {
		if got := share(c.query, 10000); got != c.want {
			t.Errorf("share of query %d is %g, want %g", c.query, got, c.want)
		}
	}
}

// TestStep: for Linf a step moves every value by the step length, and for L2 the step's Euclidean norm is this length.
// A value whose partial derivative is zero does not move.
func TestStep(t *testing.T) {
	for _, c := range []struct {
		norm Norm
		want []float32
	}{{Linf, []float32{1.5, .5, 1}}, {L2, []float32{1.3, .6, 1}}} {
		s, x := &Search{Threat: Threat{Norm: c.norm}}, []float32{1, 1, 1}
		if !s.step(x, []float32{6e-3, -8e-3, 0}, .5) || !slices.Equal(x, c.want) {
			t.Errorf("%s: %v, want %v", c.norm, x, c.want)
		}
		for _, g := range [][]float32{{0, 0, 0}, {float32(math.NaN()), 1, 1}, {float32(math.Inf(1)), 1, 1}} {
			if s.step(x, g, .5) || !slices.Equal(x, c.want) {
				t.Errorf("%s: the gradient %v gives %v", c.norm, g, x)
			}
		}
	}
}

// TestStarts: equal inputs start from different points if their indices differ. A restart begins at a different point,
// too.
func TestStarts(t *testing.T) {
	s := &Search{Threat: Threat{Linf, .1, 0, 1}, Seed: 1}
	start := func(index, restart int) []float32 {
		x := slices.Repeat([]float32{.5}, 10)
		s.scatter(x, &target{Example: Example{Index: index, Values: slices.Clone(x)}}, restart)
		return x
	}
	if slices.Equal(start(0, 0), start(1, 0)) || slices.Equal(start(0, 0), start(0, 1)) || !slices.Equal(start(3, 2), start(3, 2)) {
		t.Error("starts do not follow index and restart")
	}
	var all []float32
	for i := range 100 {
		all = append(all, start(i, 0)...)
	}
	if low, high := slices.Min(all), slices.Max(all); low < .4 || low > .402 || high > .6 || high < .598 {
		t.Errorf("1,000 starts reach from %g to %g, want about .4 to .6", low, high)
	}
}
