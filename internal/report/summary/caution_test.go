package summary

import (
	"slices"
	"strings"
	"testing"
)

// The 95 % Clopper–Pearson interval of 52/105 is [0.396, 0.595] (R: binom.test(52, 105)), which is narrower than 0.2.
// The interval of 50/100 is [0.398, 0.602], which is wider. 1000 unanimous samples at α = 0.001 certify a radius of at
// most σ·Φ⁻¹(0.001^(1/1000)) = 0.5·2.462.
func TestCautions(t *testing.T) {
	for _, test := range []struct {
		n     int
		radii []float64
		want  []string
	}{
		{100, nil, []string{FewExamples}},
		{105, nil, nil},
		{105, []float64{1.2, 1.25}, []string{FewSamples}},
		{105, []float64{1.2}, nil},
		{10, []float64{2, 0, 1.25, 2}, []string{FewExamples, FewSamples}},
	} {
		s := Source{Path: "a"}
		for i := range test.n {
			c := cert(i, 1, 1, 0.2)
			c.N, c.Alpha, c.Sigma = 1000, 0.001, 0.5
			s.Certificates = append(s.Certificates, c)
		}
		o := Default()
		o.Radii = test.radii
		var codes []string
		sum := mustNew(t, s, o)
		for _, c := range sum.Cautions {
			codes = append(codes, c.Code)
		}
		if !slices.Equal(codes, test.want) {
			t.Errorf("%d examples, radii %v: %+v, want %v", test.n, test.radii, sum.Cautions, test.want)
		}
		if n := len(test.want); n == 2 && !strings.HasSuffix(sum.Cautions[1].Says, "the accuracy at 1.25, 2 is 0.") {
			t.Errorf("%+v", sum.Cautions[1])
		}
	}
	if got := (Summary{Examples: 200, Level: 0.95}).cautions([]float64{9}); got != nil {
		t.Errorf("the largest radius is unknown: %+v", got)
	}
}
