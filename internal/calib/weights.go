package calib

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// WeightedSample is a Sample of pairs drawn from a population P, with importance weights. The weights describe another
// population Q. The bounds that are computed from a WeightedSample are about Q.
type WeightedSample struct {
	*Sample
	share       []float64 // weight/Bound of each pair, in [0, 1], in the order of the sample
	bound       float64   // W, an upper limit of the weights in the population
	sensitivity float64   // Γ
}

// Weighting says what is known about the weights ŵ of a WeightedSample. The density of Q with respect to P is w, and
//
//	ŵ/Γ ≤ w ≤ Γŵ,  0 ≤ ŵ ≤ W  everywhere in the population, not only at the rows of the sample.
//
// The factor Γ in these inequalities is 1 if the weights are exact.
type Weighting struct {
	Bound       float64 // W
	Sensitivity float64 // Γ
	// Estimated says that the weights were estimated from data. Bounds that are computed from estimated weights are
	// sound only if Γ is above 1 and so large that ŵ/Γ ≤ w ≤ Γŵ holds.
	Estimated bool
}

func (w Weighting) check() error {
	switch {
	case !(w.Bound > 0) || math.IsInf(w.Bound, 0):
		return fmt.Errorf("weight bound %v is not positive", w.Bound)
	case !(w.Sensitivity >= 1) || math.IsInf(w.Sensitivity, 0):
		return fmt.Errorf("sensitivity %v is below 1 or not finite", w.Sensitivity)
	case w.Bound*w.Sensitivity > 1e100: // the square of this product must be finite
		return fmt.Errorf("weight bound %v times sensitivity %v is above 1e100", w.Bound, w.Sensitivity)
	}
	return nil
}

// CheckWeights returns a *RowError for the first weight that is not in [0, bound].
func CheckWeights(weight []float64, bound float64) error {
	for i, w := range weight {
		switch {
		case !(w >= 0) || math.IsInf(w, 0):
			return &RowError{i, fmt.Sprintf("weight %v is negative or not a number", w)}
		case w > bound:
			return &RowError{i, fmt.Sprintf("weight %v is above the weight bound %v", w, bound)}
		}
	}
	return nil
}

// NewWeightedSample returns a sorted copy of the pairs and their weights. An error about a row is a *RowError.
func NewWeightedSample(score, label, weight []float64, known Weighting) (*WeightedSample, error) {
	if err := known.check(); err != nil {
		return nil, err
	}
	if len(weight) != len(score) {
		return nil, fmt.Errorf("%d scores, %d weights", len(score), len(weight))
	}
	if err := CheckWeights(weight, known.Bound); err != nil {
		return nil, err
	}
	sample, err := NewSample(score, label)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(score[a], score[b]), cmp.Compare(label[a], label[b]), cmp.Compare(weight[a], weight[b]))
	})
	s := &WeightedSample{Sample: sample, share: make([]float64, len(order)), bound: known.Bound, sensitivity: known.Sensitivity}
	for k, i := range order {
		s.share[k] = weight[i] / known.Bound
	}
	return s, nil
}

// top returns ΓW, an upper limit of w.
func (s *WeightedSample) top() float64 { return s.bound * s.sensitivity }

// The method 'each' calls the function 'visit' for each pair from the position 'from' up to, but not including, the
// position 'to'. The arguments of 'visit' are ŵ/W and s−y.
func (s *WeightedSample) each(from, to int, visit func(share, residual float64)) {
	for i := from; i < to; i++ {
		score, label := unpack(s.packed[i])
		visit(s.share[i], score-float64(label))
	}
}

// ErrNotRatios means that the weights cannot be a density ratio, whose mean in the population is 1.
var ErrNotRatios = errors.New("the weights are no density ratio")

// checkRatios returns an error that wraps ErrNotRatios if the sample refutes E_P w = 1 beyond reasonable doubt. The
// ratio w/(ΓW) lies in [0, 1], and its mean is 1/(ΓW). Let m > 1/(ΓW). By Hoeffding's Theorem 1, the mean of w/(ΓW)
// over n rows is at least m with probability at most exp(−n·kl(m ‖ 1/(ΓW))). For m < 1/(ΓW), the probability that the
// mean is at most m has the same bound. The mean of w in the sample is at least m̂/Γ and at most Γm̂, where m̂ is the
// mean of ŵ.
func (s *WeightedSample) checkRatios() error {
	top := s.top()
	if top < 1 {
		return fmt.Errorf("%w: their mean is 1, so their bound is at least 1, not %g", ErrNotRatios, top)
	}
	mean, n := 0.0, float64(s.N())
	for _, u := range s.share {
		mean += u / n
	}
	mean *= s.bound
	low, high := mean/s.sensitivity, mean*s.sensitivity
	nearest := max(low, min(high, 1))
	const doubt = 1e-9
	if math.Abs(nearest-1) > top*meanRoundoff(s.N()) && n*klBernoulli(min(1, nearest/top), 1/top) > math.Log(1/doubt) {
		return fmt.Errorf("%w: their mean is %.4g, and in the population it is 1", ErrNotRatios, mean)
	}
	return nil
}

// KeepByWeight decides at random which rows to keep. It keeps each row with probability weight/bound, independently of
// the other rows. If the rows are drawn from P and the weight is proportional to dQ/dP, the kept rows are independent
// draws from Q. So every bound for equal weights holds for the kept rows. The condition weight ≤ bound must hold in the
// whole population, but the weights need not be normalised. The decision about a row depends on its weight/bound, on
// the seed and on the row number.
func KeepByWeight(weight []float64, bound float64, seed uint64) []bool {
	r := newStream(seed, streamRejection)
	keep := make([]bool, len(weight))
	for i, w := range weight {
		keep[i] = (float64(r.next()>>11)+0.5)/(1<<53) < w/bound
	}
	return keep
}

// PoorOverlap reports whether density ratios show that few rows resemble the target population. The mean of the true
// ratios over the rows is near 1. So PoorOverlap is true if the mean of the weights is below ½ or above 2. For example,
// the mean can be this far from 1 because many ratios were above the largest allowed value and were reduced to it. It
// is also true if the effective size is below 1/20 of the rows.
func PoorOverlap(weight []float64) bool {
	n, sum := float64(len(weight)), 0.0
	for _, w := range weight {
		sum += w
	}
	return sum < n/2 || sum > 2*n || EffectiveSize(weight) < n/20
}

// EffectiveSize returns (Σw)²/Σw². Take independent values of equal variance. Their weighted mean has the same variance
// as a plain mean of EffectiveSize values. The result is 0 if all weights are 0.
func EffectiveSize(weight []float64) float64 {
	if len(weight) == 0 {
		return 0
	}
	most, sum, squares := slices.Max(weight), 0.0, 0.0
	if most == 0 {
		return 0
	}
	for _, w := range weight {
		w /= most // the squares cannot overflow
		sum += w
		squares += w * w
	}
	return sum * sum / squares
}
