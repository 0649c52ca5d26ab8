package calib

import (
	"fmt"
	"math"
)

// PlanSize estimates, before any labelling, how many labels an upper bound needs. It returns the smallest number of
// scores at which the bound of a calibrated classifier would be at most the argument 'gap'. The number is right to
// within about a tenth. The true error of a calibrated classifier is 0, so the distance between the bound and the true
// error is the bound itself. PlanSize ignores the labels of s. For a given number n, PlanSize draws n scores from the
// distribution of s. For each score it draws a label, and this label is 1 with a probability equal to the score. It
// takes the mean of the bounds of three such samples. To draw a score, PlanSize draws a random rank and interpolates
// linearly between the two scores of s next to this rank. Therefore drawn scores can be equal only where scores of s
// are equal, even if n exceeds the number of scores in s. The result is an estimate, not a guarantee. A classifier with
// a calibration error of c needs more labels for the bound c + gap than a calibrated classifier needs for the bound
// 'gap'.
//
// PlanSize returns an error if mostPlan labels are not enough.
func PlanSize(s *Sample, m BoundMethod, p BoundParams, gap float64) (n int, err error) {
	if err := s.check(p.Delta); err != nil {
		return 0, err
	}
	if !(gap > 0 && gap < 1) {
		return 0, fmt.Errorf("gap %v is outside (0, 1)", gap)
	}
	return smallestPlan(func(n int) (bool, error) {
		sum := 0.0
		for trial := range uint64(planTrials) {
			b, err := m.Compute(s.calibratedLike(n, p.Seed+mix64(trial)), p)
			if err != nil && n < 2*p.Folds {
				return false, nil // too few scores for the folds
			}
			if err != nil {
				return false, err
			}
			sum += b.Value
		}
		return sum <= planTrials*gap, nil
	})
}

// smallestPlan returns the smallest of the sizes leastPlan·2^{k/8} for which the function 'enough' returns true. The
// code first doubles the size until a size is enough. Then bisection between the last two sizes finds the smallest size
// that is enough.
func smallestPlan(enough func(n int) (bool, error)) (int, error) {
	size := func(k int) int { return int(leastPlan * math.Exp2(float64(k)/8)) }
	lo, hi := -1, 0
	ok, err := enough(size(hi))
	for ; err == nil && !ok; ok, err = enough(size(hi)) {
		if lo, hi = hi, hi+8; size(hi) > mostPlan {
			return 0, fmt.Errorf("more than %d labels are needed", size(lo))
		}
	}
	for err == nil && hi-lo > 1 {
		mid := (lo + hi) / 2
		if ok, err = enough(size(mid)); ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	if err != nil {
		return 0, err
	}
	return size(hi), nil
}

const (
	planTrials = 3
	leastPlan  = 64
	mostPlan   = 5_000_000
)

// calibratedLike returns n scores from the distribution of s, with labels. Each label is 1 with a probability equal to
// its score.
func (s *Sample) calibratedLike(n int, seed uint64) *Sample {
	const unit = 0x1p-53
	r := newStream(seed, streamPlan)
	packed := make([]uint64, n)
	for i := range packed {
		rank := float64(r.next()>>11) * unit * float64(s.N()-1)
		k := min(int(rank), max(0, s.N()-2))
		score, _ := unpack(s.packed[k])
		if k+1 < s.N() {
			next, _ := unpack(s.packed[k+1])
			score += (rank - float64(k)) * (next - score)
		}
		label := uint64(indicator(float64(r.next()>>11)*unit < score))
		packed[i] = math.Float64bits(min(1, score)+0)<<1 | label
	}
	sortRadix(packed)
	return &Sample{packed}
}
