package conformal

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/law"
)

// Another program computed the wanted pairs, by bisection with a tolerance of 1e-9, for m = m′ = 5, 10, 20, 50 and 100.
func TestBestPairs(t *testing.T) {
	draws := []int64{5, 10, 20, 50, 100}
	for shift, want := range map[float64][]countPair{
		0.25: {{3, 2}, {6, 4}, {12, 9}, {28, 22}, {55, 45}},
		0.5:  {{4, 2}, {7, 4}, {13, 8}, {30, 20}, {60, 40}},
		1:    {{4, 1}, {7, 3}, {14, 6}, {35, 15}, {70, 31}},
	} {
		for i, m := range draws {
			s := pairSearch{law: law.Gaussian, shift: shift, m: m, draws: m, queries: 1}
			if got, ok := s.bestPair(countPair{}); !ok || got != want[i] {
				t.Errorf("rho %v, m %d: %v, want %v", shift, m, got, want[i])
			}
		}
	}
}

// holdsOnGrid compares the logarithms of the two sides of the claim's inequality at many points z from −25 to 25. It
// computes tails by gonum's incomplete beta function, and replaces a tiny tail by its first term.
func holdsOnGrid(c pairClaim) bool {
	for z := -25.0; z <= 25; z += 0.01 {
		p, _ := c.law.CDF(z)
		q, _ := c.law.CDF(z - c.shift)
		miss, _ := c.law.CDF(-z)
		attacked, _ := c.law.CDF(c.shift - z)
		left, right := logTail(c.m, c.t, p), float64(c.queries)*logTail(c.draws, c.need, q)
		outside, outsideAttacked := logTail(c.m, c.m-c.t+1, miss), logTail(c.draws, c.draws-c.need+1, attacked)
		if left > right+1e-9 || c.queries == 1 && outside < outsideAttacked-1e-9 {
			return false
		}
	}
	return true
}

// logTail returns ln P(Bin(n, p) ≥ k).
func logTail(n, k int64, p float64) float64 {
	a, b := float64(k), float64(n-k+1)
	switch {
	case p <= 0:
		return math.Inf(-1)
	case p >= 1:
		return 0
	}
	if a*math.Log(p) < -300 { // the other terms of a tiny tail add little to its first term
		return -math.Log(a+b) - mathext.Lbeta(a+1, b) + a*math.Log(p) + (b-1)*math.Log1p(-p)
	}
	return math.Log(mathext.RegIncBeta(a, b, p))
}

// For every proved pair, the inequality in the comment on the type 'pairClaim' must hold at every point of a grid. For
// every refuted pair, this inequality must fail at a point of the grid. Nearly all pairs must be either proved or
// refuted.
func TestProofsOfPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	count := map[verdict]int{}
	for range 600 {
		m, draws := 1+r.Int64N(40), 1+r.Int64N(40)
		need := 1 + r.Int64N(draws)
		l := law.Additives()[r.IntN(2)]
		shift := []float64{0, 0.1, 0.5, 1, 2}[r.IntN(5)]
		p, _ := l.CDF(l.Quantile(float64(need)/float64(draws+1)) + shift)
		ideal := int64(p*float64(m+1)) + r.Int64N(8)
		c := pairClaim{newTarget(l, shift, draws, need, 1+r.Int64N(3)), m, min(max(1, ideal), m)}
		got := c.prove()
		count[got]++
		if holds := holdsOnGrid(c); got == proved && !holds || got == refuted && holds {
			t.Errorf("%s %+v, t %d of %d: verdict %d, but on a grid %v", l.Name(), c.target, c.t, c.m, got, holds)
		}
	}
	if count[proved] < 100 || count[refuted] < 100 || count[unproved] > 30 {
		t.Errorf("proved %d, refuted %d, neither %d", count[proved], count[refuted], count[unproved])
	}
}

// The best pair must be proved. The pair with the same t and the next larger t′ must not be proved.
func TestBestPairsAreTight(t *testing.T) {
	for _, l := range []law.Additive{law.Gaussian, law.Laplace} {
		for _, draws := range []int64{5, 20, 64} {
			s := pairSearch{law: l, shift: 0.7, m: 40, draws: draws, queries: 2}
			best, ok := s.bestPair(countPair{})
			if !ok || s.claim(best.t, best.need).prove() != proved {
				t.Fatalf("%s, %d draws: no pair", l.Name(), draws)
			}
			if !holdsOnGrid(s.claim(best.t, best.need)) {
				t.Errorf("%s, %d draws: %v does not hold", l.Name(), draws, best)
			}
			if s.claim(best.t, best.need+1).prove() == proved {
				t.Errorf("%s, %d draws: %v is not the best", l.Name(), draws, best)
			}
		}
	}
}

// Without an attack, the best pair for m = m′ = 9 must be 5 → 5, and the pair 4 → 5 must be refuted. For uniform noise,
// no pair is valid, because g is 0 for small p. For one draw per query, no pair is valid either.
func TestPairsAtTheLimits(t *testing.T) {
	if s := (pairSearch{law: law.Gaussian, m: 9, draws: 9, queries: 1}); true {
		if got, ok := s.bestPair(countPair{}); !ok || got != (countPair{5, 5}) {
			t.Errorf("without an attack: %v, %v", got, ok)
		}
	}
	if got := (pairClaim{newTarget(law.Gaussian, 0, 9, 5, 1), 9, 4}).prove(); got != refuted {
		t.Errorf("4 of 9 for 5 of 9 without an attack: verdict %d", got)
	}
	if got, ok := (pairSearch{law: law.Uniform, shift: 0.1, m: 20, draws: 20, queries: 1}).bestPair(countPair{}); ok {
		t.Errorf("uniform noise: %v", got)
	}
	if got, ok := (pairSearch{law: law.Gaussian, shift: 0.1, m: 50, draws: 1, queries: 1}).bestPair(countPair{}); ok {
		t.Errorf("one draw per query: %v", got)
	}
}

// The inequality in the comment on the type 'end' must hold at the number that the method 'start' returns, and on a
// grid of smaller numbers. The lower end, the interval that the method 'span' returns, and the upper end must follow
// each other without a gap.
func TestEnds(t *testing.T) {
	for _, l := range []law.Additive{law.Gaussian, law.Laplace} {
		for _, c := range []pairClaim{
			{newTarget(l, 1, 20, 6, 1), 20, 14}, {newTarget(l, 0.25, 10, 4, 1), 10, 6}, {newTarget(l, 1, 20, 3, 2), 20, 14},
		} {
			for name, e := range map[string]end{"lower": c.lower(), "upper": c.upper()} {
				start, ok := e.start()
				if !ok {
					t.Fatalf("%s %s %+v: no start", l.Name(), name, c)
				}
				if from, to, ok := c.span(); !ok || name == "lower" && from > start+c.shift || name == "upper" && to < -start {
					t.Fatalf("%s %s %+v: from %v to %v does not meet the end at %v", l.Name(), name, c, from, to, start)
				}
				for x := start; x > -25; x -= 0.25 {
					if !e.holds(x) {
						t.Fatalf("%s %s %+v: fails at %v below the start %v", l.Name(), name, c, x, start)
					}
				}
			}
		}
	}
	// For Gaussian noise, the method 'start' succeeds (its result 'ok' is true) only if k < k′. For k ≥ k′, the
	// inequality in the comment on the type 'end' fails for small x.
	e := end{law: law.Gaussian, shift: 1, small: power{20, 8, 1}, big: power{20, 8, 1}}
	if _, ok := e.start(); ok {
		t.Error("equal powers have a start")
	}
}

// A cell may count as proved only if the inequality in the comment on the type 'pairClaim' holds in the whole cell.
// Many pairs in this test violate the inequality at moderate z. Therefore, in many cells, the inequality holds in one
// part of the cell and fails in another part.
func TestCells(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	count := map[bool]int{}
	for range 30000 {
		m := 5 + r.Int64N(30)
		need := 1 + r.Int64N(m/2)
		queries := 1 + r.Int64N(2)
		c := pairClaim{newTarget(law.Gaussian, 0.2+r.Float64(), m, need, queries), m, min(m, need+r.Int64N(m/2))}
		left := -4 + 7*r.Float64()
		right := left + 1.5*r.Float64()
		holds := true
		for i := range 21 {
			z := left + (right-left)*float64(i)/20
			p, q := 0.5*math.Erfc(-z/math.Sqrt2), 0.5*math.Erfc((c.shift-z)/math.Sqrt2)
			if atLeast(int(m), int(c.t), p) > math.Pow(atLeast(int(m), int(need), q), float64(queries))+1e-12 {
				holds = false
			}
		}
		got := c.holds(left, right)
		count[got]++
		if got && !holds {
			t.Fatalf("%+v, t %d of %d: the inequality fails in the cell [%v, %v]", c.target, c.t, m, left, right)
		}
		if !holds && c.middle(left, right) == proved {
			t.Fatalf("%+v, t %d of %d: the inequality fails between %v and %v", c.target, c.t, m, left, right)
		}
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("%d cells hold, %d do not", count[true], count[false])
	}
}

// The method end.holds must evaluate the formula in the comment on the type 'end'. Where this formula holds, the
// inequality in the comment on the type 'pairClaim' must hold too.
func TestEndIsItsFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	choose := func(n, k int64) float64 {
		return -math.Log(float64(n+1)) - mathext.Lbeta(float64(k+1), float64(n-k+1))
	}
	count := map[bool]int{}
	for range 4000 {
		m := 3 + r.Int64N(30)
		need := 1 + r.Int64N(m-1)
		queries := 1 + r.Int64N(3)
		c := pairClaim{newTarget(law.Gaussian, 0.1+r.Float64(), m, need, queries), m, min(m, need+1+r.Int64N(m/2))}
		x := -6 + 6*r.Float64()
		small, big := 0.5*math.Erfc(-x/math.Sqrt2), 0.5*math.Erfc(-(x+c.shift)/math.Sqrt2)
		for name, e := range map[string]end{"lower": c.lower(), "upper": c.upper()} {
			left := float64(e.small.times) * (choose(e.small.n, e.small.k) + float64(e.small.k)*math.Log(small) + float64(e.small.n-e.small.k)*math.Log1p(-small))
			right := choose(e.big.n, e.big.k) + float64(e.big.k)*math.Log(big)
			if name == "upper" {
				right += math.Log(float64(queries))
			}
			got := e.holds(x)
			if math.Abs(left-right) > 1e-5 && got != (left > right) {
				t.Fatalf("%s end of %+v, t %d at %v: %v, but the sides are %v and %v", name, c.target, c.t, x, got, left, right)
			}
			count[got]++
			if !got {
				continue
			}
			n, q := float64(m), float64(queries)
			ok := math.Log(atLeast(int(m), int(c.t), big)) <= q*math.Log(atLeast(int(m), int(need), small))+1e-9
			if name == "upper" {
				covered := math.Log1p(-mathext.RegIncBeta(n-float64(need)+1, float64(need), big))
				ok = mathext.RegIncBeta(n-float64(c.t)+1, float64(c.t), small) >= -math.Expm1(q*covered)*(1-1e-9)
			}
			if !ok {
				t.Fatalf("%s end of %+v, t %d at %v: the tails do not satisfy the inequality", name, c.target, c.t, x)
			}
		}
	}
	if count[true] < 500 || count[false] < 500 {
		t.Errorf("%d ends hold, %d do not", count[true], count[false])
	}
}

// Let λ = f/F. The inequality k·λ(x) ≤ k′·λ(x+ρ) must hold for all x for which x+ρ is at most the result of
// hazardLimit.
func TestHazardLimit(t *testing.T) {
	for _, l := range law.Additives() {
		hazard := func(x float64) float64 {
			p, _ := l.CDF(x)
			return l.Density(x) / p
		}
		for _, shift := range []float64{0, 0.3, 1, 4} {
			for _, k := range [][2]int64{{20, 21}, {3, 7}, {5, 5}, {6, 5}, {1, 30}} {
				limit, ok := hazardLimit(l, shift, k[0], k[1])
				want := k[0] <= k[1] && (shift == 0 || l == law.Laplace || l == law.Gaussian && k[0] < k[1])
				if ok != want {
					t.Errorf("%s, rho %v, powers %v: %v", l.Name(), shift, k, ok)
				}
				if !ok || l == law.Uniform {
					continue
				}
				for y := math.Min(limit, 3); y > -25; y -= 0.05 {
					if float64(k[0])*hazard(y-shift) > float64(k[1])*hazard(y)*(1+1e-9) {
						t.Fatalf("%s, rho %v, powers %v: wrong at %v below the limit %v", l.Name(), shift, k, y, limit)
					}
				}
			}
		}
	}
}

// The condition has a left side and a right side. For each side, the code computes bounds, and these must be rounded
// outward: lower bounds down, and upper bounds up.
func TestTargetRoundsOutward(t *testing.T) {
	for _, l := range law.Additives() {
		const queries = 3
		g := newTarget(l, 0.8, 20, 6, queries)
		for z := -6.0; z <= 6; z += 0.05 {
			p, e := l.CDF(z)
			q, _ := l.CDF(z - 0.8)
			tail := 0.0
			if q > 0 && q < 1 {
				tail = mathext.RegIncBeta(6, 15, q)
			} else if q >= 1 {
				tail = 1
			}
			tail = math.Pow(tail, queries)
			if g.low(z) > p || g.high(z) < p || g.high(z)-g.low(z) > 3*e*p+1e-299 {
				t.Fatalf("%s %v: [%v, %v] for %v", l.Name(), z, g.low(z), g.high(z), p)
			}
			if g.attackedLow(z) > q || g.floor(z) > tail+1e-14 || g.missCeiling(z) < 1-tail-1e-14 {
				t.Fatalf("%s %v: g %v, want at most %v; H %v, want at most %v", l.Name(), z, g.attackedLow(z), q, g.floor(z), tail)
			}
			if g.floor(z) < tail*(1-1e-9)-1e-14 || g.missCeiling(z) > 1-tail+1e-9 {
				t.Fatalf("%s %v: bounds %v and %v for %v", l.Name(), z, g.floor(z), g.missCeiling(z), tail)
			}
		}
	}
}

func TestPowerDown(t *testing.T) {
	for _, x := range []float64{0, 1e-9, 0.3, 0.999, 1 - unit, 1} {
		for _, q := range []int64{1, 2, 3, 7, 1000} {
			got, want := powerDown(x, q), math.Pow(x, float64(q))
			if got > want || want > least && got < want*(1-1e-12) {
				t.Errorf("%v^%d = %v, want %v", x, q, got, want)
			}
		}
	}
}
