package admm

import (
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

func TestAdaptive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 31))
	for range 50 {
		b := mustBins(t, 1+r.IntN(20))
		samples, clean := certified(r, 1+r.IntN(300))
		p := mustProblem(t, samples, clean, b)
		e, err := p.Adaptive()
		if err != nil {
			t.Fatal(err)
		}
		bound, err := calib.LargestGap(samples)
		if err != nil {
			t.Fatal(err)
		}
		if e.ECE > bound+rounding {
			t.Fatalf("attack %v above the bound %v", e.ECE, bound)
		}
		correct := make([]bool, len(samples))
		for i, v := range samples {
			correct[i] = v.Correct
			if !(e.Confidences[i] >= v.Lower && e.Confidences[i] <= v.Upper) {
				t.Fatalf("confidence %v outside %v", e.Confidences[i], v)
			}
		}
		for name, z := range map[string][]float64{"clean": clean, "Brier": p.start(FromBrier)} {
			bins, err := calib.EqualCount(&calib.Predictions{Confidence: z, Correct: correct}, b.Len())
			if err != nil || calib.ECE(bins) > e.ECE {
				t.Fatalf("%s confidences have AdaECE %v, attack %v (%v)", name, calib.ECE(bins), e.ECE, err)
			}
		}
	}
}
