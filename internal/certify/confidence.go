package certify

import "math"

// ConfidenceBound bounds the confidence of a certified class under attack, a row of
// bounds.csv: for every δ with ‖δ‖ ≤ Radius, the mean score z(x+δ) = E f_A(x+δ+ε) of the
// class A = Prediction is in [Lower, Upper], and A is the class with the largest one.
// Both together fail with probability ≤ Alpha. (By standard and cdf the rows of one
// example hold at all radii at once; by tangent each has its own event.)
type ConfidenceBound struct {
	Index      int     `json:"index"`
	Label      int     `json:"label"`
	Prediction int     `json:"prediction"`
	Correct    bool    `json:"correct"`
	Radius     float64 `json:"radius"`
	Lower      float64 `json:"lower"`      // rounded down
	Upper      float64 `json:"upper"`      // rounded up
	Confidence float64 `json:"confidence"` // mean of the samples at the clean input
	Method     string  `json:"method"`
	Alpha      float64 `json:"alpha"`
	Sigma      float64 `json:"sigma"`
	N          int64   `json:"n"`
}

// confidence bounds E f_A under attack from the samples of f_A at the clean input.
type confidence interface {
	add(x float64)
	// bounds returns those at the i-th radius.
	bounds(i int) (lower, upper float64)
}

// Confidence returns the bounds for every radius at which the class is certified,
// given the certificate of the same samples.
func (a *ScoreAccumulator) Confidence(cert Certificate) []ConfidenceBound {
	if a.interval == nil || cert.Prediction == Abstained {
		return nil
	}
	p := a.certifier.params
	var rows []ConfidenceBound
	for i, radius := range p.Confidence.Radii {
		if radius > cert.Radius {
			continue
		}
		lower, upper := a.interval.bounds(i)
		row := ConfidenceBound{
			Index: a.example.Index, Label: a.example.Label, Prediction: cert.Prediction, Correct: cert.Correct,
			Radius: radius, Lower: RoundDown(max(lower, 0)), Upper: min(RoundUp(upper), 1),
			Method: p.Confidence.String(), Alpha: p.Alpha, Sigma: p.Sigma, N: a.example.N,
		}
		row.Confidence = min(max(roundNearest(a.sumA/float64(a.example.N)), row.Lower), row.Upper)
		rows = append(rows, row)
	}
	return rows
}

// selectionScores are the scores of A in the selection samples that were kept.
func (a *ScoreAccumulator) selectionScores() []float64 {
	var x []float64
	for rows := a.first; len(rows) > 0; rows = rows[a.example.Classes:] {
		row := rows[:a.example.Classes]
		scale, _ := rowScale(row)
		x = append(x, float64(row[a.class])*scale)
	}
	return x
}

// attackParams are the params with radii that rounding the perturbed input to the lattice
// is part of.
func (a *ScoreAccumulator) attackParams() ScoreParams {
	p := a.certifier.params
	if q := a.example.Quantisation; q > 0 {
		radii := make([]float64, len(p.Confidence.Radii))
		for i, r := range p.Confidence.Radii {
			radii[i] = math.Nextafter(r+q, math.Inf(1))
		}
		p.Confidence.Radii = radii
	}
	return p
}

// startSide begins the bound of a mean for one side of the intervals.
func (a *ScoreAccumulator) startSide() lowerMean {
	p := a.certifier.params
	return a.certifier.start(p.Confidence.Bound, a.example.N, p.sideAlpha())
}

// standardConfidence bounds z at the clean input, z̲ ≤ z ≤ z̄, each side at α/2 of the
// intervals' α, and uses that Φ⁻¹(z(x)) is 1/σ-Lipschitz (Salman et al. 2019; Kumar et
// al. 2020, Theorem 1; emde 2025, eq. 12):
//
//	Φ(Φ⁻¹(z̲) − R/σ) ≤ z(x+δ) ≤ Φ(Φ⁻¹(z̄) + R/σ),  ‖δ‖ ≤ R.
//
// The papers take Hoeffding's bound for z̲ and z̄.
type standardConfidence struct {
	params    ScoreParams
	low, high lowerMean // of X^A and of 1−X^A
}

func startStandard(a *ScoreAccumulator) confidence {
	return &standardConfidence{params: a.attackParams(), low: a.startSide(), high: a.startSide()}
}

func (s *standardConfidence) add(x float64) {
	s.low.add(x)
	s.high.add(1 - x)
}

func (s *standardConfidence) bounds(i int) (float64, float64) {
	shift := s.params.Confidence.Radii[i] / s.params.Sigma
	// By symmetry the upper side is the lower one of 1−z.
	return shiftDown(inUnit(s.low.lower(), sampleSlack), shift), 1 - shiftDown(inUnit(s.high.lower(), sampleSlack), shift) + unit
}

// shiftDown is Φ(Φ⁻¹(p) − shift) for shift ≥ 0, rounded down.
func shiftDown(p, shift float64) float64 {
	z := quantileLow(p) - shift
	if math.IsInf(z, -1) {
		return 0
	}
	v, e := normalCDF(z - 8*unit*(math.Abs(z)+shift))
	return max(v*(1-e), 0)
}
