package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowMixture returns the average wealth of signMixture at m. It enumerates the paths of signs.
func slowMixture(s *Sample, delta, m float64) float64 {
	scores, labels := unpackAll(s)
	n := len(scores)
	var sizes []float64
	for j := 0; ; j++ {
		nu := math.Sqrt(2*math.Log(1/delta)/float64(n)) * math.Pow(2, float64(j))
		if nu >= 0.95 {
			break
		}
		sizes = append(sizes, nu)
	}
	sizes = append(sizes, 0.95)
	total, count := 0.0, 0.0
	for _, nu := range sizes {
		for k := range min(8, partitions(n)) {
			bins := slowPartition(scores, k, partitions(n)-1)
			for _, theta := range []float64{0.5, math.Min(0.5, 1/float64(len(bins)))} {
				for path := range 1 << len(bins) {
					w := 0.5
					for b := range bins {
						if b > 0 && path>>b&1 == path>>(b-1)&1 {
							w *= 1 - theta
						} else if b > 0 {
							w *= theta
						}
						for i := bins[b][0]; i < bins[b][1]; i++ {
							lambda := nu / (1 + nu*m)
							w *= 1 + lambda*(float64(2*(path>>b&1)-1)*(scores[i]-labels[i])-m)
						}
					}
					total += w
				}
				count++
			}
		}
	}
	return total / count
}

func TestSignMixtureIsTheSumOverPaths(t *testing.T) {
	for name, law := range oddScores {
		for _, n := range []int{1, 7, 40} {
			for _, delta := range []float64{0.3, 0.01} {
				s := draw(n, 3, law, func(x float64) float64 { return 1 - x })
				for _, m := range []float64{0, 0.1, 0.7} {
					got := s.mixSigns(delta).logWealth(m)
					if want := math.Log(slowMixture(s, delta, m)); got > want+1e-9 || got < want-1e-8 {
						t.Errorf("%s n %d, δ %v, m %v: %v, want %v", name, n, delta, m, got, want)
					}
				}
			}
		}
	}
}

// In bins of more than 64 pairs, pathBins multiplies the factors in parts.
func TestSignMixtureOfLargeBins(t *testing.T) {
	s := draw(1000, 3, func(*rand.Rand) float64 { return 0.4 }, func(float64) float64 { return 0.9 })
	_, labels := unpackAll(s)
	plus := 0.0
	for _, y := range labels {
		plus += math.Log(1 + 0.3*(0.4-y))
	}
	bins := s.pathBins(s.cutLevels(), 7, 0.3)
	if len(bins) != 1 {
		t.Fatalf("%d bins", len(bins))
	}
	same(t, "plus", bins[0].plus, plus, 1e-12)
}

// The bound is the largest m at which the mean of the wealths of BettingLower and signMixture reaches 1/δ.
func TestMixtureLower(t *testing.T) {
	const delta, n = 0.2, 30
	for name, law := range oddScores {
		s := draw(n, 5, law, func(x float64) float64 { return math.Round(1 - x) })
		got, err := MixtureLower(s, delta, 9)
		if err != nil || got.Delta != delta || !got.Sound || got.Value == 0 {
			t.Fatal(name, got, err)
		}
		bets, lambdas := placeBets(s.collectEpochs(9)), betSizes(n, delta)
		wealth := func(m float64) float64 {
			return (math.Exp(logWealth(bets, lambdas, m)) + slowMixture(s, delta, m)) / 2
		}
		if w := wealth(got.Value); w < 1/delta {
			t.Errorf("%s: wealth %v at %v", name, w, got.Value)
		}
		if w := wealth(got.Value + 1e-6); w > 1/delta {
			t.Errorf("%s: wealth still %v past %v", name, w, got.Value)
		}
	}
	if _, err := MixtureLower(&Sample{}, 0.1, 1); err == nil {
		t.Error("no rows are accepted")
	}
}

// signMixture bets against the hypothesis CE ≤ m. If m is the true calibration error CE, the wealth of signMixture must
// be at most 1 on average.
func TestSignMixtureIsFair(t *testing.T) {
	const n, trials = 60, 400
	for _, l := range []pairLaw{pairLaws()[4], pairLaws()[14], pairLaws()[18], pairLaws()[20]} {
		sum, squares := 0.0, 0.0
		for trial := range uint64(trials) {
			w := math.Exp(draw(n, trial, l.draw, l.eta).mixSigns(0.3).logWealth(l.truth))
			sum += w
			squares += w * w
		}
		mean := sum / trials
		if se := math.Sqrt((squares/trials - mean*mean) / trials); mean > 1+5*se || mean < 0.1 {
			t.Errorf("%s: mean wealth %v ± %v", l.name, mean, se)
		}
	}
}

// The scores are 0.001 and 0.006. At the score 0.001, label 1 has the probability 0.006. At the score 0.006, label 1
// has the probability 0.001. So CE is 0.005. All scores lie in the first of 128 bins. BettingLower predicts one sign
// for this bin, so the errors at the two scores cancel.
func TestMixtureLowerOfRareEvents(t *testing.T) {
	two := func(r *rand.Rand) float64 { return 0.001 + 0.005*float64(r.IntN(2)) }
	for seed := range uint64(3) {
		s := draw(200_000, seed+1, two, func(x float64) float64 { return 0.007 - x })
		got, err := MixtureLower(s, 0.05, 1)
		if err != nil {
			t.Fatal(err)
		}
		bets, err := BettingLower(s, 0.05, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("mixture %.5f, betting %.5f", got.Value, bets.Value)
		if got.Value < 0.0042 || got.Value > 0.005 || bets.Value > 0.001 {
			t.Errorf("mixture %v, betting %v", got.Value, bets.Value)
		}
	}
	// For other laws, the bound of MixtureLower is hardly smaller than the bound of BettingLower.
	for _, l := range []pairLaw{pairLaws()[0], pairLaws()[3]} {
		s := draw(20_000, 1, l.draw, l.eta)
		got, err1 := MixtureLower(s, 0.05, 1)
		bets, err2 := BettingLower(s, 0.05, 1)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		t.Logf("%s: mixture %.5f, betting %.5f of %.5f", l.name, got.Value, bets.Value, l.truth)
		if got.Value < bets.Value-0.002 {
			t.Errorf("%s: mixture %v, betting %v", l.name, got.Value, bets.Value)
		}
	}
}
