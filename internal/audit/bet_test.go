package audit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// capital computes K from the formula of Bet, without rounding downwards.
func capital(x []float64, m, gamma float64) float64 {
	k := 1.
	for t := range x {
		mean, squares := .5, 0.
		sum := 0.
		for i := range t {
			sum += x[i]
			mean = (.5 + sum) / float64(i+2)
			squares += (x[i] - mean) * (x[i] - mean)
		}
		variance := (.25 + squares) / float64(t+1)
		stake := math.Min(math.Sqrt(2*math.Log(1/gamma)/(variance*float64(t+1)*math.Log(float64(t+2)))), .5/m)
		k *= 1 + stake*(x[t]-m)
	}
	return k
}

func TestBetIsFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, m := range []float64{.1, .5, .9} {
		b, x, most := NewBet(m, .01), []float64{}, 1.
		for range 60 {
			x = append(x, math.Sqrt(r.Float64()))
			b.Add(x[len(x)-1])
			most = math.Max(most, capital(x, m, .01))
		}
		if want := math.Log(most); b.Largest > want+1e-13 || b.Largest < want-1e-9 {
			t.Errorf("m = %v: ln K = %v, want %v", m, b.Largest, want)
		}
	}
}

// In a simulation with a fixed seed, the bet must reject a true claim with probability at most γ, and a false claim in
// at least 90 % of the trials.
func TestBetLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 0))
	const gamma, trials, n = .05, 2000, 300
	for _, c := range []struct {
		name  string
		m     float64
		draw  func() float64
		least int // 'least' and 'most' limit the number of rejections
		most  int
	}{
		{"coin at its mean", .3, func() float64 { return float64(min(1, int(r.Float64()/.7))) }, 1, trials * gamma},
		{"uniform at its mean", .5, r.Float64, 1, trials * gamma},
		{"uniform below", .6, r.Float64, 0, 2},
		{"uniform above", .4, r.Float64, trials * 9 / 10, trials},
	} {
		rejected := 0
		for range trials {
			b := NewBet(c.m, gamma)
			for range n {
				b.Add(c.draw())
			}
			if Rejected(b.Largest, gamma) {
				rejected++
			}
		}
		if rejected < c.least || rejected > c.most {
			t.Errorf("%s: %d of %d rejected, want %d to %d", c.name, rejected, trials, c.least, c.most)
		}
	}
}

func TestBetClampsValues(t *testing.T) {
	a, b := NewBet(.4, .01), NewBet(.4, .01)
	for i := range 50 {
		a.Add([]float64{1.5, -2}[i%2])
		b.Add([]float64{1, 0}[i%2])
	}
	if a.Largest != b.Largest || a.log != b.log {
		t.Errorf("values outside [0, 1]: ln K = %v, want %v", a.log, b.log)
	}
}
