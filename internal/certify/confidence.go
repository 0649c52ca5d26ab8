package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// A ConfidenceBound is a bound on the mean score of a class c under attack. It is a row of bounds.csv. For every δ with
// ‖δ‖ ≤ Radius, z(x+δ) = E f_c(x+δ+ε) is in [Lower, Upper].
//
// If Certified is true, c is the class A in Prediction. Everywhere within the radius, A keeps the most votes. In
// certificates by scores, A keeps the largest mean score instead. If Certified is false, c is Label, and the prediction
// is not certified. The row then says that no other class has a mean score above 1 − Lower within the radius.
//
// Each row fails with probability ≤ Alpha. The certificate uses half of Alpha. If A is the label, or the label is
// unknown, the interval of A uses the other half. Otherwise the samples decide whether a row states the interval of A
// or the interval of the label. So each of these two intervals uses a quarter of Alpha. (With the methods 'standard'
// and 'cdf', the rows of one example hold simultaneously at all radii. With the method 'tangent', the rows need not
// hold simultaneously.)
type ConfidenceBound struct {
	Index      int     `json:"index"`
	Label      int     `json:"label"`
	Prediction int     `json:"prediction"` // A, chosen by the selection samples
	Correct    bool    `json:"correct"`    // A is the label
	Certified  bool    `json:"certified"`  // A is certified within Radius
	Radius     float64 `json:"radius"`
	Lower      float64 `json:"lower"`      // rounded down
	Upper      float64 `json:"upper"`      // rounded up
	Confidence float64 `json:"confidence"` // estimated mean score of A without attack
	Method     string  `json:"method"`
	Alpha      float64 `json:"alpha"`
	Sigma      float64 `json:"sigma"`
	N          int64   `json:"n"`
	// If the method 'tangent' has no selection samples, it chooses its tangents from the first estimation samples.
	// TangentSamples is the number of these samples. N counts them. The bounds Lower and Upper use them only for this
	// choice (ConfidenceParams.TangentSamples).
	TangentSamples int64 `json:"tangent_samples,omitempty"`
}

// The type 'confidence' bounds the mean score of one class under attack. It takes the scores of this class in samples
// of noise around the clean input.
type confidence interface {
	add(x float64)
	// bounds returns the bounds at the i-th radius.
	bounds(i int) (lower, upper float64)
}

// A classInterval bounds the mean score of one class.
type classInterval struct {
	class int
	sum   float64 // sum of the class's scores
	confidence
}

func (c *classInterval) add(x float64) {
	c.sum += x
	c.confidence.add(x)
}

// startIntervals starts the intervals of A and of the label.
func (a *ScoreAccumulator) startIntervals() {
	p := a.certifier.params
	if len(p.Confidence.Radii) == 0 {
		return
	}
	classes := []int{a.class}
	if label := a.example.Label; label != UnknownLabel && label != a.class {
		classes = append(classes, label)
	}
	start := confidenceMethods.do(p.Confidence.Method)
	for _, c := range classes {
		a.intervals = append(a.intervals, classInterval{class: c, confidence: start(a, c, p.sideAlpha(len(classes)))})
	}
}

// Confidence returns the bounds at every radius, given the certificate from the same samples. If the certificate covers
// a radius, the bounds at this radius concern the certified class. Otherwise they concern the label. If the label is
// unknown, there are no bounds at this radius.
func (a *ScoreAccumulator) Confidence(cert Certificate) []ConfidenceBound {
	if len(a.intervals) == 0 {
		return nil
	}
	p := a.certifier.params
	var rows []ConfidenceBound
	for i, radius := range p.Confidence.Radii {
		certified := cert.Prediction == a.class && radius <= cert.Radius
		bounded := a.intervals[0]
		if !certified {
			bounded = a.intervals[len(a.intervals)-1]
		}
		if !certified && bounded.class != a.example.Label {
			continue
		}
		lower, upper := bounded.bounds(i)
		row := ConfidenceBound{
			Index: a.example.Index, Label: a.example.Label,
			Prediction: a.class, Correct: a.class == a.example.Label, Certified: certified,
			Radius: radius, Lower: RoundDown(max(lower, 0)), Upper: min(RoundUp(upper), 1),
			Method: p.Confidence.String(), Alpha: p.Alpha, Sigma: p.Sigma, N: a.example.N,
			TangentSamples: p.Confidence.TangentSamples(a.example.N0, a.example.N),
		}
		row.Confidence = roundNearest(a.intervals[0].sum / float64(a.example.N))
		if bounded.class == a.class {
			row.Confidence = min(max(row.Confidence, row.Lower), row.Upper)
		}
		rows = append(rows, row)
	}
	return rows
}

// selectionScores returns the scores of a class in the kept selection samples.
func (a *ScoreAccumulator) selectionScores(class int) []float64 {
	var x []float64
	for rows := a.first; len(rows) > 0; rows = rows[a.example.Classes:] {
		row := rows[:a.example.Classes]
		scale, _ := rowScale(row)
		x = append(x, float64(row[class])*scale)
	}
	return x
}

// attackParams returns a copy of the parameters with larger radii. Rounding to the lattice can lengthen a perturbation.
// The method adds the largest possible increase to each radius.
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

// startSide returns a new lowerMean. It bounds a mean from below, which gives one side of an interval.
func (a *ScoreAccumulator) startSide(alpha float64) lowerMean {
	return a.certifier.start(a.certifier.params.Confidence.Bound, a.example.N, alpha)
}

// standardConfidence bounds the mean score under attack. It begins with bounds on the mean score z without attack, z̲ ≤
// z ≤ z̄. Each of the two bounds fails with probability at most sideAlpha. Q and F are the quantile function and the
// distribution function of the noise at σ = 1. The method uses the fact that Q(z(x)) is 1/σ-Lipschitz (for Gaussian
// noise: Salman et al. 2019; Kumar et al. 2020, Theorem 1; Emde et al. 2025, eq. 12):
//
//	F(Q(z̲) − R/σ) ≤ z(x+δ) ≤ F(Q(z̄) + R/σ),  ‖δ‖ ≤ R.
//
// The papers cited above compute the bounds z̲ and z̄ by Hoeffding's bound.
type standardConfidence struct {
	params    ScoreParams
	low, high lowerMean // for X^A and for 1−X^A
}

func startStandard(a *ScoreAccumulator, _ int, alpha float64) confidence {
	return &standardConfidence{params: a.attackParams(), low: a.startSide(alpha), high: a.startSide(alpha)}
}

func (s *standardConfidence) add(x float64) {
	s.low.add(x)
	s.high.add(1 - x)
}

func (s *standardConfidence) bounds(i int) (float64, float64) {
	l, shift := s.params.additive(), s.params.shift(s.params.Confidence.Radii[i])
	// By symmetry, the upper bound for the score z is 1 minus the lower bound for the score 1−z.
	return shiftDown(l, inUnit(s.low.lower(), sampleSlack), shift), 1 - shiftDown(l, inUnit(s.high.lower(), sampleSlack), shift) + unit
}

// shiftDown returns F(Q(p) − shift) for shift ≥ 0, rounded down. F and Q are the distribution function and the quantile
// function of the law l.
func shiftDown(l law.Additive, p, shift float64) float64 {
	z := law.Low(l, p) - shift
	if math.IsInf(z, -1) {
		return 0
	}
	v, e := l.CDF(z - 8*unit*(math.Abs(z)+shift))
	return max(v*(1-e), 0)
}
