package calib

import (
	"errors"
	"math"

	"github.com/rscert/rscert/internal/fixedpoint"
)

// Worst is the result of CCE: the certified calibration error and, for each bin, the sign s of its gap in the worst
// case.
type Worst struct {
	// Value is the largest calibration error over all confidences in the intervals. It is a supremum, because a bin's
	// upper edge is not in the bin.
	Value float64
	bins  Bins
	// The slice 'over' has one element for each bin and marks the bins with the sign '+'. With the confidences that
	// attain Value, the number of correct predictions in such a bin is at least the sum of their confidences. In the
	// other bins it is at most this sum.
	over []bool
}

// CCE returns the certified calibration error of Emde et al. 2025 (Definition 3.4, the mixed-integer program of eq. 6).
// This is the expected calibration error with M equal-width bins, maximised over all confidences l_n ≤ z_n ≤ u_n. Apart
// from the rounding described below, the computation is exact. It takes O(N + M²) time and O(M²) memory. The result
// bounds the calibration error under attack if every interval holds.
//
// The gap of a bin is S = Σ(c − z), where c is 1 for a correct sample and 0 for a wrong sample. |S| is the larger of S
// and −S. So N times the CCE is the maximum over signs s ∈ {±}^M of a sum over the samples. In this sum each sample
// lies in the bin where it contributes most under s. Given the signs:
//   - A correct sample counts 1 − z ≥ 0 in a '+' bin and z − 1 ≤ 0 in a '−' bin. Its best bin is the first '+' bin that
//     it reaches, at z = max(l, edge). If it reaches no '+' bin, z = u is best.
//   - A wrong sample counts z in a '−' bin and −z in a '+' bin. Its best bin is the last '−' bin that it reaches, at z
//     → min(u, next edge). If it reaches no '−' bin, z = l is best.
//
// So the contribution of the correct samples is a sum over pairs of consecutive '+' bins p' < p. The pair stands for
// the samples whose first reachable bin lies in (p', p]. So p is the first '+' bin at or after the first bin that such
// a sample reaches. The contribution of the wrong samples is a sum over pairs of consecutive '−' bins. The sum over '−'
// bins is the mirror image of the sum over '+' bins (z → 1 − z, bins in reverse order). A dynamic program visits the
// bins in order and finds the best signs. Its state is the last '+' bin and the last '−' bin before the current bin.
// One of these two is always the previous bin. One pass over the samples makes the tables of counts and sums that the
// program needs.
//
// CCE moves interval ends outward to multiples of 2⁻⁶³, computes with integers, and rounds the mean up. Let S* be the
// exact supremum of the calibration error for bins with the float64 edges of Bins. Then S* ≤ Value ≤ S* + 2⁻⁶³ + one
// unit in the last place. Value does not depend on the order of the samples.
func CCE(intervals []Bounded, bins Bins) (Worst, error) {
	return WeightedCCE(intervals, bins, RowWeights{})
}

// WeightedCCE returns the certified calibration error with weights. This error is the largest value of Σ_m|Σ_{n in bin
// m} w_n(c_n − z_n)|/Σw_n over all confidences in the intervals. A sample with a weight of j units counts like j equal
// samples. If the signs of the bins' gaps are given, j equal samples all have the same best bin and the same best
// confidence. So the maximum stays the same if each of the j samples may have its own confidence. Therefore WeightedCCE
// runs the dynamic program of CCE and counts units of weight instead of samples.
func WeightedCCE(intervals []Bounded, bins Bins, w RowWeights) (Worst, error) {
	if err := errors.Join(CheckBounded(intervals), w.check(len(intervals))); err != nil {
		return Worst{}, err
	}
	m := bins.Len()
	correct, wrong := newReached(m), newReached(m)
	for i, v := range intervals {
		first, last := bins.Index(v.Lower), bins.Index(v.Upper)
		low, high := fixedpoint.Floor(v.Lower), fixedpoint.Ceil(v.Upper)
		if v.Correct {
			correct.add(w.of(i), first, last, fixedpoint.One-low, fixedpoint.One-high)
		} else {
			wrong.add(w.of(i), m-1-last, m-1-first, high, low)
		}
	}
	gainOf, mirrored := make([]uint64, m), make([]uint64, m)
	for k := range m {
		gainOf[k] = fixedpoint.One - fixedpoint.Floor(bins.edge[k])
		mirrored[k] = fixedpoint.Ceil(bins.edge[m-k])
	}
	plus, minus := correct.gains(gainOf), wrong.gains(mirrored)
	total, over := bestSigns(m, plus.gain,
		// Mirroring turns bin q into bin m−1−q. So two consecutive '−' bins q < q1 become m−1−q1 < m−1−q.
		func(q, q1 int) fixedpoint.Sum { return minus.gain(m-1-q1, m-1-q) })
	return Worst{w.meanUp(total, len(intervals)), bins, over}, nil
}

// The type 'reached' holds sums over the correct samples, grouped by the first and the last bin that a sample reaches.
// A second value of this type holds the sums over the wrong samples, with mirrored bins and confidences.
type reached struct {
	m     int
	cell  []cell           // [M, M], by first and last bin
	start []fixedpoint.Sum // [M], by first bin: Σ(1−l)
}

type cell struct {
	n    int            // number of samples, or of units of weight
	loss fixedpoint.Sum // Σ(1−u)
}

func newReached(m int) *reached {
	return &reached{m, make([]cell, m*m), make([]fixedpoint.Sum, m)}
}

// add adds n equal samples.
func (r *reached) add(n, first, last int, gain, loss uint64) {
	c := &r.cell[first*r.m+last]
	c.n += n
	c.loss.AddProduct(n, loss)
	r.start[first].AddProduct(n, gain)
}

// The type 'gains' holds the contribution of the correct samples for each pair of consecutive '+' bins p' < p. A '+'
// bin is a bin whose gap enters the sum with the sign + (see CCE). p' = −1 means that no '+' bin comes before p, and p
// = M means that none comes after p'.
type gains struct {
	m   int
	sum []fixedpoint.Sum // matrix [M+1, M+1]; the pair (p', p) is in row p'+1 and column p
}

func (g gains) gain(p0, p int) fixedpoint.Sum { return g.sum[(p0+1)*(g.m+1)+p] }

// The method 'gains' returns a number for each pair p' < p: the contribution of the samples whose first bin is in (p',
// p]. It assumes that p is the only bin in this range with the sign '+' (see CCE). If p is the first bin that a sample
// reaches, the sample gains 1 − l, where l is the lower end of its interval. It gains gainOf[p] = 1 − e_p if p is
// another bin that it reaches; e_p is the lower edge of bin p. It loses 1 − u if it does not reach p.
func (r *reached) gains(gainOf []uint64) gains {
	m := r.m
	out := gains{m, make([]fixedpoint.Sum, (m+1)*(m+1))}
	reach := make([]int, m) // for each first bin: the number of samples with this first bin that reach bin p
	// by first bin: the sum of 1−u over the samples that do not reach p; u is the upper end of a sample's interval
	lost := make([]fixedpoint.Sum, m)
	for p := 0; p <= m; p++ {
		for first := range p {
			c := r.cell[first*m+p-1]
			reach[first] -= c.n
			lost[first] = lost[first].Add(c.loss)
		}
		var sum fixedpoint.Sum
		if p < m {
			for _, c := range r.cell[p*m : (p+1)*m] {
				reach[p] += c.n
			}
			sum = r.start[p]
			out.sum[p*(m+1)+p] = sum
		}
		for first := p - 1; first >= 0; first-- {
			if reach[first] > 0 {
				sum = sum.Add(fixedpoint.Product(reach[first], gainOf[p]))
			}
			sum = sum.Sub(lost[first])
			out.sum[first*(m+1)+p] = sum
		}
	}
	return out
}

// bestSigns maximises a sum of terms over the signs of m bins. The function 'plus' gives the term of each pair of
// consecutive '+' bins, and the function 'minus' gives the term of each pair of consecutive '−' bins. The number −1
// stands for an imaginary bin before the first bin, which counts both as '+' and as '−'. The number m stands for an
// imaginary bin after the last bin, which counts both as '+' and as '−'. bestSigns returns the maximum and which bins
// are '+'.
func bestSigns(m int, plus, minus func(from, to int) fixedpoint.Sum) (best fixedpoint.Sum, over []bool) {
	// The loop below visits the bins k. afterPlus[q+1] is the best sum if bin k−1 is '+' and the last '−' bin is q.
	// afterMinus[p+1] is the best sum if bin k−1 is '−' and the last '+' bin is p.
	afterPlus, afterMinus := make([]fixedpoint.Sum, m), make([]fixedpoint.Sum, m)
	// If bin k is '+' and bin k−1 is '−', toPlus[k] is the best choice of the last '+' bin before k. The slice toMinus
	// is the same with the signs exchanged.
	toPlus, toMinus := make([]int, m), make([]int, m)
	afterPlus[0], afterMinus[0] = plus(-1, 0), minus(-1, 0)
	toPlus[0], toMinus[0] = -1, -1
	for k := 1; k < m; k++ {
		enterPlus, p := largest(afterMinus[:k], func(p int) fixedpoint.Sum { return plus(p, k) })
		enterMinus, q := largest(afterPlus[:k], func(q int) fixedpoint.Sum { return minus(q, k) })
		stayPlus, stayMinus := plus(k-1, k), minus(k-1, k)
		for j := range k {
			afterPlus[j] = afterPlus[j].Add(stayPlus)
			afterMinus[j] = afterMinus[j].Add(stayMinus)
		}
		afterPlus[k], toPlus[k] = enterPlus, p
		afterMinus[k], toMinus[k] = enterMinus, q
	}
	best, q := largest(afterPlus, func(q int) fixedpoint.Sum { return minus(q, m) })
	bestMinus, p := largest(afterMinus, func(p int) fixedpoint.Sum { return plus(p, m) })
	best = best.Add(plus(m-1, m))
	bestMinus = bestMinus.Add(minus(m-1, m))
	sign, other := true, q
	if bestMinus.Cmp(best) > 0 {
		best, sign, other = bestMinus, false, p
	}
	// At the start of each pass of the loop below, all bins from other+1 to end−1 have the same sign. The variable
	// 'sign' is true if this sign is '+'. The bin with the number 'other' has the opposite sign.
	over = make([]bool, m)
	for end := m; end > 0; {
		for k := other + 1; k < end; k++ {
			over[k] = sign
		}
		end = other + 1
		if sign {
			other = toPlus[end]
		} else {
			other = toMinus[end]
		}
		sign = !sign
	}
	return best, over
}

// The function 'largest' returns the maximum over j of sum[j] + step(j−1), and the j−1 that attains this maximum.
func largest(sum []fixedpoint.Sum, step func(j int) fixedpoint.Sum) (best fixedpoint.Sum, at int) {
	best, at = sum[0].Add(step(-1)), -1
	for j := 1; j < len(sum); j++ {
		if s := sum[j].Add(step(j - 1)); s.Cmp(best) > 0 {
			best, at = s, j-1
		}
	}
	return best, at
}

// Confidences returns an attack: one confidence in each interval, such that the calibration error of these confidences
// is Value. If the supremum is at the open upper edge of a bin, the confidence is the largest float64 below the edge.
// So Bins.ECE of the result equals Value to within 2⁻⁵².
func (w Worst) Confidences(intervals []Bounded) []float64 {
	m := w.bins.Len()
	firstPlus := make([]int, m) // index of the first bin with the sign '+' at or after this bin; m if there is none
	lastMinus := make([]int, m) // the last bin with the sign '−' among the bins up to this one; −1 if there is none
	for k, next := m-1, m; k >= 0; k-- {
		if w.over[k] {
			next = k
		}
		firstPlus[k] = next
	}
	for k, last := 0, -1; k < m; k++ {
		if !w.over[k] {
			last = k
		}
		lastMinus[k] = last
	}
	z := make([]float64, len(intervals))
	for n, v := range intervals {
		first, last := w.bins.Index(v.Lower), w.bins.Index(v.Upper)
		if v.Correct {
			if p := firstPlus[first]; p <= last {
				z[n] = max(v.Lower, w.bins.edge[p])
			} else {
				z[n] = v.Upper
			}
			continue
		}
		switch q := lastMinus[last]; {
		case q < first:
			z[n] = v.Lower
		case q == last:
			z[n] = v.Upper
		default:
			z[n] = math.Nextafter(w.bins.edge[q+1], 0)
		}
	}
	return z
}

// CCEWithFailures returns an upper bound on the calibration error under attack if some intervals do not hold. The
// argument 'share' is the largest share of the weight that the predictions with failed intervals can have
// (RowWeights.LargestShare). Suppose that each failed prediction is replaced by a prediction with the certified
// correctness and a confidence in the interval. The resulting predictions lie in their intervals, so their error is at
// most the CCE. The replacement of a prediction with the weight w takes a gap w|c − z| ≤ w out of one bin and puts a
// gap ≤ w into the same or another bin. So the replacement changes the error by at most twice the prediction's share of
// the weight. The result is rounded up.
func CCEWithFailures(cce, share float64) float64 { return min(1, math.Nextafter(cce+2*share, 4)) }
