//go:build audit

package calib

import "testing"

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
// printed in the paper and the repaired bound. The test cross-fits both bounds over five folds, as the command does.
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
	checkBinnedCoverage(t, []int{20, 400, 3000}, 2000)
	checkSecondOrderCoverage(t, 30_000, 1000)
}
