package calib

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// The function 'planned' returns a plan with one upper bound, and a sample for it.
func planned(t *testing.T) (BoundPlan, *Sample) {
	t.Helper()
	params := BoundParams{CrossFit: CrossFit{Delta: 0.06, Folds: 5, Seed: 3}, Variation: 1}
	return BoundPlan{Methods: BoundMethods[:1], Params: params}, draw(400, 7, (*rand.Rand).Float64, uniform01)
}

// A plan gives each bound the failure probability Delta, or an equal share of Delta if Joint is set.
func TestBoundPlanLevels(t *testing.T) {
	plan, s := planned(t)
	for _, c := range []struct {
		joint, curve bool
		parts        int
		delta        float64
	}{{false, false, 2, 0.06}, {false, true, 3, 0.06}, {true, false, 2, 0.03}, {true, true, 3, 0.02}} {
		plan.Joint, plan.Curve = c.joint, c.curve
		var done []string
		plan.Done = func(bound string) { done = append(done, bound) }
		got, err := plan.Compute(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		upper, err1 := BinnedVariation(s, c.delta, 1)
		lower, err2 := BettingLower(s, c.delta, 3)
		curve, err3 := Curve(s, c.delta)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if !c.curve {
			curve = nil
		}
		want := ErrorBounds{Upper: map[string]Bound{"binned-tv": upper}, Lower: lower, Estimate: EstimateError(s), Curve: curve}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("joint %v, curve %v: %+v, want %+v", c.joint, c.curve, got, want)
		}
		if plan.Parts() != c.parts || !reflect.DeepEqual(done, []string{"binned-tv", "betting"}) {
			t.Errorf("joint %v, curve %v: %d parts, done %v", c.joint, c.curve, plan.Parts(), done)
		}
	}
}

func TestBoundPlanLower(t *testing.T) {
	plan, s := planned(t)
	plan.Lower = LowerMixture
	got, err := plan.Compute(t.Context(), s)
	want, err2 := MixtureLower(s, 0.06, 3)
	if err != nil || err2 != nil || got.Lower != want {
		t.Errorf("%+v, want %+v: %v %v", got.Lower, want, err, err2)
	}
	for _, m := range []LowerMethod{LowerBetting, LowerMixture} {
		text, err := m.MarshalText()
		again := LowerMethod(7)
		if err != nil || again.UnmarshalText(text) != nil || again != m {
			t.Errorf("%s reads back as %d", text, again)
		}
	}
	if _, err := LowerMethod(7).Compute(s, 0.1, 1); err == nil {
		t.Error("a lower bound that does not exist is computed")
	}
}

func TestBoundPlanErrors(t *testing.T) {
	plan, s := planned(t)
	plan.Params.Variation = -1
	var refused *BoundMethodError
	if _, err := plan.Compute(t.Context(), s); !errors.As(err, &refused) || refused.Method != "binned-tv" {
		t.Errorf("error %v", err)
	}
	plan, s = planned(t)
	plan.Methods, plan.Params.Delta = nil, 0
	if _, err := plan.Compute(t.Context(), s); err == nil || errors.As(err, &refused) {
		t.Errorf("without a level: %v", err)
	}
	plan, s = planned(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := plan.Compute(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// If a method uses the weights of all rows, the plan also computes the weighted lower bound. So this joint plan divides
// delta among four bounds.
func TestBoundPlanWithWeights(t *testing.T) {
	plan, s := planned(t)
	plan.Joint, plan.Params.Weighted = true, equalWeights(s)
	plan.Methods = slices.Clone(plan.Methods) // so that the test does not write to BoundMethods
	for _, m := range BoundMethods {
		if m.Assumption == BoundedWeightedVariation {
			plan.Methods = append(plan.Methods, m)
		}
	}
	got, err := plan.Compute(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	delta := plan.Params.Delta / 4
	lower, err1 := WeightedLower(plan.Params.Weighted, delta, plan.Params.Seed)
	upper, err2 := WeightedVariation(plan.Params.Weighted, delta, plan.Params.Variation)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if plan.Parts() != 4 || got.Weighted == nil || *got.Weighted != lower || !reflect.DeepEqual(got.Upper["binned-tv-weighted"], upper) {
		t.Errorf("%d parts, lower %+v, upper %+v", plan.Parts(), got.Weighted, got.Upper)
	}
	plan.Params.Weighted = nil
	var refused *BoundMethodError
	if _, err := plan.Compute(t.Context(), s); !errors.As(err, &refused) || refused.Method != "binned-tv-weighted" {
		t.Errorf("without weights: error %v", err)
	}
}
