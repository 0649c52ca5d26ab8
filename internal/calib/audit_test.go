//go:build audit

package calib

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestAuditCoverage is TestCoverage with more samples, larger samples and more folds.
func TestAuditCoverage(t *testing.T) {
	const trials = 1000
	for _, n := range []int{100, 3000} {
		for _, law := range scoreLaws {
			for _, c := range calibrations {
				for _, delta := range []float64{0.05, 0.5} {
					checkCoverage(t, n, trials, 5, delta, law, c)
				}
			}
		}
	}
}

// TestAuditAtom prints a table for docs/calibration-error.md. In the simulation all scores are equal. The table says
// how often each of two bounds is below the true error. These are the Nadaraya–Watson bound of the paper ("printed")
// and its repaired version. Both bounds use a single split into training and validation points, as Proposition 2 of the
// paper does.
func TestAuditAtom(t *testing.T) {
	const train, valid, trials, truth = 2000, 15_000, 4000, 0.2
	rng := rand.New(rand.NewPCG(12, 2))
	points := make([]uint64, valid) // the bounds ignore the labels of these points
	for i := range points {
		points[i] = math.Float64bits(0.3) << 1
	}
	for _, delta := range []float64{0.05, 0.01, 0.001} {
		printed, repaired := 0, 0
		for range trials {
			labels := make([]uint64, train)
			for i := range labels {
				labels[i] = math.Float64bits(0.3)<<1 | uint64(rng.IntN(2))
			}
			below := func(terms, _ Terms) int { return int(indicator(Bound{Terms: terms}.Sum() < truth)) }
			printed += below(newTempered(newSmoother(labels, 1.0/64, Printed)).printed(points, delta/2, newStream(1, 2)))
			repaired += below(newSmoother(labels, 1.0/64, Repaired).repaired(points, delta/4, newStream(1, 1)))
		}
		t.Logf("| %g | %.1f %% | %.1f %% |", delta, 100*float64(printed)/trials, 100*float64(repaired)/trials)
		if tooMany(repaired, trials, delta) {
			t.Errorf("δ = %v: repaired %d of %d", delta, repaired, trials)
		}
		if !tooMany(printed, trials, delta) {
			t.Errorf("δ = %v: printed only %d of %d", delta, printed, trials)
		}
	}
}

// auditTrials returns the number of samples of a simulation. This is the argument 'trials', or the number in the
// environment variable AUDIT_TRIALS if that number is smaller.
func auditTrials(t *testing.T, trials int) int {
	t.Helper()
	text := os.Getenv("AUDIT_TRIALS")
	if text == "" {
		return trials
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("AUDIT_TRIALS=%s: want a number of samples", text)
	}
	return min(n, trials)
}

// TestAuditBinnedCoverage is TestBinnedCoverage with more samples and more sample sizes. For 300 or more scores,
// BinnedQuadratic uses quadraticPath, which is slow. So the test draws fewer samples for the sizes 400 and 3000.
func TestAuditBinnedCoverage(t *testing.T) {
	checkBinnedCoverage(t, map[int]int{
		6: auditTrials(t, 2000), 20: auditTrials(t, 2000), 400: auditTrials(t, 600), 3000: auditTrials(t, 200),
	})
}

// TestAuditSecondOrderCoverage is TestSecondOrderCoverage with more samples.
func TestAuditSecondOrderCoverage(t *testing.T) {
	checkSecondOrderCoverage(t, 30_000, auditTrials(t, 1000))
}

// TestAuditPathCoverage is TestQuadraticPathCoverage with more samples and more sample sizes.
func TestAuditPathCoverage(t *testing.T) {
	checkPathCoverage(t, []int{6, 20, 400}, auditTrials(t, 2000))
}

// TestAuditGroupCoverage is TestGroupCoverage for more methods, with more and larger samples.
func TestAuditGroupCoverage(t *testing.T) {
	for _, n := range []int{20, 400, 3000} {
		for _, delta := range []float64{0.5, 0.05} {
			checkGroupCoverage(t, "binned-tv", LowerBetting, n, auditTrials(t, 2000), delta)
			checkGroupCoverage(t, "binned-best", LowerMixture, n, auditTrials(t, 2000), delta)
		}
	}
}

// TestAuditMonteCarloPower measures the power of MonteCarloTest for docs/metrics.md.
func TestAuditMonteCarloPower(t *testing.T) {
	const trials = 1000
	for _, c := range errorsOfSign {
		bets := 0
		for trial := range uint64(trials) {
			if CalibrationTest(drawPredictions(1000, trial+1, uniform, c.eta)) <= 0.05 {
				bets++
			}
		}
		got := rejections(t, 1000, trials, uniform, c.eta, 0.05)
		t.Logf("%s: power %.2f, by the bets %.2f", c.name, float64(got)/trials, float64(bets)/trials)
		if float64(got) < c.want*trials {
			t.Errorf("%s: %d of %d rejected", c.name, got, trials)
		}
	}
	for _, alpha := range []float64{0.01, 0.05, 0.5} {
		if got := rejections(t, 1000, trials, uniform, uniform01, alpha); tooMany(got, trials, alpha) {
			t.Errorf("%d of %d calibrated samples rejected at %v", got, trials, alpha)
		}
	}
}
