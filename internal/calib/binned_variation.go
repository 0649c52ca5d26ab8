package calib

import (
	"fmt"
	"math"
	"slices"
)

// BinnedVariation returns an upper bound on the calibration error of a classifier if its calibration function η has a
// total variation of at most V. For a monotone η, V = 1 is enough. With probability ≥ 1−δ, for any distribution of
// scores, atoms included,
//
//	CE ≤ min_k A_k + t,  A_k = (1/n)Σ|s_i − ȳ_{b(i)}| + R_k
//
// where k runs over partitions of the sorted scores into bins b. The partitions depend on the scores alone. ȳ_b is the
// mean label of a bin. t is the concentration step of oneStep, and it is the same for all partitions. The method needs
// no folds and no smoother.
//
// The remainder R_k bounds (1/n)Σ|η_i − η̄_b|. Here η_i = η(s_i), and η̄_b is the mean of the η_i in the bin. Let a bin
// hold a share p_b of the scores, and let η vary by V_b within the bin. The mean absolute deviation of the bin's η_i is
// convex in the values of η at the bin's distinct scores. So the deviation is largest if each value is at an end of an
// interval of length V_b. The largest deviation is 2q(1−q)V_b, where q is the share of the bin's scores at which η is
// at the upper end. Because q(1−q) ≤ ¼, this deviation is at most V_b/2. If a single score has a share w > ½ of the
// bin, the deviation is at most 2w(1−w)V_b. The deviation is 0 if the bin has only this score. Let g_b be 2p_b·w(1−w)
// if the bin has such a score, and p_b/2 otherwise. Because V_b ≤ 1 and ΣV_b ≤ V, this gives
//
//	R_k = max Σ g_b·V_b = the sum of the ⌊V⌋ largest g_b + (V−⌊V⌋) times the next largest g_b.
//
// The field OfSample of the result bounds (1/n)Σ|s_i − η(s_i)|, the error of this data set. For this bound the scores
// are fixed and only the labels are random.
//
// No data can confirm that the total variation is at most V. This is an assumption.
func BinnedVariation(s *Sample, delta, variation float64) (Bound, error) {
	if err := checkVariation(s, delta, variation); err != nil {
		return Bound{}, err
	}
	step := newOneStep(s, delta, partitions(s.N()))
	best := candidate{gap: math.Inf(1)}
	s.eachPartition(func(_ int, bins []bin) {
		remainder := variationRemainder(bins, variation) / float64(s.N())
		if remainder < best.sum() {
			best.keepLess(candidate{gap: s.meanGap(bins), remainder: remainder, bins: len(bins)})
		}
	})
	return step.bound(best, "variation", delta, true)
}

func checkVariation(s *Sample, delta, variation float64) error {
	if err := s.check(delta); err != nil {
		return err
	}
	if !(variation >= 0) || math.IsInf(variation, 0) {
		return fmt.Errorf("variation %v is negative or not finite", variation)
	}
	return nil
}

// variationRemainder returns n·R_k.
func variationRemainder(bins []bin, variation float64) float64 {
	if variation <= 1 {
		most := 0.0
		for i := range bins {
			most = max(most, bins[i].deviation())
		}
		return variation * most
	}
	weights := make([]float64, len(bins))
	for i := range bins {
		weights[i] = bins[i].deviation()
	}
	return sumOfLargest(weights, variation)
}

// sumOfLargest returns the largest Σ w_i·v_i over 0 ≤ v_i ≤ 1 with Σ v_i ≤ total. This maximum is the sum of the
// ⌊total⌋ largest weights plus total−⌊total⌋ times the next largest weight. The weights must be at least 0.
// sumOfLargest sorts the slice of weights.
func sumOfLargest(weights []float64, total float64) float64 {
	slices.Sort(weights)
	sum := 0.0
	for i := len(weights) - 1; i >= 0 && total > 0; i-- {
		sum += min(1, total) * weights[i]
		total--
	}
	return sum
}

// deviation returns n·g_b of BinnedVariation, where n is the number of scores in the sample. Give each score of the bin
// a value in [0, 1], and give equal scores equal values. Then n·g_b is an upper bound on the sum of the absolute
// deviations of these values from their mean.
func (b *bin) deviation() float64 {
	if tie := float64(b.tie); tie > b.n/2 {
		return 2 * tie * (b.n - tie) / b.n
	}
	return b.n / 2
}

// A candidate holds the mean gap and the remainder of one partition k. The sum of the two is A_k of BinnedVariation.
type candidate struct {
	gap, remainder float64
	bins           int
}

func (c candidate) sum() float64 { return c.gap + c.remainder }

// keepLess replaces c by d if d has the smaller sum.
func (c *candidate) keepLess(d candidate) {
	if d.sum() < c.sum() {
		*c = d
	}
}

// bound returns the Bound that follows from the argument 'best', the candidate with the smallest sum. The argument
// 'remainder' is the name that the remainder term gets in the result, for example "variation". The argument 'means' is
// true if bin means were fitted, and false if lines were fitted.
func (o oneStep) bound(best candidate, remainder string, delta float64, means bool) (Bound, error) {
	value := o.population(best.sum(), means)
	order := 1.0
	if !means {
		order = 2
	}
	terms := Terms{{"gap", best.gap}, {remainder, best.remainder}, {"concentration", max(0, value-best.sum())}}
	chosen := Terms{{"bins", float64(best.bins)}, {"order", order}, {"brier", o.brier}}
	eps := binnedRoundoff(o.n)
	b, err := newBound(terms, chosen, delta, eps, true)
	b.OfSample = min(1, o.sample(best.sum(), means)+eps)
	return b, err
}

// binnedRoundoff returns a bound on the rounding error of A_k in BinnedVariation and BinnedLipschitz. Sums of n numbers
// in [0, 1] and the means of bins have a relative error of n·2⁻⁵³. A line fitted in a bin of standard deviation ≥ 2⁻²⁰
// has a relative error of a few times 2²⁰·2⁻⁵³.
func binnedRoundoff(n float64) float64 { return 1e-9 + 8*n*0x1p-53 }
