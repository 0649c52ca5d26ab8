package main

import "testing"

// countBelow must count the instances in which the solver's value is smaller than the other solver's value, after both
// are rounded to four decimals. It must return "–" if it compares a solver with itself.
func TestBelow(t *testing.T) {
	all := []found{
		{clean: 0.1, brier: 0.2, dece: 0.20004},
		{clean: 0.3, brier: 0.2, dece: 0.1999},
		{clean: 0.2, brier: 0.2, dece: 0.2002},
	}
	for _, c := range []struct {
		solver      int
		brier, dece string
	}{{0, "1", "2"}, {1, "–", "1"}, {2, "1", "–"}} {
		s := solvers[c.solver]
		if a, b := s.countBelow(all, "Brier confidences"), s.countBelow(all, "dECE"); a != c.brier || b != c.dece {
			t.Errorf("%s: below Brier %s, below dECE %s; want %s and %s", s.name, a, b, c.brier, c.dece)
		}
	}
}
