package calib

import "math"

// LowerBound is a lower bound on the calibration error CE = E|s − η(s)|: P(CE < Value) ≤ Delta. The result of
// VariationLower is also a LowerBound, but it bounds the total variation of η.
type LowerBound struct {
	Value float64 `json:"value"`
	Delta float64 `json:"delta"`
	Sound bool    `json:"sound"`
}

// BettingLower returns a lower bound on the calibration error: CE ≥ Value with probability ≥ 1−δ. It needs no
// assumption.
//
// The method takes the pairs (s, y) in an order that does not depend on the data. For each pair, a function σ of the
// score guesses the sign of s − η(s). The function has |σ| ≤ 1 and is determined by the earlier pairs. Given the
// earlier pairs, X = σ(s)(s−y) ≥ −1 has the mean E[σ(s)(s−η(s))] ≤ CE. So if CE ≤ m, each factor of
//
//	M(m) = Π (1 + λ(X_i − m)),  0 ≤ λ ≤ ½,
//
// is nonnegative with conditional mean ≤ 1: M is a supermartingale that starts at 1. The method takes the average of M
// over a fixed set of values of λ and a fixed set of functions σ. This average is a supermartingale that starts at 1,
// too. By Markov's inequality the average reaches 1/δ with probability ≤ δ. The average decreases in m. The bound is
// the largest m at which the average reaches 1/δ, or 0 if there is no such m.
//
// The set has eight functions σ. Each function is constant in bins of equal width: the first function has one bin, and
// the others have 2, 4, …, 128 bins. In a bin, σ is 2z clipped to [−1, 1], where z = Σ(s−y)/√count over the earlier
// pairs of the bin. λ takes at most six values, √(2 ln(1/δ)/n)·2^j for j = 0, 1, …, 5. If a value is 0.49 or more, it
// is replaced by 0.49, and no further values follow. Each value is near the best λ for an X of standard deviation 2^−j.
//
// Two simplifications reduce the computation to one pass. First, σ changes only at the start of an epoch, so the order
// of the pairs within an epoch does not matter. The code deals the pairs to epochs at random, as the seed determines.
// Later epochs hold more pairs. Second, the code keeps only the count and the mean of s for each epoch, bin and label.
// For the pairs of one epoch, bin and label, all s−y lie in an interval of length 1/128, and ln(1+λ(σ(s−y)−m)) is
// concave in s−y. So suppose that the code moves each s−y to an end of this interval and keeps the mean of all s−y. The
// sum of these logarithms can then only fall. For the same reason the code may then replace each X by the two nearest
// points of one grid on [−1, 1], weighted so that their mean is X.
func BettingLower(s *Sample, delta float64, seed uint64) (LowerBound, error) {
	if err := s.check(delta); err != nil {
		return LowerBound{}, err
	}
	value := refutedByBets(placeBets(s.collectEpochs(seed)), s.N(), delta)
	return LowerBound{Value: value, Delta: delta, Sound: true}, nil
}

// refutedByBets returns the largest m at which the wealth (see logWealth) reaches 1/δ, or 0 if there is no such m. The
// argument n is the number of pairs.
func refutedByBets(bets *[signKinds][gridCells + 1]float64, n int, delta float64) float64 {
	lambdas := betSizes(n, delta)
	// The terms 1e-9 and n·2⁻³⁶ cover rounding errors. Scores are rounded by up to 2⁻³⁹. A sum of n logarithms, each at
	// most ln 2, is off by at most n·2⁻⁴⁰. The derivative of ln(1+λ(X−m)) in X is λ/(1+λ(X−m)) ≤ 1/(1 − λ(1+m)), which
	// is bounded for every m that largestRefuted tries.
	target := math.Log(1/delta) + 1e-9
	return largestRefuted(func(m float64) bool { return logWealth(bets, lambdas, m)-float64(n)*0x1p-36 >= target })
}

const (
	signBins  = 128 // largest number of bins of a function σ (see BettingLower)
	signKinds = 8   // number of choices of σ, with 1, 2, 4, …, signBins bins
	gridCells = 512 // number of cells of the grid on [−1, 1]
	// A bin is divided into offsetUnits units, and the position of a score in its bin is a whole number of these units.
	offsetUnits = 1 << 32
)

// tally holds two sums over the pairs of one epoch, bin and label.
type tally struct {
	count  uint64 // number of pairs
	offset uint64 // sum of the scores' positions within the bin, in units of the bin width divided by offsetUnits
}

// An epoch has a tally for each bin and label.
type epoch [signBins][2]tally

// epochSizes returns the number of pairs in each epoch. The first epochs have one pair. A later epoch has about a
// sixteenth of the number of earlier pairs.
func epochSizes(n int) []int {
	var sizes []int
	for seen := 0; seen < n; {
		size := min(1+seen/16, n-seen)
		sizes = append(sizes, size)
		seen += size
	}
	return sizes
}

// collectEpochs deals the pairs to epochs at random. Every assignment is equally likely. The function epochSizes gives
// the sizes of the epochs.
func (s *Sample) collectEpochs(seed uint64) []epoch {
	sizes := epochSizes(s.N())
	of := make([]uint16, 0, s.N())
	for e, size := range sizes {
		for range size {
			of = append(of, uint16(e))
		}
	}
	r := newStream(seed, streamBets)
	for i := len(of) - 1; i > 0; i-- {
		j := r.uniformBelow(i + 1)
		of[i], of[j] = of[j], of[i]
	}
	epochs := make([]epoch, len(sizes))
	for i, p := range s.packed {
		score, label := unpack(p)
		at := min(int(score*signBins), signBins-1)
		t := &epochs[of[i]][at][label]
		t.count++
		t.offset += min(uint64((score*signBins-float64(at))*offsetUnits), offsetUnits)
	}
	return epochs
}

// placeBets computes X = σ(s)·(s−y) for every pair and for each of the signKinds choices of the function σ (see
// BettingLower). For each choice it returns the number of values X at each point of the grid on [−1, 1].
func placeBets(epochs []epoch) *[signKinds][gridCells + 1]float64 {
	var bets [signKinds][gridCells + 1]float64
	var count, excess [signBins]float64 // number of earlier pairs in each bin, and the sum of their s−y
	for e := range epochs {
		for kind := range signKinds {
			width := signBins >> kind
			for from := 0; from < signBins; from += width {
				n, sum := 0.0, 0.0
				for at := from; at < from+width; at++ {
					n += count[at]
					sum += excess[at]
				}
				sigma := guessSign(n, sum)
				for at := from; at < from+width; at++ {
					placePairs(&bets[kind], &epochs[e], at, sigma)
				}
			}
		}
		for at := range signBins {
			for label, t := range epochs[e][at] {
				n := float64(t.count)
				count[at] += n
				excess[at] += n*(float64(at)/signBins-float64(label)) + float64(t.offset)/offsetUnits/signBins
			}
		}
	}
	return &bets
}

// guessSign returns σ for a bin that holds n earlier pairs with Σ(s−y) = sum.
func guessSign(n, sum float64) float64 {
	if n == 0 {
		return 0
	}
	return max(-1, min(1, sum/(0.5*math.Sqrt(n))))
}

// placePairs adds the pairs of one bin to the grid, at their values X = σ(s−y). It first splits each score s between
// the two ends of the bin, and then each X between the two nearest grid points. Both splits keep the mean.
func placePairs(grid *[gridCells + 1]float64, e *epoch, at int, sigma float64) {
	for label, t := range e[at] {
		if t.count == 0 {
			continue
		}
		upper := float64(t.offset) / offsetUnits
		low := float64(at)/signBins - float64(label)
		spread(grid, sigma*low, float64(t.count)-upper)
		spread(grid, sigma*(low+1.0/signBins), upper)
	}
}

func spread(grid *[gridCells + 1]float64, x, count float64) {
	u := (x + 1) * (gridCells / 2)
	k := min(max(int(u), 0), gridCells-1)
	w := u - float64(k)
	grid[k] += count * (1 - w)
	grid[k+1] += count * w
}

// betSizes returns the values of λ in BettingLower.
func betSizes(n int, delta float64) []float64 {
	var sizes []float64
	for j := range 6 {
		l := math.Ldexp(math.Sqrt(2*math.Log(1/delta)/float64(n)), j)
		sizes = append(sizes, min(l, 0.49))
		if l >= 0.49 {
			break
		}
	}
	return sizes
}

// logWealth returns the logarithm of the wealth at m. The wealth is the average of M(m) over the values of λ and the
// choices of σ (see BettingLower).
func logWealth(bets *[signKinds][gridCells + 1]float64, lambdas []float64, m float64) float64 {
	most, logs := math.Inf(-1), make([]float64, 0, signKinds*len(lambdas))
	for _, l := range lambdas {
		var factor [gridCells + 1]float64
		for k := range factor {
			factor[k] = math.Log1p(l * (float64(k)/(gridCells/2) - 1 - m))
		}
		for kind := range bets {
			sum := 0.0
			for k, count := range bets[kind] {
				sum += count * factor[k]
			}
			logs = append(logs, sum)
			most = max(most, sum)
		}
	}
	total := 0.0
	for _, x := range logs {
		total += math.Exp(x - most)
	}
	return most + math.Log(total/float64(len(logs)))
}
