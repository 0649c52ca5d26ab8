package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowWealth returns the wealth of BettingLower. The wealth is the average of M(m) over the values of λ and the
// functions σ. It multiplies the factors one pair at a time. It takes σ from the pairs of earlier epochs. It uses the
// exact X, which need not lie on a grid.
func slowWealth(s *Sample, seed uint64, lambdas []float64, m float64) float64 {
	n := s.N()
	var of []int
	for e, seen := 0, 0; seen < n; e++ {
		size := int(math.Min(float64(1+seen/16), float64(n-seen)))
		for range size {
			of = append(of, e)
		}
		seen += size
	}
	r := newStream(seed, streamBets)
	for i := n - 1; i > 0; i-- {
		j := r.uniformBelow(i + 1)
		of[i], of[j] = of[j], of[i]
	}
	scores, labels := unpackAll(s)
	total := 0.0
	for bins := 1; bins <= 128; bins *= 2 {
		at := func(x float64) int { return min(bins-1, int(math.Floor(x*float64(bins)))) }
		wealth := make([]float64, len(lambdas))
		for i := range wealth {
			wealth[i] = 1
		}
		for i := range scores {
			sum, count := 0.0, 0.0
			for j := range scores {
				if of[j] < of[i] && at(scores[j]) == at(scores[i]) {
					sum += scores[j] - labels[j]
					count++
				}
			}
			sigma := 0.0
			if count > 0 {
				sigma = math.Max(-1, math.Min(1, 2*sum/math.Sqrt(count)))
			}
			for k, l := range lambdas {
				wealth[k] *= 1 + l*(sigma*(scores[i]-labels[i])-m)
			}
		}
		for _, w := range wealth {
			total += w
		}
	}
	return total / 8 / float64(len(lambdas))
}

// At m = Value, slowWealth returns a wealth of at least 1/δ. Slightly above Value the wealth is at most 1/δ. So Value
// is valid and nearly the largest valid bound.
func TestBettingLowerIsTheBets(t *testing.T) {
	const delta = 0.2
	for name, law := range oddScores {
		for _, n := range []int{40, 400} {
			s := draw(n, 5, law, func(x float64) float64 { return math.Round(x) })
			got, err := BettingLower(s, delta, 9)
			if err != nil || got.Delta != delta || !got.Sound {
				t.Fatal(got, err)
			}
			lambdas := []float64{}
			for j := 0; j < 6; j++ {
				l := math.Sqrt(2*math.Log(1/delta)/float64(n)) * math.Pow(2, float64(j))
				lambdas = append(lambdas, math.Min(l, 0.49))
				if l >= 0.49 {
					break
				}
			}
			if got.Value == 0 {
				if n == 400 {
					t.Errorf("%s: no bound", name)
				}
				continue
			}
			if w := slowWealth(s, 9, lambdas, got.Value); w < 1/delta*(1-1e-9) {
				t.Errorf("%s n %d: wealth %v at %v", name, n, w, got.Value)
			}
			if w := slowWealth(s, 9, lambdas, got.Value+0.004); w > 1/delta {
				t.Errorf("%s n %d: wealth still %v past %v", name, n, w, got.Value)
			}
		}
	}
}

// If m is the true error, the wealth (see logWealth) is at most 1 on average. Two of the four distributions of pairs
// (s, y) are calibrated: s − η(s) is 0.
func TestBettingWealthIsFair(t *testing.T) {
	const n, trials = 60, 200
	for _, l := range []pairLaw{pairLaws()[4], pairLaws()[18], pairLaws()[20], pairLaws()[13]} {
		sum, squares := 0.0, 0.0
		for trial := range uint64(trials) {
			s := draw(n, trial, l.draw, l.eta)
			w := math.Exp(logWealth(placeBets(s.collectEpochs(trial)), betSizes(n, 0.05), l.truth))
			sum += w
			squares += w * w
		}
		mean := sum / trials
		se := math.Sqrt(squares/trials-mean*mean) / math.Sqrt(trials)
		if mean > 1+5*se {
			t.Errorf("%s: mean wealth %v ± %v", l.name, mean, se)
		}
	}
}

// The bins of Curve together hold every point once. In the first sample all errors s − s² have the same sign and do not
// cancel within a bin, so EstimateError must be near the true error.
func TestCurveAndEstimate(t *testing.T) {
	s := draw(20_000, 4, oddScores["heavy"], func(x float64) float64 { return x * x })
	curve, err := Curve(s, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, -1.0
	for _, p := range curve {
		n += p.N
		if !(p.From > last && p.From <= p.Score && p.Score <= p.To && p.Lower < p.Eta && p.Eta < p.Upper) {
			t.Errorf("%+v after %v", p, last)
		}
		last = p.To
	}
	if n != s.N() || len(curve) < 10 || len(curve) > 100 {
		t.Errorf("%d points in %d bins", n, len(curve))
	}
	// The variable 'half' is half the width of Hoeffding's band. Each kl bound differs from Eta by at most 'half', and
	// the upper bound differs from Eta by at least half/2.
	p := curve[len(curve)/2]
	if half := math.Sqrt(math.Log(2*float64(len(curve))/0.05) / (2 * float64(p.N))); p.Upper-p.Eta > half || p.Eta-p.Lower > half ||
		p.Upper-p.Eta < half/2 {
		t.Errorf("%+v against a half width of %v", p, half)
	}
	truth := 2./3*(0.4-0.16) + 1./3*(1./6)
	if got := EstimateError(s); math.Abs(got-truth) > 0.01 { // the standard error is 0.003
		t.Errorf("estimate %v, want %v", got, truth)
	}
	calibrated := draw(20_000, 5, uniform, uniform01)
	if got := EstimateError(calibrated); got > 0.006 { // the estimate would be 0.014 without the debiasing
		t.Errorf("estimate %v of a calibrated classifier", got)
	}
}

// CheckPerturbed accepts scores that the sech kernel perturbed, whatever the original scores were. It rejects scores
// that the kernel cannot have made.
func TestCheckPerturbed(t *testing.T) {
	const n = 20_000
	for name, law := range oddScores {
		for _, h := range []float64{1.0 / 1024, 1.0 / 64, 0.25, 3} {
			k := Sech{h, 3}
			row := 0
			s := draw(n, 1, func(r *rand.Rand) float64 { row++; return k.Perturb(law(r), row) }, uniform01)
			if err := CheckPerturbed(s, h); err != nil {
				t.Errorf("%s h %v: %v", name, h, err)
			}
		}
	}
	for name, law := range map[string]func(*rand.Rand) float64{
		"two values": func(r *rand.Rand) float64 { return 0.25 + 0.5*float64(r.IntN(2)) },
		"one value":  func(*rand.Rand) float64 { return 0.5 },
		"float16":    func(r *rand.Rand) float64 { return (math.Floor(r.Float64()*1e5) + 0.5) / 1e5 },
		"with 0":     func(r *rand.Rand) float64 { return max(0, r.Float64()-0.001) },
		"with 1":     func(r *rand.Rand) float64 { return min(1, r.Float64()+0.001) },
		"crowded":    func(r *rand.Rand) float64 { return 0.5 + 0.01*r.Float64() },
		"few apart":  func(r *rand.Rand) float64 { return 0.3 + 0.5*math.Round(r.Float64()) + 1e-6*r.Float64() },
	} {
		if err := CheckPerturbed(draw(n, 2, law, uniform01), 1.0/16); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

// The bound b2 on |η″| holds and is at most a third too large. In the test, scores have one of two values before the
// perturbation, and the label is 0 for one value and 1 for the other. Then |η″| reaches 4/(6√3)/h² = 0.385/h². The
// bound b2 is 0.5/h².
func TestSecondDerivative(t *testing.T) {
	const h = 1.0 / 32
	_, b2 := derivatives(h)
	most := 0.0
	for _, weight := range []float64{0.5, 0.9, 0.99, 0.999} {
		eta := func(s float64) float64 {
			density := func(t float64) float64 {
				return 1 / math.Cosh((s-t)/h) / (math.Atan(math.Sinh((1-t)/h)) + math.Atan(math.Sinh(t/h)))
			}
			a, b := weight*density(0.1), (1-weight)*density(0.9)
			return b / (a + b)
		}
		const step = 1e-4
		for s := 0.2; s < 0.8; s += step {
			most = max(most, math.Abs(eta(s+step)-2*eta(s)+eta(s-step))/(step*step))
		}
	}
	if most > b2*(1+1e-4) || most < 0.75*b2 {
		t.Errorf("largest second derivative %v, b2 = %v", most, b2)
	}
}
