package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rscert/rscert/internal/smoothing"
)

// These are the parameters of Stutz et al. 2020 that are not fields of Search.
const (
	momentum        = .9
	backtrackFactor = 1.1
)

// ConfRestarts is the number of random starts of PGDConf if the user gives none.
const ConfRestarts = 10

// ConfStep returns the length of PGDConf's first steps if the user gives none. In the code of Stutz et al. this length
// is .005 for ε = .03 in Linf, and .05 for ε = 1 in L2.
func ConfStep(t Threat) float64 {
	if t.Norm == L2 {
		return t.Epsilon / 20
	}
	return t.Epsilon / 6
}

// raise maximises the largest probability of a class other than the label (Stutz et al. 2020, PGD-Conf). It runs
// projected ascent with momentum and backtracking. One run starts at the example itself, and s.Restarts further runs
// start at random points. Each example keeps its best input (see keepHighest), even if this input does not change the
// class.
func (s *Search) raise(ctx context.Context, targets []*target) error {
	for restart := range s.Restarts + 1 {
		if err := s.raiseFrom(ctx, targets, func(t *target) ascent { return s.newRaising(t, restart) }); err != nil {
			return err
		}
	}
	return nil
}

// autoRaise uses Auto-PGD to maximise the largest probability of a class other than the label. It makes s.Restarts runs
// from random starts. If s.Targets is above 0, autoRaise aims at one target class after another. For each of these
// classes it makes s.Restarts runs, and maximises the probability of the class. In the AutoAttack of Stutz et al., the
// attack without target classes has the name apgd-conf. The attack with target classes has the name apgd-conf-t. As in
// that AutoAttack, the length of the first step is .05ε.
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

// squareRaise uses random squares to maximise the largest probability of a class other than the label.
func (s *Search) squareRaise(ctx context.Context, targets []*target) error {
	lowered := func(scores []float32, label int) float64 { return -s.other(scores, label) }
	return s.walk(ctx, targets, lowered, func(w *walk, x, scores []float32) (bool, error) {
		return false, s.keepHighest(w.target, x, scores)
	})
}

// raiseFrom runs one ascent for each target, and keeps the ascent's candidate if it is better than all earlier ones.
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

// keepHighest stores a candidate as the altered input if the candidate is better than all earlier ones. It ignores a
// candidate for which the classifier answers no class. A misclassified candidate is better than a correctly classified
// one. If both candidates are misclassified, or both are classified correctly, a larger probability of a wrong class is
// better.
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
			t.found.By = s.Method // a later attack does not replace this name
		}
		t.found.Adversarial, t.found.Class, t.found.Distance = a.Values, a.Class, a.Distance
	}
	return err
}

// The method 'other' returns the logarithm of the largest probability among all classes except y.
func (s *Search) other(scores []float32, y int) float64 {
	most := math.Inf(-1)
	for k := range scores {
		if k != y {
			most = max(most, -s.crossEntropy(scores, k))
		}
	}
	return most
}

// The type 'raising' is one ascent on one example. The value of an input is the logarithm of the largest probability of
// a wrong class. The ascent moves to inputs of larger value. If a step would lower the value, the ascent does not take
// the step, and the next steps are shorter.
type raising struct {
	*Search
	*target
	length   float64 // length of a step
	steps    int     // number of steps left
	x        []float32
	velocity []float64
	at       []float32 // the last point that did not lower the value; nil before there is one
	unit     []float32 // the normalised gradient at the point in the field 'at'
	value    float64   // the value at the point in the field 'at'
	here     float64   // the value at x
}

// newRaising starts an ascent. Restart 0 begins at the example itself, and the other restarts begin at random points.
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

// observe continues from x, or from c.at if the value at x is smaller than the value at c.at. observe ignores its
// second argument, the loss, because the value c.here is more accurate.
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

// throw moves x to a random point of the ball. The direction is random, and the distance is uniform from 0 to ε.
func (s *Search) throw(x []float32, t *target, restart int) {
	distance := rand.New(rand.NewPCG(s.Seed, ^(uint64(t.Index)<<20 | uint64(restart)))).Float64()
	s.scatterFar(x, t, restart)
	for i, v := range t.Values {
		x[i] = float32(float64(v) + distance*(float64(x[i])-float64(v)))
	}
	s.Project(x, t.Values)
}
