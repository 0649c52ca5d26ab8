package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// At the planned size, the mean bound of new calibrated samples is near the gap.
func TestPlanSize(t *testing.T) {
	s := draw(500, 1, uniform, func(float64) float64 { return 1 }) // the labels do not matter
	p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 5, Seed: 4}, Variation: 1}
	for _, gap := range []float64{0.12, 0.06} {
		for _, m := range BoundMethods[:1] {
			n, err := PlanSize(s, m, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for seed := range uint64(20) {
				b, err := m.Compute(draw(n, seed+9, uniform, uniform01), p)
				if err != nil {
					t.Fatal(err)
				}
				sum += b.Value / 20
			}
			if math.Abs(sum-gap) > 0.1*gap {
				t.Errorf("%s: %d scores give %v, want %v", m.Name, n, sum, gap)
			}
		}
	}
	// 64 scores are too few for 50 folds, but more scores are enough.
	p.Folds = 50
	tv := slices.IndexFunc(BoundMethods, func(m BoundMethod) bool { return m.Name == "tv" })
	if n, err := PlanSize(s, BoundMethods[tv], p, 0.97); err != nil || n < 100 {
		t.Errorf("50 folds: %d, %v", n, err)
	}
	for name, bad := range map[string]func() (int, error){
		"gap 0":  func() (int, error) { return PlanSize(s, BoundMethods[0], p, 0) },
		"gap 1":  func() (int, error) { return PlanSize(s, BoundMethods[0], p, 1) },
		"empty":  func() (int, error) { return PlanSize(&Sample{}, BoundMethods[0], p, 0.1) },
		"method": func() (int, error) { p := p; p.Variation = -1; return PlanSize(s, BoundMethods[0], p, 0.1) },
	} {
		if n, err := bad(); err == nil {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// The drawn scores have the distribution of the sample, and each label is 1 with a probability equal to its score. Ties
// remain ties.
func TestCalibratedLike(t *testing.T) {
	s := draw(1000, 2, func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return 0.3
		}
		return 0.6 + 0.3*r.Float64()
	}, uniform01)
	like := s.calibratedLike(20_000, 5)
	scores, labels := unpackAll(like)
	if tied := float64(occurrences(scores, 0.3)) / 20_000; math.Abs(tied-0.5) > 0.06 {
		t.Errorf("a share %v is 0.3", tied)
	}
	if math.Abs(mean(scores)-0.525) > 0.03 || math.Abs(mean(labels)-mean(scores)) > 0.02 {
		t.Errorf("mean score %v, mean label %v", mean(scores), mean(labels))
	}
	if one := draw(1, 1, uniform, uniform01).calibratedLike(3, 1); one.N() != 3 || one.packed[0]>>1 != one.packed[2]>>1 {
		t.Errorf("a single score: %v", one.packed)
	}
}

// smallestPlan finds the smallest size that is enough, and gives up beyond mostPlan.
func TestSmallestPlan(t *testing.T) {
	for _, least := range []int{1, 64, 65, 1000, 4_000_000} {
		n, err := smallestPlan(func(n int) (bool, error) { return n >= least, nil })
		if err != nil || n < least || n > 64 && float64(n) > 1.1*float64(least) {
			t.Errorf("%d, want %d: %v", n, least, err)
		}
	}
	if n, err := smallestPlan(func(int) (bool, error) { return false, nil }); err == nil {
		t.Errorf("no size is enough, but %d is found", n)
	}
	for _, fails := range []int{64, 100, 500} {
		_, err := smallestPlan(func(n int) (bool, error) {
			if n >= fails {
				return n >= 1000, errNoRows
			}
			return false, nil
		})
		if err == nil {
			t.Errorf("an error at %d is lost", fails)
		}
	}
}
