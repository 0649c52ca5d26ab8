package certify

import (
	"math"
	"sort"

	"github.com/rscert/rscert/internal/binomial"
)

// survivalBand is the "cdf" certificate (Kumar et al. 2020, Theorem 2; Emde et al. 2025, eq. 13). The thresholds 0 =
// s_0 < s_1 < … < s_k < s_{k+1} = 1 are fixed beforehand. S̲ ≤ S ≤ S̄ is a confidence band for the survival function
// S(s) = P(f_A ≥ s). z is the mean of the score f_A of the class A. F, Q, R and σ are as in standardConfidence. Because
// z = ∫ P(f_A > s) ds,
//
//	z(x+δ) ≥ Σ_{j=1..k} (s_j−s_{j−1}) F(Q(S̲(s_j)) − R/σ)
//	z(x+δ) ≤ Σ_{j=0..k} (s_{j+1}−s_j) F(Q(S̄(s_j)) + R/σ),  S̄(s_0) = 1.
//
// For s in (s_{j−1}, s_j], P(f_A ≥ s) ≥ S(s_j). For s in [s_j, s_{j+1}), P(f_A > s) ≤ S(s_j). Each probability is the
// mean of an indicator, which is a score in [0, 1]. So the bound of standardConfidence on a mean score under attack
// also holds for each of these probabilities. In both sums, S(s_j) includes the scores that are equal to s_j. The upper
// sum of Emde et al. starts at j = 1. It misses the interval [0, s_1), so it is too small by up to s_1.
//
// The type does not store the samples. It only counts the samples between neighbouring thresholds.
type survivalBand struct {
	params ScoreParams
	points boundSurvival
	alpha  float64 // failure probability of each side of the band
	n      int64
	counts []int64 // counts[j] is the number of samples with a score in [s_j, s_{j+1}), where s_0 = 0
	band   []bandPoint
}

// The variable 'thresholds' holds s_1 … s_k. They are 1/(1+e^{−t}) for k equidistant t in [−13, 13]. They are densest
// near 0 and 1, where the quantile function Q is steep and most scores of confident models lie.
var thresholds = func() []float64 {
	const k = 255
	s := make([]float64, k)
	for j := range s {
		t := 26*float64(j)/(k-1) - 13
		// Unlike math.Exp, expNegative gives the same result on all platforms.
		e := expNegative(-math.Abs(t))
		if s[j] = 1 / (1 + e); t < 0 {
			s[j] = e / (1 + e)
		}
	}
	return s
}()

// cell returns the number of thresholds ≤ x.
func cell(x float64) int {
	return sort.Search(len(thresholds), func(j int) bool { return thresholds[j] > x })
}

func startSurvivalBand(a *ScoreAccumulator, _ int, alpha float64) confidence {
	return newSurvivalBand(a.attackParams(), a.example.N, alpha)
}

func newSurvivalBand(p ScoreParams, n int64, alpha float64) *survivalBand {
	return &survivalBand{
		params: p, points: bands.do(p.Confidence.Band), alpha: alpha, n: n, counts: make([]int64, len(thresholds)+1),
	}
}

func (b *survivalBand) add(x float64) { b.counts[cell(x)]++ }

// With binomialEvery = 2, the band BandBinomial uses only every second threshold. So it uses K = 127 thresholds. With
// more thresholds, the level α/K is lower and the band is wider. With fewer thresholds, the band misses the detail
// between neighbouring thresholds.
const binomialEvery = 2

// bandPoint is a threshold s with two bounds for the survival function S: S(s) ≥ low and 1 − S(s) ≥ miss.
type bandPoint struct{ s, low, miss float64 }

// boundSurvival returns the points of the band, from the smallest threshold up.
type boundSurvival func(*survivalBand) []bandPoint

// binomialPoints returns exact bounds on the survival function S and on 1−S. With K thresholds, each bound has the
// level 1−α/K, where α is the failure probability of one side of the band.
func (b *survivalBand) binomialPoints() []bandPoint {
	alpha := b.alpha / float64(len(thresholds)/binomialEvery)
	var points []bandPoint
	below := int64(0)
	for j, s := range thresholds {
		below += b.counts[j]
		if (j+1)%binomialEvery == 0 {
			points = append(points, bandPoint{s, binomial.LowerBound(b.n-below, b.n, alpha), binomial.LowerBound(below, b.n, alpha)})
		}
	}
	return points
}

// dkwPoints returns a band around the empirical survival function, with the half width √(ln(1/α)/2n). Each side fails
// with probability at most α, where α ≤ ½ (Massart 1990, Theorem 1).
func (b *survivalBand) dkwPoints() []bandPoint {
	n := float64(b.n)
	width := math.Sqrt(math.Log(1/b.alpha)/(2*n)) + 4*unit
	var points []bandPoint
	below := int64(0)
	for j, s := range thresholds {
		below += b.counts[j]
		points = append(points, bandPoint{s, float64(b.n-below)/n - width, float64(below)/n - width})
	}
	return points
}

func (b *survivalBand) bounds(i int) (lower, upper float64) {
	if b.band == nil {
		b.band = b.points(b)
	}
	l, shift := b.params.additive(), b.params.shift(b.params.Confidence.Radii[i])
	before := 0.0
	var above float64 // 1 minus the upper sum: 1 − F(Q(S̄)+R/σ) = F(Q(1−S̄)−R/σ)
	for j, p := range b.band {
		next := 1.0
		if j+1 < len(b.band) {
			next = b.band[j+1].s
		}
		lower += (p.s - before) * shiftDown(l, max(p.low, 0), shift)
		above += (next - p.s) * shiftDown(l, max(p.miss, 0), shift)
		before = p.s
	}
	// The slack covers the rounding errors in sums of fewer than 2⁹ numbers whose total is ≤ 1.
	const slack = 0x1p10 * unit
	return max(lower-slack, 0), min(1-above+slack, 1)
}
