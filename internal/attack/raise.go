package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rscert/rscert/internal/smoothing"
)

// The parameters of Stutz et al. 2020 beside those of a Search.
const (
	momentum        = .9
	backtrackFactor = 1.1
)

// ConfRestarts is the number of random starts of PGDConf where the user gives none.
const ConfRestarts = 10

// ConfStep returns the length of the first steps of PGDConf where the user gives none. In the article's code it is .005
// for ε = .03 in Linf, and .05 for ε = 1 in L2.
func ConfStep(t Threat) float64 {
	if t.Norm == L2 {
		return t.Epsilon / 20
	}
	return t.Epsilon / 6
}

// raise maximises the largest probability of a class other than the label (Stutz et al. 2020, PGD-Conf): projected
// ascent with momentum and backtracking, from the example itself and from Restarts random starts. Each example keeps the
// input of the largest such probability, whether or not it changes the class.
func (s *Search) raise(ctx context.Context, targets []*target) error {
	for restart := range s.Restarts + 1 {
		if err := s.raiseFrom(ctx, targets, func(t *target) ascent { return s.newRaising(t, restart) }); err != nil {
			return err
		}
	}
	return nil
}

// autoRaise maximises the same probability by Auto-PGD from Restarts random starts, or the probability of each of the
// Targets in turn (Stutz's article, the attacks apgd-conf and apgd-conf-t of its AutoAttack). Its first step is .05ε,
// as there.
func (s *Search) autoRaise(ctx context.Context, targets []*target) error {
	checks := checkpoints(s.Steps)
	return s.rounds(targets, func(round int) error {
		return s.raiseFrom(ctx, targets, func(t *target) ascent {
			c := s.newAutoClimb(t, checks, round).(*autoClimbing)
			c.length, c.keepsOn = confFirstStep*s.Epsilon, true
			return c
		})
	})
}

// confFirstStep is the length of the first step of autoRaise as a share of ε.
const confFirstStep = .05

// squareRaise maximises the same probability by random squares.
func (s *Search) squareRaise(ctx context.Context, targets []*target) error {
	lowered := func(scores []float32, label int) float64 { return -s.other(scores, label) }
	return s.walk(ctx, targets, lowered, func(w *walk, x, scores []float32) (bool, error) {
		return false, s.keepHighest(w.target, x, scores)
	})
}

// raiseFrom runs one ascent for each target, and takes its candidate where it is better than those before.
func (s *Search) raiseFrom(ctx context.Context, targets []*target, begin func(*target) ascent) error {
	candidates, scores, err := s.candidates(ctx, targets, begin)
	if err != nil {
		return err
	}
	for i, t := range targets {
		if err := s.keepHighest(t, candidates[i], scores[i]); err != nil {
			return err
		}
	}
	return nil
}

// keepHighest takes a candidate as the altered input if it is better than those before: wrong instead of right, or with
// a larger probability of a wrong class.
func (s *Search) keepHighest(t *target, candidate, scores []float32) error {
	value, class := s.other(scores, t.Label), smoothing.Vote(scores)
	if class < 0 {
		return nil
	}
	if before := t.found.Altered; before != nil {
		wrong, was := class != t.Label, before[0].Class != t.Label
		if was && !wrong || was == wrong && !(value > t.highest) {
			return nil
		}
	}
	a, err := s.alteredBy(t, candidate, class, scores)
	t.highest, t.found.Altered = value, []Altered{a}
	if t.found.Correct() && class != t.Label {
		if t.found.Adversarial == nil {
			t.found.By = s.Method // the first attack that broke it
		}
		t.found.Adversarial, t.found.Class, t.found.Distance = a.Values, a.Class, a.Distance
	}
	return err
}

// other returns the logarithm of the largest probability of a class other than y.
func (s *Search) other(scores []float32, y int) float64 {
	most := math.Inf(-1)
	for k := range scores {
		if k != y {
			most = max(most, -s.crossEntropy(scores, k))
		}
	}
	return most
}

// raising is one climb on one example. A step that lowers the value is not taken, and shortens the next ones.
type raising struct {
	*Search
	*target
	length   float64 // of a step
	steps    int     // left
	x        []float32
	velocity []float64
	at       []float32 // the last point that did not lower the value; nil before the first
	unit     []float32 // the gradient at at, normalised
	value    float64   // at at
	here     float64   // the value at x
}

// newRaising starts from the example itself for restart 0, else from a random point.
func (s *Search) newRaising(t *target, restart int) *raising {
	c := &raising{
		Search: s, target: t, length: s.StepSize, steps: s.Steps, x: slices.Clone(t.Values), velocity: make([]float64, len(t.Values)),
	}
	if restart > 0 {
		s.throw(c.x, t, restart)
	}
	return c
}

func (c *raising) point() []float32 { return c.x }

func (c *raising) watch(scores []float32) { c.here = c.other(scores, c.Label) }

// observe goes on from x, or back to the last point if the value is smaller at x. The loss is more accurate in here.
func (c *raising) observe(_ bool, _ float64, gradient []float32) (done bool) {
	if c.at == nil || c.here >= c.value {
		c.at, c.value, c.unit = append(c.at[:0], c.x...), c.here, make([]float32, len(gradient))
		if !c.step(c.unit, gradient, 1) {
			c.found.Flat++
			return true
		}
	} else {
		c.length /= backtrackFactor
	}
	if c.steps == 0 {
		copy(c.x, c.at)
		return true
	}
	c.steps--
	for i, u := range c.unit {
		c.velocity[i] = momentum*c.velocity[i] + (1-momentum)*float64(u)
		c.x[i] = float32(float64(c.at[i]) + c.length*c.velocity[i])
	}
	c.Project(c.x, c.Values)
	return false
}

// throw moves x to a random point of the ball: a uniform direction, and a distance that is uniform from 0 to ε.
func (s *Search) throw(x []float32, t *target, restart int) {
	distance := rand.New(rand.NewPCG(s.Seed, ^(uint64(t.Index)<<20 | uint64(restart)))).Float64()
	s.scatterFar(x, t, restart)
	for i, v := range t.Values {
		x[i] = float32(float64(v) + distance*(float64(x[i])-float64(v)))
	}
	s.Project(x, t.Values)
}
