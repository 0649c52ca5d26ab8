package calib

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Ranked holds predictions in ascending order of confidence.
type Ranked struct {
	p      *Predictions
	packed []uint64 // if there are no weights: Confidence and Correct, packed as in Sample.packed
	order  []int    // if there are weights: the positions of the examples in p, in ascending order of confidence
}

// Rank sorts predictions. The result keeps a reference to p.
func Rank(p *Predictions) *Ranked {
	if p.Weight == nil {
		packed := make([]uint64, p.N())
		for i, c := range p.Confidence {
			packed[i] = math.Float64bits(c+0) << 1 // +0 turns −0 into 0
			if p.Correct[i] {
				packed[i] |= 1
			}
		}
		sortRadix(packed)
		return &Ranked{p: p, packed: packed}
	}
	order := make([]int, p.N())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Confidence[a], p.Confidence[b]) })
	return &Ranked{p: p, order: order}
}

// Quantity returns the quantity of the predictions.
func (r *Ranked) Quantity() Quantity { return r.p.Quantity }

// example returns the confidence, the correctness and the weight of the example at rank k.
func (r *Ranked) example(k int) (confidence float64, correct bool, w float64) {
	if r.order == nil {
		c, y := unpack(r.packed[k])
		return c, y == 1, 1
	}
	i := r.order[k]
	return r.p.Confidence[i], r.p.Correct[i], r.p.Weight[i]
}

// EqualCount sorts the predictions into bins. The comment of the function EqualCount describes these bins.
func (r *Ranked) EqualCount(bins int) ([]Bin, error) {
	if bins < 1 {
		return nil, fmt.Errorf("%d bins, must be 1 or more", bins)
	}
	n := r.p.N()
	out := make([]Bin, 0, min(bins, n))
	bin, end, last := 0, 0, math.NaN() // the current bin ends at the rank 'end', unless ties follow
	for k := range n {
		c, correct, w := r.example(k)
		if k >= end && c != last {
			for end <= k {
				bin++
				end = (bin*n + bins - 1) / bins
			}
			out = append(out, Bin{Lower: c})
		}
		b := &out[len(out)-1]
		b.add(c, correct, w)
		b.Upper, last = c, c
	}
	finishBins(out)
	return out, nil
}

// A step holds the weight of the right examples and the weight of the wrong examples at one confidence.
type step struct{ confidence, right, wrong float64 }

// The method 'steps' calls f with the step of each distinct confidence, in ascending order of confidence.
func (r *Ranked) steps(f func(step)) {
	var s step
	for k := range r.p.N() {
		c, correct, w := r.example(k)
		if k > 0 && c != s.confidence {
			f(s)
			s = step{}
		}
		s.confidence = c
		if correct {
			s.right += w
		} else {
			s.wrong += w
		}
	}
	f(s)
}

var errOneKind = errors.New("needs right and wrong answers (labels of both kinds)")

// AUROC returns the probability that a random right example (label 1) has a larger confidence than a random wrong
// example (label 0). A tie counts as one half (Mann–Whitney).
func (r *Ranked) AUROC() (float64, error) {
	var right, wrong, wins float64
	r.steps(func(s step) {
		wins += s.right * (wrong + s.wrong/2)
		right += s.right
		wrong += s.wrong
	})
	if right == 0 || wrong == 0 {
		return math.NaN(), errOneKind
	}
	return wins / (right * wrong), nil
}

// AveragePrecision returns the area under the precision–recall curve as a sum of steps, Σ (recall_k −
// recall_{k−1})·precision_k over the distinct thresholds. The function average_precision_score of scikit-learn returns
// the same area. Neither function interpolates.
func (r *Ranked) AveragePrecision() (float64, error) {
	// total weights of the right examples and of all examples whose confidence is at or above the current threshold
	var right, all float64
	var groups []step
	r.steps(func(s step) { groups = append(groups, s) })
	sum := 0.0
	for _, s := range slices.Backward(groups) {
		right += s.right
		all += s.right + s.wrong
		sum += s.right * (right / all)
	}
	if right == 0 || right == all {
		return math.NaN(), errOneKind
	}
	return sum / right, nil
}
