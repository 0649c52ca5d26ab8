package certify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// synthetic softmax stream
func synth(r *rand.Rand, k, m int, gap, spread float64, temp float64) []float32 {
	l := make([]float32, k*m)
	for i := 0; i < k; i++ {
		for j := 0; j < m; j++ {
			l[i*m+j] = float32(r.NormFloat64() * spread)
		}
		l[i*m] += float32(gap)
		l[i*m+1] += float32(gap * 0.3)
	}
	Softmax(l, l, m, temp)
	return l
}

func TestScratchScores(t *testing.T) {
	for _, gap := range []float64{2, 4, 8, 15} {
		for _, n := range []int{100, 1000, 10000} {
			s := fmt.Sprintf("gap %v n %d:", gap, n)
			for _, comb := range []Combine{Directed, Projected, BonferroniScores, Taylor} {
				for _, b := range []MeanBound{Betting, Chernoff, Bernstein} {
					c, err := NewScoreCertifier(ScoreParams{Bound: b, Combine: comb, Alpha: 0.001, Sigma: 0.5,
						Confidence: ConfidenceParams{Radii: []float64{0, 0.25}, Method: ConfidenceMethod(int(comb) % 3), Band: BandBinomial}})
					if err != nil {
						t.Fatal(err)
					}
					r := rand.New(rand.NewPCG(1, 1))
					a, _ := c.Start(ScoreExample{Classes: 10, N0: 100, N: int64(n)})
					if err := a.Selection(synth(r, 100, 10, gap, 2, 1)); err != nil {
						t.Fatal(err)
					}
					if err := a.Estimation(synth(r, n, 10, gap, 2, 1)); err != nil {
						t.Fatal(err)
					}
					cert, err := a.Certificate()
					if err != nil {
						t.Fatal(err)
					}
					s += fmt.Sprintf(" %s %.4f", cert.Method, cert.Radius)
					if b == Betting {
						for _, row := range a.Confidence(cert) {
							s += fmt.Sprintf(" [%s %.2f %.4f %.4f]", row.Method, row.Radius, row.Lower, row.Upper)
						}
						s += fmt.Sprint(cert.Bounds)
					}
				}
			}
			t.Log(s)
		}
	}
	_ = math.Pi
}
