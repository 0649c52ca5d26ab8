package attack

import (
	"context"
	"math"
	"slices"
)

// climb runs projected gradient ascent of the loss on all targets, round by round. FGSM is a single step of this
// ascent. The step has length Epsilon and starts at the example itself.
func (s *Search) climb(ctx context.Context, targets []*target) error {
	ascend := func(round int) error {
		return s.ascend(ctx, targets, func(t *target) ascent { return s.newClimb(t, round) })
	}
	if s.Method == FGSM {
		return ascend(0)
	}
	return s.rounds(targets, ascend)
}

// climbing is PGD on one example. It stops at the first point that the classifier gets wrong.
type climbing struct {
	s        *Search
	target   *target
	x        []float32
	velocity []float32 // weighted sum of gradients; nil without momentum
	steps    int       // number of steps left
	length   float64
}

func (s *Search) newClimb(t *target, round int) ascent {
	c := &climbing{s: s, target: t, x: slices.Clone(t.Values), steps: s.Steps, length: s.StepSize}
	switch {
	case s.Method == FGSM:
		c.steps, c.length = 1, s.Epsilon
		return c
	case s.Momentum > 0:
		c.velocity = make([]float32, len(c.x))
	}
	s.scatter(c.x, t, round)
	return c
}

func (c *climbing) point() []float32 { return c.x }

func (c *climbing) observe(wrong bool, _ float64, gradient []float32) (done bool) {
	if wrong {
		return true
	}
	along := c.accumulate(gradient)
	if !c.s.step(c.x, along, c.length) {
		c.target.found.Flat++
	}
	c.s.Project(c.x, c.target.Values)
	c.steps--
	return c.steps == 0
}

// accumulate returns the direction of the next step: the gradient or, with momentum μ, the velocity v ← μ·v + g/‖g‖₁
// (Dong et al. 2018, equation 6).
func (c *climbing) accumulate(gradient []float32) []float32 {
	if c.velocity == nil {
		return gradient
	}
	size := 0.
	for _, g := range gradient {
		size += math.Abs(float64(g))
	}
	if !(size > 0) || math.IsInf(size, 0) {
		return gradient
	}
	for i, g := range gradient {
		c.velocity[i] = float32(c.s.Momentum*float64(c.velocity[i]) + float64(g)/size)
	}
	return c.velocity
}

// scatter adds uniform noise from [−ε, ε] to every value of x, and projects the result.
func (s *Search) scatter(x []float32, t *target, round int) {
	rng := s.random(t, round)
	for i := range x {
		x[i] += float32(s.Epsilon * (2*rng.Float64() - 1))
	}
	s.Project(x, t.Values)
}
