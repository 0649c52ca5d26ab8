package attack

import (
	"context"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/smoothing"
)

// The parameters of Stutz et al. 2020 beside those of a Search.
const (
	momentum        = .9
	backtrackFactor = 1.1
)

// raise maximises the largest probability of a class other than the label (Stutz et al. 2020, PGD-Conf): projected
// ascent with momentum and backtracking, from the example itself and from Restarts random starts. Each example keeps the
// input of the largest such probability, whether or not it changes the class. Gradients must be of grad.Confidence.
func (s *Search) raise(ctx context.Context, targets []*target) error {
	best := make([]float64, len(targets))
	for i, t := range targets {
		best[i], t.found.Altered = math.Inf(-1), make([]Altered, 1)
	}
	for restart := range s.Restarts + 1 {
		candidates := make([][]float32, len(targets))
		err := s.parallel(len(targets), s.Gradients.Examples(), func(i, j int) error {
			return s.backtrack(ctx, targets[i:j], candidates[i:j], restart)
		})
		if err != nil {
			return err
		}
		scores, err := s.scores(ctx, candidates)
		if err != nil {
			return err
		}
		for i, t := range targets {
			value, class := s.other(scores[i], t.Label), smoothing.Vote(scores[i])
			if class < 0 || t.found.Altered[0].Values != nil && !(value > best[i]) {
				continue
			}
			best[i] = value
			if t.found.Altered[0], err = s.alteredBy(t, candidates[i], class, scores[i]); err != nil {
				return err
			}
		}
	}
	for _, t := range targets {
		if a := t.found.Altered[0]; t.found.Correct() && a.Class != t.Label {
			t.found.Adversarial, t.found.Class, t.found.Distance = a.Values, a.Class, a.Distance
		}
	}
	return nil
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

// backtrack climbs from a start: from the example itself for restart 0, else from a random point. A step that lowers the
// value is not taken, and shortens the next ones. It returns the best point of each target.
func (s *Search) backtrack(ctx context.Context, targets []*target, candidates [][]float32, restart int) error {
	n, d, m := s.Gradients.Examples(), len(targets[0].Values), s.Classifier.Classes()
	x, labels := s.start(targets, restart)
	climbs := make([]*raising, len(targets))
	for row, t := range targets {
		climbs[row] = &raising{
			Search: s, target: t, length: s.StepSize, velocity: make([]float64, d), value: math.Inf(-1),
		}
		if restart > 0 {
			s.throw(x[row*d:(row+1)*d], t, restart)
		}
	}
	scores, gradient := make([]float32, n*m), make([]float32, n*d)
	for step := 0; ; step++ {
		if err := s.Gradients.Run(ctx, x, labels, scores, gradient); err != nil {
			return err
		}
		moving := false
		for row, c := range climbs {
			c.look(x[row*d:(row+1)*d], scores[row*m:(row+1)*m], gradient[row*d:(row+1)*d])
			if step < s.Steps && c.move(x[row*d:(row+1)*d]) {
				moving = true
			}
		}
		if !moving {
			break
		}
	}
	for row, c := range climbs {
		candidates[row] = slices.Clone(c.at)
	}
	return nil
}

// throw moves x to a random point of the ball: a uniform direction, and a distance that is uniform from 0 to ε.
func (s *Search) throw(x []float32, t *target, restart int) {
	rng := s.random(t, restart)
	direction, size := make([]float64, len(x)), 0.
	for i := range direction {
		if s.Norm == L2 {
			direction[i] = rng.NormFloat64()
			size += direction[i] * direction[i]
		} else {
			direction[i] = 2*rng.Float64() - 1
			size = max(size, math.Abs(direction[i]))
		}
	}
	if s.Norm == L2 {
		size = math.Sqrt(size)
	}
	length := s.Epsilon * rng.Float64() / size
	for i, v := range direction {
		x[i] = float32(float64(t.Values[i]) + length*v)
	}
	s.Project(x, t.Values)
}

// raising is one climb on one example.
type raising struct {
	*Search
	*target
	length   float64 // of a step
	velocity []float64
	at       []float32
	unit     []float64 // the gradient at at, normalised
	value    float64   // at at
	stuck    bool
}

// look takes the scores and the gradient at x. A point of a smaller value is left for the last one.
func (c *raising) look(x, scores, gradient []float32) {
	if c.stuck {
		return
	}
	value := c.other(scores, c.Label)
	if c.at != nil && !(value >= c.value) {
		c.length /= backtrackFactor
		return
	}
	c.at, c.value = append(c.at[:0], x...), value
	if c.unit = c.normalised(gradient); c.unit == nil {
		c.found.Flat++
		c.stuck = true
	}
}

// normalised returns the direction of a gradient: its signs for Linf, its unit vector for L2; nil for a zero gradient.
func (s *Search) normalised(gradient []float32) []float64 {
	zero := make([]float32, len(gradient))
	if !s.step(zero, gradient, 1) {
		return nil
	}
	unit := make([]float64, len(gradient))
	for i, v := range zero {
		unit[i] = float64(v)
	}
	return unit
}

// move writes the next point to x and reports whether there is one.
func (c *raising) move(x []float32) bool {
	if c.stuck {
		copy(x, c.at)
		return false
	}
	for i, u := range c.unit {
		c.velocity[i] = momentum*c.velocity[i] + (1-momentum)*u
		x[i] = float32(float64(c.at[i]) + c.length*c.velocity[i])
	}
	c.Project(x, c.Values)
	return true
}
