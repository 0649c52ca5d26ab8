package conformal

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/law"
)

func TestEvaluation(t *testing.T) {
	d := newDesign(t, Params{Rule: Count, Draws: 5, Guarantee: Group})
	p := fit(t, d, randomPoints(rand.New(rand.NewPCG(1, 2)), 60, 5))
	e := p.Evaluator(0.1)
	for i, o := range []Outcome{
		{Label: 0, Group: "a", Set: []int{0}, Draws: 2}, {Label: 1, Group: "a", Set: []int{0}, Draws: 3}, {Label: 1, Group: "b", Set: []int{0, 1}, Draws: 5},
		{Label: 2, Group: "b", Set: nil, Draws: 1}, {Label: 2, Group: "b", Set: []int{0, 1, 2}, Draws: 4},
	} {
		o.Index = i
		if err := e.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	v, err := e.Evaluation()
	if err != nil {
		t.Fatal(err)
	}
	// The coverage must have the Clopper–Pearson interval for 3 covered queries of 5. Each side of the interval fails
	// with probability 0.05.
	if v.N != 5 || v.Covered != 3 || v.Coverage.Coverage != 0.6 || math.Abs(v.Lower-mathext.InvRegIncBeta(3, 3, 0.05)) > 1e-8 ||
		math.Abs(v.Upper-mathext.InvRegIncBeta(4, 2, 0.95)) > 1e-8 {
		t.Errorf("coverage %+v", v.Coverage)
	}
	if v.MeanSize != 1.4 || v.MeanDraws != 3 || v.Empty != 1 || v.Singletons != 2 || v.Correct != 1 || !reflect.DeepEqual(v.Sizes, []int64{1, 2, 1, 1}) {
		t.Errorf("figures %+v", v)
	}
	type row struct {
		name       string
		n, covered int64
		size       float64
	}
	for name, tt := range map[string]struct {
		got  []Stratum
		want []row
	}{
		"size":  {v.BySize, []row{{"0", 1, 0, 0}, {"1", 2, 1, 1}, {"2", 1, 1, 2}, {"3", 1, 1, 3}}},
		"class": {v.ByClass, []row{{"0", 1, 1, 1}, {"1", 2, 1, 1.5}, {"2", 2, 1, 1.5}}},
		"group": {v.ByGroup, []row{{"a", 2, 1, 1}, {"b", 3, 2, 5.0 / 3}}},
	} {
		rows := []row{}
		for _, s := range tt.got {
			rows = append(rows, row{s.Name, s.N, s.Covered, s.MeanSize})
		}
		if !reflect.DeepEqual(rows, tt.want) {
			t.Errorf("by %s: %v, want %v", name, rows, tt.want)
		}
	}
	if len(v.Exchangeability) != 2 || v.Exchangeability[1].Group != "b" || v.Exchangeability[1].N != 3 || v.Exchangeability[1].Misses != 1 {
		t.Errorf("exchangeability %+v", v.Exchangeability)
	}
}

func TestEvaluatorErrors(t *testing.T) {
	p := fit(t, newDesign(t, Params{Rule: Clean}), []Point{{Scores: []float64{1}}})
	e := p.Evaluator(0.1)
	if _, err := e.Evaluation(); err == nil {
		t.Error("an evaluation without sets")
	}
	for _, o := range []Outcome{{Label: 3}, {Label: -1}, {Set: []int{3}}, {Set: []int{1, 1}}, {Set: []int{-1}}} {
		if e.Add(o) == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, counts := range [][]int64{{1}, {0, 0, 2}, {0, 0, -1}} {
		if e.AddCounts(counts) == nil {
			t.Errorf("counts %v are accepted", counts)
		}
	}
	bad := p.Evaluator(0)
	if err := bad.Add(Outcome{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Evaluation(); err == nil || !strings.Contains(err.Error(), "alpha") {
		t.Errorf("alpha 0: %v", err)
	}
}

// The test compares the tails of the beta-binomial distribution with sums of probabilities from gonum's beta function.
func TestBetaBinomial(t *testing.T) {
	for _, c := range [][3]int64{{10, 3, 8}, {200, 50, 450}, {500, 1, 500}, {7, 20, 2}, {1, 1, 1}} {
		n, a, b := c[0], c[1], c[2]
		tail := 0.0
		for x := n; x >= 0; x-- {
			choose := -math.Log(float64(n+1)) - mathext.Lbeta(float64(x+1), float64(n-x+1))
			tail += math.Exp(choose + mathext.Lbeta(float64(x+a), float64(n-x+b)) - mathext.Lbeta(float64(a), float64(b)))
			if got := betaBinomialTail(n, x, a, b); math.Abs(got-tail) > 1e-9 {
				t.Errorf("P(BetaBin(%d; %d, %d) ≥ %d) = %v, want %v", n, a, b, x, got, tail)
			}
		}
		if math.Abs(tail-1) > 1e-9 {
			t.Fatalf("the oracle sums to %v", tail)
		}
	}
}

// exchangeabilityOf evaluates the prediction sets. The label of each query is 0. exchangeabilityOf returns the first
// element of the evaluation's list Exchangeability.
func exchangeabilityOf(t *testing.T, p *Predictor, sets [][]int) Exchangeability {
	t.Helper()
	e := p.Evaluator(0.05)
	for _, set := range sets {
		if err := e.Add(Outcome{Set: set}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := e.Evaluation()
	if err != nil {
		t.Fatal(err)
	}
	return v.Exchangeability[0]
}

// The test simulates sets of the rule Clean for exchangeable examples and queries. The number of misses must have the
// expected mean. The share of the p-values that are at most 0.1 must not exceed 0.1 by more than four standard errors.
func TestExchangeabilityHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const runs, n, queries = 2000, 60, 40
	small := map[string]int{}
	mean := 0.0
	for range runs {
		d := newDesign(t, Params{Rule: Clean, Attack: Attack{Queries: 1}, Miss: 0.2})
		points := make([]Point, n)
		for i := range points {
			points[i].Scores = []float64{r.NormFloat64()}
		}
		p := fit(t, d, points)
		var sets [][]int
		for range queries {
			set := []int{}
			if r.NormFloat64() >= p.Thresholds("")[0] {
				set = []int{0}
			}
			sets = append(sets, set)
		}
		x := exchangeabilityOf(t, p, sets)
		if !x.Exact {
			t.Fatal("clean sets are not exact")
		}
		mean += (float64(x.Misses) - x.Expected) / runs
		for name, p := range map[string]float64{"too many": x.TooMany, "too few": x.TooFew, "two sides": x.TwoSided} {
			if p <= 0.1 {
				small[name]++
			}
		}
	}
	if math.Abs(mean) > 0.3 { // the number of misses in one simulated run has the standard deviation 3.4
		t.Errorf("the mean number of misses is off by %v", mean)
	}
	for _, name := range []string{"too many", "too few", "two sides"} {
		if got := float64(small[name]) / runs; got > 0.1+4*math.Sqrt(0.09/runs) || got < 0.04 {
			t.Errorf("%s: a share %v of the p-values is at most 0.1", name, got)
		}
	}
}

// The test simulates the worst case of OwnRange. For each query outside the range of the calibration data, the
// prediction set misses the true class. The two examples at the ends of this range have the largest scores. Even then,
// the p-values are stochastically at least as large as uniform variables. OwnRange costs two ranks. If the p-values did
// not include these ranks, they would be too small.
func TestExchangeabilityOwnRange(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	const runs, n, queries = 2000, 60, 40
	d := newDesign(t, Params{Rule: Clean, Miss: 0.2, OwnRange: true})
	mean, small, smallBefore := 0.0, 0.0, 0.0
	for range runs {
		points, values := make([]Point, n), make([]float64, n)
		for i := range points {
			points[i].Scores, values[i] = []float64{r.NormFloat64()}, r.NormFloat64()
		}
		low, high := slices.Min(values), slices.Max(values)
		for i, v := range values {
			if v == low || v == high {
				points[i].Scores[0] = 100
			}
		}
		p := fit(t, d, points)
		var sets [][]int
		for range queries {
			set := []int{}
			if v := r.NormFloat64(); r.NormFloat64() >= p.Thresholds("")[0] && v >= low && v <= high {
				set = []int{0}
			}
			sets = append(sets, set)
		}
		x := exchangeabilityOf(t, p, sets)
		if x.Exact {
			t.Fatal("few misses are a test, although the range of the data can only add misses")
		}
		mean += (float64(x.Misses) - x.Expected) / runs
		if x.TooMany <= 0.1 {
			small += 1. / runs
		}
		if compareMisses(x.N, x.Misses, p.Cells[0].K, n).TooMany <= 0.1 {
			smallBefore += 1. / runs
		}
	}
	if math.Abs(mean) > 0.3 { // the number of misses in one simulated run has the standard deviation 3.4
		t.Errorf("the mean number of misses is off by %v", mean)
	}
	limit := 0.1 + 4*math.Sqrt(0.09/runs)
	if small > limit || small < 0.04 {
		t.Errorf("a share %v of the p-values is at most 0.1", small)
	}
	if smallBefore < limit {
		t.Errorf("without the lost ranks, only a share %v of the p-values is at most 0.1: the test shows nothing", smallBefore)
	}
}

func TestMeaning(t *testing.T) {
	for _, tt := range []struct {
		misses int64
		exact  bool
		want   string
	}{
		{40, true, "more often"}, {40, false, "more often"}, {0, true, "less often"}, {0, false, "no sign"}, {10, true, "agrees"},
	} {
		x := compareMisses(100, tt.misses, 50, 500)
		x.Exact = tt.exact
		if got := x.meaning(); !strings.Contains(got, tt.want) {
			t.Errorf("%d misses, exact %v: %s", tt.misses, tt.exact, got)
		}
	}
	if x := compareMisses(100, 100, 50, 500); x.TooFew != 1 || x.TooMany > 1e-30 || x.Expected != 100*50.0/501 {
		t.Errorf("only misses: %+v", x)
	}
}

// The test checks the weights W that the method sizeWeights returns. Let p be the probability that, at a clean input, a
// score of a class reaches the threshold. An attack can raise the probability that the set contains this class, but
// only up to a maximum. B_W(p) must be at least this maximum for every p. On average over p, it must not be far above
// the maximum.
func TestSizeWeights(t *testing.T) {
	for _, p := range []Params{
		{Rule: Count, Draws: 20}, {Rule: Weights, Draws: 1, CalibrationDraws: 16, Degree: 8}, {Rule: Count, Draws: 8, CalibrationDraws: 30}, {Rule: RCP1},
	} {
		d := newDesign(t, p)
		w, err := d.sizeWeights(10)
		if err != nil {
			t.Fatal(err)
		}
		area := 0.0
		for i := range 2000 {
			prob := (float64(i) + 0.5) / 2000
			z := law.Gaussian.Quantile(prob) + d.Shift
			attacked, _ := law.Gaussian.CDF(z)
			got, least := bernstein(w, prob), atLeast(int(d.QueryM), int(d.QueryT), attacked)
			if got < least-1e-9 {
				t.Fatalf("%+v: B_W(%v) = %v, want at least %v", p, prob, got, least)
			}
			area += (got - least) / 2000
		}
		limit := map[int64]float64{1: 1, 16: 0.1}[d.M]
		if limit == 0 {
			limit = 0.06
		}
		if area > limit {
			t.Errorf("%+v: W is %v too large on average", p, area)
		}
	}
}

// The certified size bounds the mean size of sets under the worst attack.
func TestCertifiedSize(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	d := newDesign(t, Params{Rule: Count, Draws: 20, Attack: Attack{Radius: 0.25, Scale: 0.5}})
	p := fit(t, d, randomPoints(r, 10, 20))
	e := p.Evaluator(0.01)
	const queries = 2000
	attacked := 0.0
	g := gaussianAttack(-d.Shift)
	for range queries {
		counts := make([]int64, 3)
		for y := range counts {
			prob := []float64{0.97, 0.2, 0.01}[y] * r.Float64()
			attacked += atLeast(20, int(d.QueryT), g(prob)) / queries
			for range 20 {
				if r.Float64() < prob {
					counts[y]++
				}
			}
		}
		if err := e.AddCounts(counts); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Add(Outcome{}); err != nil {
		t.Fatal(err)
	}
	v, err := e.Evaluation()
	if err != nil {
		t.Fatal(err)
	}
	c := v.CertifiedSize
	if c.N != queries || c.Mean < attacked-0.03 || c.Mean > attacked+0.2 || c.Upper <= c.Mean || c.Upper > c.Mean+0.1 {
		t.Errorf("certified size %+v, worst mean size %v", c, attacked)
	}
	if c := (&sizeBound{n: 1, sum: 1, sumSquare: 1, most: 3}).certified(0.1); c.Upper != 3 {
		t.Errorf("one query: %+v", c)
	}
	// Maurer & Pontil 2009, Theorem 4: mean 1, variance 2/3 for the values 0, 1, 2, 1, with n = 4 and α = 0.1.
	want := 1 + math.Sqrt(2*(2.0/3)*math.Log(20)/4) + 7*10*math.Log(20)/9
	if c := (&sizeBound{n: 4, sum: 4, sumSquare: 6, most: 10}).certified(0.1); math.Abs(c.Upper-math.Min(10, want)) > 1e-12 {
		t.Errorf("four queries: %+v, want %v", c, want)
	}
	want = 1 + math.Sqrt(2*0.5*math.Log(20)/1001) + 7*10*math.Log(20)/3000
	if c := (&sizeBound{n: 1001, sum: 1001, sumSquare: 1501, most: 10}).certified(0.1); math.Abs(c.Upper-want) > 1e-12 {
		t.Errorf("many queries: %+v, want %v", c, want)
	}
}
