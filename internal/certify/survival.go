package certify

import (
	"math"
	"sort"
)

// survivalBand is the "cdf" certificate (Kumar et al. 2020, Theorem 2; emde 2025,
// eq. 13). With thresholds 0 = s_0 < s_1 < … < s_k < s_{k+1} = 1 fixed beforehand and
// a band S̲ ≤ S ≤ S̄ for the survival function S(s) = P(f_A ≥ s), from z = ∫ P(f_A > s) ds:
//
//	z(x+δ) ≥ Σ_{j=1..k} (s_j−s_{j−1}) Φ(Φ⁻¹(S̲(s_j)) − R/σ)
//	z(x+δ) ≤ Σ_{j=0..k} (s_{j+1}−s_j) Φ(Φ⁻¹(S̄(s_j)) + R/σ),  S̄(s_0) = 1:
//
// on (s_{j−1}, s_j] P(f_A ≥ s) ≥ S(s_j), on [s_j, s_{j+1}) P(f_A > s) ≤ S(s_j), and each
// is the mean of an indicator, which an attack moves as it moves any score. Atoms at a
// threshold count as "≥" in both. emde's upper sum starts at j = 1: the interval [0, s_1)
// is missing from it, and it is too small by up to s_1.
//
// The counts at all thresholds are all that is kept of the samples.
type survivalBand struct {
	params ScoreParams
	n      int64
	counts []int64 // counts[j]: samples in [s_j, s_{j+1}), s_0 = 0
}

// thresholds are s_1 … s_k: 1/(1+e^{−t}), t equidistant in [−13, 13], denser toward 0
// and 1 where Φ⁻¹ magnifies and where confident models have their scores.
var thresholds = func() []float64 {
	const k = 255
	s := make([]float64, k)
	for j := range s {
		t := 26*float64(j)/(k-1) - 13
		// expNegative, so that the thresholds are the same everywhere.
		e := expNegative(-math.Abs(t))
		if s[j] = 1 / (1 + e); t < 0 {
			s[j] = e / (1 + e)
		}
	}
	return s
}()

// cell is the number of thresholds ≤ x.
func cell(x float64) int {
	return sort.Search(len(thresholds), func(j int) bool { return thresholds[j] > x })
}

func (b *survivalBand) add(x float64) { b.counts[cell(x)]++ }

// binomialEvery is the distance of the thresholds that BandBinomial uses: 63 of them.
// More thresholds cost width by ln K, fewer lose what lies between two.
const binomialEvery = 4

func (b *survivalBand) within(i int) (lower, upper float64) {
	shift := b.params.Confidence.Radii[i] / b.params.Sigma
	alpha := b.params.sideAlpha()
	n := float64(b.n)
	every := 1
	var width float64
	switch b.params.Confidence.Band {
	case BandDKW:
		// One side at level α needs √(ln(1/α)/2n), α ≤ ½ (Massart 1990, Theorem 1).
		width = math.Sqrt(math.Log(1/alpha)/(2*n)) + 4*unit
	case BandBinomial:
		every = binomialEvery
		alpha /= float64((len(thresholds)+1)/binomialEvery - 1)
	}
	// From the last threshold down; above are the samples ≥ s_j.
	above := b.counts[len(thresholds)]
	next := 1.0 // s_{j+1}
	var lowerSum, upperSum float64
	for j := len(thresholds); j >= 1; j-- {
		if j%every != 0 {
			above += b.counts[j-1]
			continue
		}
		s := thresholds[j-1]
		before := 0.0 // s_{j−1}
		if j > every {
			before = thresholds[j-1-every]
		}
		var low, miss float64 // S ≥ low, 1−S ≥ miss
		if b.params.Confidence.Band == BandDKW {
			low = max(float64(above)/n-width, 0)
			miss = max(float64(b.n-above)/n-width, 0)
		} else {
			low = LowerBound(above, b.n, alpha)
			miss = LowerBound(b.n-above, b.n, alpha)
		}
		lowerSum += (s - before) * shiftDown(low, shift)
		upperSum += (next - s) * (1 - shiftDown(miss, shift))
		next = s
		above += b.counts[j-1]
	}
	upperSum += next // S̄(0) = 1
	// Sums of fewer than 2⁹ numbers whose total is ≤ 1.
	const slack = 0x1p10 * unit
	return max(lowerSum-slack, 0), min(upperSum+slack, 1)
}
