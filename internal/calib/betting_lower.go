package calib

import "math"

// LowerBound is a lower bound on the calibration error CE = E|s − η(s)|: P(CE < Value) ≤ Delta.
type LowerBound struct {
	Value float64 `json:"value"`
	Delta float64 `json:"delta"`
	Sound bool    `json:"sound"`
}

// BettingLower bounds the calibration error from below, with no assumption: with probability ≥ 1−δ CE ≥ Value.
//
// The pairs come in an order that does not depend on the data. Before a pair is seen, a function σ of the score with
// |σ| ≤ 1 is made from the earlier pairs, to guess the sign of s − η(s). Then X = σ(s)(s−y) has, given the past, the
// mean E[σ(s)(s−η(s))] ≤ CE, and X ≥ −1. So if CE ≤ m, each factor of
//
//	M(m) = Π (1 + λ(X_i − m)),  0 ≤ λ ≤ ½,
//
// is nonnegative with conditional mean ≤ 1: M is a supermartingale that starts at 1, and so is the average of M over a
// fixed set of λ and of ways to make σ. By Markov's inequality it is 1/δ or more with probability ≤ δ. It descends in
// m, and the bound is the largest m where the average reaches 1/δ, 0 if none.
//
// σ is made with 1, 2, 4, … or 128 bins of equal width: z/½ clipped to [−1, 1], z = Σ(s−y)/√count over the earlier pairs
// of the bin. λ goes over √(2 ln(1/δ)/n)·2^j: the best is near that for X of standard deviation 2^−j.
//
// Two savings make it one pass. σ is made anew only at the start of an epoch, the epochs growing with the pairs
// seen; each pair belongs to an epoch by a random number of the seed, and within an epoch the order plays no part. And
// of the pairs of an epoch, a bin and a label only the count and the mean of s are kept: all their s−y lie in an
// interval of length 1/128, ln(1+λ(σ(s−y)−m)) is concave, so its sum is at least what it would be if the pairs lay at
// the interval's ends with the same mean. The same argument puts them on a grid of X common to all bins.
func BettingLower(s *Sample, delta float64, seed uint64) (LowerBound, error) {
	if err := s.check(delta); err != nil {
		return LowerBound{}, err
	}
	epochs := s.collectEpochs(seed)
	bets := placeBets(epochs)
	lambdas := betSizes(s.N(), delta)
	// Scores are rounded by up to 2⁻³⁹ and the sums of logarithms of n terms ≤ ln 2 are off by n·2⁻⁴⁰ at most; the
	// derivative of a logarithm in X is λ/(1+λ(X−m)), 1/(1 − λ(1+m)) at most, bounded for the m that are tried below.
	target := math.Log(1/delta) + 1e-9
	reached := func(m float64) bool { return logWealth(bets, lambdas, m)-float64(s.N())*0x1p-36 >= target }
	if !reached(0) {
		return LowerBound{Delta: delta, Sound: true}, nil
	}
	lo, hi := 0.0, 1.0
	for range 26 { // to 2⁻²⁶, from below
		if m := (lo + hi) / 2; reached(m) {
			lo = m
		} else {
			hi = m
		}
	}
	return LowerBound{Value: lo, Delta: delta, Sound: true}, nil
}

const (
	signBins  = 128 // finest bins of σ
	signKinds = 8   // 1, 2, 4, …, signBins bins
	gridCells = 512 // of X in [−1, 1]
	// offsetUnits is the number of steps in which a score's place in its bin is counted.
	offsetUnits = 1 << 32
)

// tally holds the pairs of one epoch, bin and label.
type tally struct {
	count  uint64
	offset uint64 // Σ of the places in the bin
}

// epoch has a tally for each bin and label.
type epoch [signBins][2]tally

// epochSizes grow like the pairs before: one pair, one pair, …, then a sixteenth of them.
func epochSizes(n int) []int {
	var sizes []int
	for seen := 0; seen < n; {
		size := min(1+seen/16, n-seen)
		sizes = append(sizes, size)
		seen += size
	}
	return sizes
}

// collectEpochs puts the pairs into epochs at random, each assignment with the same sizes equally likely.
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
		j := r.below(i + 1)
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

// placeBets gives for each kind of σ how many X there are at each place of the grid.
func placeBets(epochs []epoch) *[signKinds][gridCells + 1]float64 {
	var bets [signKinds][gridCells + 1]float64
	var count, excess [signBins]float64 // of the earlier pairs: number, Σ(s−y)
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
					place(&bets[kind], &epochs[e], at, sigma)
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

// guessSign is σ in a bin with n earlier pairs whose s−y add up to sum.
func guessSign(n, sum float64) float64 {
	if n == 0 {
		return 0
	}
	return max(-1, min(1, sum/(0.5*math.Sqrt(n))))
}

// place puts X = σ(s−y) of a bin's pairs onto the grid: first to the ends of the bin, then to the grid's nearest places
// on either side, the mean kept both times.
func place(grid *[gridCells + 1]float64, e *epoch, at int, sigma float64) {
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

// betSizes are the λ.
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

// logWealth is the logarithm of the average of M(m).
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
