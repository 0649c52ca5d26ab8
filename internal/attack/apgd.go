package attack

import (
	"context"
	"math"
	"slices"
)

// These are the constants of Auto-PGD. The comment of each constant begins with the constant's name in the paper.
const (
	apgdMomentum = .75 // α: weight of the new direction in a step
	apgdRho      = .75 // ρ: a checkpoint halves the step length if fewer than this share of the steps improved the loss
)

// autoClimb runs Auto-PGD (Croce & Hein 2020, algorithm 1) on all targets, round by round. Auto-PGD is gradient ascent
// with momentum from a random start. The length of the first step is 2ε. A checkpoint halves the step length if the
// loss has improved too rarely. The ascent then continues from its best point.
func (s *Search) autoClimb(ctx context.Context, targets []*target) error {
	checks := checkpoints(s.Steps)
	return s.rounds(targets, func(round int) error {
		return s.ascend(ctx, targets, func(t *target) ascent { return s.newAutoClimb(t, checks, round) })
	})
}

// checkpoints returns all checkpoints w_j = ⌈p_j·steps⌉. Auto-PGD checks its progress after w_j steps. The shares are
// p_1 = .22 and p_{j+1} = p_j + max(p_j − p_{j−1} − .03, .06), with p_0 = 0.
func checkpoints(steps int) (all []int) {
	for percent, gap := 22, 22; percent <= 100; percent += gap {
		if w := (percent*steps + 99) / 100; len(all) == 0 || w > all[len(all)-1] {
			all = append(all, w)
		}
		gap = max(gap-3, 6)
	}
	return all
}

// autoClimbing is Auto-PGD on one example.
type autoClimbing struct {
	s      *Search
	target *target
	checks []int // checkpoints not yet reached
	// If keepsOn is true, the ascent continues even after it has found a point that the classifier gets wrong.
	keepsOn bool

	x, previous        []float32
	best, bestGradient []float32 // the point with the largest loss so far, and its gradient
	loss, bestLoss     float64
	length             float64
	steps              int     // number of steps taken
	since              int     // number of steps taken before the last checkpoint
	improved           int     // among the steps since the last checkpoint, the number that improved the loss
	bestBefore         float64 // bestLoss at the last checkpoint
	halvedBefore       bool    // the last checkpoint halved the step length
}

func (s *Search) newAutoClimb(t *target, checks []int, round int) ascent {
	c := &autoClimbing{
		s: s, target: t, checks: checks, x: slices.Clone(t.Values), length: 2 * s.Epsilon,
		bestLoss: math.Inf(-1), halvedBefore: true,
	}
	s.scatterFar(c.x, t, round)
	c.previous = slices.Clone(c.x)
	c.best, c.bestGradient = slices.Clone(c.x), make([]float32, len(c.x))
	return c
}

func (c *autoClimbing) point() []float32 { return c.x }

func (c *autoClimbing) observe(wrong bool, loss float64, gradient []float32) (done bool) {
	if wrong && !c.keepsOn {
		return true
	}
	if c.steps > 0 && loss > c.loss {
		c.improved++
	}
	c.loss = loss
	if loss > c.bestLoss {
		c.bestLoss = loss
		copy(c.best, c.x)
		copy(c.bestGradient, gradient)
	}
	if c.steps == 0 {
		c.bestBefore = c.bestLoss
	}
	if c.steps == c.s.Steps {
		copy(c.x, c.best)
		return true
	}
	from := c.x
	if len(c.checks) > 0 && c.steps == c.checks[0] {
		c.checks = c.checks[1:]
		if c.check() {
			from, gradient, c.loss = c.best, c.bestGradient, c.bestLoss
		}
	}
	c.move(from, gradient)
	return false
}

// check looks at the steps since the last checkpoint. It halves the step length if less than the share ρ of these steps
// improved the loss. It also halves the step length if the largest loss did not grow in these steps and the last
// checkpoint did not halve the step length. It reports whether it halved the step length.
func (c *autoClimbing) check() bool {
	rare := float64(c.improved) < apgdRho*float64(c.steps-c.since)
	stuck := !c.halvedBefore && !(c.bestLoss > c.bestBefore)
	c.halvedBefore = rare || stuck
	c.since, c.improved, c.bestBefore = c.steps, 0, c.bestLoss
	if c.halvedBefore {
		c.length /= 2
	}
	return c.halvedBefore
}

// move takes a step from the point x, which is the argument 'from'. The argument 'gradient' is the gradient at x. Let P
// be the projection, η the step's length and g the direction of the gradient. move first computes z = P(x + η·g). In
// the first step, the new point is z. Later, the new point is P(x + α·(z − x) + (1 − α)·(x − previous)). Here
// 'previous' is the point from which the previous step started, and α is apgdMomentum.
func (c *autoClimbing) move(from, gradient []float32) {
	z := slices.Clone(from)
	if !c.s.step(z, gradient, c.length) {
		c.target.found.Flat++
	}
	c.s.Project(z, c.target.Values)
	if c.steps > 0 {
		for i, x := range from {
			step := apgdMomentum*(float64(z[i])-float64(x)) + (1-apgdMomentum)*(float64(x)-float64(c.previous[i]))
			z[i] = float32(float64(x) + step)
		}
		c.s.Project(z, c.target.Values)
	}
	copy(c.previous, from)
	c.x = z
	c.steps++
}

// scatterFar moves x to a random point at distance Epsilon from x, and then projects this point. The direction is
// uniform noise for Linf and normal noise for L2.
func (s *Search) scatterFar(x []float32, t *target, round int) {
	rng, noise, size := s.random(t, round), make([]float64, len(x)), 0.
	for i := range noise {
		if s.Norm == Linf {
			noise[i] = 2*rng.Float64() - 1
			size = max(size, math.Abs(noise[i]))
			continue
		}
		noise[i] = rng.NormFloat64()
		size = math.Hypot(size, noise[i])
	}
	for i, v := range noise {
		x[i] = float32(float64(x[i]) + s.Epsilon*v/size)
	}
	s.Project(x, t.Values)
}
