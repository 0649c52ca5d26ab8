package calib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// groupPredictions draws probability vectors of three classes, and labels that do not depend on these vectors. If the
// argument 'weighted' is true, it also draws weights.
func groupPredictions(t *testing.T, r *rand.Rand, n int, weighted bool) *Predictions {
	t.Helper()
	var probability []float64
	var label []int
	for range n {
		a, b := r.Float64(), r.Float64()
		a, b = min(a, b), max(a, b)
		probability = append(probability, a, b-a, 1-b)
		label = append(label, r.IntN(3))
	}
	p := must(TopLabel(probability, 3, label))
	for i := range n {
		p.Index = append(p.Index, float64(i))
		if weighted {
			p.Weight = append(p.Weight, 1+r.Float64())
		}
	}
	return p
}

// MeasureGroups returns the metrics of the rows of each group. The intervals have the level 1 − 0.1/3, except that the
// interval of the NLL has the level 0.9.
func TestMeasureGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 1))
	for _, weighted := range []bool{false, true} {
		p := groupPredictions(t, r, 600, weighted)
		rows := make([][]int, 3)
		for i := range p.N() {
			rows[i%3] = append(rows[i%3], i)
		}
		rows[2] = append(rows[2], rows[0][:5]...) // groups may overlap
		var groups []*Predictions
		for k, at := range rows {
			g := p.Only(at)
			groups = append(groups, g)
			for j, i := range at {
				if g.Confidence[j] != p.Confidence[i] || g.Correct[j] != p.Correct[i] || g.Label[j] != p.Label[i] || g.Index[j] != p.Index[i] ||
					g.Probability[3*j+1] != p.Probability[3*i+1] || weighted && g.Weight[j] != p.Weight[i] {
					t.Fatalf("group %d, row %d", k, j)
				}
			}
		}
		o := MetricOptions{Bins: 10, Level: 0.9, Seed: 3}
		got := must(MeasureGroups(groups, o))
		single := o
		single.Level = 1 - 0.1/3
		for k, g := range groups {
			want := must(Measure(g, single))
			want.NLL = must(Measure(g, o)).NLL
			if a, b := figures(got[k]), figures(want); a != b {
				t.Errorf("group %d: %s, want %s", k, a, b)
			}
		}
	}
	if _, err := MeasureGroups([]*Predictions{{Confidence: []float64{1}, Correct: []bool{true}}}, MetricOptions{}); err == nil {
		t.Error("no bins: no error")
	}
}

// The function 'figures' prints several metrics, so that the test can compare them as one string.
func figures(m Metrics) string {
	return fmt.Sprint(m.Accuracy, m.ECE, m.AdaECE, m.MCE, m.Brier, m.NLL, m.PerClass.Brier, m.PerClass.ClasswiseECE, m.DebiasedL2, m.AUROC)
}

func TestWorstEstimate(t *testing.T) {
	groups := []Estimate{{0.5, 0.3, 0.6, Betting}, {0.4, 0.35, 0.7, Betting}, {0.6, 0.2, 0.65, Betting}, {0.4, 0.39, 0.8, Betting}}
	if worst, at := WorstEstimate(groups, false); worst != (Estimate{0.4, 0.2, 0.6, Betting}) || at != 1 {
		t.Errorf("smallest %v of group %d", worst, at)
	}
	if worst, at := WorstEstimate(groups, true); worst != (Estimate{0.6, 0.39, 0.8, Betting}) || at != 2 {
		t.Errorf("largest %v of group %d", worst, at)
	}
	nan := math.NaN()
	if worst, at := WorstEstimate([]Estimate{{1, nan, nan, ""}, {2, 1, 3, Bootstrap}}, true); worst.Value != 2 || at != 1 || !math.IsNaN(worst.Lower) || !math.IsNaN(worst.Upper) {
		t.Errorf("without an interval: %v", worst)
	}
}

// The intervals for the accuracies of all groups hold simultaneously, and so do the intervals for the Brier scores. The
// interval of WorstEstimate covers the worst true value.
func TestGroupIntervalsCover(t *testing.T) {
	const n, trials, level = 40, 400, 0.8
	truth := []float64{0.9, 0.75, 0.5, 0.85}
	o := MetricOptions{Bins: 5, Level: level}
	r := rand.New(rand.NewPCG(29, 2))
	missAccuracy, missBrier, missWorst := 0, 0, 0
	for range trials {
		var accuracy, brier []Estimate
		missA, missB := false, false
		joint := 1 - (1-o.Level)/float64(len(truth))
		for _, a := range truth {
			p := &Predictions{}
			for range n {
				p.Confidence, p.Correct = append(p.Confidence, 0.8), append(p.Correct, r.Float64() < a)
			}
			accuracy, brier = append(accuracy, AccuracyEstimate(p, joint)), append(brier, BrierEstimate(p, joint, 1))
			missA = missA || outside(accuracy[len(accuracy)-1], a)
			missB = missB || outside(brier[len(brier)-1], a*0.04+(1-a)*0.64)
		}
		low, _ := WorstEstimate(accuracy, false)
		high, _ := WorstEstimate(brier, true)
		for miss, count := range map[*int]bool{&missAccuracy: missA, &missBrier: missB, &missWorst: outside(low, 0.5) || outside(high, 0.34)} {
			if count {
				*miss++
			}
		}
	}
	if tooMany(missAccuracy, trials, 1-level) || tooMany(missBrier, trials, 1-level) || tooMany(missWorst, trials, 2*(1-level)) {
		t.Errorf("of %d: %d, %d, %d", trials, missAccuracy, missBrier, missWorst)
	}
}

func outside(e Estimate, truth float64) bool { return truth < e.Lower || truth > e.Upper }
