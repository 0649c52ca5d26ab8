//go:build audit

package certify

import (
	"math"
	"math/rand/v2"
	"testing"
)

// threePoint is a distribution on [0,1]: 0 with weight p, 1 with weight q, otherwise x.
type threePoint struct{ p, q, x float64 }

func (d threePoint) mean() float64 { return d.q + (1-d.p-d.q)*d.x }

func (d threePoint) draw(r *rand.Rand) float64 {
	switch u := r.Float64(); {
	case u < d.p:
		return 0
	case u < d.p+d.q:
		return 1
	}
	return d.x
}

func randomThreePoint(r *rand.Rand) threePoint {
	// The fourth power makes weights near 0 frequent. The test needs such weights. They make the value 0 or the value 1
	// rare, and rare values break normal approximations.
	p := math.Pow(r.Float64(), 4)
	q := math.Pow(r.Float64(), 4)
	if r.IntN(2) == 0 {
		p = 0
	}
	if s := p + q; s > 1 {
		p, q = p/s, q/s
	}
	return threePoint{p, q, r.Float64()}
}

func meanFailures(l prepared, d threePoint, trials int, seed uint64) int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	var failures int64
	for range trials {
		s := l.start()
		for range l.n {
			s.add(d.draw(r))
		}
		if s.lower() > d.mean() {
			failures++
		}
	}
	return failures
}

// For every bound, n and α, the test searches for the three-point distribution under which the bound fails most often.
// It first tries random distributions. Then it varies the worst distribution found so far. At the end it draws fresh
// samples from the worst distribution. An exact test checks that the bound fails with probability at most α.
func TestAuditMeanBoundSearch(t *testing.T) {
	for i, bound := range names(MeanBounds()) {
		for _, n := range []int64{3, 20, 200} {
			for _, alpha := range []float64{0.3, 0.05, 0.005} {
				l := prepare(bound, n, alpha)
				r := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				var worst threePoint
				most := int64(-1)
				for step := range 300 {
					d := randomThreePoint(r)
					if step >= 200 { // d becomes a random variation of the worst distribution so far
						d = threePoint{worst.p * math.Exp(0.2*r.NormFloat64()), worst.q * math.Exp(0.2*r.NormFloat64()), min(1, worst.x*math.Exp(0.1*r.NormFloat64()))}
						if d.p+d.q > 1 {
							continue
						}
					}
					if k := meanFailures(l, d, 400, uint64(step)); k > most {
						most, worst = k, d
					}
				}
				const trials = 20000
				failures := meanFailures(l, worst, trials, 1<<40)
				t.Logf("%-9s n = %3d, α = %-5v: %.4f at %+v", bound, n, alpha, float64(failures)/trials, worst)
				if failures > failuresAllowed(trials, alpha) {
					t.Errorf("%s, n = %d, α = %v: %d of %d fail at %+v", bound, n, alpha, failures, trials, worst)
				}
			}
		}
	}
}

// randomScoreModel returns a mixture of a few rows. Some of the rows are one-hot.
func randomScoreModel(r *rand.Rand) scoreModel {
	m, k := 2+r.IntN(3), 2+r.IntN(3)
	rows := make([][]float32, k)
	weights := make([]float64, k)
	var sum float64
	for i := range rows {
		rows[i] = make([]float32, m)
		if r.IntN(2) == 0 {
			rows[i][r.IntN(m)] = 1
		} else {
			logits := make([]float32, m)
			for j := range logits {
				logits[j] = float32(3 * r.NormFloat64())
			}
			Softmax(logits, rows[i], m, 1)
		}
		weights[i] = math.Pow(r.Float64(), 4)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return mixture("random", weights, rows)
}

func TestAuditScoreSearch(t *testing.T) {
	const n0, n, alpha = 10, 30, 0.1
	for _, kind := range names(MarginKinds()) {
		for _, combine := range soundOnes(Combines()) {
			for i, bound := range names(MeanBounds()) {
				c, err := NewScoreCertifier(ScoreParams{Target: Target{Margin: kind, Alpha: alpha, Sigma: 1}, Bound: bound, Combine: combine})
				if err != nil {
					t.Fatal(err)
				}
				count := func(s scoreModel, trials int, seed uint64) int64 {
					r := rand.New(rand.NewPCG(seed, 2))
					var failures int64
					for range trials {
						if _, cert := certifyScoreModel(t, c, s, r, n0, n); cert.Prediction != Abstained && cert.Margin > s.margin(kind, cert.Prediction) {
							failures++
						}
					}
					return failures
				}
				r := rand.New(rand.NewPCG(9, uint64(i)))
				var worst scoreModel
				most := int64(-1)
				for step := range 100 {
					s := randomScoreModel(r)
					if k := count(s, 100, uint64(step)); k > most {
						most, worst = k, s
					}
				}
				const trials = 10000
				failures := count(worst, trials, 1<<40)
				t.Logf("%v+%v, %v margin: %.4f", bound, combine, kind, float64(failures)/trials)
				if failures > failuresAllowed(trials, alpha) {
					t.Errorf("%v+%v, %v margin: %d of %d fail, means %v", bound, combine, kind, failures, trials, worst.mean)
				}
			}
		}
	}
}

// randomStepModel returns a nondecreasing step function with a few levels.
func randomStepModel(r *rand.Rand) stepModel {
	k := 1 + r.IntN(4)
	s := stepModel{name: "random", levels: []float64{0.5 * r.Float64()}}
	edge := -2 * r.Float64()
	for range k {
		s.edges = append(s.edges, edge)
		edge += r.Float64()
		last := s.levels[len(s.levels)-1]
		s.levels = append(s.levels, last+(1-last)*math.Pow(r.Float64(), 0.5))
	}
	return s
}

func TestAuditConfidenceSearch(t *testing.T) {
	const alpha, sigma = 0.2, 0.5
	for _, method := range everyConfidence() {
		for i := range confidenceRadii {
			p := method
			p.Radii = confidenceRadii[i : i+1]
			c, err := NewScoreCertifier(ScoreParams{Target: Target{Class: Label, Alpha: alpha, Sigma: sigma}, Confidence: p})
			if err != nil {
				t.Fatal(err)
			}
			count := func(s stepModel, trials int, seed uint64) int64 {
				r := rand.New(rand.NewPCG(seed, 2))
				var failures int64
				for range trials {
					for _, b := range s.bounds(t, c, r, 20, 60) {
						if b.Lower > s.smoothed(-b.Radius, sigma)+1e-7 || b.Upper < s.smoothed(b.Radius, sigma)-1e-7 {
							failures++
						}
					}
				}
				return failures
			}
			r := rand.New(rand.NewPCG(9, uint64(i)))
			var worst stepModel
			most := int64(-1)
			for step := range 60 {
				s := randomStepModel(r)
				if s.smoothed(-confidenceRadii[i], sigma) < 0.5 {
					continue // with two classes, the predicted class has a mean score of at least ½
				}
				if k := count(s, 100, uint64(step)); k > most {
					most, worst = k, s
				}
			}
			const trials = 5000
			failures := count(worst, trials, 1<<40)
			t.Logf("%v, R = %v: %.4f", p, p.Radii, float64(failures)/trials)
			if failures > failuresAllowed(trials, alpha/2) {
				t.Errorf("%v, R = %v: %d of %d fail at %+v", p, p.Radii, failures, trials, worst)
			}
		}
	}
}
