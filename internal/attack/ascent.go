package attack

import (
	"context"
	"math"

	"github.com/rscert/rscert/internal/smoothing"
)

// ascent is a gradient ascent of the loss of one example.
type ascent interface {
	// point returns the next input for which the ascent needs the loss and the gradient. After the end of the ascent,
	// point returns the candidate: the input that the ascent has found.
	point() []float32
	// observe gets the loss and the gradient at the point. The argument 'wrong' says whether the classifier gets the
	// point wrong. observe then takes a step, and reports whether the ascent has ended. observe must not keep the slice
	// 'gradient'.
	observe(wrong bool, loss float64, gradient []float32) (done bool)
}

// watcher is an ascent that also needs the scores at its point. The method 'watch' receives these scores before each
// call of observe, and must not keep their slice.
type watcher interface{ watch(scores []float32) }

// ascend runs one ascent for each target that the attack still has to break, and passes the candidates to the method
// 'settle'.
func (s *Search) ascend(ctx context.Context, targets []*target, begin func(*target) ascent) error {
	targets = standing(targets)
	candidates, scores, err := s.candidates(ctx, targets, begin)
	if err != nil {
		return err
	}
	for i, t := range targets {
		if err := s.settle(t, candidates[i], scores[i]); err != nil {
			return err
		}
	}
	return nil
}

// The method 'candidates' runs one ascent for each target. It returns the candidate of each ascent, and the
// classifier's scores for this candidate.
func (s *Search) candidates(ctx context.Context, targets []*target, begin func(*target) ascent) (all, scores [][]float32, err error) {
	ascents := make([]ascent, len(targets))
	share := (len(targets) + s.workers() - 1) / s.workers()
	err = s.parallel(len(targets), max(1, share), func(i, j int) error { return s.drive(ctx, targets[i:j], ascents[i:j], begin) })
	if err != nil {
		return nil, nil, err
	}
	for _, a := range ascents {
		all = append(all, a.point())
	}
	scores, err = s.scores(ctx, all)
	return all, scores, err
}

// drive runs an ascent to its end for each target. Each ascent uses one row of the batch in which gradients are
// computed. When an ascent ends, the next target takes over the row.
func (s *Search) drive(ctx context.Context, targets []*target, ascents []ascent, begin func(*target) ascent) error {
	n, d, m := s.Gradients.Examples(), len(targets[0].Values), s.Classifier.Classes()
	x, scores, gradient, losses := make([]float32, n*d), make([]float32, n*m), make([]float32, n*d), make([]float32, n)
	labels, aims := make([]int64, n), make([]int64, n)
	var rows []int // for each row, the index of its target
	for next := 0; ; {
		for ; next < len(targets) && len(rows) < n; next++ {
			ascents[next] = begin(targets[next])
			rows = append(rows, next)
		}
		if len(rows) == 0 {
			return nil
		}
		for row := range n { // copies of the last filled row fill the rest of the batch
			k := rows[min(row, len(rows)-1)]
			copy(x[row*d:], ascents[k].point())
			labels[row], aims[row] = int64(targets[k].Label), int64(targets[k].aim)
		}
		if err := s.Gradients.Run(ctx, x, labels, aims, scores, losses, gradient); err != nil {
			return err
		}
		var rest []int
		for row, k := range rows {
			if w, ok := ascents[k].(watcher); ok {
				w.watch(scores[row*m : (row+1)*m])
			}
			wrong := smoothing.Vote(scores[row*m:(row+1)*m]) != targets[k].Label
			if !ascents[k].observe(wrong, float64(losses[row]), gradient[row*d:(row+1)*d]) {
				rest = append(rest, k)
			}
		}
		rows = rest
	}
}

// step moves x along the gradient. The argument 'length' is the size of the step. For Linf every value with a nonzero
// partial derivative moves by this size: up if the derivative is positive, and down if it is negative. For L2 this size
// is the Euclidean norm of the step. If the gradient is zero or not finite, step does not move x and returns false.
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
