package admm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The method 'terms' computes the terms of eq. (27) from the variables. Unlike the type 'state', the type 'reference'
// keeps q₁, q₂ and g.
func (s *reference) terms(rho float64) (l Lagrangian) {
	term := func(lambda, d float64) float64 { return lambda*d + rho/2*d*d }
	for k := range s.m {
		var gap float64
		for i := range s.n {
			gap += (s.c[i] - s.z[i][k]) * s.a[i][k]
		}
		l.Objective -= math.Abs(gap)
	}
	for i := range s.n {
		unique, valid := -1.0, 0.0
		for k := range s.m {
			l.Box += term(s.l1[i][k], s.a[i][k]-s.q1[i][k])
			l.Sphere += term(s.l2[i][k], s.a[i][k]-s.q2[i][k])
			l.Confidence += term(s.l5[i][k], s.z[i][k]-s.g[i][k])
			unique += s.a[i][k]
			if s.out[i][k] {
				valid += s.a[i][k]
			}
		}
		l.Unique += term(s.l3[i], unique)
		l.Valid += term(s.l4[i], valid)
	}
	return l
}

// The traced terms equal the terms of the direct implementation of Algorithm 1. The traced assignments
// (Residuals.Assignment) must be those of the first TracedPredictions predictions.
func TestLagrangian(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 40))
	b := mustBins(t, 15)
	samples, clean := certified(r, 60)
	p := mustProblem(t, samples, clean, b)
	par := Params{Start: FromClean, RateZ: 0.001, RateA: 0.01, Growth: 1.01, Rho: 0.02, MaxRho: 5, Steps: 90}
	ref := newReference(b, samples, p.start(par.Start), par)
	traced := 0
	seen := map[string]bool{} // terms that were not 0 in at least one traced step
	p.ADMM(t.Context(), par, 7, func(got Residuals) {
		rho := ref.rho
		ref.step()
		if got.Step%7 != 0 {
			if got.Lagrangian != (Lagrangian{}) || got.Assignment != nil {
				t.Errorf("step %d is not traced, but has %+v", got.Step, got)
			}
			return
		}
		traced++
		want := ref.terms(rho)
		var sum float64
		for name, pair := range map[string][2]float64{
			"objective": {got.Lagrangian.Objective, want.Objective}, "box": {got.Lagrangian.Box, want.Box}, "sphere": {got.Lagrangian.Sphere, want.Sphere},
			"unique": {got.Lagrangian.Unique, want.Unique}, "valid": {got.Lagrangian.Valid, want.Valid},
			"confidence": {got.Lagrangian.Confidence, want.Confidence},
		} {
			sum += pair[1]
			seen[name] = seen[name] || pair[1] != 0
			if want := pair[1]; math.Abs(pair[0]-want) > 1e-7*math.Abs(want)+1e-12 {
				t.Errorf("step %d, %s: %v, want %v", got.Step, name, pair[0], want)
			}
		}
		if math.Abs(got.Lagrangian.Value()-sum) > 1e-7*math.Abs(sum) {
			t.Errorf("step %d: %v, want the sum %v", got.Step, got.Lagrangian.Value(), sum)
		}
		if len(got.Assignment) != TracedPredictions*15 {
			t.Fatalf("step %d: %d assignments", got.Step, len(got.Assignment))
		}
		for c, a := range got.Assignment {
			if math.Abs(a-ref.a[c/15][c%15]) > 1e-9 {
				t.Errorf("step %d: a[%d] is %v, want %v", got.Step, c, a, ref.a[c/15][c%15])
			}
		}
	})
	if traced != 12 || len(seen) != 6 {
		t.Errorf("%d traced steps", traced)
	}
	for name, is := range seen {
		if !is {
			t.Errorf("the term %s is 0 in every step", name)
		}
	}
}
