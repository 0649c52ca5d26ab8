package attack

import (
	"math"
	"slices"
	"testing"
)

// TestRaiseLinear: for a linear model of two classes, the confidence in the wrong class is largest at the edge of the
// ball. This also holds for examples that are misclassified without an attack. The gradient attacks must reach this
// confidence.
func TestRaiseLinear(t *testing.T) {
	for _, method := range []Method{PGDConf, APGDConf, APGDConfT} {
		testRaiseLinear(t, method, 2e-3)
	}
	testRaiseLinear(t, SquareConf, .15)
}

func testRaiseLinear(t *testing.T, method Method, tolerance float64) {
	for _, norm := range Norms.Values() {
		l := newLinear()
		all, distances := examplesOf(l, 40, norm)
		for i := range all {
			if i%5 == 0 {
				all[i].Label = 1 - all[i].Label
			}
		}
		const epsilon = .6
		s := newSearch(l, method, norm, epsilon)
		s.Gradients, s.Steps, s.StepSize, s.Restarts, s.Targets = softmaxGradients{l, 3, true}, 400, epsilon/10, 2, method.Targets()
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range found {
			z, reach := math.Abs(l.value(all[i].Values)), l.reach(norm, epsilon)
			toward := reach - z // the largest log-odds of the wrong class in the ball
			if !f.Correct() {
				toward = reach + z
			}
			want, a := max(sigmoid(toward), sigmoid(-toward)), f.Altered[0]
			if math.Abs(a.Confidence-want) > tolerance || a.Distance > epsilon {
				t.Errorf("%s %s: confidence %g, want %g; distance %g", method, norm, a.Confidence, want, a.Distance)
			}
			broken := f.Correct() && distances[i] < epsilon-1e-3
			if near := math.Abs(distances[i]-epsilon) < tolerance; !near && (f.Adversarial != nil) != broken {
				t.Errorf("%s %s: distance %g, broken %v", method, norm, distances[i], f.Adversarial != nil)
			}
			if f.Adversarial != nil && (f.Class == f.Label || !slices.Equal(f.Adversarial, a.Values) || f.Distance != a.Distance) {
				t.Errorf("%s: %+v", norm, f)
			}
		}
	}
}

// TestRaiseSequence: after several attacks in turn, each example has the best input that any of them found. The field
// 'By' holds the name of the first attack that broke the example.
func TestRaiseSequence(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 30, Linf)
	search := func(method Method, steps int) *Search {
		s := newSearch(l, method, Linf, .6)
		s.Gradients, s.Steps, s.Restarts, s.Targets = softmaxGradients{l, 4, true}, steps, 1, method.Targets()
		return s
	}
	run := func(s *Search) []Found {
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	weak, strong := run(search(SquareConf, 5)), run(search(APGDConf, 300))
	both := search(SquareConf, 5)
	both.Then = search(APGDConf, 300)
	better, first := 0, 0
	for i, f := range run(both) {
		value := func(f Found) float64 { // the probability of the class that is not the label
			if a := f.Altered[0]; a.Class == f.Label {
				return 1 - a.Confidence
			}
			return f.Altered[0].Confidence
		}
		if value(f) != max(value(weak[i]), value(strong[i])) {
			t.Errorf("example %d: %g of %g and %g", i, value(f), value(weak[i]), value(strong[i]))
		}
		if value(strong[i]) > value(weak[i]) {
			better++
		}
		if weak[i].Adversarial != nil {
			if first++; f.By != SquareConf {
				t.Errorf("example %d was broken by %s first", i, f.By)
			}
		}
	}
	if better == 0 || first == 0 {
		t.Errorf("%d better, %d broken at first", better, first)
	}
}

// TestBacktracking: the ascent does not take a step that lowers the value. The next step is shorter by a factor of 1.1,
// and the momentum continues.
func TestBacktracking(t *testing.T) {
	s := &Search{Threat: Threat{L2, 10, -10, 10}}
	s.Steps, s.StepSize = 10, 1
	c := s.newRaising(&target{Example: Example{Values: []float32{0, 0}}, found: new(Found)}, 0)
	look := func(other, g0, g1 float32) bool {
		c.watch([]float32{0, other})
		return c.observe(false, 0, []float32{g0, g1})
	}
	look(1, 3, 4)
	if math.Abs(float64(c.x[0])-.06) > 1e-7 || math.Abs(float64(c.x[1])-.08) > 1e-7 { // a tenth of the unit gradient
		t.Fatalf("the first step leads to %v, want 0.06 and 0.08", c.x)
	}
	look(.5, -1, 0) // the other class's score falls from 1 to .5
	if c.length != 1/1.1 || !slices.Equal(c.at, []float32{0, 0}) {
		t.Errorf("length %g at %v", c.length, c.at)
	}
	// With momentum .9, the velocity is .9·.1 + .1 = .19 times the unit gradient.
	if got, want := float64(c.x[0]), .19*.6/1.1; math.Abs(got-want) > 1e-7 {
		t.Errorf("the second step leads to %g, want %g", got, want)
	}
	if look(2, 0, 0) != true || c.found.Flat != 1 {
		t.Error("a gradient of zero is not noticed")
	}
}

// TestKeepHighest: a misclassified input is better than a correctly classified one. If both inputs are misclassified,
// or both are classified correctly, the input with the larger probability of a wrong class is better.
func TestKeepHighest(t *testing.T) {
	s := &Search{Threat: Threat{L2, 10, -10, 10}, Probabilities: true}
	target := &target{Example: Example{Values: []float32{0}}, found: new(Found)}
	for i, c := range []struct {
		scores []float32
		taken  bool
	}{
		{[]float32{.7, .2, .1}, true}, {[]float32{.3, .36, .34}, true}, {[]float32{.5, .45, .05}, false},
		{[]float32{.34, .35, .31}, false}, {[]float32{.1, .1, .8}, true}, {[]float32{float32(math.NaN()), 1, 0}, false},
	} {
		if err := s.keepHighest(target, []float32{float32(i)}, c.scores); err != nil {
			t.Fatal(err)
		}
		if a := target.found.Altered[0]; (a.Values[0] == float32(i)) != c.taken {
			t.Errorf("scores %v: kept %v", c.scores, a)
		}
	}
	if f := target.found; f.Adversarial[0] != 4 || f.Class != 2 || f.By != s.Method {
		t.Errorf("the adversarial input is %+v", f)
	}
}

// TestThrow: the random starts lie at all distances from 0 to ε. Examples with different indices get different starts,
// and so do different restarts of one example.
func TestThrow(t *testing.T) {
	for _, norm := range Norms.Values() {
		s := &Search{Threat: Threat{norm, .1, 0, 1}, Seed: 1}
		start := func(index, restart int) (x []float32, distance float64) {
			values := slices.Repeat([]float32{.5}, 10)
			x = slices.Clone(values)
			s.throw(x, &target{Example: Example{Index: index, Values: values}}, restart)
			return x, s.Distance(x, values)
		}
		mean, most := 0., 0.
		for i := range 400 {
			_, d := start(i, 1)
			mean, most = mean+d/400, max(most, d)
		}
		if math.Abs(mean-.05) > .005 || most > .1 || most < .099 {
			t.Errorf("%s: distances up to %g, mean %g, want 0.1 and 0.05", norm, most, mean)
		}
		a, _ := start(1, 1)
		b, _ := start(2, 1)
		c, _ := start(1, 2)
		if slices.Equal(a, b) || slices.Equal(a, c) {
			t.Errorf("%s: starts do not follow index and restart", norm)
		}
	}
}
