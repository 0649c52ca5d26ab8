package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawPredictions draws n predictions with confidences from the distribution law and outcomes of probability eta.
func drawPredictions(n int, seed uint64, law func(*rand.Rand) float64, eta func(float64) float64) *Predictions {
	rng := rand.New(rand.NewPCG(seed, 5))
	p := &Predictions{}
	for range n {
		c := law(rng)
		p.Confidence = append(p.Confidence, c)
		p.Correct = append(p.Correct, rng.Float64() < eta(c))
	}
	return p
}

// slowNullStatistics computes the two statistics of MonteCarloTest from their formulas.
func slowNullStatistics(p *Predictions) [2]float64 {
	n := p.N()
	scores, labels := unpackAll(newNullModel(p).sample)
	z, squares := 0.0, 0.0
	for i, c := range scores {
		z += (labels[i] - c) * (1 - 2*c)
		squares += (1 - 2*c) * (1 - 2*c) * c * (1 - c)
	}
	most := math.Inf(-1)
	for k := range min(9, partitions(n)) {
		total, scale := 0.0, 0.0
		for _, b := range slowPartition(scores, k, partitions(n)-1) {
			d, v, m := 0.0, 0.0, float64(b[1]-b[0])
			for i := b[0]; i < b[1]; i++ {
				d += labels[i] - scores[i]
				v += scores[i] * (1 - scores[i])
			}
			total += (d*d - v) / m
			scale += 2 * v * v / m / m
		}
		most = max(most, total/math.Sqrt(scale))
	}
	return [2]float64{math.Abs(z) / math.Sqrt(squares), most}
}

func TestNullStatisticsFromTheFormulas(t *testing.T) {
	for name, law := range oddScores {
		for _, n := range []int{1, 9, 200} {
			p := drawPredictions(n, 3, func(r *rand.Rand) float64 { return 0.05 + 0.8*law(r) }, uniform01)
			got, want := newNullModel(p).observed(), slowNullStatistics(p)
			same(t, name+" Z", got[0], want[0], 1e-9)
			same(t, name+" multi-scale", got[1], want[1], 1e-9)
		}
	}
	z, _ := Spiegelhalter(drawPredictions(300, 1, uniform, uniform01))
	same(t, "Spiegelhalter's Z", newNullModel(drawPredictions(300, 1, uniform, uniform01)).observed()[0], math.Abs(z), 1e-9)
}

// The simulated outcomes have the probabilities of the hypothesis.
func TestNullSimulation(t *testing.T) {
	p := &Predictions{Confidence: []float64{0, 0.2, 0.7, 1}, Correct: make([]bool, 4)}
	p.Confidence = slices.Repeat(p.Confidence, 50_000)
	p.Correct = slices.Repeat(p.Correct, 50_000)
	m := newNullModel(p)
	sums := make([]float64, len(m.count))
	m.simulate(newStream(4, streamNull), sums)
	for b, want := range m.expected {
		if se := math.Sqrt(m.variance[b]); math.Abs(sums[b]-want) > 5*se {
			t.Errorf("bin %d of %v: %v correct, want %v ± %v", b, m.count[b], sums[b], want, se)
		}
	}
}

func TestJointRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		all := make([][2]float64, 12)
		for j := range all {
			all[j] = [2]float64{float64(rng.IntN(8)), float64(rng.IntN(8))}
		}
		smaller := make([]float64, len(all))
		for j := range all {
			smaller[j] = math.Inf(1)
			for which := range 2 {
				rank := 0.0
				for l := range all {
					if all[l][which] >= all[j][which] {
						rank++
					}
				}
				smaller[j] = min(smaller[j], rank)
			}
		}
		want := 0.0
		for j := range all {
			if smaller[j] <= smaller[0] {
				want += 1. / 12
			}
		}
		same(t, "p", jointRank(all), want, 1e-12)
	}
}

// The p-value is valid for few examples and for extreme confidences, and the test has power against errors that change
// sign.
func TestMonteCarloTest(t *testing.T) {
	reject := func(n, trials int, law func(*rand.Rand) float64, eta func(float64) float64, alpha float64) int {
		rejected := 0
		for trial := range uint64(trials) {
			p, draws := MonteCarloTest(drawPredictions(n, trial+1, law, eta), trial)
			if draws != 999 || !(p >= 1.0/1000 && p <= 1) {
				t.Fatalf("p %v, %d draws", p, draws)
			}
			if p <= alpha {
				rejected++
			}
		}
		return rejected
	}
	trials := 200
	if testing.Short() {
		trials = 60
	}
	extreme := func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 8) }
	for _, alpha := range []float64{0.05, 0.5} {
		for _, n := range []int{1, 12, 100} {
			for name, law := range map[string]func(*rand.Rand) float64{"uniform": uniform, "extreme": extreme} {
				if got := reject(n, trials, law, uniform01, alpha); tooMany(got, trials, alpha) {
					t.Errorf("%s, n %d: %d of %d calibrated samples rejected at %v", name, n, got, trials, alpha)
				}
			}
		}
	}
	for _, c := range []struct {
		name string
		eta  func(float64) float64
		want float64 // least power
	}{
		{"wave", func(s float64) float64 { return s + 0.4*s*(1-s)*math.Sin(6*math.Pi*s) }, 0.25},
		{"overconfident", func(s float64) float64 { return 0.5 + 0.88*(s-0.5) }, 0.7},
		{"bump", func(s float64) float64 { return s + 0.15*math.Max(0, 1-math.Abs(s-0.5)/0.1) }, 0.1},
	} {
		got, old := reject(1000, trials, uniform, c.eta, 0.05), 0
		for trial := range uint64(trials) {
			if CalibrationTest(drawPredictions(1000, trial+1, uniform, c.eta)) <= 0.05 {
				old++
			}
		}
		t.Logf("%s: power %.2f, by the bets %.2f", c.name, float64(got)/float64(trials), float64(old)/float64(trials))
		if float64(got) < c.want*float64(trials) || got < 3*old {
			t.Errorf("%s: %d of %d rejected, %d by the bets", c.name, got, trials, old)
		}
	}
	if p, draws := MonteCarloTest(&Predictions{Confidence: []float64{0.5}, Correct: []bool{true}, Weight: []float64{1}}, 1); !math.IsNaN(p) || draws != 0 {
		t.Errorf("weighted: %v, %d draws", p, draws)
	}
	for _, p := range []*Predictions{
		{Confidence: []float64{1, 0.5, 0.5, 0.4}, Correct: []bool{false, true, true, false}},
		{Confidence: []float64{0, 1, 0, 1, 0}, Correct: []bool{true, false, true, false, false}}, // in one bin, the sums cancel
		{Confidence: slices.Repeat([]float64{0.5, 1}, 400), Correct: append(make([]bool, 1), slices.Repeat([]bool{false, true, true, true}, 200)[:799]...)},
	} {
		if p, _ := MonteCarloTest(p, 1); p > 0.002 {
			t.Errorf("an outcome of probability 0 has p %v", p)
		}
	}
}
