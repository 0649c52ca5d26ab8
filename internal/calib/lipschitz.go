package calib

import (
	"cmp"
	"math"
)

// Lipschitz returns an upper bound on the calibration error of a classifier whose calibration function satisfies |η(s)
// − η(s′)| ≤ L|s − s′| with L = 1/(2h). Scores perturbed by Sech with bandwidth h have such a calibration function. The
// method puts the scores into buckets. It needs no folds, because the labels are the only random variables once the
// scores S are given. Let r_i = s_i − η(s_i), and let bucket j hold n_j points.
//
//  1. The |r_i| are i.i.d. in [0, 1], so by Hoeffding's inequality, with probability
//     ≥ 1 − δ/2, CE ≤ (1/n)Σ|r_i| + √(ln(2/δ)/2n).
//  2. In bucket j, with mean r̄, Σ|r_i| ≤ |Σr_i| + Σ|r_i − r̄|, and
//     Σ|r_i − r̄| ≤ (1/n_j)ΣΣ|r_i − r_k| ≤ (1+L)(1/n_j)ΣΣ|s_i − s_k| =: (1+L)G_j.
//  3. |Σr_i| ≤ |Σ(s_i − y_i)| + |Σ(y_i − η(s_i))|. Given S, the expectation of |Σ(y_i − η(s_i))| is ≤ ½√n_j. When a
//     label changes, the sum over j changes by at most 1. So by McDiarmid's inequality, with probability ≥ 1 − ε,
//     Σ_j|Σ(y_i − η(s_i))| ≤ ½Σ√n_j + √(n ln(1/ε)/2).
//
// Together, these steps give CE ≤ (1/n)Σ_j[|Σ(s_i−y_i)| + (1+L)G_j + ½√n_j] + √(ln(1/ε)/2n) + √(ln(2/δ)/2n), for every
// partition that depends on the scores alone. Step 1 is the same for all partitions. The function tries several
// partitions, the candidates. With ε = δ/(2·number of candidates), step 3 holds for all candidates simultaneously, so
// the smallest bound is valid. (Ciosek et al. 2025, appendix E, choose another ε.)
//
// A candidate has buckets of width 1/B, for B = 1, 2, 3, 4, 6, 8, …, shifted by 0, ¼, ½ or ¾ of a bucket.
func Lipschitz(s *Sample, delta, bandwidth float64) (Bound, error) {
	if err := cmp.Or(s.check(delta), checkBandwidth(bandwidth)); err != nil {
		return Bound{}, err
	}
	n := float64(s.N())
	cells := s.cells()
	counts := bucketCounts()
	candidates := float64(len(counts) * shifts)
	l := 1 / (2 * bandwidth)
	labels := math.Sqrt(math.Log(2*candidates/delta) / (2 * n))
	scores := math.Sqrt(math.Log(2/delta) / (2 * n))

	best, bestSum := Terms(nil), math.Inf(1)
	var chosen Terms
	for _, b := range counts {
		for shift := range shifts {
			gap, spread, noise := bucketSums(cells, fineCells/b, shift*fineCells/b/shifts)
			gap, spread, noise = gap/n, spread/n*(1+l), noise/(2*n)
			if sum := gap + spread + noise; sum < bestSum {
				bestSum = sum
				best = Terms{{"gap", gap}, {"spread", spread}, {"noise", noise}, {"labels", labels}, {"scores", scores}}
				chosen = Terms{{"buckets", float64(b)}, {"shift", float64(shift) / shifts}}
			}
		}
	}
	// Sums of up to n terms in [0, 1] have a relative error of at most n·2⁻⁵³. The factor 1+L of G_j multiplies this
	// error.
	return newBound(best, chosen, delta, 8*n*0x1p-53*(1+l), true)
}

const (
	shifts = 4
	// fineCells is the number of fine cells in [0, 1]. It is divisible by shifts·B for every number of buckets B in
	// bucketCounts.
	fineCells = shifts * 3 << 15
)

// bucketCounts returns the numbers 2^k and 3·2^k up to 2¹⁵, in ascending order.
func bucketCounts() []int {
	counts := []int{1}
	for b := 2; b <= 1<<15; b *= 2 {
		counts = append(counts, b)
		if b < 1<<15 {
			counts = append(counts, b/2*3)
		}
	}
	return counts
}

// bucket holds sums over the points of a bucket. The method 'merge' adds the points of the bucket's right neighbour to
// the bucket.
type bucket struct {
	first           int // the bucket's first fine cell with points
	n, score, label float64
	pairs           float64 // Σ_{i<k} |s_i − s_k|
}

func (b *bucket) merge(right *bucket) {
	b.pairs += right.pairs + (b.n*right.score - right.n*b.score)
	b.n += right.n
	b.score += right.score
	b.label += right.label
}

// The method 'cells' divides [0, 1] into fineCells cells of equal width. It returns the cells that hold points, in
// ascending order.
func (s *Sample) cells() []bucket {
	var cells []bucket
	last := -1
	for _, p := range s.packed {
		score, label := unpack(p)
		if at := min(int(score*fineCells), fineCells-1); at != last {
			cells = append(cells, bucket{first: at})
			last = at
		}
		c := &cells[len(cells)-1]
		c.pairs += c.n*score - c.score // points come in ascending order
		c.n++
		c.score += score
		c.label += float64(label)
	}
	return cells
}

// bucketSums returns the sums Σ_j |Σ(s_i−y_i)|, Σ_j G_j and Σ_j √n_j of Lipschitz. The argument 'width' is the number
// of fine cells in a bucket. The first bucket begins 'offset' fine cells below the score 0.
func bucketSums(cells []bucket, width, offset int) (gap, spread, noise float64) {
	for i := 0; i < len(cells); {
		b := cells[i]
		end := ((b.first+offset)/width+1)*width - offset
		for i++; i < len(cells) && cells[i].first < end; i++ {
			b.merge(&cells[i])
		}
		gap += math.Abs(b.score - b.label)
		spread += max(0, 2*b.pairs/b.n) // if all scores of the bucket are equal, rounding can make b.pairs negative
		noise += math.Sqrt(b.n)
	}
	return gap, spread, noise
}
