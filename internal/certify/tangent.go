package certify

import "math"

// tangent bounds the confidence under attack without a band. With g(p) = Φ(Φ⁻¹(p) −
// R/σ) and S(s) = P(f_A ≥ s) at the clean input, z(x+δ) ≥ ∫ g(S(s)) ds (see survivalBand).
// g is convex, so it lies on or above its tangent at any p_0, and for any function
// S_0(s) in (0,1) that is fixed before the estimation samples
//
//	z(x+δ) ≥ ∫ [g(S_0) − S_0 g'(S_0)] ds + ∫ g'(S_0(s)) S(s) ds
//	      = C + E ψ(f_A),  ψ(x) = ∫_0^x g'(S_0(s)) ds,
//
// the mean of a bounded variable, ψ/ψ(1) in [0,1], which a MeanBound bounds at the
// full level: no band, no thresholds to share α among. With S_0 = S it is ∫ g(S) ds
// itself, the best that can be said from S; away from it the loss is of second
// order. The upper side likewise with the concave g₊(p) = Φ(Φ⁻¹(p) + R/σ).
//
// S_0 is the survival function of the selection samples' scores, each side of every
// threshold given half a sample so that 0 < S_0 < 1. Domain: R ≥ 0, σ > 0. Fewer
// selection samples make it wider, never wrong.
//
// g'(p) = φ(Φ⁻¹(p) − ρ)/φ(Φ⁻¹(p)) = exp(ρΦ⁻¹(p) − ρ²/2), ρ = R/σ, which grows with p.
type tangent struct {
	radii []tangentAt
}

// tangentAt is the pair of bounds at one radius.
type tangentAt struct {
	low, high tangentSide
}

// tangentSide is ψ/ψ(1) and C of one side.
type tangentSide struct {
	slope    []float64 // of ψ in each cell
	base     []float64 // ψ at the cell's lower end
	top      float64   // ψ(1)
	constant float64   // C
	stream   lowerMean // of ψ/ψ(1), for the upper side of 1 − ψ/ψ(1)
}

// newTangent fixes S_0 from selection scores.
func newTangent(p ScoreParams, selection []float64, start func() lowerMean) *tangent {
	counts := make([]int64, len(thresholds)+1)
	for _, x := range selection {
		counts[cell(x)]++
	}
	// S_0 on cell j, between s_j and s_{j+1}: at least the samples above the cell and
	// half of those in it.
	s0 := make([]float64, len(counts))
	var above float64
	for j := len(counts) - 1; j >= 0; j-- {
		c := float64(counts[j])
		s0[j] = (above + c/2 + 0.5) / (float64(len(selection)) + 1)
		above += c
	}
	t := &tangent{}
	for _, r := range p.Confidence.Radii {
		rho := r / p.Sigma
		t.radii = append(t.radii, tangentAt{newTangentSide(s0, -rho, start()), newTangentSide(s0, rho, start())})
	}
	return t
}

func newTangentSide(s0 []float64, shift float64, stream lowerMean) tangentSide {
	t := tangentSide{stream: stream}
	before := 0.0
	for j, p := range s0 {
		next := 1.0
		if j < len(thresholds) {
			next = thresholds[j]
		}
		z := quantileNear(p)
		p, _ = normalCDF(z) // the tangent at Φ(z), wherever near p that is
		slope := math.Exp(-shift*z - shift*shift/2)
		g := 0.5 * math.Erfc(-(z+shift)/math.Sqrt2)
		t.slope = append(t.slope, slope)
		t.base = append(t.base, t.top)
		t.constant += (next - before) * (g - p*slope)
		t.top += (next - before) * slope
		before = next
	}
	return t
}

func (t *tangentSide) value(j int, x float64) float64 {
	from := 0.0
	if j > 0 {
		from = thresholds[j-1]
	}
	return min((t.base[j]+float64(t.slope[j]*(x-from)))/t.top, 1)
}

func (t *tangent) add(x float64) {
	j := cell(x)
	for i := range t.radii {
		r := &t.radii[i]
		r.low.stream.add(r.low.value(j, x))
		r.high.stream.add(1 - r.high.value(j, x))
	}
}

// tangentSlack covers rounding, relative to ψ(1) + 1: sums of 2⁸ cells whose terms, Φ and
// exp of |z| < 40, are within 2¹⁴·unit of their values.
const tangentSlack = 0x1p24 * unit

func (t *tangent) within(i int) (lower, upper float64) {
	low, high := t.radii[i].low, t.radii[i].high
	lower = low.constant + low.top*low.stream.lower() - tangentSlack*(1+low.top)
	upper = high.constant + high.top*(1-high.stream.lower()) + tangentSlack*(1+high.top)
	return max(lower, 0), min(upper, 1)
}
