package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The first three constants are bits for the outcomes under attack: a wrong answer, a right answer, and no answer. A
// union of bits is a set of possible outcomes, and 'anyhow' is the set of all outcomes.
const (
	wrongly = 1 << iota
	rightly
	silently
	anyhow = wrongly | rightly | silently
)

// worstError chooses an outcome for each example, in every possible way. For each choice it computes the share of wrong
// answers among all answers. It returns the largest of these shares. The argument 'failures' is the number of examples
// that may have any outcome. Without answers the share is 0.
func worstError(outcomes []int, failures int) float64 {
	worst := 0.0
	var choose func(i, failures, wrong, right int)
	choose = func(i, failures, wrong, right int) {
		if i == len(outcomes) {
			if wrong > 0 {
				worst = max(worst, float64(wrong)/float64(wrong+right))
			}
			return
		}
		may := outcomes[i]
		if failures > 0 && may != anyhow {
			outcomes[i] = anyhow
			choose(i, failures-1, wrong, right)
			outcomes[i] = may
		}
		if may&wrongly > 0 {
			choose(i+1, failures, wrong+1, right)
		}
		if may&rightly > 0 {
			choose(i+1, failures, wrong, right+1)
		}
		if may&silently > 0 {
			choose(i+1, failures, wrong, right)
		}
	}
	choose(0, failures, 0, 0)
	return worst
}

// The certified error is never below the error that the worst attack causes. The two errors are equal if the number of
// failures is at most the number of right answers.
func TestThresholdedIsTheWorst(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for range 3000 {
		tau := float64(r.IntN(9)) / 8
		var rows RadiusRows
		var outcomes []int
		unknown := r.IntN(2)
		for range unknown {
			outcomes = append(outcomes, anyhow)
		}
		free := 0 // number of examples for which no attack can cause a wrong answer, if their bounds hold
		for range r.IntN(6) {
			l, u := float64(r.IntN(9))/8, float64(r.IntN(9))/8
			l, u = min(l, u), max(l, u)
			may := silently
			switch kind := r.IntN(3); kind {
			case 0: // certified right; an attack can prevent the answer if the confidence can fall below τ
				rows.Intervals = append(rows.Intervals, Bounded{l, u, true})
				if may = rightly | silently; l >= tau {
					may = rightly
				}
				if u < tau {
					may = silently
				}
			case 1: // certified wrong
				rows.Intervals = append(rows.Intervals, Bounded{l, u, false})
				if u >= tau {
					may |= wrongly
				}
				if l >= tau {
					may = wrongly
				}
			case 2:
				rows.Uncertified = append(rows.Uncertified, Uncertified{l, u, 0.5, r.IntN(2) == 0})
				if u >= tau {
					may |= rightly
				}
				if 1-l >= tau {
					may |= wrongly
				}
			}
			if may&wrongly == 0 {
				free++
			}
			outcomes = append(outcomes, may)
		}
		got := rows.Threshold(tau, unknown)
		for k := range 3 {
			bound, worst := got.Error(int64(k)), worstError(outcomes, k)
			if bound < worst || bound > 1 {
				t.Fatalf("τ = %v, %d failures of %+v, %d unknown: %v, an attack attains %v", tau, k, rows, unknown, bound, worst)
			}
			// The error is largest if the k failures concern right answers. If there are at least k right answers, the
			// bound is attained.
			if k <= got.Right && bound > worst+1e-15 {
				t.Fatalf("τ = %v, %d failures of %+v, %d unknown: %v, the worst attack attains %v", tau, k, rows, unknown, bound, worst)
			}
		}
	}
}

// The test compares the counts with counts made by hand, for scores at or next to τ.
func TestThreshold(t *testing.T) {
	rows := RadiusRows{
		Intervals: []Bounded{{0.7, 0.9, true}, {0.69, 0.9, true}, {0.2, 0.7, false}, {0.2, 0.69, false}},
		Uncertified: []Uncertified{
			{Lower: 0.3}, {Lower: 0.31}, {Lower: 0.29}, // 1 − 0.3 equals 0.7 in float64
		},
	}
	for _, tt := range []struct {
		tau          float64
		wrong, right int
	}{{0.7, 3 + 5, 1}, {0.69, 5 + 5, 2}, {0, 5 + 5, 2}, {1, 5, 0}} {
		got := rows.Threshold(tt.tau, 5)
		if got != (Thresholded{tt.tau, tt.wrong, tt.right}) {
			t.Errorf("τ = %v: %+v, want %d and %d", tt.tau, got, tt.wrong, tt.right)
		}
	}
	for _, tt := range []struct {
		wrong, right int
		failures     int64
		want         float64
	}{{0, 0, 0, 0}, {0, 9, 0, 0}, {0, 0, 1, 1}, {0, 10, 3, 0.3}, {2, 8, 3, 0.5}, {2, 8, 8, 1}, {2, 8, 9, 1}, {3, 0, 0, 1}} {
		got := Thresholded{0.5, tt.wrong, tt.right}.Error(tt.failures)
		if got < tt.want || got > tt.want*(1+1e-15) {
			t.Errorf("%d wrong, %d right, %d failures: %v, want %v rounded up", tt.wrong, tt.right, tt.failures, got, tt.want)
		}
	}
	// Error must round up every quotient.
	for wrong := 1; wrong < 60; wrong++ {
		for right := range 60 {
			got := Thresholded{0.5, wrong, right}.Error(0)
			if got*float64(wrong+right) < float64(wrong) || got > math.Nextafter(float64(wrong)/float64(wrong+right), 2) {
				t.Errorf("%d of %d: %v", wrong, wrong+right, got)
			}
		}
	}
}
