package attack

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// firstShare is the share of an image that the first squares change (p in the paper).
const firstShare = .8

// square runs the Square attack (Andriushchenko et al. 2020): each query changes a random part of the best input so
// far. The attack keeps the change if the margin falls.
func (s *Search) square(ctx context.Context, targets []*target) error {
	return s.walk(ctx, targets, margin, func(w *walk, x, scores []float32) (done bool, err error) {
		err = s.settle(w.target, x, scores)
		return w.found.Adversarial != nil, err
	})
}

// walk changes random parts of each target's best input so far. It keeps a change if the loss falls. It passes each new
// input to the function 'take'. If 'take' returns true, the target gets no more queries.
func (s *Search) walk(
	ctx context.Context, targets []*target, loss func(scores []float32, label int) float64,
	take func(w *walk, x, scores []float32) (done bool, err error),
) error {
	walks := make([]*walk, len(targets))
	for i, t := range targets {
		walks[i] = s.newWalk(t)
	}
	for query := 0; query < s.Steps && len(walks) > 0; query++ {
		inputs := make([][]float32, len(walks))
		for i, w := range walks {
			inputs[i] = w.propose(s, query)
		}
		scores, err := s.scores(ctx, inputs)
		if err != nil {
			return err
		}
		var rest []*walk
		for i, w := range walks {
			if l := loss(scores[i], w.Label); l < w.margin {
				w.best, w.margin = inputs[i], l
			}
			done, err := take(w, inputs[i], scores[i])
			if err != nil {
				return err
			}
			if !done {
				rest = append(rest, w)
			}
		}
		walks = rest
	}
	return nil
}

// walk is the state of the Square attack on one example.
type walk struct {
	*target
	rng                     *rand.Rand
	best                    []float32
	margin                  float64
	channels, height, width int
	last                    bool // channels are the last dimension, so that the channels of a pixel are adjacent
}

func (s *Search) newWalk(t *target) *walk {
	w := &walk{target: t, rng: s.random(t, 0), margin: math.Inf(1), channels: 1, height: 1, width: len(t.Values)}
	switch shape := s.Shape; {
	case len(shape) == 2:
		w.height, w.width = shape[0], shape[1]
	case len(shape) == 3:
		colours := func(n int) bool { return n == 1 || n == 3 || n == 4 }
		w.channels, w.height, w.width = shape[0], shape[1], shape[2]
		if w.last = colours(shape[2]) && !colours(shape[0]); w.last {
			w.height, w.width, w.channels = shape[0], shape[1], shape[2]
		}
	}
	return w
}

// offset returns the index of a value in the input.
func (w *walk) offset(channel, row, column int) int {
	if w.last {
		return (row*w.width+column)*w.channels + channel
	}
	return (channel*w.height+row)*w.width + column
}

// propose returns the next input to try. For Linf (algorithm 2) the first input is the example plus stripes of ±ε. Each
// later input is the best input so far with a change in one random square. In this square, each value is the example's
// value plus or minus ε, with one sign for each channel.
func (w *walk) propose(s *Search, query int) []float32 {
	if s.Norm == L2 {
		return w.proposeL2(s, query)
	}
	if query == 0 {
		x := slices.Clone(w.Values)
		for c := range w.channels {
			for column := range w.width {
				w.change(s, x, c, 0, w.height, column, column+1)
			}
		}
		s.Project(x, w.Values)
		return x
	}
	x := slices.Clone(w.best)
	if x == nil { // the scores of all inputs so far were NaN
		x = slices.Clone(w.Values)
	}
	area := share(query, s.Steps) * float64(w.height*w.width)
	height := min(max(1, int(math.Round(math.Sqrt(area)))), w.height)
	width := min(max(1, int(math.Round(area/float64(height)))), w.width)
	row, column := w.rng.IntN(w.height-height+1), w.rng.IntN(w.width-width+1)
	for c := range w.channels {
		w.change(s, x, c, row, row+height, column, column+width)
	}
	s.Project(x, w.Values)
	return x
}

// change sets a rectangle of a channel to the example's values plus or minus ε.
func (w *walk) change(s *Search, x []float32, channel, top, bottom, left, right int) {
	epsilon := s.Epsilon
	if w.rng.Uint64()&1 == 0 {
		epsilon = -epsilon
	}
	for row := top; row < bottom; row++ {
		for column := left; column < right; column++ {
			i := w.offset(channel, row, column)
			x[i] = float32(float64(w.Values[i]) + epsilon)
		}
	}
}

// share returns the share of the image that a square changes. With 10,000 queries the share halves after query 10, 50,
// 200, 500, 1000, 2000, 4000, 6000 and 8000, as in the authors' implementation. For other numbers of queries the
// schedule is scaled.
func share(query, queries int) float64 {
	at := 10000 * query / queries
	p := firstShare
	for _, from := range []int{10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000} {
		if at > from {
			p /= 2
		}
	}
	return p
}
