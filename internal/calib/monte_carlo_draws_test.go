package calib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawPredictions draws n predictions. The function 'law' draws a confidence, and the function 'eta' returns the
// probability that the prediction is correct.
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

// slowNullStatistics computes the statistics of MonteCarloTest from their formulas.
func slowNullStatistics(p *Predictions) (want nullStatistics) {
	n := p.N()
	scores, labels := unpackAll(newNullModel(p).sample)
	z, squares := 0.0, 0.0
	for i, c := range scores {
		z += (labels[i] - c) * (1 - 2*c)
		squares += (1 - 2*c) * (1 - 2*c) * c * (1 - c)
	}
	want[0] = math.Abs(z) / math.Sqrt(squares)
	level := min(8, partitions(n)-1)
	bins := slowPartition(scores, level, partitions(n)-1)
	variance := func(from, to int) (v float64) {
		for _, c := range scores[from:to] {
			v += c * (1 - c)
		}
		return v
	}
	all := variance(0, n)
	for k := 0; k < 7 && (k == 0 || 2<<k <= 1<<level); k++ {
		for j := range 1 << k {
			d := 0.0
			for _, b := range bins {
				at := (variance(0, b[0]) + variance(b[0], b[1])/2) / all
				wave := math.Cos(float64(j) * at * math.Pi)
				if j > 0 {
					wave *= math.Sqrt(2)
				}
				for i := b[0]; i < b[1]; i++ {
					d += wave * (labels[i] - scores[i])
				}
			}
			want[1+k] += d * d / all
		}
	}
	return want
}

func TestNullStatisticsFromTheFormulas(t *testing.T) {
	for name, law := range oddScores {
		for _, n := range []int{1, 9, 200, 1500} {
			p := drawPredictions(n, 3, func(r *rand.Rand) float64 { return 0.05 + 0.8*law(r) }, uniform01)
			got, want := newNullModel(p).observed(), slowNullStatistics(p)
			for k, x := range want {
				near(t, fmt.Sprintf("%s, n %d, statistic %d", name, n, k), got[k], x, 1e-9*(1+x))
			}
		}
	}
	z, _ := Spiegelhalter(drawPredictions(300, 1, uniform, uniform01))
	same(t, "Spiegelhalter's Z", newNullModel(drawPredictions(300, 1, uniform, uniform01)).observed()[0], math.Abs(z), 1e-9)
}

// The simulated outcomes have the probabilities that the hypothesis states.
func TestNullSimulation(t *testing.T) {
	p := &Predictions{Confidence: []float64{0, 0.2, 0.7, 1}, Correct: make([]bool, 4)}
	p.Confidence = slices.Repeat(p.Confidence, 50_000)
	p.Correct = slices.Repeat(p.Correct, 50_000)
	m := newNullModel(p)
	sums := make([]float64, len(m.expected))
	m.simulate(newStream(4, streamNull), sums)
	for b, want := range m.expected {
		if se := math.Sqrt(m.variance[b]); math.Abs(sums[b]-want) > 5*se {
			t.Errorf("bin %d: %v correct, want %v ± %v", b, sums[b], want, se)
		}
	}
}

func TestJointRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		all := make([]nullStatistics, 12)
		for j := range all {
			all[j] = nullStatistics{float64(rng.IntN(8)), 3, float64(rng.IntN(8)), 7: float64(rng.IntN(8))}
		}
		smaller, score := make([]float64, len(all)), make([]float64, len(all))
		for j := range all {
			smaller[j], score[j] = math.Inf(1), math.Inf(-1)
			for which := range all[j] {
				rank, sum, squares := 0.0, 0.0, 0.0
				for l := range all {
					sum += all[l][which]
					squares += all[l][which] * all[l][which]
				}
				if v := squares/12 - sum*sum/144; v > 1e-9 {
					score[j] = max(score[j], (all[j][which]-sum/12)/math.Sqrt(v*12/11))
				}
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
			if smaller[j] < smaller[0] || smaller[j] == smaller[0] && score[j] > score[0]-1e-9 {
				want += 1. / 12
			}
		}
		same(t, "p", jointRank(all), want, 1e-12)
	}
}

// If one statistic is overwhelming, or if an outcome is impossible, the p-value is the smallest possible one, even with
// few data sets.
func TestJointRankOfOverwhelmingEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 7))
	all := make([]nullStatistics, 100)
	for j := range all {
		for which := range all[j] {
			all[j][which] = rng.NormFloat64()
		}
	}
	all[0] = nullStatistics{6: 50}
	same(t, "p of one statistic", jointRank(all), 0.01, 1e-12)
	p := &Predictions{Confidence: slices.Repeat([]float64{0, 0.5}, 50), Correct: make([]bool, 100)}
	for i := range p.Correct {
		p.Correct[i] = i%4 == 1
	}
	p.Correct[0] = true
	all[0] = newNullModel(p).observed()
	same(t, "p of an impossible outcome", jointRank(all), 0.01, 1e-12)
}

// The function 'rejections' draws samples of n predictions. It returns how often MonteCarloTest rejects the hypothesis
// at the level alpha.
func rejections(t *testing.T, n, trials int, law func(*rand.Rand) float64, eta func(float64) float64, alpha float64) int {
	t.Helper()
	rejected := 0
	for trial := range uint64(trials) {
		p, draws := MonteCarloTest(drawPredictions(n, trial+1, law, eta), trial, 0)
		if draws != 999 || !(p >= 1.0/1000 && p <= 1) {
			t.Fatalf("p %v, %d draws", p, draws)
		}
		if p <= alpha {
			rejected++
		}
	}
	return rejected
}

// errorsOfSign holds functions P(correct | s) for uniform scores s. At the level 0.05 and for n = 1000, the power of
// MonteCarloTest must be at least the field 'want'.
var errorsOfSign = []struct {
	name string
	eta  func(float64) float64
	want float64
}{
	{"wave", func(s float64) float64 { return s + 0.4*s*(1-s)*math.Sin(6*math.Pi*s) }, 0.35},
	{"overconfident", func(s float64) float64 { return 0.5 + 0.88*(s-0.5) }, 0.7},
	{"bump", func(s float64) float64 { return s + 0.15*math.Max(0, 1-math.Abs(s-0.5)/0.1) }, 0.1},
}

// The p-value is valid, also for few examples and for confidences near 0. For the miscalibrated functions in
// errorsOfSign, MonteCarloTest rejects the hypothesis at least three times as often as CalibrationTest.
func TestMonteCarloTest(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 60
	}
	extreme := func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 8) }
	for _, alpha := range []float64{0.05, 0.5} {
		for _, n := range []int{1, 12, 100} {
			for name, law := range map[string]func(*rand.Rand) float64{"uniform": uniform, "extreme": extreme} {
				if got := rejections(t, n, trials, law, uniform01, alpha); tooMany(got, trials, alpha) {
					t.Errorf("%s, n %d: %d of %d calibrated samples rejected at %v", name, n, got, trials, alpha)
				}
			}
		}
	}
	for _, c := range errorsOfSign {
		got, old := rejections(t, 1000, trials, uniform, c.eta, 0.05), 0
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
	// A right answer with the confidence 0.01 is more extreme than all 7 draws, so p is 1/8.
	if p, draws := MonteCarloTest(&Predictions{Confidence: []float64{0.01}, Correct: []bool{true}}, 1, 7); draws != 7 || p != 0.125 {
		t.Errorf("7 draws: p = %v after %d draws", p, draws)
	}
	if p, draws := MonteCarloTest(&Predictions{Confidence: []float64{0.5}, Correct: []bool{true}, Weight: []float64{1}}, 1, 0); !math.IsNaN(p) || draws != 0 {
		t.Errorf("weighted: %v, %d draws", p, draws)
	}
	for _, p := range []*Predictions{
		{Confidence: []float64{1, 0.5, 0.5, 0.4}, Correct: []bool{false, true, true, false}},
		// All examples are in one bin. Four outcomes are impossible: two right answers with confidence 0, and two wrong
		// answers with confidence 1. In this bin, their errors cancel.
		{Confidence: []float64{0, 1, 0, 1, 0}, Correct: []bool{true, false, true, false, false}},
		{Confidence: slices.Repeat([]float64{0.5, 1}, 400), Correct: append(make([]bool, 1), slices.Repeat([]bool{false, true, true, true}, 200)[:799]...)},
	} {
		if p, _ := MonteCarloTest(p, 1, 0); p > 0.002 {
			t.Errorf("an outcome of probability 0 has p %v", p)
		}
	}
}
