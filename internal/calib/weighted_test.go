package calib

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// equalWeights returns the sample with weights of 1.
func equalWeights(s *Sample) *WeightedSample {
	scores, labels := unpackAll(s)
	ones := make([]float64, len(scores))
	for i := range ones {
		ones[i] = 1
	}
	w, err := NewWeightedSample(scores, labels, ones, Weighting{Bound: 1, Sensitivity: 1})
	if err != nil {
		panic(err)
	}
	return w
}

// A stratum is a hidden kind of example. The weight of an example depends on its stratum and its score.
type stratum struct {
	share       float64 // share of the population P that belongs to this stratum
	weight, eta func(s float64) float64
}

// weightedLaw is a population P with weights. The weight is the density of another population, Q, with respect to P.
type weightedLaw struct {
	name      string
	scores    scoreLaw
	strata    []stratum
	variation float64 // total variation of η_Q
	bound     float64 // upper limit of the weights
}

// truth returns the calibration error CE_Q = E_P|E_P[w(s−y) | s]|, and the mean weight E_P w.
func (l weightedLaw) truth() (ce, meanWeight float64) {
	ce = l.scores.mean(func(s float64) float64 {
		g := 0.0
		for _, k := range l.strata {
			g += k.share * k.weight(s) * (s - k.eta(s))
		}
		return math.Abs(g)
	})
	meanWeight = l.scores.mean(func(s float64) float64 {
		sum := 0.0
		for _, k := range l.strata {
			sum += k.share * k.weight(s)
		}
		return sum
	})
	return ce, meanWeight
}

// draw returns n rows of P.
func (l weightedLaw) draw(n int, seed uint64) (score, label, weight []float64) {
	rng := rand.New(rand.NewPCG(seed, 91))
	for range n {
		s, u := l.scores.draw(rng), rng.Float64()
		k := 0
		for ; k < len(l.strata)-1 && u >= l.strata[k].share; k++ {
			u -= l.strata[k].share
		}
		score, label = append(score, s), append(label, indicator(rng.Float64() < l.strata[k].eta(s)))
		weight = append(weight, l.strata[k].weight(s))
	}
	return score, label, weight
}

func always(x float64) func(float64) float64 { return func(float64) float64 { return x } }

// weightedLaws returns populations in which weights matter. In some, Q is miscalibrated and P is calibrated, or the
// reverse. In others, few rows carry much of the weight, the weights depend on the score, or some weights are 0.
func weightedLaws() []weightedLaw {
	square := func(s float64) float64 { return s * s }
	reversed := func(s float64) float64 { return 1 - s }
	two := scoreLaw{"two atoms", func(r *rand.Rand) float64 { return 0.3 + 0.4*float64(r.IntN(2)) },
		func(f func(float64) float64) float64 { return (f(0.3) + f(0.7)) / 2 }}
	half := scoreLaw{"atom", func(*rand.Rand) float64 { return 0.5 }, func(f func(float64) float64) float64 { return f(0.5) }}
	return []weightedLaw{
		{"calibrated under P only", scoreLaws[0], []stratum{
			{0.5, always(1.6), square}, {0.5, always(0.4), func(s float64) float64 { return 2*s - s*s }}}, 1, 1.6},
		{"calibrated under Q only", scoreLaws[0], []stratum{
			{0.2, always(4), uniform01}, {0.8, always(0.25), uniform01}}, 1, 4},
		{"zero weights", two, []stratum{{0.5, always(2), reversed}, {0.5, always(0), uniform01}}, 0.4, 2},
		{"rare and heavy", scoreLaws[3], []stratum{{0.05, always(10), reversed}, {0.95, always(0.5 / 0.95), uniform01}}, 1, 10},
		{"by the score", scoreLaws[0], []stratum{{1, func(s float64) float64 { return 2 * s }, square}}, 1, 2},
		{"step", scoreLaws[0], []stratum{{0.5, always(1.5), math.Round}, {0.5, always(0.5), always(0.5)}}, 1, 1.5},
		{"atom, nearly calibrated", half, []stratum{{0.25, always(2), always(0.54)}, {0.75, always(2.0 / 3), always(0.5)}}, 0, 2},
		{"atom, calibrated", half, []stratum{{0.25, always(2), always(1)}, {0.75, always(2.0 / 3), always(0)}}, 0, 2},
		{"bound too large", two, []stratum{{0.5, always(1.2), square}, {0.5, always(0.8), uniform01}}, 0.4, 3},
	}
}

// missesOf counts, in samples of n rows, how often each bound on CE_Q is false. If Γ > 1, the bounds get wrong weights:
// for label 0 the weights are multiplied by Γ, and for label 1 they are divided by Γ.
func (l weightedLaw) missesOf(t *testing.T, n, trials int, delta, gamma float64) map[string]int {
	t.Helper()
	truth, _ := l.truth()
	missed := map[string]int{}
	for trial := range uint64(trials) {
		score, label, weight := l.draw(n, trial+1)
		bound := l.bound
		if gamma > 1 {
			bound *= gamma
			for i := range weight { // for the upper bound, the worst case is that label 1 gets too little weight
				weight[i] *= math.Pow(gamma, 1-2*label[i])
			}
		}
		s, err := NewWeightedSample(score, label, weight, Weighting{Bound: bound, Sensitivity: gamma})
		if err != nil {
			t.Fatal(err)
		}
		upper, err := WeightedVariation(s, delta, l.variation)
		if err != nil {
			t.Fatal(err)
		}
		lower, err := WeightedLower(s, delta, trial)
		if err != nil {
			t.Fatal(err)
		}
		wrong := map[string]bool{"weighted upper": upper.Value < truth-1e-9, "weighted lower": lower.Value > truth+1e-9}
		if gamma == 1 {
			keptUpper, keptLower := boundKept(t, score, label, weight, bound, delta, l.variation, trial)
			wrong["kept upper"], wrong["kept lower"] = keptUpper < truth-1e-9, keptLower > truth+1e-9
		}
		for what, w := range wrong {
			if w {
				missed[what]++
			}
		}
	}
	return missed
}

// boundKept returns bounds from the rows that KeepByWeight keeps.
func boundKept(t *testing.T, score, label, weight []float64, bound, delta, variation float64, seed uint64) (upper, lower float64) {
	t.Helper()
	var keptScore, keptLabel []float64
	for i, keep := range KeepByWeight(weight, bound, seed) {
		if keep {
			keptScore, keptLabel = append(keptScore, score[i]), append(keptLabel, label[i])
		}
	}
	s, err := NewSample(keptScore, keptLabel)
	if err != nil {
		t.Fatal(err)
	}
	u, err1 := BinnedVariation(s, delta, variation)
	l, err2 := BettingLower(s, delta, seed)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return u.Value, l.Value
}

func checkWeightedCoverage(t *testing.T, n, trials int) {
	t.Helper()
	for _, l := range weightedLaws() {
		if _, mean := l.truth(); math.Abs(mean-1) > 1e-6 {
			t.Fatalf("%s: the mean weight is %v", l.name, mean)
		}
		for _, delta := range []float64{0.5, 0.2, 0.05} {
			for _, gamma := range []float64{1, 1.5} {
				for what, missed := range l.missesOf(t, n, trials, delta, gamma) {
					t.Logf("%s, Γ %v, δ %v: %s is false in %d of %d samples", l.name, gamma, delta, what, missed, trials)
					if tooMany(missed, trials, delta) {
						t.Errorf("%s, Γ %v, δ %v: %s is false in %d of %d samples", l.name, gamma, delta, what, missed, trials)
					}
				}
			}
		}
	}
}

func TestWeightedCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	checkWeightedCoverage(t, 300, 40)
}

// If a bound ignores the weights, it is about the wrong population. The simulation detects this: the lower bound
// without weights exceeds the error of Q too often.
func TestCoverageNeedsTheWeights(t *testing.T) {
	l := weightedLaw{"", scoreLaws[2], []stratum{{0.1, always(9), always(0.3)}, {0.9, always(0.1 / 0.9), always(0.9)}}, 0, 9}
	truth, _ := l.truth()
	above, weighted := 0, 0
	for trial := range uint64(40) {
		score, label, weight := l.draw(600, trial)
		plain, err := BettingLower(must(NewSample(score, label)), 0.05, trial)
		if err != nil {
			t.Fatal(err)
		}
		s := must(NewWeightedSample(score, label, weight, Weighting{Bound: 9, Sensitivity: 1}))
		right := must(WeightedLower(s, 0.05, trial))
		if plain.Value > truth {
			above++
		}
		if right.Value > truth {
			weighted++
		}
	}
	if !tooMany(above, 40, 0.05) || tooMany(weighted, 40, 0.05) {
		t.Errorf("above the truth: without weights %d, with weights %d of 40", above, weighted)
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// KeepByWeight keeps about the share w/bound of the rows with weight w. Rejection sampling from Q requires this share.
func TestKeepByWeight(t *testing.T) {
	const n, bound = 200_000, 5.0
	weight := make([]float64, n)
	for i := range weight {
		weight[i] = []float64{0, 1, 4, 5}[i%4]
	}
	kept := map[float64]float64{}
	for i, keep := range KeepByWeight(weight, bound, 3) {
		if keep {
			kept[weight[i]]++
		}
	}
	if kept[0] != 0 || kept[5] != n/4 {
		t.Errorf("kept %v of weight 0, %v of weight 5", kept[0], kept[5])
	}
	for _, w := range []float64{1, 4} {
		p := w / bound
		if se := math.Sqrt(p * (1 - p) * n / 4); math.Abs(kept[w]-p*n/4) > 5*se {
			t.Errorf("kept %v of weight %v, want %v ± %.0f", kept[w], w, p*n/4, se)
		}
	}
	// The decisions depend on the seed, but not on the scale of the weights.
	again, other := KeepByWeight(weight, bound, 3), KeepByWeight(weight, bound, 4)
	scaled := make([]float64, n)
	for i, w := range weight {
		scaled[i] = 8 * w
	}
	differs := false
	for i, keep := range KeepByWeight(scaled, 8*bound, 3) {
		if keep != again[i] {
			t.Fatalf("row %d depends on the scale", i)
		}
		differs = differs || keep != other[i]
	}
	if !differs {
		t.Error("the seed makes no difference")
	}
}

func TestEffectiveSize(t *testing.T) {
	for _, c := range []struct {
		weight []float64
		want   float64
	}{
		{nil, 0}, {[]float64{0, 0}, 0}, {[]float64{2, 2, 2}, 3}, {[]float64{0, 1, 1}, 2},
		{[]float64{1, 2, 3}, 36.0 / 14}, {[]float64{1e300, 2e300, 3e300}, 36.0 / 14},
	} {
		if got := EffectiveSize(c.weight); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.weight, got, c.want)
		}
	}
}

type row struct{ score, label, weight float64 }

// weightedRows draws rows whose weights depend on the score and on chance.
func weightedRows(n int, law func(*rand.Rand) float64) (rows []row) {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	for range n {
		s := law(rng)
		rows = append(rows, row{s, indicator(rng.Float64() < s*s), []float64{0, 0.4, 1, 2.6}[rng.IntN(4)]})
	}
	return rows
}

func columns(rows []row) (score, label, weight []float64) {
	for _, r := range rows {
		score, label, weight = append(score, r.score), append(label, r.label), append(weight, r.weight)
	}
	return score, label, weight
}

// The test computes every term of WeightedVariation from the formulas in the comment of that function, for Γ = 1 and
// for Γ > 1. For each residual, it tries both ends of the interval [ŵ/Γ, Γŵ] of the weight.
func TestWeightedVariationFromTheFormula(t *testing.T) {
	const delta, w = 0.1, 3.0
	for name, law := range oddScores {
		for _, n := range []int{5, 60, 200} {
			for _, gamma := range []float64{1, 1.3} {
				for _, variation := range []float64{0, 0.6, 2.5} {
					checkWeightedTerms(t, fmt.Sprint(name, n, gamma, variation), weightedRows(n, law), w, gamma, delta, variation)
				}
			}
		}
	}
}

func checkWeightedTerms(t *testing.T, what string, rows []row, w, gamma, delta, variation float64) {
	t.Helper()
	n := float64(len(rows))
	score, label, weight := columns(rows)
	s := must(NewWeightedSample(score, label, weight, Weighting{Bound: w, Sensitivity: gamma}))
	got, err := WeightedVariation(s, delta, variation)
	if err != nil {
		t.Fatal(err)
	}
	scores, _ := unpackAll(s.Sample)
	sorted := make([]row, len(rows))
	for i := range sorted {
		x, y := unpack(s.packed[i])
		sorted[i] = row{x, float64(y), s.share[i] * w}
	}
	k := int(math.Max(1, math.Floor(math.Log2(n))-1))
	cells := 0.0
	for level := range k {
		cells += float64(len(slowPartition(scores, level, k-1)))
	}
	top, squares := gamma*w, 0.0
	for _, r := range rows {
		squares += math.Pow(gamma*r.weight*(r.score-r.label), 2) / n
	}
	moment := top * top * slowKL(squares/top/top, math.Log(1/(0.1*delta))/n)
	best, want := math.Inf(1), [3]float64{}
	for level := range k {
		var gap, width, heaviest float64
		for _, b := range slowPartition(scores, level, k-1) {
			members := sorted[b[0]:b[1]]
			var high, low, mean float64
			for _, r := range members {
				z := r.weight * (r.score - r.label)
				high += math.Max(gamma*z, z/gamma) / n
				low += math.Min(gamma*z, z/gamma) / n
				mean += gamma * r.weight / float64(len(members))
			}
			gap += math.Max(math.Abs(high), math.Abs(low))
			if first, last := members[0].score, members[len(members)-1].score; first != last {
				omega := top * slowKL(mean/top, math.Log(cells/(0.1*delta))/float64(len(members)))
				width += float64(len(members)) / n * omega * (last - first) / 2
				heaviest = math.Max(heaviest, float64(len(members))/n*omega)
			}
		}
		if sum := gap + width + variation*heaviest/2; sum < best {
			best, want = sum, [3]float64{gap, width, variation * heaviest / 2}
		}
	}
	value := top * math.Max(best/top, slowLargest(t, best/top, moment/top/top, math.Log(float64(k)/(0.8*delta))/n, true, false))
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"gap", got.Terms.Get("gap"), want[0]}, {"width", got.Terms.Get("width"), want[1]},
		{"variation", got.Terms.Get("variation"), want[2]}, {"second moment", got.Chosen.Get("second_moment"), moment},
		{"sum", got.Sum(), value}, {"value", got.Value, math.Min(1, value)}, {"delta", got.Delta, delta},
	} {
		if math.Abs(c.got-c.want) > 3e-5 {
			t.Errorf("%s: %s %v, want %v", what, c.what, c.got, c.want)
		}
	}
}

// slowWeightedWealth multiplies the factors of WeightedLower one pair at a time, and does not round X to a grid.
func slowWeightedWealth(s *WeightedSample, seed uint64, lambdas []float64, m, w, gamma float64) float64 {
	n := s.N()
	of := make([]int, n) // the epoch of each pair
	for e, members := range s.dealEpochs(seed) {
		for _, i := range members {
			of[i] = e
		}
	}
	scores, labels := unpackAll(s.Sample)
	total := 0.0
	for bins := 1; bins <= 128; bins *= 2 {
		at := func(x float64) int { return min(bins-1, int(math.Floor(x*float64(bins)))) }
		wealth := make([]float64, len(lambdas))
		for k := range wealth {
			wealth[k] = 1
		}
		for i := range scores {
			sum, squares := 0.0, 0.0
			for j := range scores {
				if of[j] < of[i] && at(scores[j]) == at(scores[i]) {
					z := scores[j] - labels[j]
					if gamma == 1 {
						z *= s.share[j] * w
					}
					sum += z
					squares += z * z
				}
			}
			sigma := 0.0
			if squares > 0 {
				sigma = math.Max(-1, math.Min(1, sum/math.Sqrt(squares)))
			}
			x := sigma * s.share[i] * w * (scores[i] - labels[i])
			x = math.Min(gamma*x, x/gamma) / (gamma * w)
			for k, l := range lambdas {
				wealth[k] *= 1 + l*(x-m/(gamma*w))
			}
		}
		for _, x := range wealth {
			total += x
		}
	}
	return total / 8 / float64(len(lambdas))
}

// At m = Value the wealth is at least 1/δ, and slightly above Value it is at most 1/δ.
func TestWeightedLowerIsTheBets(t *testing.T) {
	const delta, w, n = 0.2, 3.0, 400
	for name, law := range oddScores {
		for _, gamma := range []float64{1, 1.1} {
			rows := weightedRows(n, law)
			for i := range rows {
				rows[i].label = indicator(rows[i].score < 0.5)
			}
			score, label, weight := columns(rows)
			s := must(NewWeightedSample(score, label, weight, Weighting{Bound: w, Sensitivity: gamma}))
			got := must(WeightedLower(s, delta, 9))
			if got.Value == 0 || !got.Sound || got.Delta != delta {
				t.Fatalf("%s: %+v", name, got)
			}
			lambdas := betSizes(n, delta)
			// The fast computation rounds X to a grid. This can lower the wealth a little, but never raises it.
			fast, slow := logWealth(s.placeBets(9), lambdas, 0), math.Log(slowWeightedWealth(s, 9, lambdas, 0, w, gamma))
			if fast > slow+1e-9 || fast < slow-0.01 {
				t.Errorf("%s Γ %v: the logarithm of the wealth is %v, want %v", name, gamma, fast, slow)
			}
			if x := slowWeightedWealth(s, 9, lambdas, got.Value, w, gamma); x < 1/delta*(1-1e-9) {
				t.Errorf("%s Γ %v: wealth %v at %v", name, gamma, x, got.Value)
			}
			if x := slowWeightedWealth(s, 9, lambdas, got.Value+0.015, w, gamma); x > 1/delta {
				t.Errorf("%s Γ %v: wealth still %v past %v", name, gamma, x, got.Value)
			}
		}
	}
}

// If m is the true error, the wealth is at most 1 on average. The test takes exact weights (Γ = 1) and every law of
// weightedLaws.
func TestWeightedWealthIsFair(t *testing.T) {
	const n, trials = 60, 300
	for _, l := range weightedLaws() {
		truth, _ := l.truth()
		sum, squares := 0.0, 0.0
		for trial := range uint64(trials) {
			score, label, weight := l.draw(n, trial)
			s := must(NewWeightedSample(score, label, weight, Weighting{Bound: l.bound, Sensitivity: 1}))
			w := math.Exp(logWealth(s.placeBets(trial), betSizes(n, 0.05), truth/l.bound))
			sum += w
			squares += w * w
		}
		mean := sum / trials
		if se := math.Sqrt(squares/trials-mean*mean) / math.Sqrt(trials); mean > 1+5*se {
			t.Errorf("%s: mean wealth %v ± %v", l.name, mean, se)
		}
	}
}

// A larger Γ raises the upper bound (WeightedVariation) and lowers the lower bound (WeightedLower).
func TestSensitivityWidens(t *testing.T) {
	rows := weightedRows(2000, uniform)
	for i := range rows {
		rows[i].label = indicator(rows[i].score < 0.5)
	}
	score, label, weight := columns(rows)
	upper, lower := 0.0, 1.0
	for _, gamma := range []float64{1, 1.05, 1.3} {
		s := must(NewWeightedSample(score, label, weight, Weighting{Bound: 3, Sensitivity: gamma}))
		u, l := must(WeightedVariation(s, 0.05, 1)), must(WeightedLower(s, 0.05, 1))
		if u.Sum() <= upper || l.Value >= lower {
			t.Errorf("Γ %v: [%v, %v] after [%v, %v]", gamma, l.Value, u.Sum(), lower, upper)
		}
		upper, lower = u.Sum(), l.Value
	}
}

func TestWeightErrors(t *testing.T) {
	score, label := []float64{0.2, 0.4}, []float64{0, 1}
	for _, c := range []struct {
		weight []float64
		known  Weighting
		want   string
	}{
		{[]float64{1, -1}, Weighting{Bound: 2, Sensitivity: 1}, "row 1: weight -1 is negative or not a number"},
		{[]float64{1, math.NaN()}, Weighting{Bound: 2, Sensitivity: 1}, "row 1: weight NaN is negative or not a number"},
		{[]float64{3, 1}, Weighting{Bound: 2, Sensitivity: 1}, "row 0: weight 3 is above the weight bound 2"},
		{[]float64{1}, Weighting{Bound: 2, Sensitivity: 1}, "2 scores, 1 weights"},
		{[]float64{1, 1}, Weighting{Bound: 0, Sensitivity: 1}, "weight bound 0 is not positive"},
		{[]float64{1, 1}, Weighting{Bound: 2, Sensitivity: 0.5}, "sensitivity 0.5 is below 1 or not finite"},
		{[]float64{1, 1}, Weighting{Bound: 1e60, Sensitivity: 1e50}, "weight bound 1e+60 times sensitivity 1e+50 is above 1e100"},
	} {
		if _, err := NewWeightedSample(score, label, c.weight, c.known); err == nil || err.Error() != c.want {
			t.Errorf("%v %+v: error %v, want %s", c.weight, c.known, err, c.want)
		}
	}
}

// WeightedVariation and WeightedLower must refuse weights whose mean is far from 1, because the bounds need a density
// ratio. With a larger Γ the mean may be further from 1.
func TestWeightsMustBeRatios(t *testing.T) {
	sample := func(w, bound, gamma float64, n int) *WeightedSample {
		score, label, weight := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range weight {
			score[i], weight[i] = 0.5, w
		}
		return must(NewWeightedSample(score, label, weight, Weighting{Bound: bound, Sensitivity: gamma}))
	}
	for _, c := range []struct {
		s       *WeightedSample
		refused bool
	}{
		{sample(1, 4, 1, 5000), false}, {sample(2, 4, 1, 5000), true}, {sample(0.5, 4, 1, 5000), true},
		{sample(2, 4, 1, 5), false}, {sample(2, 4, 2, 5000), false}, {sample(0.5, 4, 2, 5000), false},
		{sample(0.1, 4, 2, 5000), true}, {sample(0.5, 0.6, 1, 5), true},
	} {
		_, err1 := WeightedVariation(c.s, 0.05, 1)
		_, err2 := WeightedLower(c.s, 0.05, 1)
		if errors.Is(err1, ErrNotRatios) != c.refused || errors.Is(err2, ErrNotRatios) != c.refused {
			t.Errorf("mean %v of W %v, Γ %v: %v, %v", c.s.share[0]*c.s.bound, c.s.bound, c.s.sensitivity, err1, err2)
		}
	}
}
