package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// tangent is a method that bounds the confidence under attack. It needs no confidence band. F, Q and f are the
// distribution function, the quantile function and the density of the noise at σ = 1, and R is the radius. Let g(p) =
// F(Q(p) − R/σ) and S(s) = P(f_A ≥ s) without attack. Then z(x+δ) ≥ ∫ g(S(s)) ds (see survivalBand). g is convex, so g
// lies on or above its tangent at any p_0. For any function S_0(s) in (0,1) that is fixed before the estimation
// samples,
//
//	z(x+δ) ≥ ∫ [g(S_0) − S_0 g'(S_0)] ds + ∫ g'(S_0(s)) S(s) ds
//	      = C + E ψ(f_A),  ψ(x) = ∫_0^x g'(S_0(s)) ds.
//
// ψ/ψ(1) is in [0,1], so a MeanBound bounds the mean of ψ(f_A)/ψ(1) at the full level. The method 'tangent' needs no
// confidence band, and α is not divided among thresholds. For S_0 = S the bound is ∫ g(S) ds, the best possible bound
// from S. For other S_0 the bound is worse by a term of second order in S_0 − S. The upper bound follows in the same
// way from the concave function g₊(p) = F(Q(p) + R/σ).
//
// S_0 is the survival function of the selection samples' scores. S_0 counts κ additional samples on either side of
// every threshold, so that 0 < S_0 < 1. κ is the element of kappas with the best predicted bound. A larger κ narrows
// the range of slopes of ψ. A narrow range is better if there are few estimation samples. With fewer selection samples
// the bound is wider, but still valid. Domain: R ≥ 0, σ > 0.
//
// g'(p) = f(Q(p) − ρ)/f(Q(p)), ρ = R/σ. g' grows with p because f is log-concave.
//
// If there are no selection samples, splitTangent computes the bound.
type tangent struct {
	radii []tangentAt
}

// tangentAt describes the lower and the upper bound at one radius.
type tangentAt struct {
	low, high tangentSide
}

// tangentSide holds ψ/ψ(1) and C (see the type 'tangent') for one side of the interval.
type tangentSide struct {
	slope    []float64 // slope of ψ in each cell
	base     []float64 // ψ at the cell's lower end
	top      float64   // ψ(1)
	constant float64   // C
	stream   lowerMean // bound on the mean of ψ/ψ(1), or of 1 − ψ/ψ(1) for the upper side
}

// kappas are the values of κ that newTangent tries: numbers of additional samples that it counts on either side of each
// threshold (see the type 'tangent').
var kappas = []float64{0.5, 2, 8, 32}

func startTangent(a *ScoreAccumulator, class int, alpha float64) confidence {
	if k := a.certifier.params.Confidence.TangentSamples(a.example.N0, a.example.N); k > 0 {
		return newSplitTangent(a, k, alpha)
	}
	start := func() lowerMean { return a.startSide(alpha) }
	return newTangent(a.attackParams(), a.selectionScores(class), a.example.N, alpha, start)
}

// newTangent computes S_0 from the scores in the argument 'selection'. The function 'start' returns a new bound on the
// mean of n samples, at level 1−α.
func newTangent(p ScoreParams, selection []float64, n int64, alpha float64, start func() lowerMean) *tangent {
	counts := make([]float64, len(thresholds)+1)
	for _, x := range selection {
		counts[cell(x)]++
	}
	l, log := p.additive(), math.Log(1/alpha)/float64(n)
	t := &tangent{}
	for _, r := range p.Confidence.Radii {
		rho := p.shift(r)
		var at tangentAt
		best := [2]float64{math.Inf(-1), math.Inf(-1)}
		for _, k := range kappas {
			s0 := survivalGuess(counts, float64(len(selection)), k)
			low, high := newTangentSide(l, s0, -rho), newTangentSide(l, s0, rho)
			first := k == kappas[0]
			if v := low.constant + low.top*low.guess(counts, false, log); v > best[0] || first {
				best[0], at.low = v, low
			}
			if v := -high.constant - high.top*(1-high.guess(counts, true, log)); v > best[1] || first {
				best[1], at.high = v, high
			}
		}
		at.low.stream, at.high.stream = start(), start()
		t.radii = append(t.radii, at)
	}
	return t
}

// survivalGuess returns S_0 on every cell. S_0 is the share of samples above the cell, where half of the samples in the
// cell count as above. Of 2κ additional samples, κ count as above and κ as below.
func survivalGuess(counts []float64, n, kappa float64) []float64 {
	s0 := make([]float64, len(counts))
	var above float64
	for j := len(counts) - 1; j >= 0; j-- {
		s0[j] = (above + counts[j]/2 + kappa) / (n + 2*kappa)
		above += counts[j]
	}
	return s0
}

// guess predicts the lower bound on the mean of ψ/ψ(1) by the formula of the function 'weight'. The prediction assumes
// that the estimation samples are like the selection samples. If 'complement' is true, guess predicts the lower bound
// on the mean of 1 − ψ/ψ(1) instead. The argument 'log' is ln(1/α)/n.
func (t *tangentSide) guess(counts []float64, complement bool, log float64) float64 {
	var n, sum, squares float64
	for j, c := range counts {
		if c == 0 {
			continue
		}
		y := t.value(j, (lowerEdge(j)+upperEdge(j))/2)
		if complement {
			y = 1 - y
		}
		n += c
		sum += c * y
		squares += c * y * y
	}
	if n == 0 {
		return 0
	}
	mean := sum / n
	return max(mean-math.Sqrt(2*max(squares/n-mean*mean, 0)*log)-mean*log, 0)
}

// lowerEdge and upperEdge return the ends of cell j.
func lowerEdge(j int) float64 {
	if j == 0 {
		return 0
	}
	return thresholds[j-1]
}

func upperEdge(j int) float64 {
	if j == len(thresholds) {
		return 1
	}
	return thresholds[j]
}

func newTangentSide(l law.Additive, s0 []float64, shift float64) tangentSide {
	var t tangentSide
	for j, p := range s0 {
		width := upperEdge(j) - lowerEdge(j)
		z := l.Quantile(p)
		p, _ = l.CDF(z) // the tangent touches g at F(z), which is near p
		slope := l.Slope(z, shift)
		g, _ := l.CDF(z + shift)
		t.slope = append(t.slope, slope)
		t.base = append(t.base, t.top)
		t.constant += width * (g - p*slope)
		t.top += width * slope
	}
	return t
}

// If ψ(1) is below 'flat', the code does not divide by ψ(1), but uses 0 for ψ/ψ(1). Such a ψ(1) occurs at radii of tens
// of σ. It is 0 by underflow, or far below tangentSlack.
const flat = 1e-200

func (t *tangentSide) value(j int, x float64) float64 {
	if t.top < flat {
		return 0
	}
	return min((t.base[j]+float64(t.slope[j]*(x-lowerEdge(j))))/t.top, 1)
}

func (t *tangent) add(x float64) {
	j := cell(x)
	for i := range t.radii {
		r := &t.radii[i]
		r.low.stream.add(r.low.value(j, x))
		r.high.stream.add(1 - r.high.value(j, x))
	}
}

// tangentSlack is a bound on the rounding errors relative to ψ(1) + 1. The sums have one term for each of 2⁸ cells. The
// terms contain Φ and exp at |z| < 40, and are within 2¹⁴·unit of the exact values.
const tangentSlack = 0x1p24 * unit

func (t *tangent) bounds(i int) (lower, upper float64) {
	low, high := t.radii[i].low, t.radii[i].high
	lower = low.constant + low.top*low.stream.lower() - tangentSlack*(1+low.top)
	upper = high.constant + high.top*(1-high.stream.lower()) + tangentSlack*(1+high.top)
	return max(lower, 0), min(upper, 1)
}
