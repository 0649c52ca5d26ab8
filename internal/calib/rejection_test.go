package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomAnswers returns random answers to n examples. Each answer is right with probability rightOf4/4, and many
// confidences are equal.
func randomAnswers(rng *rand.Rand, n, rightOf4 int) (a Answers) {
	for range n {
		a.Confidence, a.Right = append(a.Confidence, float64(rng.IntN(21))/20), append(a.Right, rng.IntN(4) < rightOf4)
	}
	return a
}

// sameRatio checks a share against its numerator and denominator. If the denominator is 0, the share must be NaN.
func sameRatio(t *testing.T, name string, tau, got float64, numerator, denominator int) {
	t.Helper()
	want := float64(numerator) / float64(denominator)
	if got != want && !(denominator == 0 && math.IsNaN(got)) {
		t.Fatalf("%s at τ %v: %v, want %d/%d", name, tau, got, numerator, denominator)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The test computes equation (2) of Stutz's article. It takes each maximum in this equation over the clean input and
// all attacked inputs. It counts the true and false positives from their definitions.
func TestRejectionCurveIsTheEquation(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	for range 500 {
		n := 1 + rng.IntN(20)
		clean := randomAnswers(rng, n, 3)
		attacks := make([]Answers, rng.IntN(4))
		for k := range attacks {
			attacks[k] = randomAnswers(rng, n, 2)
		}
		curve := NewRejectionCurve(clean, attacks...)
		for _, tau := range append(curve.Thresholds(), 0.33, 1.1) {
			var wrong, answered, cleanWrong, cleanAnswered, right, accepted, fooled, passed int
			for i := range n {
				confident := clean.Confidence[i] >= tau
				cleanWrong += count(confident && !clean.Right[i])
				cleanAnswered += count(confident)
				right += count(clean.Right[i])
				accepted += count(clean.Right[i] && confident)
				maxWrong, maxConfident := count(confident && !clean.Right[i]), count(confident)
				isFooled, passes := 0, 0
				for _, a := range attacks {
					confident := a.Confidence[i] >= tau
					maxWrong = max(maxWrong, count(confident && !a.Right[i]))
					maxConfident = max(maxConfident, count(confident))
					isFooled = max(isFooled, count(clean.Right[i] && !a.Right[i]))
					passes = max(passes, count(clean.Right[i] && !a.Right[i] && confident))
				}
				wrong, answered = wrong+maxWrong, answered+maxConfident
				fooled, passed = fooled+isFooled, passed+passes
			}
			got := curve.At(tau)
			sameRatio(t, "clean error", tau, got.CleanError, cleanWrong, cleanAnswered)
			sameRatio(t, "clean answers", tau, got.CleanAnswered, cleanAnswered, n)
			sameRatio(t, "true positives", tau, got.TruePositives, accepted, right)
			if len(attacks) == 0 {
				wrong, answered, fooled = 0, 0, 0
			}
			sameRatio(t, "robust error", tau, got.Robust, wrong, answered)
			sameRatio(t, "false positives", tau, got.FalsePositives, passed, fooled)
		}
	}
}

// The test follows listing 2 of Stutz's article line by line, on random examples under one attack.
func TestRejectionCurveIsTheListing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 500 {
		n := 1 + rng.IntN(30)
		clean, attack := randomAnswers(rng, n, 3), randomAnswers(rng, n, 2)
		curve := NewRejectionCurve(clean, attack)
		for _, tau := range curve.Thresholds() {
			var nominator, denominator int
			for i := range n {
				if clean.Confidence[i] >= tau {
					nominator += count(!clean.Right[i])
					denominator++
				}
				if attack.Confidence[i] >= tau && clean.Right[i] {
					nominator += count(!attack.Right[i])
				}
				if clean.Right[i] && clean.Confidence[i] < tau && !attack.Right[i] && attack.Confidence[i] >= tau {
					denominator++
				}
			}
			sameRatio(t, "listing 2", tau, curve.At(tau).Listed, nominator, denominator)
		}
	}
}

// From just above one value of Thresholds up to the next value, all errors are constant.
func TestRejectionThresholdsAreAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 1))
	for range 100 {
		n := 1 + rng.IntN(20)
		curve := NewRejectionCurve(randomAnswers(rng, n, 3), randomAnswers(rng, n, 2), randomAnswers(rng, n, 2))
		all := curve.Thresholds()
		if all[0] != 0 || !slices.IsSorted(all) {
			t.Fatalf("thresholds %v", all)
		}
		for k, tau := range all[1:] {
			at, below := curve.At(tau), curve.At(math.Nextafter(all[k], 2))
			below.Threshold = tau
			if !sameErrors(at, below) {
				t.Fatalf("between %v and %v: %+v and %+v", all[k], tau, below, at)
			}
		}
		if beyond := curve.At(math.Nextafter(all[len(all)-1], 2)); beyond.CleanAnswered != 0 || !math.IsNaN(beyond.Robust) {
			t.Fatalf("above all confidences: %+v", beyond)
		}
	}
}

func sameErrors(a, b RejectionErrors) bool {
	same := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
	return same(a.Threshold, b.Threshold) && same(a.TruePositives, b.TruePositives) && same(a.CleanError, b.CleanError) &&
		same(a.CleanAnswered, b.CleanAnswered) && same(a.Robust, b.Robust) && same(a.Listed, b.Listed) &&
		same(a.FalsePositives, b.FalsePositives)
}

// An attack raises the confidence of a wrong clean answer above τ. Equation (2) of Stutz's article counts this answer,
// but listing 2 of the article does not.
func TestEquationAndListingDiffer(t *testing.T) {
	clean := Answers{[]float64{.9, .9, .4, .4, .2}, []bool{true, true, true, false, true}}
	attack := Answers{[]float64{.9, .9, .8, .8, .3}, []bool{true, true, false, false, true}}
	c := NewRejectionCurve(clean, attack)
	near(t, "equation (2)", c.At(.5).Robust, 0.5, 0)
	near(t, "listing 2", c.At(.5).Listed, 1./3, 0)
	// At τ = 0, equation (2) and listing 2 both give the plain robust test error.
	near(t, "equation (2) at τ = 0", c.At(0).Robust, 0.4, 0)
	near(t, "listing 2 at τ = 0", c.At(0).Listed, 0.4, 0)
}

// One answer per example is not enough for the worst case of several attacks. The first attack makes a wrong answer of
// confidence 0.4, and the second attack a right answer of confidence 0.9. At τ = 0.5, only the right answer counts, so
// the error is 0. Without the right answer, the example would not be answered, and the error would have no value.
func TestWorstCaseKeepsTwoConfidences(t *testing.T) {
	clean := Answers{[]float64{.3}, []bool{true}}
	c := NewRejectionCurve(clean, Answers{[]float64{.4}, []bool{false}}, Answers{[]float64{.9}, []bool{true}})
	near(t, "τ = 0.5", c.At(.5).Robust, 0, 0)
	near(t, "τ = 0.4", c.At(.4).Robust, 1, 0)
}

// The expected values are computed by hand. The threshold τ = 0.6 follows from the held-out answers. Two of four
// answers reach τ, and one of these two is wrong.
func TestRejectionOfHeldOut(t *testing.T) {
	held := Answers{[]float64{0.6, 0.9, 0.99}, []bool{true, true, false}}
	clean := Answers{[]float64{0.5, 0.59, 0.6, 0.8}, []bool{false, false, true, false}}
	got, err := RejectionPlan{TPR: []float64{1, 0.5}, Tau: []float64{0.55}, HeldOut: &held}.Measure(clean, nil)
	if err != nil || got.Rows != 3 || got.Measured != 4 || len(got.Points) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := RejectionErrors{0.6, 1, 0.5, 0.5, math.NaN(), math.NaN(), math.NaN()}
	if p := got.Points[0]; *p.TPR != 1 || !sameErrors(p.Worst, want) {
		t.Errorf("%+v, want %+v", p.Worst, want)
	}
	if e := got.Points[1].Worst; e.Threshold != 0.9 || !math.IsNaN(e.CleanError) || e.CleanAnswered != 0 {
		t.Errorf("nothing answered: %+v", e)
	}
	if p := got.Points[2]; p.TPR != nil || p.Worst.Threshold != 0.55 || p.Worst.CleanError != 2./3 {
		t.Errorf("τ = 0.55: %+v", p)
	}
	if got.Unthresholded.Worst.CleanError != 0.75 {
		t.Errorf("without a threshold: %+v", got.Unthresholded)
	}
	if _, err := (RejectionPlan{TPR: []float64{1}, HeldOut: &Answers{[]float64{0.6}, []bool{false}}}).Measure(clean, nil); err == nil {
		t.Error("no right held-out answer: no error")
	}
}

// The threshold comes from the rows that Holdout marks, and the errors come from the other rows.
func TestRejectionSplits(t *testing.T) {
	const n, share, seed = 200, 0.1, 7
	rng := rand.New(rand.NewPCG(37, 1))
	clean := randomAnswers(rng, n, 3)
	attacks := [][]Answers{{randomAnswers(rng, n, 2), randomAnswers(rng, n, 2)}, {randomAnswers(rng, n, 2)}}
	got, err := RejectionPlan{TPR: []float64{0.9}, Share: share, Seed: seed}.Measure(clean, attacks)
	if err != nil || got.Rows != 20 || got.Measured != 180 {
		t.Fatalf("%+v, %v", got, err)
	}
	held, err := Holdout(n, share, seed)
	if err != nil {
		t.Fatal(err)
	}
	var in, out Answers
	others := make([]Answers, 3)
	for i, h := range held {
		to := &out
		if h {
			to = &in
		}
		to.Confidence, to.Right = append(to.Confidence, clean.Confidence[i]), append(to.Right, clean.Right[i])
		for k := range others {
			if !h {
				from := slices.Concat(attacks...)[k]
				others[k].Confidence, others[k].Right = append(others[k].Confidence, from.Confidence[i]), append(others[k].Right, from.Right[i])
			}
		}
	}
	tau, err := ThresholdAtTPR(in.Confidence, in.Right, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	point := got.Points[0]
	if want := NewRejectionCurve(out, others...).At(tau); !sameErrors(point.Worst, want) {
		t.Errorf("worst case %+v, want %+v", point.Worst, want)
	}
	for k, of := range [][]Answers{others[:2], others[2:]} {
		if want := NewRejectionCurve(out, of...).At(tau); !sameErrors(point.Attacks[k], want) {
			t.Errorf("attack %d: %+v, want %+v", k, point.Attacks[k], want)
		}
	}
	if len(attacks[0][0].Confidence) != n {
		t.Error("Measure changed its argument")
	}
}
