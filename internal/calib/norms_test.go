package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The bounds hold for random laws of (s, η), and the extreme laws attain them.
func TestNormsOfRandomLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const epsilon = 0.02
	kl := func(p, q float64) float64 {
		sum := 0.0
		if p > 0 {
			sum += p * math.Log(p/q)
		}
		if p < 1 {
			sum += (1 - p) * math.Log((1-p)/(1-q))
		}
		return sum
	}
	check := func(share, s, eta []float64) (ce, l3, divergence, norm, low, high float64) {
		for i, w := range share {
			d := math.Abs(s[i] - eta[i])
			ce, l3, divergence = ce+w*d, l3+w*d*d*d, divergence+w*kl(eta[i], s[i])
		}
		l3 = math.Cbrt(l3)
		norm, err := NormAbove(ce, 3)
		if err != nil {
			t.Fatal(err)
		}
		if low, high, err = Divergence(ce, ce, epsilon); err != nil {
			t.Fatal(err)
		}
		if l3 > norm || l3 < ce*(1-1e-12) || divergence > high || divergence < low {
			t.Fatalf("s %v, η %v: CE %v, L3 %v ≤ %v, KL %v in [%v, %v]", s, eta, ce, l3, norm, divergence, low, high)
		}
		return ce, l3, divergence, norm, low, high
	}
	for range 2000 {
		share, s, eta := make([]float64, 3), make([]float64, 3), make([]float64, 3)
		total := 0.0
		for i := range s {
			share[i], eta[i] = r.ExpFloat64(), math.Round(8*r.Float64()-0.5)/7
			s[i] = epsilon + (1-2*epsilon)*r.Float64()
			if r.IntN(3) == 0 {
				eta[i] = s[i]
			}
			eta[i] = min(1, max(0, eta[i]))
			total += share[i]
		}
		for i := range share {
			share[i] /= total
		}
		check(share, s, eta)
	}
	// A gap of 1 with probability 0.1 attains the bound of NormAbove. In this case the score s is 0. The bounds of
	// Divergence do not cover this case, because they need scores in [ε, 1−ε].
	if norm, err := NormAbove(0.1, 3); err != nil || math.Abs(norm-math.Cbrt(0.1)) > 1e-12 {
		t.Errorf("norm %v: %v", norm, err)
	}
	_, _, divergence, _, _, high := check([]float64{0.3, 0.7}, []float64{epsilon, epsilon}, []float64{1, epsilon})
	if math.Abs(divergence/high-1) > 1e-12 {
		t.Errorf("the extreme law has divergence %v, the bound is %v", divergence, high)
	}
	_, _, divergence, _, low, _ := check([]float64{1}, []float64{0.5}, []float64{0.501})
	if divergence/low > 1.001 {
		t.Errorf("near calibration the divergence is %v, the lower bound %v", divergence, low)
	}
	if _, high, err := Divergence(0, 1, epsilon); err != nil || high < -math.Log(epsilon) || high > -math.Log(epsilon)+1e-9 {
		t.Errorf("the largest divergence is %v: %v", high, err)
	}
}

func TestNormErrors(t *testing.T) {
	for _, q := range []float64{0.5, math.NaN(), math.Inf(1)} {
		if _, err := NormAbove(0.1, q); err == nil {
			t.Errorf("norm %v: no error", q)
		}
	}
	for _, e := range []float64{0, -1, 0.6, math.NaN()} {
		if _, _, err := Divergence(0, 0.1, e); err == nil {
			t.Errorf("margin %v: no error", e)
		}
	}
	s, err := NewSample([]float64{0.25, 0.75, 0.5}, []float64{0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if s.CheckMargin(0.25) != nil || s.CheckMargin(0.3) == nil {
		t.Error("CheckMargin")
	}
	s, err = NewSample([]float64{0.5, 0.95}, []float64{0, 1})
	if err != nil || s.CheckMargin(0.1) == nil {
		t.Errorf("a score above 1 − ε: %v", err)
	}
	// A score of 1 with a label of 0 has an infinite divergence, however small the stated margin is.
	s, err = NewSample([]float64{0.5, 1}, []float64{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for e := 0x1p-70; e < 0.5; e *= 1.7 {
		if _, _, err := Divergence(0, 0.1, e); err == nil && s.CheckMargin(e) == nil {
			t.Errorf("margin %v: a score of 1 passes", e)
		}
	}
	// CheckMargin accepts this score only because 1 − ε is rounded up.
	epsilon := 1.05e-15
	s, err = NewSample([]float64{1 - epsilon}, []float64{0})
	if err != nil || s.CheckMargin(epsilon) != nil {
		t.Fatal(err)
	}
	margin := 1 - (1 - epsilon) // 1 − score, without rounding; it is below ε
	if _, high, err := Divergence(0, 1, epsilon); err != nil || margin >= epsilon || high < -math.Log(margin) {
		t.Errorf("bound %v: %v", high, err)
	}
}
