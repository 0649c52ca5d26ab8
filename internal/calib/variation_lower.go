package calib

import "math"

// VariationLower returns a lower bound on V, the total variation of η(s) = P(y=1|s) as s goes from 0 to 1: P(V < Value)
// ≤ δ for every function η and every distribution of the scores. BinnedVariation assumes an upper limit on V. If Value
// exceeds this limit, the data refute the assumption. The data cannot confirm it.
//
// Let the sorted scores be cut into B groups of neighbouring scores. The cuts depend on the scores alone, and equal
// scores share a group. η̄_b is the mean of η over the scores of group b. Choose groups b_1 < b_2 < … < b_m, and call
// them high and low in turn. The group b_1 may be high or low. In a high group some score has η ≥ η̄_b, and in a low
// group some score has η ≤ η̄_b. These m scores are in ascending order, so
//
//	V ≥ Σ_j |η(s_{j+1}) − η(s_j)| ≥ Σ_j ±(η̄_{b_{j+1}} − η̄_{b_j}),                                       (1)
//
// where the sign is + if b_{j+1} is the high group of the two. If the chosen groups are the two ends and the turning
// points of the sequence η̄_1, …, η̄_B, the right side of (1) is Σ_b |η̄_{b+1} − η̄_b|.
//
// Given the scores, the labels are independent, and the label of score s_i is 1 with probability η(s_i). ȳ_b is the
// mean of the n_b labels of group b. VariationLower uses K partitions of the scores into groups, from coarse to fine
// (cutLevels). For each partition there are two bounds, and each of the 2K bounds fails with probability at most δ' =
// δ/(2K). Value is the largest of the 2K bounds.
//
//   - Bands. Let u_b be the largest number with kl(ȳ_b‖u_b) ≤ ln(2B/δ')/n_b. By the kl bound (Hoeffding 1963, Theorem
//     1, which allows different probabilities), η̄_b > u_b has probability at most δ'/(2B). The lower limit l_b is the
//     smallest number with kl(ȳ_b‖l_b) ≤ ln(2B/δ')/n_b, and η̄_b < l_b also has probability at most δ'/(2B). So with
//     probability at least 1 − δ', every η̄_b lies in its band [l_b, u_b]. In this case, V is at least the smallest sum
//     Σ_b |v_{b+1} − v_b| that values v_b with l_b ≤ v_b ≤ u_b can give (see leastVariation).
//   - Zigzags. For m fixed groups, the right side of (1) is Σ c_b·η̄_b. Here c_b is ±1 for the first and the last group
//     and ±2 for the others. So Σ c_b²/n_b ≤ (4m−6)/n_min, where n_min is the smallest n_b. By Hoeffding's inequality
//     (1963, Theorem 2), the event Σ c_b·ȳ_b > Σ c_b·η̄_b + t has probability at most exp(−2t²·n_min/(4m−6)). There are
//     2·binom(B, m) ways to choose m groups and to call the first one high or low. Each number m gets the share
//     1/(m(m−1)) of δ', and these shares sum to 1 over m ≥ 2. So with probability at least 1 − δ', the inequality V ≥ Σ
//     c_b·ȳ_b − t_m holds for every m and every choice of m groups. Here t_m² = (4m−6)·ln(2·binom(B,
//     m)·m(m−1)/δ')/(2·n_min).
//
// The bands are better if η is near 0 or 1. The zigzags are better if η turns often, because the errors of the ȳ_b are
// independent and partly cancel. The usual size of a group in partition k is n/2ᵏ. Both bounds use only the groups with
// at least half of this size. The scores determine these groups, and inequality (1) allows any choice of groups.
func VariationLower(s *Sample, delta float64) (LowerBound, error) {
	if err := s.check(delta); err != nil {
		return LowerBound{}, err
	}
	count := min(mostVariationCuts, partitions(s.N())-1)
	best := 0.0
	finest := s.labelGroups(uint8(max(0, count)))
	for k := 1; k <= count; k++ {
		groups := largeGroups(mergeGroups(finest, uint8(k)), float64(s.N())/math.Ldexp(2, k))
		share := delta / float64(2*count)
		best = max(best, bandVariation(groups, share), zigzagVariation(groups, share))
	}
	const roundoff = 1e-9 // at most 2¹² summands in [0, 2], each with an error below 2⁻⁵⁰
	return LowerBound{Value: max(0, best-roundoff), Delta: delta, Sound: true}, nil
}

const (
	mostVariationCuts = 10 // the finest possible partition of VariationLower has about 2¹⁰ groups
	mostZigzagPoints  = 64 // largest number m of groups in a zigzag of VariationLower
)

// A labelGroup holds the labels of neighbouring scores.
type labelGroup struct {
	level     uint8 // number of the coarsest partition with a cut just before this group
	n, labels float64
}

func (g labelGroup) mean() float64 { return g.labels / g.n }

// labelGroups returns the groups of a partition of the sample. The argument 'finest' is the number k of this partition
// (see cutLevels).
func (s *Sample) labelGroups(finest uint8) []labelGroup {
	var groups []labelGroup
	from, labels := 0, uint64(0)
	level := s.cutLevels()
	for i, p := range s.packed {
		labels += p & 1
		if i+1 == len(s.packed) || level[i+1] <= finest {
			groups = append(groups, labelGroup{level[from], float64(i + 1 - from), float64(labels)})
			from, labels = i+1, 0
		}
	}
	return groups
}

// mergeGroups merges the groups of a finer partition into the groups of partition k.
func mergeGroups(finest []labelGroup, k uint8) []labelGroup {
	var groups []labelGroup
	for _, g := range finest {
		if g.level <= k {
			groups = append(groups, g)
			continue
		}
		last := &groups[len(groups)-1]
		last.n += g.n
		last.labels += g.labels
	}
	return groups
}

// largeGroups returns the groups whose number of labels is at least the argument 'least'.
func largeGroups(groups []labelGroup, least float64) []labelGroup {
	var large []labelGroup
	for _, g := range groups {
		if g.n >= least {
			large = append(large, g)
		}
	}
	return large
}

// bandVariation returns the lower bound that the comment of VariationLower calls 'Bands'. With probability at most
// delta, this bound is above the true variation.
func bandVariation(groups []labelGroup, delta float64) float64 {
	lower, upper := make([]float64, len(groups)), make([]float64, len(groups))
	for b, g := range groups {
		budget := math.Log(2*float64(len(groups))/delta) / g.n * (1 + 1e-9)
		lower[b], upper[b] = 1-klAbove(1-g.mean(), budget), klAbove(g.mean(), budget)
	}
	return leastVariation(lower, upper)
}

// leastVariation returns the smallest Σ|v_{b+1} − v_b| over all v with lower_b ≤ v_b ≤ upper_b.
//
// For given v_b = v, let f_b(v) be the smallest sum |v_2 − v_1| + … + |v_b − v_{b−1}| over all v_1, …, v_{b−1}. There
// are a number c and an interval I inside band b such that f_b(v) = c + (the distance of v from I) for every v in band
// b. This is true for b = 1 with c = 0 and I = the first band. For every number v, inside or outside band b+1, the
// smallest value of f_b(w) + |v − w| over all w in band b is again c + (the distance of v from I). If band b+1 meets I,
// the next I is their intersection. Otherwise the next I is the end of band b+1 that is nearer to I, and c increases by
// the distance of this end from I.
func leastVariation(lower, upper []float64) float64 {
	sum, from, to := 0.0, math.Inf(-1), math.Inf(1)
	for b := range lower {
		switch l, u := lower[b], upper[b]; {
		case l > to:
			sum += l - to
			from, to = l, l
		case u < from:
			sum += from - u
			from, to = u, u
		default:
			from, to = max(from, l), min(to, u)
		}
	}
	return sum
}

// zigzagVariation returns the lower bound that the comment of VariationLower calls 'Zigzags'. With probability at most
// delta, this bound is above the true variation.
func zigzagVariation(groups []labelGroup, delta float64) float64 {
	least, means := math.Inf(1), make([]float64, len(groups))
	for b, g := range groups {
		least, means[b] = min(least, g.n), g.mean()
	}
	best := 0.0
	for i, sum := range longestZigzags(means, mostZigzagPoints) {
		m := i + 2
		logChance := math.Log(2*float64(m)*float64(m-1)/delta) + logBinomial(len(groups), m)
		best = max(best, sum-math.Sqrt(float64(4*m-6)*logChance/(2*least)*(1+1e-9)))
	}
	return best
}

// longestZigzags returns one number for each m from 2 to min(most, len(x)). This number is the largest sum Σ c_b·x_b
// that m positions b can give. The positions are in ascending order. The signs of the c_b alternate. The first and the
// last c_b are ±1, and the others are ±2.
func longestZigzags(x []float64, most int) []float64 {
	most = min(most, len(x))
	if most < 2 {
		return nil
	}
	longest := make([]float64, most-1)
	// A partial sum holds the terms at m positions, out of the positions seen so far. It is incomplete: the term of at
	// least one later position will follow. So its last c is ±1 for m = 1, and ±2 for larger m. high[m] is the largest
	// partial sum with a positive last c, and low[m] is the largest partial sum with a negative last c.
	high, low := make([]float64, most+1), make([]float64, most+1)
	for m := range high {
		high[m], low[m] = math.Inf(-1), math.Inf(-1)
		if m >= 2 {
			longest[m-2] = math.Inf(-1)
		}
	}
	for _, v := range x {
		for m := most; m >= 2; m-- {
			longest[m-2] = max(longest[m-2], low[m-1]+v, high[m-1]-v)
			high[m], low[m] = max(high[m], low[m-1]+2*v), max(low[m], high[m-1]-2*v)
		}
		high[1], low[1] = max(high[1], v), max(low[1], -v)
	}
	return longest
}

// logBinomial returns ln of the number of ways to choose m of n.
func logBinomial(n, m int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(m + 1))
	c, _ := math.Lgamma(float64(n - m + 1))
	return a - b - c
}
