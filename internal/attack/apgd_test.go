package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCheckpoints: for 100 steps the checkpoints equal the checkpoints of Croce & Hein's implementation. The first
// checkpoint is at step 22. The gaps after it are 19, 16, 13, 10, 7 and then always 6. For small numbers of steps no
// checkpoint appears twice.
func TestCheckpoints(t *testing.T) {
	for _, c := range []struct {
		steps int
		want  []int
	}{
		{100, []int{22, 41, 57, 70, 80, 87, 93, 99}},
		{50, []int{11, 21, 29, 35, 40, 44, 47, 50}},
		{5, []int{2, 3, 4, 5}},
		{1, []int{1}},
	} {
		if got := checkpoints(c.steps); !slices.Equal(got, c.want) {
			t.Errorf("%d steps: %v, want %v", c.steps, got, c.want)
		}
	}
}

// wideSearch returns a search in a box so wide that no step reaches the ends of the box.
func wideSearch(norm Norm, epsilon float64, steps int) *Search {
	return &Search{Threat: Threat{norm, epsilon, -1e6, 1e6}, Method: APGDCE, Steps: steps}
}

// TestAutoMove compares steps of the method 'move' with steps of algorithm 1 that were computed by hand. The first step
// has length η along the gradient. A later step is .75 times a step along the gradient plus .25 times the last move.
// Every step is projected.
func TestAutoMove(t *testing.T) {
	for _, c := range []struct {
		name           string
		norm           Norm
		epsilon        float64
		steps          int
		from, previous []float32
		want           []float32
	}{
		{"first, linf", Linf, 10, 0, []float32{1, 2}, []float32{0, 0}, []float32{1.5, 1.5}},
		{"first, l2", L2, 10, 0, []float32{1, 2}, []float32{0, 0}, []float32{1.25, 2 - .4330127}},
		{"later, linf", Linf, 10, 1, []float32{1, 2}, []float32{.5, 3}, []float32{1 + .375 + .125, 2 - .375 - .25}},
		{"later, l2", L2, 10, 3, []float32{1, 2}, []float32{.5, 3}, []float32{1 + .1875 + .125, 2 - .32475953 - .25}},
		// In the last two cases, the gradient step leads to a point z that is clamped to 1.2. In the very last case,
		// the weighted average 1 + .75·.2 + .25·.5 is clamped to 1.2, too.
		{"z at the bound", Linf, 1.2, 1, []float32{1, 0}, []float32{1.1, 0}, []float32{1 + .75*.2 - .25*.1, -.375}},
		{"at the bound", Linf, 1.2, 1, []float32{1, 0}, []float32{.5, 0}, []float32{1.2, -.375}},
	} {
		tg := &target{Example: Example{Values: []float32{0, 0}}, found: new(Found)}
		a := &autoClimbing{s: wideSearch(c.norm, c.epsilon, 100), target: tg, length: .5, steps: c.steps, previous: c.previous}
		a.move(c.from, []float32{1, float32(-math.Sqrt(3))})
		for i := range c.want {
			if math.Abs(float64(a.x[i]-c.want[i])) > 1e-6 {
				t.Errorf("%s: %v, want %v", c.name, a.x, c.want)
				break
			}
		}
		if !slices.Equal(a.previous, c.from) || a.steps != c.steps+1 || tg.found.Flat != 0 {
			t.Errorf("%s: previous %v, steps %d, flat %d", c.name, a.previous, a.steps, tg.found.Flat)
		}
	}
}

// TestAutoFlat: if the gradient is zero, only the momentum moves the point, and the step counts as a step without
// gradient (Found.Flat).
func TestAutoFlat(t *testing.T) {
	tg := &target{Example: Example{Values: []float32{0}}, found: new(Found)}
	a := &autoClimbing{s: wideSearch(Linf, 10, 100), target: tg, length: .5, steps: 1, previous: []float32{0}}
	a.move([]float32{1}, []float32{0})
	if a.x[0] != 1.25 || tg.found.Flat != 1 {
		t.Errorf("at %v, %d flat", a.x, tg.found.Flat)
	}
}

// autoRun runs an ascent on an input of one value. In every step, it gives the ascent the gradient 1 and the next value
// of the argument 'losses'. The length of the first step is 100. autoRun returns the lengths of the steps and the
// points.
func autoRun(t *testing.T, steps int, losses []float64) (lengths []float64, points []float32, a *autoClimbing) {
	t.Helper()
	tg := &target{Example: Example{Values: []float32{0}}, found: new(Found)}
	a = wideSearch(Linf, 50, steps).newAutoClimb(tg, checkpoints(steps), 0).(*autoClimbing)
	for i, loss := range losses {
		points = append(points, a.point()[0])
		if done := a.observe(false, loss, []float32{1}); done != (i == steps) {
			t.Fatalf("done after %d of %d steps: %v", i, steps, done)
		}
		lengths = append(lengths, a.length)
	}
	return lengths, points, a
}

// lossesOf returns 101 losses. The first is 0. If the function 'better' returns true for a step, the loss of this step
// is 1 larger than the previous loss. Otherwise the loss of this step is 1 smaller than the previous loss.
func lossesOf(better func(step int) bool) []float64 {
	all := []float64{0}
	for step := 1; step <= 100; step++ {
		d := -1.
		if better(step) {
			d = 1
		}
		all = append(all, all[step-1]+d)
	}
	return all
}

// halvings lists the numbers of the steps after which the step length was halved.
func halvings(t *testing.T, lengths []float64) (at []int) {
	t.Helper()
	before := 100.
	for step, length := range lengths {
		switch length {
		case before:
		case before / 2:
			at = append(at, step)
		default:
			t.Fatalf("the step of %g became %g", before, length)
		}
		before = length
	}
	return at
}

// TestAutoHalves: a checkpoint looks at the steps since the last checkpoint. It halves the step length if less than
// three quarters of these steps improved the loss. It also halves the step length if the largest loss did not grow in
// these steps and the last checkpoint did not halve the step length.
func TestAutoHalves(t *testing.T) {
	all := checkpoints(100)
	for _, c := range []struct {
		name   string
		better func(step int) bool
		want   []int
	}{
		{"always better", func(int) bool { return true }, nil},
		{"never better", func(int) bool { return false }, all},
		{"16 of 22 better", func(step int) bool { return step > 6 }, []int{22}},
		{"17 of 22 better", func(step int) bool { return step > 5 }, nil},
		{"12 of 16 better", func(step int) bool { return step <= 41 || step > 45 }, nil},
		{"11 of 16 better", func(step int) bool { return step <= 41 || step > 46 }, []int{57}},
	} {
		lengths, _, _ := autoRun(t, 100, lossesOf(c.better))
		if got := halvings(t, lengths); !slices.Equal(got, c.want) {
			t.Errorf("%s: halved after %v, want %v", c.name, got, c.want)
		}
	}
	// From the third loss on, each loss is above the previous loss, but all losses stay below the first. The largest
	// loss therefore never changes. The first checkpoint does not halve the step length, because no checkpoint came
	// before it.
	losses := []float64{1000}
	for step := range 100 {
		losses = append(losses, float64(step))
	}
	if got, _, _ := autoRun(t, 100, losses); !slices.Equal(halvings(t, got), []int{41, 70, 87, 99}) {
		t.Errorf("the largest loss stands still: halved after %v", halvings(t, got))
	}
}

// TestAutoReturns: after a halving of the step length, the ascent continues from the point of the largest loss, with
// the gradient at this point. At the end the candidate is the point of the largest loss.
func TestAutoReturns(t *testing.T) {
	tg := &target{Example: Example{Values: []float32{0}}, found: new(Found)}
	s := wideSearch(Linf, 50, 100)
	a := s.newAutoClimb(tg, checkpoints(100), 0).(*autoClimbing)
	var points []float32
	for step := range 101 {
		points = append(points, slices.Clone(a.point())...)
		loss, gradient := -float64(step), float32(1)
		if step == 3 {
			loss, gradient = 5, -1
		}
		a.observe(false, loss, []float32{gradient})
		if step != 22 {
			continue
		}
		// The next point is P(x + .75·(z − x) + .25·(x − previous)). P is the projection, x is the point of step 3, and
		// 'previous' is the point of step 21, which equals the point of step 22. The loss is largest at x. The point z
		// is P(x − 50).
		x, previous := float64(points[3]), float64(points[22])
		want := min(max(x+.75*(max(x-50, -50)-x)+.25*(x-previous), -50), 50)
		if got := float64(a.x[0]); math.Abs(got-want) > 1e-4 || a.loss != 5 {
			t.Errorf("after the halving at %g, loss %g; want %g from %g", got, a.loss, want, x)
		}
	}
	if a.point()[0] != points[3] {
		t.Errorf("the candidate is %g, the best point %g", a.point()[0], points[3])
	}
}

// TestAutoStart: every random start is at distance ε from the example, in the norm of the search. For between 10 and 40
// of the 50 starts, the first value is below the example's first value.
func TestAutoStart(t *testing.T) {
	for _, norm := range Norms.Values() {
		s := wideSearch(norm, 2, 100)
		negative := 0
		for round := range 50 {
			values := []float32{1, 2, 3, 4, 5}
			x := slices.Clone(values)
			s.scatterFar(x, &target{Example: Example{Index: 3, Values: values}}, round)
			if d := s.Distance(x, values); d < 2-1e-5 || d > 2 {
				t.Errorf("%s: start at distance %g, want 2", norm, d)
			}
			if x[0] < 1 {
				negative++
			}
		}
		if negative < 10 || negative > 40 {
			t.Errorf("%s: %d of 50 starts are below in the first value", norm, negative)
		}
	}
}

// TestAutoNaN: a NaN loss never counts as the best.
func TestAutoNaN(t *testing.T) {
	losses := slices.Repeat([]float64{math.NaN()}, 101)
	losses[7] = -3
	_, points, a := autoRun(t, 100, losses)
	if a.point()[0] != points[7] {
		t.Errorf("the candidate is %g, the point with a loss %g", a.point()[0], points[7])
	}
}

// The type 'several' is a linear classifier of several classes. Its method Run computes the gradient of a difference:
// the target's score minus the label's score.
type several struct {
	w     [][]float64 // weights of each class
	batch int
	aims  map[int][]int64 // for each label, the target classes for which a gradient was computed
}

func (c *several) InputLen() int { return len(c.w[0]) }
func (c *several) Classes() int  { return len(c.w) }
func (c *several) Batch() int    { return c.batch }
func (c *several) Examples() int { return c.batch }

func (c *several) score(k int, x []float32) (z float64) {
	for i, w := range c.w[k] {
		z += w * float64(x[i])
	}
	return z
}

func (c *several) scores(in, out []float32) {
	d, m := len(c.w[0]), len(c.w)
	for i := range len(in) / d {
		for k := range m {
			out[i*m+k] = float32(c.score(k, in[i*d:(i+1)*d]))
		}
	}
}

// severalScores is the classifier 'several' without its gradients.
type severalScores struct{ *several }

func (c severalScores) Run(_ context.Context, in, out []float32) error {
	c.scores(in, out)
	return nil
}

// Run computes the target's score minus the label's score, and the gradient of this difference.
func (c *several) Run(_ context.Context, x []float32, labels, targets []int64, scores, losses, gradient []float32) error {
	c.scores(x, scores)
	d := len(c.w[0])
	for i, label := range labels {
		aim := targets[i]
		if all := c.aims[int(label)]; len(all) == 0 || all[len(all)-1] != aim {
			c.aims[int(label)] = append(all, aim)
		}
		losses[i] = scores[i*len(c.w)+int(aim)] - scores[i*len(c.w)+int(label)]
		for j := range d {
			gradient[i*d+j] = float32(c.w[aim][j] - c.w[label][j])
		}
	}
	return nil
}

// TestTargets: a targeted attack aims at up to Search.Targets classes other than the label, in the order of their
// scores, largest first. The attack also breaks an example if only the boundary of a later target class is within
// reach.
func TestTargets(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, method := range []Method{PGD, APGDT} {
		for _, c := range []struct {
			targets, restarts int
			want              []int64
			robust            bool
		}{{2, 1, []int64{4, 1}, true}, {2, 2, []int64{4, 1}, true}, {9, 1, []int64{4, 1, 2}, false}, {3, 2, []int64{4, 1, 2}, false}, {1, 3, []int64{4}, true}} {
			// At x = (1, 0, …) the scores are 10, 6, 4, 2, 8. The label is class 0. Only its boundary with class 2 is
			// within the distance .5. To reach this boundary, a perturbation must change the last 20 values together,
			// so no random start reaches it.
			model := &several{batch: 2, aims: make(map[int][]int64)}
			for _, first := range []float64{10, 6, 4, 2, 8} {
				model.w = append(model.w, append([]float64{first}, make([]float64, 20)...))
			}
			copy(model.w[2][1:], slices.Repeat([]float64{.5}, 20))
			s := &Search{
				Threat: Threat{Linf, .5, -inf, inf}, Method: method, Classifier: severalScores{model}, Gradients: model, Steps: 15, StepSize: .1,
				Targets: c.targets, Restarts: c.restarts,
			}
			x := append([]float32{1}, make([]float32, 20)...)
			found, err := s.Run(t.Context(), []Example{{0, 0, x}})
			if err != nil {
				t.Fatal(err)
			}
			if found[0].Robust() != c.robust || !slices.Equal(model.aims[0], c.want) {
				t.Errorf("%s, %d targets: %+v, aims %v, want %v", method, c.targets, found[0], model.aims[0], c.want)
			}
		}
	}
}

// TestSequence: each attack of a sequence runs on the examples that the earlier attacks did not break. The result names
// the attack that broke an example. In a sequence, an attack finds the same perturbation for an example as when it runs
// alone.
func TestSequence(t *testing.T) {
	l := newLinear()
	all, _ := examplesOf(l, 40, Linf)
	alone := make(map[Method][]Found)
	for _, method := range []Method{FGSM, Square} {
		s := newSearch(l, method, Linf, .45)
		if method == FGSM {
			s.Epsilon = .3
		}
		found, err := s.Run(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		alone[method] = found
	}
	first, second := newSearch(l, FGSM, Linf, .3), newSearch(l, Square, Linf, .45)
	first.Then = second
	found, err := first.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[Method]int)
	for i, f := range found {
		want := alone[FGSM][i]
		if want.Robust() {
			want = alone[Square][i]
		}
		if !slices.Equal(f.Adversarial, want.Adversarial) || f.By != want.By || f.Class != want.Class {
			t.Errorf("example %d: %+v, want %+v", i, f, want)
		}
		by[f.By]++
	}
	if by[FGSM] < 3 || by[Square] < 3 || by[""] < 3 {
		t.Errorf("broken by %v: the test needs some of each", by)
	}
}

// TestMomentum: with momentum μ the second step goes along μ·g₁/‖g₁‖₁ + g₂/‖g₂‖₁.
func TestMomentum(t *testing.T) {
	s := &Search{Threat: Threat{L2, 100, -1e6, 1e6}, Method: PGD, Steps: 5, StepSize: .5, Momentum: .5}
	c := &climbing{s: s, target: &target{Example: Example{Values: []float32{0, 0}}, found: new(Found)}, x: []float32{0, 0}, velocity: []float32{0, 0}, steps: 5, length: .5}
	c.observe(false, 0, []float32{3, 1})
	c.observe(false, 0, []float32{0, -20})
	// The velocities of the two steps are v₁ = (.75, .25) and v₂ = (.375, −.875).
	want := []float64{.5*.75/math.Hypot(.75, .25) + .5*.375/math.Hypot(.375, .875), .5*.25/math.Hypot(.75, .25) - .5*.875/math.Hypot(.375, .875)}
	for i, v := range want {
		if math.Abs(float64(c.x[i])-v) > 1e-6 {
			t.Errorf("at %v, want %v", c.x, want)
			break
		}
	}
	c.observe(false, 0, []float32{0, 0})
	if c.target.found.Flat != 1 {
		t.Errorf("%d steps without gradient, want 1", c.target.found.Flat)
	}
}

// TestRows: as soon as a row of the batch is free, the next example takes this row. Each ascent gets the loss and
// gradient of its own row.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLinear()
	all, _ := examplesOf(l, 23, Linf)
	s := newSearch(l, PGD, Linf, 1e-6)
	var targets []*target
	lengths := make(map[*target]int)
	for _, x := range all {
		tg := &target{Example: x, found: new(Found)}
		targets, lengths[tg] = append(targets, tg), 1+rng.IntN(9)
	}
	calls := 0
	counted := countingGradients{linearGradients{l, 4}, &calls}
	s.Gradients, s.Workers = counted, 1
	total := 0
	for _, n := range lengths {
		total += n
	}
	err := s.ascend(t.Context(), targets, func(tg *target) ascent {
		return &fixedAscent{t: t, target: tg, left: lengths[tg], value: l.value(tg.Values)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if least := (total + 3) / 4; calls < least || calls > least+3 {
		t.Errorf("%d calls for %d points in batches of 4", calls, total)
	}
}

// countingGradients counts the calls of Run.
type countingGradients struct {
	linearGradients
	calls *int
}

func (c countingGradients) Run(ctx context.Context, x []float32, labels, targets []int64, scores, losses, gradient []float32) error {
	*c.calls++
	return c.linearGradients.Run(ctx, x, labels, targets, scores, losses, gradient)
}

// fixedAscent stays at its example for a number of steps. It checks that each loss that it gets is the loss of its own
// example.
type fixedAscent struct {
	t      *testing.T
	target *target
	left   int
	value  float64
}

func (f *fixedAscent) point() []float32 { return f.target.Values }

func (f *fixedAscent) observe(wrong bool, loss float64, _ []float32) bool {
	if want := -math.Abs(f.value); wrong || math.Abs(loss-want) > 1e-5 {
		f.t.Errorf("example %d: wrong %v, loss %g, want %g", f.target.Index, wrong, loss, want)
	}
	f.left--
	return f.left == 0
}
