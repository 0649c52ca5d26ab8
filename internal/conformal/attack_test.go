package conformal

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

func TestShift(t *testing.T) {
	for _, tt := range []struct {
		attack Attack
		want   float64
	}{
		{Attack{}, 0}, {Attack{Scale: 0.5}, 0}, {Attack{Scale: 0.5, Radius: 0.25}, 0.5},
		{Attack{Scale: 0.5, Radius: 0.25, PoisonRadius: 0.5, Rounding: 0.125}, 1.75},
	} {
		if got := tt.attack.Shift(); got != tt.want {
			t.Errorf("%+v: rho %v, want %v", tt.attack, got, tt.want)
		}
	}
	// The proofs must use a shift slightly above radius/scale, because the computed quotient is rounded.
	if g := newTarget(law.Gaussian, 1.0/3, 1, 1, 1); !(g.shift > 1.0/3 && g.shift < 1.0/3+1e-14) {
		t.Errorf("the proofs use rho %v", g.shift)
	}
}

// A claim names everything that the guarantee depends on.
func TestClaim(t *testing.T) {
	for _, tt := range []struct {
		params Params
		want   []string
	}{
		{Params{Rule: Count}, []string{"at least 0.9,", "over calibration examples and queries", "L2 radius 0.25", "exchangeable", "fresh and secret"}},
		{Params{Rule: Count, Miss: 0.05, Guarantee: Training, Delta: 0.2}, []string{"0.95", "share 0.2", "independent and identically"}},
		{Params{Rule: Count, Draws: 5, Guarantee: Label}, []string{"every true class"}},
		{Params{Rule: Count, Draws: 5, Guarantee: Group}, []string{"every group", "must not change"}},
		{Params{Rule: Count, Poisoned: 3, Attack: Attack{Radius: 0.1, PoisonRadius: 0.05, Scale: 1, Law: law.Of(law.Laplace), Queries: 2}},
			[]string{"2 adaptive submissions", "L1 radius 0.1", "L1 radius 0.05", "any 3 calibration examples"}},
		{Params{Rule: BinCP}, []string{"at least 0.9,"}},
		{Params{Rule: Clean}, []string{"no guarantee"}},
	} {
		claim := newDesign(t, tt.params).Claim()
		for _, want := range tt.want {
			if !strings.Contains(claim, want) {
				t.Errorf("%+v: claim %q does not contain %q", tt.params, claim, want)
			}
		}
	}
}
