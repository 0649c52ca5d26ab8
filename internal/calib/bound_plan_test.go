package calib

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// planned returns a plan with one upper bound, and a sample for it.
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
		want := ErrorBounds{map[string]Bound{"binned-tv": upper}, lower, EstimateError(s), curve}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("joint %v, curve %v: %+v, want %+v", c.joint, c.curve, got, want)
		}
		if plan.Parts() != c.parts || !reflect.DeepEqual(done, []string{"binned-tv", "betting"}) {
			t.Errorf("joint %v, curve %v: %d parts, done %v", c.joint, c.curve, plan.Parts(), done)
		}
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
