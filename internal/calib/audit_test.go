//go:build audit

package calib

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestAuditCoverage is TestCoverage with more and larger samples and more folds.
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

// TestAuditAtom counts how often two Nadaraya–Watson bounds are below the true error on 10⁶ equal scores: the bound as
// printed in the paper and the repaired bound. Like the command rscert, the test cross-fits both bounds over five
// folds.
func TestAuditAtom(t *testing.T) {
	const n, trials, delta, truth = 1_000_000, 200, 0.001, 0.2
	printed, repaired := 0, 0
	for trial := range uint64(trials) {
		s := draw(n, trial, scoreLaws[2].draw, func(float64) float64 { return 0.5 })
		for _, kind := range []NadarayaWatsonKind{Printed, Repaired} {
			b, err := NadarayaWatson(s, CrossFit{delta, 5, trial}, 1.0/64, kind)
			if err != nil {
				t.Fatal(err)
			}
			if b.Sum() < truth && kind == Printed {
				printed++
			} else if b.Sum() < truth {
				repaired++
			}
		}
	}
	t.Logf("below the truth: printed %d, repaired %d of %d, δ = %v", printed, repaired, trials, delta)
	if tooMany(repaired, trials, delta) {
		t.Errorf("repaired: %d of %d", repaired, trials)
	}
	if !tooMany(printed, trials, delta) {
		t.Errorf("printed: only %d of %d", printed, trials)
	}
}

// TestAuditBinnedCoverage is TestBinnedCoverage with more samples and more sample sizes.
func TestAuditBinnedCoverage(t *testing.T) {
	checkBinnedCoverage(t, []int{6, 20, 400, 3000}, 2000)
	checkSecondOrderCoverage(t, 30_000, 1000)
}

// TestAuditGaps prints the table of docs/calibration-error.md about calibrated classifiers: the mean distance between an
// upper bound and CE for V = 1 and δ = 0.05.
func TestAuditGaps(t *testing.T) {
	steep := func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 1./8) } // beta(8, 1)
	square := func(s float64) float64 { return s * s }
	for _, l := range []struct {
		name  string
		draw  func(*rand.Rand) float64
		eta   func(float64) float64
		truth float64
	}{{"calibrated, uniform scores", uniform, uniform01, 0}, {"calibrated, beta(8,1) scores", steep, uniform01, 0},
		{"η = s²", uniform, square, 1. / 6}} {
		for _, c := range []struct{ n, trials int }{{1000, 16}, {10_000, 16}, {100_000, 16}, {1_000_000, 16}} {
			mean := map[string]float64{}
			var seconds float64
			for trial := range uint64(c.trials) {
				s := draw(c.n, trial+1, l.draw, l.eta)
				for name, bound := range map[string]func(*Sample, float64, float64) (Bound, error){"binned-tv": BinnedVariation,
					"binned-bentkus": BinnedBentkus, "binned-quadratic": BinnedQuadratic, "binned-best": BinnedBest} {
					start := time.Now()
					b, err := bound(s, 0.05, 1)
					if err != nil {
						t.Fatal(err)
					}
					if name == "binned-best" {
						seconds += time.Since(start).Seconds() / float64(c.trials)
					}
					mean[name] += (b.Value - l.truth) / float64(c.trials)
				}
			}
			t.Logf("| %s | %d | %.4f | %.4f | %.4f | %.4f |  %.2f s", l.name, c.n, mean["binned-tv"], mean["binned-bentkus"],
				mean["binned-quadratic"], mean["binned-best"], seconds)
			if mean["binned-best"] > mean["binned-tv"]+0.0002 {
				t.Errorf("%s, n %d: binned-best is looser than binned-tv", l.name, c.n)
			}
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
