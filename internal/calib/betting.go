package calib

import (
	"math"
	"math/bits"
)

// MeanInterval returns a confidence interval at level 1−α for the mean of n independent, identically distributed x(i) ∈
// [0, 1] (Waudby-Smith & Ramdas 2024, "hedged capital", for a fixed n).
//
// Suppose that the mean is m and that each λ_i (the bet on x_i) depends only on earlier examples. Then each of the two
// products Π(1 + λ_i(x_i − m)) and Π(1 − λ_i(x_i − m)) has expectation 1, so each product reaches 2/α with probability
// ≤ α/2 (Markov). The interval contains every m at which neither product reaches 2/α. Both products are monotone in m.
// λ_i is √(2 ln(2/α)/(n σ̂²)), where σ̂² estimates the variance. This λ_i would be the best choice if σ̂² were the true
// variance. The upper limit for λ_i is mostStake/m in the first product and mostStake/(1−m) in the second, so that no
// factor is below 1 − mostStake.
//
// The code deals the examples to rounds at random, as the seed determines. About half of the examples join the last
// round, a quarter join the round before the last, and so on. For a round, σ̂² is the variance of the examples in the
// earlier rounds. λ is constant within a round, so a histogram of the round's examples is enough. Each example is split
// between the two ends of its histogram cell. Because ln(1 ± λ(x−m)) is concave in x, the split makes this logarithm
// smaller and the interval larger. If λ is fixed, the split moves each end of the interval by at most
// 1/bettingCells.
func MeanInterval(n int, x func(i int) float64, alpha float64, seed uint64) (low, high float64) {
	rounds := dealRounds(n, x, seed)
	logTarget := math.Log(2 / alpha)
	stakes := rounds.stakes(n, logTarget)
	// The product Π(1 + λ(x−m)) decreases as m grows, so it reaches 2/α at every m below the result of bisect.
	low = bisect(func(m float64) bool { return rounds.logCapital(stakes, m, false) >= logTarget })
	high = 1 - bisect(func(m float64) bool { return rounds.logCapital(stakes, m, true) >= logTarget })
	return low, high
}

// MeanPValue returns a two-sided p-value of the hypothesis that the n independent, identically distributed x(i) ∈ [0,
// 1] have the mean m. Domain: 0 < m < 1. It uses the same λ_i as MeanInterval at level 1−α. Under the hypothesis, each
// of the two products in the comment of MeanInterval has expectation 1. So the larger product reaches 2/p with
// probability at most p (Markov).
func MeanPValue(n int, x func(i int) float64, m, alpha float64, seed uint64) float64 {
	rounds := dealRounds(n, x, seed)
	stakes := rounds.stakes(n, math.Log(2/alpha))
	most := max(rounds.logCapital(stakes, m, false), rounds.logCapital(stakes, 1-m, true))
	return min(1, 2*math.Exp(-most))
}

// bisect returns the largest m ∈ [0, 1) for which refuted(m) is true, or a number at most 2⁻⁵⁰ below it. It returns 0
// if it finds no such m. The function 'refuted' must be true up to some m and false beyond this m.
func bisect(refuted func(m float64) bool) float64 {
	lo, hi := 0.0, 1.0
	for range 50 {
		if mid := (lo + hi) / 2; refuted(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

const (
	bettingCells = 1024
	mostStake    = 0.75
	firstRound   = 8 // smallest expected size of the first round; its bets do not depend on any samples
)

// bettingRounds holds the examples of each round, as a histogram over the values k/bettingCells.
type bettingRounds [][bettingCells + 1]float64

func dealRounds(n int, x func(i int) float64, seed uint64) bettingRounds {
	last := max(0, bits.Len(uint(n/firstRound))-1)
	rounds := make(bettingRounds, last+1)
	r := newStream(seed, streamRounds)
	for i := range n {
		at := x(i) * bettingCells
		k := min(int(at), bettingCells-1)
		share := at - float64(k)
		round := &rounds[max(0, last-bits.LeadingZeros64(r.next()))]
		round[k] += 1 - share
		round[k+1] += share
	}
	return rounds
}

// stakes returns the bet λ of MeanInterval for each round, before the limit mostStake is applied.
func (b bettingRounds) stakes(n int, logTarget float64) []float64 {
	// The sums start with one artificial example of mean ½ and variance ¼, so that the estimated variance is never 0.
	count, sum, squares := 1.0, 0.5, 0.5
	out := make([]float64, len(b))
	for j := range b {
		mean := sum / count
		out[j] = math.Sqrt(2 * logTarget / (float64(n) * (squares/count - mean*mean)))
		for k, c := range b[j] {
			v := float64(k) / bettingCells
			count += c
			sum += c * v
			squares += c * v * v
		}
	}
	return out
}

// logCapital returns the logarithm of the product Π(1 + λ(x−m)) of MeanInterval. If the argument 'mirrored' is true,
// 1−x takes the place of x.
func (b bettingRounds) logCapital(stakes []float64, m float64, mirrored bool) float64 {
	sum := 0.0
	for j := range b {
		lambda := min(stakes[j], mostStake/m)
		for k, c := range b[j] {
			if c == 0 {
				continue
			}
			v := float64(k) / bettingCells
			if mirrored {
				v = 1 - v
			}
			sum += c * math.Log1p(lambda*(v-m))
		}
	}
	return sum
}
