package conformal

import (
	"math"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/law"
)

// The figures of shared/MATH.md, section 16, for rho = 1 and a = 0.05.
func TestWeightsReference(t *testing.T) {
	g := newTarget(law.Gaussian, 1, 1, 1, 1)
	for degree, want := range map[int]float64{2: 0.7955, 8: 0.8947, 32: 0.9195, 64: 0} {
		begin := time.Now()
		b, slack, err := bestWeights(g, degree, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(degree, b.mean(0.05), slack, time.Since(begin), b.weights())
		if got := b.mean(0.05); math.Abs(got-want) > 1e-4 {
			t.Errorf("degree %d: %v, want %v", degree, got, want)
		}
	}
	b, _, err := slackened(newPolynomial(tangentWeights(g, 1, 0.05)), g)
	if got := b.mean(0.05); err != nil || math.Abs(got-0.7405) > 1e-4 {
		t.Errorf("RCP1: %v (%v)", got, err)
	}
}
