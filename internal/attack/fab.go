package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rscert/rscert/internal/smoothing"
)

// These are the constants of FAB. They come from the paper's experiments and the authors' implementation.
const (
	fabBias      = .1   // α_max: largest weight α of the term x₀ + η·d₀ in a step (see the method 'fab')
	fabOvershoot = 1.05 // η: a step goes this many times as far as the boundary
	fabBackward  = .9   // β: a step back from an adversarial input keeps this share of the perturbation
	fabStart     = .5   // the norm of a random start, as a share of ε
	fabSections  = 3    // steps of the final search
)

// fab runs the fast adaptive boundary attack, which looks for the smallest perturbation (Croce & Hein 2020, FAB,
// algorithm 1). Each step linearises the logits at x and finds the nearest boundary between the label and another
// class. It then goes past this boundary: x ← (1−α)·(x + η·d) + α·(x₀ + η·d₀). Here x₀ is the example, d leads from x
// to the boundary and d₀ leads from x₀ to the boundary. Both x + d and x₀ + d₀ are in the box. The weight is α =
// min(‖d‖/(‖d‖+‖d₀‖), α_max). From an input that the classifier gets wrong, the search goes back towards x₀.
//
// A restart begins at a random point around the example (see leap). It attacks only examples that no attack has broken
// before. If s.Targets is above 0, all steps of a round go to the boundary between the label and one fixed class. Each
// step then needs one gradient. If s.Targets is 0, each step needs one gradient for each class other than the label.
// The attack succeeds if the classifier answers any class other than the label, even if the step aimed at a different
// class. The loss of Gradients must be grad.Difference.
func (s *Search) fab(ctx context.Context, targets []*target) error {
	return s.rounds(targets, func(round int) error {
		chases := make([]*chase, 0, len(targets))
		for _, t := range standing(targets) {
			chases = append(chases, s.newChase(t, round))
		}
		return s.chase(ctx, chases)
	})
}

// chase is the state of FAB, the fast adaptive boundary attack, on one example.
type chase struct {
	*target
	rivals []int     // the classes that the steps aim at
	x      []float32 // the current point
	// These fields describe the boundary nearest to x, under the approximation that the logits are linear. The boundary
	// is between the label and one class in 'rivals'. The field 'difference' is the logit of this class minus the
	// label's logit, and 'slope' is the gradient of this difference. The boundary contains all x + d with difference +
	// slope·d = 0. The field 'away' is the boundary's distance from x. If the gradients of the differences for all
	// classes in 'rivals' are zero or not finite, slope is nil.
	slope            []float64
	difference, away float64
	// best is the closest adversarial input so far; it is nil if there is none. The field 'distance' is the distance of
	// 'best' from the example.
	best     []float32
	distance float64
}

// newChase returns the state in which FAB starts on one example. The first run starts at the example, and a restart
// starts at a random point around it (see leap).
func (s *Search) newChase(t *target, round int) *chase {
	c := &chase{target: t, rivals: t.others, x: slices.Clone(t.Values), distance: math.Inf(1)}
	if s.Targets > 0 {
		c.rivals = []int{t.aim}
	}
	if round%max(1, s.Restarts) > 0 {
		s.leap(c.x, s.random(t, round))
	}
	return c
}

// leap adds a random perturbation of norm ε/2 to x in place, and then clips x to the box. The perturbation is uniform
// noise for Linf and Gaussian noise for L2.
func (s *Search) leap(x []float32, rng *rand.Rand) {
	d := make([]float64, len(x))
	for i := range d {
		if s.Norm == L2 {
			d[i] = rng.NormFloat64()
		} else {
			d[i] = 2*rng.Float64() - 1
		}
	}
	factor := fabStart * s.Epsilon / s.Norm.length(d)
	for i := range x {
		x[i] = s.clamp(float64(x[i]) + factor*d[i])
	}
}

// chase takes all steps of FAB for each example. Then the final search looks for adversarial inputs between each
// example and the closest adversarial input that these steps found.
func (s *Search) chase(ctx context.Context, chases []*chase) error {
	for range s.Steps {
		err := s.parallel(len(chases), s.Gradients.Examples(), func(i, j int) error { return s.advance(ctx, chases[i:j]) })
		if err != nil {
			return err
		}
		inputs := make([][]float32, len(chases))
		for i, c := range chases {
			inputs[i] = c.x
		}
		scores, err := s.scores(ctx, inputs)
		if err != nil {
			return err
		}
		for i, c := range chases {
			if smoothing.Vote(scores[i]) == c.Label {
				continue
			}
			if distance := s.Distance(c.x, c.Values); distance < c.distance {
				c.best, c.distance = slices.Clone(c.x), distance
			}
			c.x = s.between(c.Values, c.x, fabBackward)
		}
	}
	return s.closeIn(ctx, chases)
}

// advance finds the boundary nearest to the current point of each chase, and moves this point past the boundary. A
// chase is the state of the attack FAB on one example. The distance to a boundary is |difference| divided by the dual
// norm of the gradient.
func (s *Search) advance(ctx context.Context, chases []*chase) error {
	n, d := s.Gradients.Examples(), len(chases[0].x)
	var x []float32
	labels, rivals := make([]int64, n), make([]int64, n)
	for row := range n { // copies of the last chase fill the rest of the batch
		c := chases[min(row, len(chases)-1)]
		x, labels[row] = append(x, c.x...), int64(c.Label)
	}
	for _, c := range chases {
		c.slope, c.away = nil, math.Inf(1)
	}
	scores, differences, gradient := make([]float32, n*s.Classifier.Classes()), make([]float32, n), make([]float32, n*d)
	for k := range chases[0].rivals {
		for row := range n {
			rivals[row] = int64(chases[min(row, len(chases)-1)].rivals[k])
		}
		if err := s.Gradients.Run(ctx, x, labels, rivals, scores, differences, gradient); err != nil {
			return err
		}
		for row, c := range chases {
			c.consider(s.Norm, float64(differences[row]), gradient[row*d:(row+1)*d])
		}
	}
	for _, c := range chases {
		s.cross(c)
	}
	return nil
}

// consider keeps a boundary if it is the nearest so far.
func (c *chase) consider(n Norm, difference float64, gradient []float32) {
	dual := n.dual(gradient)
	away := math.Abs(difference) / dual
	if !(dual > 0) || math.IsInf(dual, 0) || !(away < c.away) {
		return
	}
	c.away, c.difference = away, difference
	c.slope = slices.Grow(c.slope[:0], len(gradient))
	for _, g := range gradient {
		c.slope = append(c.slope, float64(g))
	}
}

// cross moves the current point of a chase (FAB on one example) past the boundary that is nearest to this point. If the
// chase has no boundary, cross counts a step without gradient (Found.Flat).
func (s *Search) cross(c *chase) {
	if c.slope == nil {
		c.found.Flat++
		return
	}
	// The point x + d is on the boundary if slope·d = gap. The point x₀ + d is on the boundary if slope·d = origin,
	// where x₀ is the example.
	gap, origin := -c.difference, -c.difference
	for i, v := range c.slope {
		origin += v * (float64(c.x[i]) - float64(c.Values[i]))
	}
	near, far := s.towards(c.x, c.slope, gap), s.towards(c.Values, c.slope, origin)
	a, b := max(s.Norm.length(near), 1e-8), max(s.Norm.length(far), 1e-8)
	alpha := min(a/(a+b), fabBias)
	for i := range c.x {
		c.x[i] = s.clamp((1-alpha)*(float64(c.x[i])+fabOvershoot*near[i]) + alpha*(float64(c.Values[i])+fabOvershoot*far[i]))
	}
}

// clamp rounds a value to float32 and moves it into the box.
func (t Threat) clamp(v float64) float32 { return min(max(float32(v), t.Low), t.High) }

// between returns x + share·(a − x), clipped to the box.
func (t Threat) between(x, a []float32, share float64) []float32 {
	z := make([]float32, len(x))
	for i := range x {
		z[i] = t.clamp(float64(x[i]) + share*(float64(a[i])-float64(x[i])))
	}
	return z
}

// The method 'shrunk' moves the input 'a' towards x until the norm of the perturbation is the given share of the old
// norm. For L2 it scales the perturbation. For Linf it reduces changes above a limit to this limit, and leaves smaller
// changes as they are. Smaller changes are common near the ends of the box.
func (t Threat) shrunk(x, a []float32, share float64) []float32 {
	if t.Norm == L2 {
		return t.between(x, a, share)
	}
	z, most := make([]float32, len(x)), share*t.Distance(a, x)
	for i := range x {
		z[i] = t.clamp(min(max(float64(a[i]), float64(x[i])-most), float64(x[i])+most))
	}
	return z
}

// closeIn is the final search. For each example it looks for a closer adversarial input, between the example and the
// closest adversarial input so far. It passes inputs within ε to the method 'settle'. Each step estimates where the
// boundary is, as if the margin were linear. The step then tries a point slightly beyond this estimate. The classifier
// usually gets this point wrong.
func (s *Search) closeIn(ctx context.Context, chases []*chase) error {
	var sections []*section
	var inputs [][]float32
	for _, c := range chases {
		if c.best != nil {
			sections = append(sections, &section{chase: c, outer: 1, end: c.best, at: c.best})
			inputs = append(inputs, c.Values, c.best)
		}
	}
	scores, err := s.scores(ctx, inputs)
	if err != nil {
		return err
	}
	for i, c := range sections {
		c.right, c.wrong, c.scores = margin(scores[2*i], c.Label), margin(scores[2*i+1], c.Label), scores[2*i+1]
	}
	for range fabSections {
		inputs = inputs[:0]
		for _, c := range sections {
			inputs = append(inputs, s.shrunk(c.Values, c.end, c.share()))
		}
		if scores, err = s.scores(ctx, inputs); err != nil {
			return err
		}
		for i, c := range sections {
			c.narrow(inputs[i], scores[i])
		}
	}
	for _, c := range sections {
		if s.Distance(c.at, c.Values) > s.Epsilon {
			continue
		}
		if err := s.settle(c.target, c.at, c.scores); err != nil {
			return err
		}
	}
	return nil
}

// The final search estimates where the boundary is, and tries a point between this estimate and the section's outer
// limit (see the type 'section'). sectionBeyond is the distance from the estimate to this point, as a share of the
// distance from the estimate to the limit.
const sectionBeyond = .01

// section is the range in which the final search looks for the boundary. The fields 'inner' and 'outer' are the limits
// of the range. Each limit is a share: the norm of a perturbation, divided by the distance from the example to the
// input in the field 'end'.
type section struct {
	*chase
	end          []float32 // the adversarial input from which the search starts; a limit of 1 stands for this input
	inner, outer float64   // the classifier is right at 'inner' and wrong at 'outer'
	right, wrong float64   // the margins at 'inner' and at 'outer'
	at           []float32 // the input at 'outer'
	scores       []float32 // the scores at 'outer'
}

// share returns the norm of the perturbation that the search tries next. Like 'inner' and 'outer', this norm is given
// as a share (see section).
func (c *section) share() float64 {
	zero := c.right / (c.right - c.wrong)
	if !(zero >= 0 && zero <= 1) { // one of the margins is NaN, or both margins are zero
		zero = .5
	}
	return c.inner + (zero+sectionBeyond*(1-zero))*(c.outer-c.inner)
}

// narrow moves one limit of the section to the norm that the method 'share' returns. The arguments are the input at
// this norm and the scores of this input.
func (c *section) narrow(input, scores []float32) {
	share, m := c.share(), margin(scores, c.Label)
	if smoothing.Vote(scores) == c.Label {
		c.inner, c.right = share, m
		return
	}
	c.outer, c.wrong, c.at, c.scores = share, m, input, scores
}
