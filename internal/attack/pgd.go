package attack

import (
	"context"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/smoothing"
)

// climb runs projected gradient ascent of the loss on all targets, restart by restart. FGSM is its single step of
// length Epsilon from the example itself.
func (s *Search) climb(ctx context.Context, targets []*target) error {
	restarts := max(1, s.Restarts)
	if s.Method == FGSM {
		restarts = 1
	}
	for restart := range restarts {
		targets = standing(targets)
		candidates := make([][]float32, len(targets))
		err := s.parallel(len(targets), s.Gradients.Examples(), func(i, j int) error {
			return s.ascend(ctx, targets[i:j], candidates[i:j], restart)
		})
		if err != nil {
			return err
		}
		scores, err := s.scores(ctx, candidates)
		if err != nil {
			return err
		}
		for i, t := range targets {
			if err := s.settle(t, candidates[i], scores[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ascend climbs from a start and returns, for each target, the first point that the classifier got wrong on the way, or
// the last one.
func (s *Search) ascend(ctx context.Context, targets []*target, candidates [][]float32, restart int) error {
	n, d, m := s.Gradients.Examples(), len(targets[0].Values), s.Classifier.Classes()
	x, labels := s.start(targets, restart)
	scores, losses, gradient := make([]float32, n*m), make([]float32, n), make([]float32, n*d)
	steps, length := s.Steps, s.StepSize
	if s.Method == FGSM {
		steps, length = 1, s.Epsilon
	}
	climbing := len(targets)
	for step := 0; step < steps && climbing > 0; step++ {
		if err := s.Gradients.Run(ctx, x, labels, labels, scores, losses, gradient); err != nil {
			return err
		}
		for row, t := range targets {
			at := x[row*d : (row+1)*d]
			switch {
			case candidates[row] != nil:
			case smoothing.Vote(scores[row*m:(row+1)*m]) != t.Label:
				candidates[row] = slices.Clone(at)
				climbing--
			default:
				if !s.step(at, gradient[row*d:(row+1)*d], length) {
					t.found.Flat++
				}
				s.Project(at, t.Values)
			}
		}
	}
	for row := range targets {
		if candidates[row] == nil {
			candidates[row] = slices.Clone(x[row*d : (row+1)*d])
		}
	}
	return nil
}

// start returns the inputs and labels of one gradient: each target's start, and copies of the last example as filling.
func (s *Search) start(targets []*target, restart int) (x []float32, labels []int64) {
	for row := range s.Gradients.Examples() {
		t := targets[min(row, len(targets)-1)]
		labels = append(labels, int64(t.Label))
		x = append(x, t.Values...)
		if s.Method == PGD && row < len(targets) {
			s.scatter(x[len(x)-len(t.Values):], t, restart)
		}
	}
	return x, labels
}

// scatter adds uniform noise from [−ε, ε] to every value, and projects.
func (s *Search) scatter(x []float32, t *target, restart int) {
	rng := s.random(t, restart)
	for i := range x {
		x[i] += float32(s.Epsilon * (2*rng.Float64() - 1))
	}
	s.Project(x, t.Values)
}

// step moves x by a length along the gradient: in every value by its sign for Linf, along the whole for L2. It reports
// false, and does not move, if the gradient is zero or no number.
func (s *Search) step(x, gradient []float32, length float64) bool {
	square := 0.
	for _, g := range gradient {
		square += float64(g) * float64(g)
	}
	norm := math.Sqrt(square)
	if !(norm > 0) || math.IsInf(norm, 0) {
		return false
	}
	for i, g := range gradient {
		along := float64(g) / norm
		if s.Norm == Linf {
			along = 0
			if g != 0 {
				along = math.Copysign(1, float64(g))
			}
		}
		x[i] = float32(float64(x[i]) + length*along)
	}
	return true
}
