package conformal

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/law"
)

// newDesign returns a Design. It uses these defaults for the fields that p leaves empty: a = 0.1, ρ = 1, the guarantee
// Marginal and the score THR.
func newDesign(t *testing.T, p Params) *Design {
	t.Helper()
	if p.Attack == (Attack{}) {
		p.Attack = Attack{Radius: 0.25, Scale: 0.25}
	}
	p.Miss = cmp.Or(p.Miss, 0.1)
	p.Guarantee = cmp.Or(p.Guarantee, Marginal)
	if p.Scorer.Kind == "" {
		p.Scorer = NewScorer(THR)
	}
	d, err := NewDesign(p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// randomPoints returns examples with random scores. Some of the scores are tied, and some are infinite.
func randomPoints(r *rand.Rand, n int, m int64) []Point {
	points := make([]Point, n)
	for i := range points {
		centre := r.NormFloat64()
		s := make([]float64, m)
		for j := range s {
			if s[j] = centre + r.NormFloat64(); r.IntN(3) == 0 {
				s[j] = math.Round(s[j])
			}
			if r.IntN(50) == 0 {
				s[j] = []float64{math.Inf(-1), math.Inf(1), math.NaN()}[r.IntN(3)]
			}
		}
		points[i] = Point{Scores: s, Label: r.IntN(3), Group: []string{"b", "a"}[r.IntN(2)]}
	}
	return points
}

func fit(t *testing.T, d *Design, points []Point) *Predictor {
	t.Helper()
	c := d.Calibrator()
	for _, p := range points {
		if err := c.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.Predictor(3)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bruteThreshold returns the largest candidate τ that meets the condition of the theorem, evaluated in floating point.
func bruteThreshold(points []Point, w []float64, miss float64, poisoned int) float64 {
	candidates := []float64{}
	for _, p := range points {
		for _, s := range p.Scores {
			candidates = append(candidates, number(s))
		}
	}
	slices.SortFunc(candidates, func(a, b float64) int { return cmp.Compare(b, a) })
	for _, tau := range candidates {
		sum := 1 - w[0] + float64(poisoned)*(w[len(w)-1]-w[0])
		for _, p := range points {
			n := 0
			for _, s := range p.Scores {
				if number(s) >= tau {
					n++
				}
			}
			sum += 1 - w[n]
		}
		if sum <= float64(len(points)+1)*miss+1e-9 {
			return tau
		}
	}
	return math.Inf(-1)
}

// For rules with counts and for rules with weights, the threshold is the largest score that meets the condition of the
// theorem.
func TestThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, p := range []Params{
		{Rule: Count, Draws: 7}, {Rule: Count, Draws: 5, Poisoned: 2}, {Rule: RCP1, Miss: 0.2}, {Rule: RCP1, Miss: 0.2, Poisoned: 1},
		{Rule: Weights, Draws: 1, CalibrationDraws: 9, Degree: 4, Miss: 0.25}, {Rule: Weights, Draws: 3, CalibrationDraws: 6, Degree: 6, Poisoned: 1},
		{Rule: Clean},
	} {
		d := newDesign(t, p)
		b, err := d.polynomial()
		if err != nil {
			t.Fatal(err)
		}
		w := b.elevated(d.M).weights()
		finite := 0
		for range 60 {
			points := randomPoints(r, 1+r.IntN(150), d.M)
			got := fit(t, d, points)
			want := bruteThreshold(points, w, d.Miss, d.Poisoned)
			if float64(got.Cells[0].Tau) != want {
				t.Fatalf("%+v, %d examples: %v, want %v", p, len(points), got.Cells[0].Tau, want)
			}
			if !math.IsInf(want, 0) {
				finite++
			}
			r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
			if again := fit(t, d, points); !reflect.DeepEqual(got, again) {
				t.Fatal("the order of the examples matters")
			}
		}
		if finite < 10 {
			t.Errorf("%+v: only %d finite thresholds", p, finite)
		}
	}
}

// A Design with a pair of counts gives the same threshold as a Design with the weights 1{N ≥ t}, where t is the first
// of the two counts.
func TestCountShortcut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, poisoned := range []int{0, 3} {
		count := newDesign(t, Params{Rule: Count, Draws: 10, Poisoned: poisoned})
		weights := *count
		weights.Weights, weights.T, weights.Degree = step(count.T, count.M).weights(), 0, int(count.M)
		for range 50 {
			points := randomPoints(r, 1+r.IntN(120), count.M)
			if a, b := fit(t, count, points).Cells[0], fit(t, &weights, points).Cells[0]; a.Tau != b.Tau {
				t.Fatalf("%d examples: count %v, weights %v", len(points), a, b)
			}
		}
	}
}

// The rank is ⌊(n+1)a⌋ for the decimal number a. For example, the rank for n = 9 and a = 0.3 is 3, although the float64
// number 0.3 is below 3/10.
func TestRankIsExact(t *testing.T) {
	for _, tt := range []struct {
		miss float64
		n    int64
		want int64
	}{
		{0.1, 499, 50}, {0.1, 498, 49}, {0.3, 9, 3}, {0.3, 8, 2}, {0.05, 19, 1}, {0.05, 18, 0}, {0.7, 99, 70}, {0.29, 99, 29}, {0.1, 500, 50},
	} {
		th := &thresholds{Design: newDesign(t, Params{Rule: Clean, Miss: tt.miss})}
		th.miss, th.delta = th.level(tt.n)
		if got := th.rank(tt.n); got != tt.want {
			t.Errorf("a = %v, n = %d: rank %d, want %d", tt.miss, tt.n, got, tt.want)
		}
	}
}

// Another program computed two ranks: 41 for n = 500 and a = δ = 0.1, and 39 for n = 1,000 and a = δ = 0.05.
func TestTrainingRank(t *testing.T) {
	for _, tt := range []struct {
		n           int64
		miss, delta float64
		want        int64
	}{{500, 0.1, 0.1, 41}, {1000, 0.05, 0.05, 39}, {10, 0.1, 0.1, 0}, {22, 0.1, 0.1, 1}, {21, 0.1, 0.1, 0}} {
		th := &thresholds{Design: newDesign(t, Params{Rule: Clean, Miss: tt.miss, Guarantee: Training, Delta: tt.delta})}
		th.miss, th.delta = th.level(tt.n)
		got := th.rank(tt.n)
		if got != tt.want {
			t.Errorf("n = %d, a = %v, delta = %v: rank %d, want %d", tt.n, tt.miss, tt.delta, got, tt.want)
		}
		below := func(k int64) float64 { // P(Bin(n, a) ≤ k−1)
			if k < 1 {
				return 0
			}
			return mathext.RegIncBeta(float64(tt.n-k+1), float64(k), 1-tt.miss)
		}
		if below(got) > tt.delta || below(got+1) <= tt.delta {
			t.Errorf("n = %d: P(Bin ≤ k−1) is %v and then %v for delta = %v", tt.n, below(got), below(got+1), tt.delta)
		}
	}
}

// For noise from random words of finite length, the level is a·(1 − Nη). The comment of FiniteWords defines N and η.
func TestFiniteWords(t *testing.T) {
	d := newDesign(t, Params{
		Rule: Count, Draws: 12, CalibrationDraws: 20, Attack: Attack{Radius: 0.1, Scale: 0.5, Queries: 3},
		Words: FiniteWords{Eta: 0x1p-40, Coordinates: 1 << 20},
	})
	miss, _ := d.level(100)
	want := 0.1 * (1 - (100*20+3*12)*0x1p-20)
	if got, _ := miss.Float64(); math.Abs(got-want) > 1e-16 {
		t.Errorf("level %v, want %v", got, want)
	}
	if th := (&thresholds{Design: d, miss: miss}); th.rank(999) != 99 {
		t.Errorf("rank %d of 999: the level is below 0.1", th.rank(999))
	}
	if miss, _ = d.level(1 << 40); miss.Sign() != 0 {
		t.Errorf("level %v for more coordinates than 1/η", miss)
	}
}

func TestLabelAndGroupThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, rule := range []Params{{Rule: Count, Draws: 5}, {Rule: Weights, Draws: 1, CalibrationDraws: 4, Degree: 2, Miss: 0.4}} {
		all := randomPoints(r, 90, newDesign(t, rule).M)
		rule.Guarantee = Label
		p := fit(t, newDesign(t, rule), slices.DeleteFunc(slices.Clone(all), func(q Point) bool { return q.Label == 2 }))
		for y := range 2 {
			rule.Guarantee = Marginal
			own := slices.DeleteFunc(slices.Clone(all), func(q Point) bool { return q.Label != y })
			want := fit(t, newDesign(t, rule), own).Cells[0]
			if got := p.Cells[y]; got.Tau != want.Tau || got.N != int64(len(own)) || *got.Label != y {
				t.Errorf("class %d: %+v, want %+v", y, got, want)
			}
			if p.Thresholds("")[y] != float64(want.Tau) {
				t.Errorf("class %d: thresholds %v", y, p.Thresholds(""))
			}
		}
		if got := p.Thresholds("")[2]; !math.IsInf(got, -1) {
			t.Errorf("a class without examples has the threshold %v", got)
		}
		rule.Guarantee = Group
		p = fit(t, newDesign(t, rule), all)
		for i, name := range []string{"a", "b"} {
			rule.Guarantee = Marginal
			own := slices.DeleteFunc(slices.Clone(all), func(q Point) bool { return q.Group != name })
			want := fit(t, newDesign(t, rule), own).Cells[0]
			if got := p.Cells[i]; got.Tau != want.Tau || got.Group != name || p.Thresholds(name)[1] != float64(want.Tau) {
				t.Errorf("group %s: %+v, want %+v", name, got, want)
			}
		}
		if got := p.Thresholds("c")[0]; !math.IsInf(got, -1) {
			t.Errorf("an unknown group has the threshold %v", got)
		}
	}
}

// A poisoner who replaces j examples cannot raise the threshold above the threshold of the clean examples.
func TestPoisonedExamples(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, p := range []Params{
		{Rule: Count, Draws: 5, Poisoned: 3}, {Rule: Weights, Draws: 1, CalibrationDraws: 5, Degree: 3, Miss: 0.4, Poisoned: 3},
		{Rule: Count, Draws: 5, Poisoned: 3, Guarantee: Label, Miss: 0.3},
	} {
		robust := newDesign(t, p)
		clean := *robust
		clean.Poisoned = 0
		strict := 0
		for range 200 {
			points := randomPoints(r, 120, robust.M)
			want := fit(t, &clean, points)
			poisoned := slices.Clone(points)
			for i := range 3 {
				high := make([]float64, robust.M)
				for j := range high {
					high[j] = 9
				}
				poisoned[r.IntN(120)] = Point{Scores: high, Label: (points[i].Label + r.IntN(3)) % 3}
			}
			for i, c := range fit(t, robust, poisoned).Cells {
				if c.Tau > want.Cells[i].Tau {
					t.Fatalf("%+v: threshold %v of poisoned examples, %v of clean ones", p, c.Tau, want.Cells[i].Tau)
				}
			}
			for i, c := range fit(t, &clean, poisoned).Cells {
				if c.Tau > want.Cells[i].Tau {
					strict++
				}
			}
		}
		if strict == 0 {
			t.Errorf("%+v: poisoning never raises the threshold of the plain rule", p)
		}
	}
}

// The counts t and t′ of BinCP are Clopper–Pearson quantiles at the level spent/(n+1), where 'spent' is the part of the
// level a that the rule spends on Clopper–Pearson bounds.
func TestBinCPCounts(t *testing.T) {
	d := newDesign(t, Params{Rule: BinCP, Draws: 200, CalibrationDraws: 300, Probability: 0.6})
	p := fit(t, d, randomPoints(rand.New(rand.NewPCG(1, 1)), 99, 300))
	eta := 0.01 / 100
	if got := mathext.RegIncBeta(float64(p.T), float64(300-p.T+1), 0.6); got > eta {
		t.Errorf("t = %d: tail %v above %v", p.T, got, eta)
	}
	if got := mathext.RegIncBeta(float64(p.T-1), float64(300-p.T+2), 0.6); got <= eta {
		t.Errorf("t = %d is not the least", p.T)
	}
	q := gaussianAttack(1)(0.6)
	miss := func(need int64) float64 { return 1 - mathext.RegIncBeta(float64(need), float64(200-need+1), q) }
	if miss(p.QueryT) > eta || miss(p.QueryT+1) <= eta {
		t.Errorf("t′ = %d: misses with %v, then %v, want %v", p.QueryT, miss(p.QueryT), miss(p.QueryT+1), eta)
	}
	if p.Cells[0].K != 9 { // ⌊100·(0.1 − 0.01)⌋
		t.Errorf("rank %d, want 9", p.Cells[0].K)
	}
	few := newDesign(t, Params{Rule: BinCP, Draws: 5, Probability: 0.9})
	if p := fit(t, few, randomPoints(rand.New(rand.NewPCG(1, 1)), 99, 5)); !math.IsInf(float64(p.Cells[0].Tau), -1) {
		t.Errorf("five draws: threshold %v, want all classes", p.Cells[0].Tau)
	}
}

// A Predictor must be the same after a round trip through JSON. Validate must refuse changed numbers.
func TestPredictorFile(t *testing.T) {
	for _, p := range []Params{
		{Rule: Count, Draws: 10}, {Rule: Weights, Draws: 1, CalibrationDraws: 6, Degree: 2}, {Rule: RCP1}, {Rule: BinCP, Draws: 80}, {Rule: Clean},
		{Rule: Count, Draws: 6, Guarantee: Label}, {Rule: Count, Draws: 6, Guarantee: Group}, {Rule: Count, Draws: 6, Guarantee: Training, Delta: 0.1},
		{Rule: Count, Draws: 8, Attack: Attack{Law: law.Of(law.Laplace), Radius: 1, Scale: 2}},
		{Rule: Weights, Draws: 2, Degree: 2, CalibrationDraws: 3, Attack: Attack{Law: law.Of(law.Uniform), Radius: 0.1, Scale: 2}},
	} {
		d := newDesign(t, p)
		want := fit(t, d, randomPoints(rand.New(rand.NewPCG(1, 2)), 200, d.M))
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Predictor
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("%s: read back as %+v, want %+v", text, got, *want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for name, change := range map[string]func(p *Predictor){
			"radius": func(p *Predictor) { p.Attack.Radius *= 1.2 },
			"rho":    func(p *Predictor) { p.Attack.Radius *= 3; p.Shift = p.Attack.Shift(); p.Statement = p.Claim() },
			"t":      func(p *Predictor) { p.T-- },
			"t′":     func(p *Predictor) { p.QueryT += 2 },
			"weight": func(p *Predictor) {
				p.Weights = slices.Clone(p.Weights)
				for k := range p.Weights {
					p.Weights[k] += 0x1p-10
				}
			},
			"sound":    func(p *Predictor) { p.Sound = !p.Sound },
			"rule":     func(p *Predictor) { p.Rule = Auto },
			"rank":     func(p *Predictor) { p.Cells = slices.Clone(p.Cells); p.Cells[0].K++ },
			"examples": func(p *Predictor) { p.N++ },
			"miss":     func(p *Predictor) { p.Miss = 0 },
		} {
			changed := got
			if change(&changed); changed.Validate() == nil && !slices.Contains(harmless(got), name) {
				t.Errorf("%s, %s: Validate accepts a changed %s", p.Rule, d.Attack.Law, name)
			}
		}
	}
}

// The function 'harmless' returns the names of the changes that do not make the Predictor p wrong. Validate may accept
// these changes.
func harmless(p Predictor) []string {
	list := []string{}
	if p.Rule == Clean {
		list = append(list, "rho") // the sets of the rule Clean claim nothing under attack
	}
	if len(p.Weights) > 0 {
		list = append(list, "rank") // with weights, the rank is only reported, not used
	} else {
		list = append(list, "weight")
	}
	return list
}

func TestDesignErrors(t *testing.T) {
	good := Params{Rule: Count, Scorer: NewScorer(THR), Attack: Attack{Radius: 0.5, Scale: 0.5}, Miss: 0.1, Guarantee: Marginal}
	for want, change := range map[string]func(p *Params){
		"rule":                         func(p *Params) { p.Rule = "x" },
		"score":                        func(p *Params) { p.Scorer.Kind = "x" },
		"guarantee":                    func(p *Params) { p.Guarantee = "" },
		"miss probability 0":           func(p *Params) { p.Miss = 0 },
		"miss probability NaN":         func(p *Params) { p.Miss = math.NaN() },
		"delta 0":                      func(p *Params) { p.Guarantee = Training },
		"delta 0.1":                    func(p *Params) { p.Delta = 0.1 },
		"splitting":                    func(p *Params) { p.Attack.Law = law.Of(law.Splitting) },
		"without noise":                func(p *Params) { p.Attack.Scale = 0 },
		"rho 20":                       func(p *Params) { p.Attack.Radius = 10 },
		"radius -1":                    func(p *Params) { p.Attack.Radius = -1 },
		"no pair of counts is proved":  func(p *Params) { p.Draws = 1 },
		"queries -1":                   func(p *Params) { p.Attack.Queries = -1 },
		"degree 65":                    func(p *Params) { p.Degree = 65 },
		"draws per query -1":           func(p *Params) { p.Draws = -1 },
		"poisoned examples -1":         func(p *Params) { p.Poisoned = -1 },
		"eta":                          func(p *Params) { p.Words.Eta = -1 },
		"rule clean":                   func(p *Params) { p.Rule, p.Draws = Clean, 3 },
		"rule rcp1":                    func(p *Params) { p.Rule, p.Attack.Queries = RCP1, 3 },
		"rule bincp":                   func(p *Params) { p.Rule, p.Guarantee = BinCP, Label },
		"no guarantee training":        func(p *Params) { p.Rule, p.Guarantee, p.Delta, p.Degree = Weights, Training, 0.1, 2 },
		"count t = 3":                  func(p *Params) { p.Rule, p.Need = Weights, 3 },
		"penalty -1":                   func(p *Params) { p.Scorer.Penalty = -1 },
		"probability 1":                func(p *Params) { p.Probability = 1 },
		"spends 0.01 of 0.1 at probab": func(p *Params) { p.Rule, p.Probability = BinCP, 1e-9 },
	} {
		p := good
		change(&p)
		if _, err := NewDesign(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := NewDesign(good); err != nil {
		t.Error(err)
	}
}

// Auto takes the rule Count if there are enough draws, Weights if there are few, and Clean if there is no noise.
func TestAuto(t *testing.T) {
	for _, tt := range []struct {
		p    Params
		want Rule
	}{
		{Params{}, Count}, {Params{Draws: 5}, Count}, {Params{Draws: 1, Degree: 2}, Weights}, {Params{Draws: 4, Degree: 2}, Weights},
		{Params{Attack: Attack{Queries: 1}}, Clean}, {Params{Draws: 6, Degree: 2, Attack: Attack{Radius: 4, Scale: 1}}, Weights},
		{Params{Degree: 2, Attack: Attack{Law: law.Of(law.Uniform), Radius: 0.1, Scale: 1}}, Weights},
	} {
		tt.p.Rule = Auto
		if d := newDesign(t, tt.p); d.Rule != tt.want || !d.Sound {
			t.Errorf("%+v: rule %s, sound %v, want %s", tt.p, d.Rule, d.Sound, tt.want)
		}
	}
	if d := newDesign(t, Params{Rule: Clean}); d.Sound || !strings.Contains(d.Claim(), "no guarantee") {
		t.Errorf("clean sets under attack: sound %v, %s", d.Sound, d.Claim())
	}
}

// With OwnRange, the range of the values comes from the calibration data. This lowers the level of each rule by
// 2/(n+1). So it lowers the rank of the threshold by 2. With OwnRange, NewDesign must refuse poisoned data, and it must
// refuse the guarantee Training. With or without OwnRange, it must refuse a random score if there are several
// submissions per query.
func TestOwnRange(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []Params{
		{Rule: Count, Draws: 7}, {Rule: Clean}, {Rule: RCP1, Miss: 0.2},
		{Rule: Weights, Draws: 3, CalibrationDraws: 6, Degree: 6}, {Rule: BinCP, Draws: 40, Miss: 0.2},
	} {
		d := newDesign(t, p)
		p.OwnRange = true
		own := newDesign(t, p)
		points := randomPoints(r, 300, d.M)
		usual, less := fit(t, d, points).Cells[0], fit(t, own, points).Cells[0]
		if !(less.Tau <= usual.Tau) { // scores can be tied
			t.Errorf("%s: τ̂ %v with the range of the data, %v without", p.Rule, less.Tau, usual.Tau)
		}
		if len(d.Weights) == 0 && less.K != usual.K-2 {
			t.Errorf("%s: rank %d with the range of the data, %d without: want two less", p.Rule, less.K, usual.K)
		}
		if b, err := own.polynomial(); err == nil && len(own.Weights) > 0 {
			// With OwnRange, the level is a − 2/(n+1).
			w, n := b.elevated(own.M).weights(), 300.
			if want := bruteThreshold(points, w, own.Miss-2/(n+1), 0); float64(less.Tau) != want {
				t.Errorf("%s: τ̂ %v, want %v", p.Rule, less.Tau, want)
			}
		}
	}
	for name, p := range map[string]Params{
		"training": {Rule: Count, Guarantee: Training, Delta: 0.1, OwnRange: true}, "poisoned": {Rule: Count, Poisoned: 1, OwnRange: true},
		"moved": {Rule: Count, Attack: Attack{PoisonRadius: 0.1, Scale: 1}, OwnRange: true},
		"aps":   {Rule: Count, Scorer: NewScorer(APS), Attack: Attack{Queries: 2, Radius: 0.1, Scale: 1}},
	} {
		p.Miss = 0.1
		if p.Scorer.Kind == "" {
			p.Scorer = NewScorer(THR)
		}
		if p.Guarantee == "" {
			p.Guarantee = Marginal
		}
		if _, err := NewDesign(p); err == nil {
			t.Errorf("%s: a design was made", name)
		}
		p.OwnRange, p.Attack.Queries = false, 1
		if _, err := NewDesign(p); err != nil {
			t.Errorf("%s without the conflict: %v", name, err)
		}
	}
}
