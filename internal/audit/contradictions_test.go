package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// The expected thresholds were computed without this package, for γ = 1e-5, α = .001 and the level 5 %.
func TestThresholds(t *testing.T) {
	rate := Rate(.001, 1e-5)
	if want := .001 + 1e-5 - .001*1e-5; rate < want || rate > want*(1+1e-14) {
		t.Errorf("rate %v, want %v", rate, want)
	}
	for n, want := range map[int64]int64{1000: 4, 10000: 17} {
		k, err := Threshold(n, rate, .05)
		if err != nil || k != want {
			t.Errorf("N = %d: K ≥ %d (%v), want %d", n, k, err, want)
		}
		if ChancePValue(k, n, rate) > .05 || ChancePValue(k-1, n, rate) <= .05 {
			t.Errorf("N = %d: the p-values at %d and %d are %v and %v", n, k, k-1, ChancePValue(k, n, rate), ChancePValue(k-1, n, rate))
		}
	}
	if ChancePValue(0, 10, rate) != 1 || ChancePValue(0, 0, rate) != 1 {
		t.Error("no contradictions are not surprising")
	}
	if p := ChancePValue(1, 3, .5); math.Abs(p-.875) > 1e-12 {
		t.Errorf("P(Bin(3, ½) ≥ 1) = %v", p)
	}
}

// The levels of all rounds add up to γ, because Σ 1/k² = π²/6.
func TestRoundLevel(t *testing.T) {
	sum := 0.
	for k := 1; k <= 100000; k++ {
		sum += RoundLevel(.01, k)
	}
	if sum > .01 || sum < .01*(1-1e-4) {
		t.Errorf("the levels add up to %v", sum)
	}
	if got := RoundLevel(1, 1); math.Abs(got-.6079271) > 1e-7 {
		t.Errorf("first round: %v", got)
	}
}

// In a simulation with a fixed seed, the upper bound that Slack returns is below the true margin in at most a share γ
// of the trials. On average it is not far above the true margin.
func TestSlackCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 0))
	const n, trials, gamma, a, b = 500, 2000, .05, .7, .2
	for _, second := range []bool{false, true} {
		margin := a - b
		if second {
			margin = law.Gaussian.Quantile(a) - law.Gaussian.Quantile(b)
		}
		missed, sum := 0, 0.
		for range trials {
			var votesA, votesB int64
			for range n {
				switch u := r.Float64(); {
				case u < a:
					votesA++
				case u < a+b:
					votesB++
				}
			}
			most := Slack(law.Gaussian, second, n, votesA, votesB, gamma)
			sum += most - margin
			if most < margin {
				missed++
			}
		}
		if missed > trials*gamma || sum/trials > .4 || sum < 0 {
			t.Errorf("second %v: the bound is below the margin in %d of %d trials, and %v above on average", second, missed, trials, sum/trials)
		}
	}
	if got := Slack(law.Gaussian, true, 10, 10, 0, .01); !math.IsInf(got, 1) && got < 10 {
		t.Errorf("all votes for the class: margin at most %v", got)
	}
}

// If a certificate claims exactly the true margin, Slack contradicts it with probability at most γ. The test sums exact
// probabilities over all counts for a small n.
func TestSlackLevel(t *testing.T) {
	const n, gamma = 30, .1
	for _, p := range []float64{.55, .7, .9} {
		margin := law.Low(law.Gaussian, p) - law.High(law.Gaussian, 1-p)
		accused := 0.
		for a := int64(0); a <= n; a++ {
			if Slack(law.Gaussian, true, n, a, n-a, gamma) < margin {
				log, _ := math.Lgamma(n + 1)
				lower, _ := math.Lgamma(float64(a) + 1)
				upper, _ := math.Lgamma(float64(n-a) + 1)
				accused += math.Exp(log - lower - upper + float64(a)*math.Log(p) + float64(n-a)*math.Log(1-p))
			}
		}
		if accused > gamma || accused == 0 {
			t.Errorf("p = %v: accused with probability %v, want at most %v", p, accused, gamma)
		}
	}
}

// If certificates are wrong no more often than they state, at most 5 % of the runs may have a p-value of 5 % or less.
// In this simulation with a fixed seed, each run has 1,000 certificates, and each certificate is wrong with probability
// α. The attack finds every wrong certificate. Each verification is wrong with probability γ.
func TestRightRunsAreNotAccused(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	const alpha, gamma, n, trials, level = .001, 1e-5, 1000, 4000, .05
	rate := Rate(alpha, gamma)
	accused := 0
	for range trials {
		k := int64(0)
		for range n {
			if r.Float64() < alpha || r.Float64() < gamma {
				k++
			}
		}
		if ChancePValue(k, n, rate) <= level {
			accused++
		}
	}
	if accused > trials*level || accused < trials*level/10 {
		t.Errorf("%d of %d right runs are accused at level %v", accused, trials, level)
	}
}

// Slack must compute its upper bound on the margin from two Clopper–Pearson bounds, one for each class, both at level
// γ/2.
func TestSlackIsFormula(t *testing.T) {
	want := binomial.UpperBound(70, 100, .05) - binomial.LowerBound(20, 100, .05)
	if got := Slack(law.Gaussian, false, 100, 70, 20, .1); math.Abs(got-want) > 1e-12 || got < want {
		t.Errorf("first margin at most %v, want %v", got, want)
	}
	want = law.High(law.Gaussian, binomial.UpperBound(70, 100, .05)) - law.Low(law.Gaussian, binomial.LowerBound(20, 100, .05))
	if got := Slack(law.Gaussian, true, 100, 70, 20, .1); math.Abs(got-want) > 1e-12 || got < want {
		t.Errorf("second margin at most %v, want %v", got, want)
	}
}
