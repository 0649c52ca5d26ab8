package conformal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// An exampleLaw is a probability distribution of examples. The examples are of one or more kinds. The slice 'shares'
// holds the probability of each kind. Every score is one of several numbers, which are called levels. The levels are
// numbered in ascending order. For a kind of example and a level, the function p returns the probability that a noisy
// score of such an example reaches the level.
type exampleLaw struct {
	name   string
	levels int
	shares []float64
	p      func(kind, level int) float64
}

// The function 'laws' returns the laws of examples that the tests use. Some laws have one kind of example, and some
// have several kinds. The scores have Gaussian, heavy-tailed, bimodal or almost deterministic distributions.
func laws() []exampleLaw {
	const levels = 240
	tau := func(level int) float64 { return -8 + 14*float64(level)/levels }
	normal := func(x float64) float64 { return mathext.NormalQuantile(x) }
	phi := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	location := make([]float64, 41)
	for i := range location {
		location[i] = normal((float64(i) + 0.5) / 41)
	}
	equal := func(k int) []float64 {
		s := make([]float64, k)
		for i := range s {
			s[i] = 1 / float64(k)
		}
		return s
	}
	return []exampleLaw{
		{"one kind", levels, equal(1), func(_, l int) float64 { return phi(-tau(l)) }},
		{"locations", levels, equal(41), func(k, l int) float64 { return phi(location[k] - tau(l)) }},
		{"steep", levels, equal(41), func(k, l int) float64 { return phi(8 * (location[k] - tau(l))) }},
		{"easy and hard", levels, []float64{0.88, 0.12}, func(k, l int) float64 { return phi(3 - 4.5*float64(k) - tau(l)) }},
		{"heavy tails", levels, equal(41), func(k, l int) float64 { return 0.5 + math.Atan(location[k]-tau(l))/math.Pi }},
		{"two modes", levels, equal(2), func(k, l int) float64 {
			return (0.35+0.6*float64(k))*phi(6*(1-tau(l))) + (0.65-0.6*float64(k))*phi(6*(-1-tau(l)))
		}},
	}
}

// coverage returns P(Y ∈ C(X′)) exactly, for independent examples and the attack p′ = g(p). The threshold τ̂ is at
// least a level if and only if this level meets the inequality in the definition of τ̂ (package comment). So the
// distribution of τ̂ follows from the distribution of the counts at each level.
func (c exampleLaw) coverage(d *Predictor, attacked func(p float64) float64) float64 {
	reached := make([]float64, c.levels+1) // P(τ̂ ≥ level)
	covered := make([]float64, c.levels)   // P(Y ∈ C) given τ̂ = level
	for l := range c.levels {
		counts := make([]float64, d.M+1) // distribution of a count
		for k, share := range c.shares {
			p := c.p(k, l)
			for n := range counts {
				counts[n] += share * mass(int(d.M), n, p)
			}
			covered[l] += share * atLeast(int(d.QueryM), int(d.QueryT), attacked(p))
		}
		reached[l] = d.reaches(counts)
	}
	total := 1 - reached[0]
	for l := range c.levels {
		total += math.Max(0, reached[l]-reached[l+1]) * covered[l]
	}
	return total
}

// The method 'reaches' returns the probability that the sum in the definition of τ̂ (package comment) is at most
// (n+1)a. The argument 'counts' is the distribution of the number of an example's noisy scores that reach a level.
func (p *Predictor) reaches(counts []float64) float64 {
	n := int(p.N)
	if len(p.Weights) == 0 {
		below := 0.0
		for _, x := range counts[:min(int(p.T), len(counts))] {
			below += x
		}
		k := int(p.Cells[0].K)
		return 1 - atLeast(n, k, below)
	}
	w := p.Weights // w(0), …, w(m): the degree is m
	total := 0.0
	limit := float64(n+1)*p.Miss - (1 - w[0]) + 1e-12
	for i := range n + 1 {
		outer := mass(n, i, counts[0])
		for j := range n - i + 1 {
			last := len(w) - 1
			sum := float64(i)*(1-w[0]) + float64(j)*(1-w[1]) + float64(n-i-j)*(1-w[last])
			if len(w) == 2 && j > 0 || sum > limit {
				break
			}
			share := 1.0
			if len(w) == 3 {
				share = mass(n-i, j, counts[1]/(1-counts[0]))
			}
			total += outer * share
		}
	}
	return total
}

func mass(n, k int, p float64) float64 {
	p = math.Min(1, math.Max(0, p))
	if p == 0 || p == 1 {
		if p == 0 && k == 0 || p == 1 && k == n {
			return 1
		}
		return 0
	}
	a, b := float64(k)+1, float64(n-k)+1
	return math.Exp(-math.Log(float64(n+1)) - mathext.Lbeta(a, b) + (a-1)*math.Log(p) + (b-1)*math.Log1p(-p))
}

func atLeast(n, k int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// The function 'designs' returns a calibrated Predictor for each rule that the tests check, with a = 0.1, ρ = 1 and n =
// 99 examples.
func designs(t *testing.T) map[string]*Predictor {
	t.Helper()
	attack := Attack{Radius: 0.5, Scale: 0.5}
	list := map[string]*Predictor{}
	for name, p := range map[string]Params{
		"count 5":   {Rule: Count, Draws: 5},
		"count 20":  {Rule: Count, Draws: 20},
		"count 100": {Rule: Count, Draws: 20, CalibrationDraws: 100},
		"weights 2": {Rule: Weights, Draws: 1, CalibrationDraws: 2, Degree: 2},
		"rcp1":      {Rule: RCP1},
	} {
		p.Attack, p.Miss, p.Guarantee, p.Scorer = attack, 0.1, Marginal, NewScorer(THR)
		d, err := NewDesign(p)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = calibrated(t, d, 99)
	}
	return list
}

// The function 'calibrated' returns a Predictor that is calibrated on n examples. The scores of the examples are
// arbitrary, because the tests do not use the thresholds.
func calibrated(t *testing.T, d *Design, n int) *Predictor {
	t.Helper()
	c := d.Calibrator()
	for i := range n {
		scores := make([]float64, d.M)
		for j := range scores {
			scores[j] = float64(i)
		}
		if err := c.Add(Point{Scores: scores}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.Predictor(10)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func gaussianAttack(rho float64) func(float64) float64 {
	return func(p float64) float64 {
		if p <= 0 || p >= 1 {
			return p
		}
		return 0.5 * math.Erfc(-(mathext.NormalQuantile(p)-rho)/math.Sqrt2)
	}
}

// For each of 30 pairs of a law and a rule, the exact coverage under the worst attack is at least 1 − a. For some pairs
// the coverage is close to 1 − a. So an error in the rules would make the test fail (TestExactCoverageDetectsErrors).
func TestExactCoverage(t *testing.T) {
	lowest, highest := 1.0, 0.0
	for name, d := range designs(t) {
		for _, c := range laws() {
			got := c.coverage(d, gaussianAttack(1))
			t.Logf("%-10s %-14s %.4f", name, c.name, got)
			lowest, highest = math.Min(lowest, got), math.Max(highest, got)
		}
	}
	if lowest < 0.9 || lowest > 0.91 || highest > 0.9999 {
		t.Errorf("coverage from %v to %v, want from at least 0.9", lowest, highest)
	}
}

// If t, t′, the rank, the weights or the radius of a rule are slightly wrong, its exact coverage under the worst attack
// is below 1 − a. So TestExactCoverage detects such errors.
func TestExactCoverageDetectsErrors(t *testing.T) {
	tight := []int{0, 2} // the laws with the least coverage
	worst := func(d *Predictor, rho float64) float64 {
		least := 1.0
		for _, i := range tight {
			c := laws()[i]
			least = math.Min(least, c.coverage(d, gaussianAttack(rho)))
		}
		return least
	}
	for name, change := range map[string]func(d *Predictor) float64{
		"a larger t′": func(d *Predictor) float64 { d.QueryT++; return 1 },
		"a smaller t": func(d *Predictor) float64 { d.T--; return 1 },
		"a rank more": func(d *Predictor) float64 { d.Cells[0].K += 2; return 1 },
		"an attack":   func(*Predictor) float64 { return 1.15 },
	} {
		d := designs(t)["count 20"]
		rho := change(d)
		if got := worst(d, rho); got >= 0.9 {
			t.Errorf("%s: coverage %v", name, got)
		}
	}
	for _, name := range []string{"rcp1", "weights 2"} {
		d := designs(t)[name]
		for k := range d.Weights {
			d.Weights[k] += 0.1
		}
		if got := worst(d, 1); got >= 0.9 {
			t.Errorf("%s with larger weights: coverage %v", name, got)
		}
	}
}

// The test simulates each rule under the worst attack: it draws scores, calibrates and computes the set of a query. The
// score is the noisy input itself. The attack lowers the input by the radius. The sets of each rule must cover the true
// class with a probability of at least 1 − a. The number of misses may be at most four standard deviations above its
// expected value for the coverage 1 − a.
func TestSimulatedCoverage(t *testing.T) {
	const queries, sigma, radius, miss = 1200, 0.5, 0.5, 0.1
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []Params{
		{Rule: Count, Draws: 10}, {Rule: Weights, Draws: 1, CalibrationDraws: 16, Degree: 8}, {Rule: RCP1},
		{Rule: BinCP, Draws: 60}, {Rule: Auto, Draws: 7, CalibrationDraws: 20}, {Rule: Count, Draws: 20, Guarantee: Label},
		{Rule: Count, Draws: 12, Attack: Attack{Queries: 3}},
	} {
		p.Attack.Radius, p.Attack.Scale, p.Miss, p.Scorer = radius, sigma, miss, NewScorer(THR)
		if p.Guarantee == "" {
			p.Guarantee = Marginal
		}
		d, err := NewDesign(p)
		if err != nil {
			t.Fatalf("%s: %v", p.Rule, err)
		}
		missed := 0
		for range queries {
			if !d.simulate(t, r, 119, radius) {
				missed++
			}
		}
		name := fmt.Sprintf("%s, %s, %d draws, %d submissions", d.Rule, d.Guarantee, d.QueryM, d.Attack.queries())
		t.Log(name, float64(missed)/queries)
		if limit := queries*miss + 4*math.Sqrt(queries*miss*(1-miss)); float64(missed) > limit {
			t.Errorf("%s: %d of %d queries miss, want at most %v", name, missed, queries, limit)
		}
	}
}

// simulate calibrates with n examples and reports whether the sets of all submissions of an attacked query contain the
// true class.
func (d *Design) simulate(t *testing.T, r *rand.Rand, n int, radius float64) bool {
	t.Helper()
	example := func(label int) float64 { return r.NormFloat64() * (0.2 + 0.5*float64(label)) }
	c := d.Calibrator()
	scores := make([]float64, d.M)
	for range n {
		label := r.IntN(2)
		x := example(label)
		for j := range scores {
			scores[j] = x + d.Attack.Scale*r.NormFloat64()
		}
		if err := c.Add(Point{Scores: scores, Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.Predictor(2)
	if err != nil {
		t.Fatal(err)
	}
	label := r.IntN(2)
	x := example(label) - radius
	for range d.Attack.queries() {
		counts := make([]int64, 2)
		for drawn := int64(1); ; drawn++ {
			s := x + d.Attack.Scale*r.NormFloat64()
			CountDraw(counts, []float64{s, s}, p.Thresholds(""))
			if _, decided := p.Decide(nil, counts, drawn); decided {
				set, err := p.Set(counts, drawn)
				if err != nil {
					t.Fatal(err)
				}
				if len(set) == 0 || set[len(set)-1] != label && set[0] != label {
					return false
				}
				break
			}
		}
	}
	return true
}
