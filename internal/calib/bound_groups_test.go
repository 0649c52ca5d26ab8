package calib

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// Each group gets the bounds of Compute at Delta/3. WorstOfGroups returns the largest bounds of the groups, and
// MeanOfGroups returns the means of the bounds.
func TestComputeGroups(t *testing.T) {
	plan, first := planned(t)
	groups := []*Sample{first, draw(50, 9, uniform, uniform01), draw(300, 8, uniform, math.Round)}
	got, err := plan.ComputeGroups(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	single := plan
	single.Params.Delta = plan.Params.Delta / 3
	upper, lower := 0.0, 0.0
	for k, s := range groups {
		want, err := single.Compute(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[k], want) {
			t.Errorf("group %d: %+v, want %+v", k, got[k], want)
		}
		upper, lower = math.Max(upper, want.Upper["binned-tv"].Value), math.Max(lower, want.Lower.Value)
	}
	if w := WorstOfGroups(got); lower == 0 || w.Lower != lower || w.Upper["binned-tv"] != upper || len(w.Upper) != 1 {
		t.Errorf("worst %+v, want %v and %v", w, lower, upper)
	}
	sumUpper, sumLower := 0.0, 0.0
	for _, g := range got {
		sumUpper, sumLower = sumUpper+g.Upper["binned-tv"].Value, sumLower+g.Lower.Value
	}
	m := MeanOfGroups(got)
	if u, l := m.Upper["binned-tv"], m.Lower; u < sumUpper/3 || u > sumUpper/3+1e-9 || l > sumLower/3 || l < sumLower/3-1e-9 || len(m.Upper) != 1 {
		t.Errorf("mean %+v, want %v and %v", m, sumUpper/3, sumLower/3)
	}
	plan.Params.Variation = -1
	if _, err := plan.ComputeGroups(t.Context(), groups); err == nil {
		t.Error("no error")
	}
}

// The largest upper bound covers the error of every mixture of the groups, and the largest lower bound is at most the
// error of the worst group. The groups err in opposite directions, so a mixture can be calibrated.
func TestGroupCoverage(t *testing.T) { checkGroupCoverage(t, "binned-tv", LowerBetting, 150, 60, 0.2) }

func checkGroupCoverage(t *testing.T, method string, lowerMethod LowerMethod, n, trials int, delta float64) {
	t.Helper()
	etas := []func(float64) float64{always(0.5), func(s float64) float64 { return 2*s - 0.5 }, uniform01}
	score := func(r *rand.Rand) float64 { return 0.3 + 0.4*float64(r.IntN(2)) }
	truth := func(share [3]float64) float64 {
		sum := 0.0
		for _, s := range []float64{0.3, 0.7} {
			d := 0.0
			for k, eta := range etas {
				d += share[k] * (s - eta(s))
			}
			sum += math.Abs(d) / 2
		}
		return sum
	}
	plan := BoundPlan{Lower: lowerMethod, Params: BoundParams{CrossFit: CrossFit{Delta: delta, Folds: 2}, Variation: 0.8}}
	for _, m := range BoundMethods {
		if m.Name == method {
			plan.Methods = append(plan.Methods, m)
		}
	}
	upper, lower := 0, 0
	rng := rand.New(rand.NewPCG(6, 6))
	for trial := range uint64(trials) {
		var groups []*Sample
		for k, eta := range etas {
			groups = append(groups, draw(n, 3*trial+uint64(k), score, eta))
		}
		plan.Params.Seed = trial
		w := WorstOfGroups(must(plan.ComputeGroups(t.Context(), groups)))
		a, b := rng.Float64(), rng.Float64()
		for _, share := range [][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0.5, 0}, {a * b, a * (1 - b), 1 - a}} {
			if w.Upper[method] < truth(share)-1e-9 {
				upper++
				break
			}
		}
		if w.Lower > math.Max(truth([3]float64{1, 0, 0}), truth([3]float64{0, 1, 0})) {
			lower++
		}
	}
	t.Logf("%s and %s, n %d, δ %v, %d samples: %d false upper bounds, %d false lower bounds", method, lowerMethod, n, delta, trials, upper, lower)
	if tooMany(upper, trials, delta) || tooMany(lower, trials, delta) {
		t.Errorf("of %d: %d upper and %d lower bounds are false", trials, upper, lower)
	}
}
