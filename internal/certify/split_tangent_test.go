package certify

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Two examples have the same samples. The first example has no selection samples. In the second example, the first k
// samples are the selection samples. Both examples must get the same bounds.
func TestTangentTakesTheFirstSamples(t *testing.T) {
	const n, k = 200, 10
	c := mustConfidence(t, ConfidenceTangent)
	scores := make([]float32, 2*n)
	r := rand.New(rand.NewPCG(4, 1))
	for i := range n {
		scores[2*i] = float32(math.Sqrt(r.Float64()))
		scores[2*i+1] = 1 - scores[2*i]
	}
	bounds := func(n0 int) []ConfidenceBound {
		a, err := c.Start(ScoreExample{Label: 0, Classes: 2, N0: int64(n0), N: int64(n - n0)})
		if err == nil {
			err = a.Selection(scores[:2*n0])
		}
		if err == nil {
			err = a.Estimation(scores[2*n0:])
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.Confidence(Certificate{Prediction: 0, Radius: 10})
	}
	split, told := bounds(0), bounds(k)
	for i, b := range split {
		if b.Lower != told[i].Lower || b.Upper != told[i].Upper {
			t.Errorf("R = %v: [%v, %v], with the first %d as selection samples [%v, %v]", b.Radius, b.Lower, b.Upper, k, told[i].Lower, told[i].Upper)
		}
		if b.TangentSamples != k || b.N != n || told[i].TangentSamples != 0 {
			t.Errorf("row %+v", b)
		}
	}
}

// TangentSamples returns a twentieth of the samples, but at least 1 and at most 1,024. It returns 0 in four cases:
// there is only one sample, there are selection samples, no radii are given, or the method is not 'tangent'.
func TestTangentSamples(t *testing.T) {
	p := ConfidenceParams{Radii: []float64{0.1}, Method: ConfidenceTangent}
	for n, want := range map[int64]int64{1: 0, 2: 1, 39: 1, 40: 2, 1000: 50, 20480: 1024, 100000: 1024} {
		if got := p.TangentSamples(0, n); got != want {
			t.Errorf("n = %d: %d samples, want %d", n, got, want)
		}
	}
	if got := p.TangentSamples(1, 1000); got != 0 {
		t.Errorf("%d of the estimation samples beside a selection sample", got)
	}
	for _, p := range []ConfidenceParams{{Radii: p.Radii, Method: ConfidenceStandard}, {Method: ConfidenceTangent}} {
		if got := p.TangentSamples(0, 1000); got != 0 {
			t.Errorf("%+v: %d samples", p, got)
		}
	}
}

// Without selection samples, the intervals of the method 'tangent' are at most 10% wider than with 100 selection
// samples. They are at least 10% narrower than the intervals of the method 'standard'. The test compares sums of
// widths.
func TestTangentWithoutSelectionIsNarrow(t *testing.T) {
	width := func(m ConfidenceMethod, n0 int) (sum float64) {
		c := mustConfidence(t, m)
		for _, s := range stepModels {
			for _, b := range s.bounds(t, c, rand.New(rand.NewPCG(3, 9)), n0, 2000) {
				sum += b.Upper - b.Lower
			}
		}
		return sum
	}
	split, told, standard := width(ConfidenceTangent, 0), width(ConfidenceTangent, 100), width(ConfidenceStandard, 0)
	t.Logf("sum of widths: tangent %.3f, with 100 selection samples %.3f, standard %.3f", split, told, standard)
	if split > 1.1*told || split > 0.9*standard {
		t.Errorf("sum of widths %.3f, with 100 selection samples %.3f, standard %.3f", split, told, standard)
	}
}

// A single sample cannot both fix the function of the method 'tangent' and enter the mean. So for n = 1 without
// selection samples, TangentSamples must be 0, the lower bound must be at most 0.1, and the upper bound must be at
// least 0.9.
func TestTangentOfOneSample(t *testing.T) {
	c := mustConfidence(t, ConfidenceTangent)
	for _, b := range stepModels[0].bounds(t, c, rand.New(rand.NewPCG(1, 1)), 0, 1) {
		if b.Lower > 0.1 || b.Upper < 0.9 || b.TangentSamples != 0 {
			t.Errorf("row %+v", b)
		}
	}
}

func mustConfidence(t *testing.T, m ConfidenceMethod) *ScoreCertifier {
	t.Helper()
	c, err := NewScoreCertifier(ScoreParams{
		Target: Target{Class: Label, Alpha: 0.01, Sigma: 0.5}, Confidence: ConfidenceParams{Radii: confidenceRadii, Method: m},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
