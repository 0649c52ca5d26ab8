package calib

import "math"

// MixtureLower returns a lower bound on the calibration error: CE ≥ Value with probability ≥ 1−δ. It needs no
// assumption. For each m, BettingLower and signMixture bet against the hypothesis CE ≤ m, each with a starting wealth
// of 1. MixtureLower averages their final wealths. If CE ≤ m, both wealths have an expectation of at most 1, and so has
// their mean. By Markov's inequality the mean reaches 1/δ with probability ≤ δ. The mean decreases in m. Value is the
// largest m at which the mean reaches 1/δ, rounded down, or 0 if there is no such m. The logarithm of the mean is at
// most ln 2 below the logarithm of the larger wealth. If the scores crowd together, as scores of rare events do,
// BettingLower puts them into one bin, and signMixture is much better.
func MixtureLower(s *Sample, delta float64, seed uint64) (LowerBound, error) {
	if err := s.check(delta); err != nil {
		return LowerBound{}, err
	}
	bets, lambdas := placeBets(s.collectEpochs(seed)), betSizes(s.N(), delta)
	mixture := s.mixSigns(delta)
	// The term 1e-9 and the variable 'rounding' cover rounding errors, as in refutedByBets.
	target, rounding := math.Log(1/delta)+1e-9, float64(s.N())*0x1p-36
	return LowerBound{Value: largestRefuted(func(m float64) bool {
		return logMean([]float64{logWealth(bets, lambdas, m) - rounding, mixture.logWealth(m)}) >= target
	}), Delta: delta, Sound: true}, nil
}

// largestRefuted returns the largest m ∈ [0, 1) for which reached(m) is true, rounded down by at most 2⁻²⁶. If
// reached(0) is false, it returns 0. The function 'reached' must be true up to some m and false beyond this m.
func largestRefuted(reached func(m float64) bool) float64 {
	if !reached(0) {
		return 0
	}
	lo, hi := 0.0, 1.0
	for range 26 { // lo approaches the largest m from below
		if m := (lo + hi) / 2; reached(m) {
			lo = m
		} else {
			hi = m
		}
	}
	return lo
}

// signMixture computes a wealth that depends neither on the order of the pairs nor on a seed. Let ε_i = ±1 be signs
// that may depend on all scores, but not on the labels. Let r_i = s_i − y_i. Given the scores, the r_i are independent
// with means d_i = s_i − η(s_i). For 0 ≤ ν < 1,
//
//	E Π(1+ν·ε_i·r_i) = E Π(1+ν·ε_i·d_i) ≤ E Π(1+ν|d_i|) = (1+ν·CE)ⁿ.
//
// So Π(1+ν·ε_i·r_i)/(1+νm)ⁿ has an expectation of at most 1 if CE ≤ m. (Each factor is 1+λ(ε_i·r_i−m) with λ =
// ν/(1+νm).) Any average over ν and ε also has an expectation of at most 1. The signs are constant in each bin of a
// partition of the sorted scores into 1, 2, 4, …, 128 bins of equal counts. A path is one sign ε_b for each bin b. In
// the average, the weight of a path is its probability under a Markov chain. The first sign is 1 or −1 with probability
// ½ each. From each bin to the next, the sign changes with probability θ. For B bins, the average uses both θ = ½ and θ
// = 1/B. For one bin, θ is ½. The forward algorithm adds up all paths in O(B):
//
//	F_b(ε) = Q_b(ε)·[(1−θ)·F_{b−1}(ε) + θ·F_{b−1}(−ε)],  Q_b(ε) = Π_{i∈b} (1+ν·ε·r_i).
//
// The logarithm of the average over paths does not depend on m, so the code computes it once for each ν, partition and
// θ.
type signMixture struct {
	n    float64
	nu   []float64
	logs [][]float64 // for each ν: the logarithms of the averages over the paths, one for each partition and θ
}

const (
	mixtureLevels = 8    // partitions into 1, 2, 4, …, 128 bins
	mostMixtureNu = 0.95 // largest ν; with it each factor 1+ν·ε·r is at least 0.05
)

// mixtureSizes returns the values of ν: the numbers √(2 ln(1/δ)/n)·2^j, j = 0, 1, …, that are below mostMixtureNu, and
// mostMixtureNu itself.
func mixtureSizes(n int, delta float64) []float64 {
	var sizes []float64
	for nu := math.Sqrt(2 * math.Log(1/delta) / float64(n)); nu < mostMixtureNu; nu *= 2 {
		sizes = append(sizes, nu)
	}
	return append(sizes, mostMixtureNu)
}

// mixSigns returns a signMixture with the logarithms of the averages over paths (see signMixture).
func (s *Sample) mixSigns(delta float64) signMixture {
	m := signMixture{n: float64(s.N()), nu: mixtureSizes(s.N(), delta)}
	level := s.cutLevels()
	levels := min(mixtureLevels, partitions(s.N()))
	for _, nu := range m.nu {
		finest := s.pathBins(level, uint8(levels-1), nu)
		var logs []float64
		for k := range levels {
			bins := mergeSigns(finest, uint8(k))
			logs = append(logs, logSignPaths(bins, 0.5), logSignPaths(bins, min(0.5, 1/float64(len(bins)))))
		}
		m.logs = append(m.logs, logs)
	}
	return m
}

// signBin holds ln Q_b(1) and ln Q_b(−1) of signMixture.
type signBin struct {
	level       uint8 // as in the type 'bin'
	plus, minus float64
}

// pathBins puts the sorted pairs into bins, and returns the bins. A new bin begins at each pair i with level[i] ≤
// finest. The argument 'nu' is ν.
func (s *Sample) pathBins(level []uint8, finest uint8, nu float64) []signBin {
	// number of factors that are multiplied before ln is taken; each factor is between 0.05 and 2, and 0.05⁶⁴ and 2⁶⁴
	// are far from the limits of float64s
	const chunk = 64
	var bins []signBin
	plus, minus := 1.0, 1.0
	flush := func() {
		if len(bins) > 0 {
			b := &bins[len(bins)-1]
			b.plus += math.Log(plus)
			b.minus += math.Log(minus)
		}
		plus, minus = 1, 1
	}
	for i, p := range s.packed {
		if level[i] <= finest {
			flush()
			bins = append(bins, signBin{level: level[i]})
		} else if i%chunk == 0 {
			flush()
		}
		score, label := unpack(p)
		r := nu * (score - float64(label))
		plus *= 1 + r
		minus *= 1 - r
	}
	flush()
	return bins
}

// mergeSigns merges the bins in 'finest' into larger bins, which are separated only by the cuts with level ≤ k.
func mergeSigns(finest []signBin, k uint8) []signBin {
	var bins []signBin
	for _, b := range finest {
		if b.level <= k {
			bins = append(bins, b)
			continue
		}
		last := &bins[len(bins)-1]
		last.plus += b.plus
		last.minus += b.minus
	}
	return bins
}

// logSignPaths returns the logarithm of the average over paths of signs, by the forward algorithm.
func logSignPaths(bins []signBin, theta float64) float64 {
	plus, minus := math.Log(0.5), math.Log(0.5) // ln F before the first bin: both signs have the probability ½
	for i, b := range bins {
		p, m := plus, minus
		if i > 0 {
			p, m = logMix(plus, minus, theta), logMix(minus, plus, theta)
		}
		plus, minus = p+b.plus, m+b.minus
	}
	return math.Ln2 + logMean([]float64{plus, minus})
}

// logMix returns ln((1−θ)e^a + θe^b).
func logMix(a, b, theta float64) float64 {
	most := max(a, b)
	return most + math.Log((1-theta)*math.Exp(a-most)+theta*math.Exp(b-most))
}

// logWealth returns the logarithm of the average wealth at m, rounded down.
func (w signMixture) logWealth(m float64) float64 {
	var logs []float64
	for i, nu := range w.nu {
		logs = append(logs, logMean(w.logs[i])-w.n*math.Log1p(nu*m))
	}
	// The logarithms have three sources of rounding error: the products of up to 64 factors, the sums of the logarithms
	// of these products, and the term n·ln(1+νm). Each source contributes an error of at most n·2⁻⁴⁸.
	return logMean(logs) - w.n*0x1p-46 - 1e-9
}
