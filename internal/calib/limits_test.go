package calib

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
)

// Error messages of this package tell the user the limits of the parameters. Parameters at these limits are accepted,
// and parameters beyond them are refused.
func TestLimitsOfParameters(t *testing.T) {
	ten := draw(10, 1, uniform, uniform01)
	many := draw(510, 1, uniform, uniform01)
	tests := []struct {
		name string
		call func() error
		ok   bool
	}{
		{"2 folds", func() error { return CrossFit{0.1, 2, 0}.check(4) }, true},
		{"2 folds of 3", func() error { return CrossFit{0.1, 2, 0}.check(3) }, false},
		{"255 folds", func() error { return CrossFit{0.1, 255, 0}.check(510) }, true},
		{"255 folds, few rows", func() error { return CrossFit{0.1, 255, 0}.check(509) }, false},
		{"256 folds", func() error { return CrossFit{0.1, 256, 0}.check(5000) }, false},
		{"1 fold", func() error { return CrossFit{0.1, 1, 0}.check(10) }, false},
		{"delta 0", func() error { return checkDelta(0) }, false},
		{"delta 1", func() error { return checkDelta(1) }, false},
		{"delta NaN", func() error { return checkDelta(math.NaN()) }, false},
		{"delta", func() error { return checkDelta(0.999) }, true},
		{"bandwidth 0", func() error { return checkBandwidth(0) }, false},
		{"bandwidth Inf", func() error { return checkBandwidth(math.Inf(1)) }, false},
		{"bandwidth", func() error { return checkBandwidth(1e-300) }, true},
		{"variation Inf", func() error {
			_, err := TotalVariation(ten, CrossFit{0.1, 2, 0}, math.Inf(1))
			return err
		}, false},
		{"variation NaN", func() error {
			_, err := TotalVariation(ten, CrossFit{0.1, 2, 0}, math.NaN())
			return err
		}, false},
		{"variation 0", func() error { _, err := TotalVariation(ten, CrossFit{0.1, 2, 0}, 0); return err }, true},
		{"every fold", func() error { _, err := TotalVariation(many, CrossFit{0.1, 255, 0}, 1); return err }, true},
		{"kind", func() error { _, err := NadarayaWatson(ten, CrossFit{0.1, 2, 0}, 1, Printed+1); return err }, false},
		{"kind below", func() error { _, err := NadarayaWatson(ten, CrossFit{0.1, 2, 0}, 1, -1); return err }, false},
		{"kind nw folds", func() error {
			_, err := NadarayaWatson(ten, CrossFit{0.1, 1, 0}, 1, Repaired)
			return err
		}, false},
		{"lipschitz delta", func() error { _, err := Lipschitz(ten, 0, 1); return err }, false},
		{"0 bins", func() error { _, err := EqualWidth(goldenPredictions(), 0, UpperClosed); return err }, false},
		{"0 bins by count", func() error { _, err := EqualCount(goldenPredictions(), 0); return err }, false},
		{"1 bin", func() error { _, err := EqualWidth(goldenPredictions(), 1, UpperClosed); return err }, true},
		{"1 bin by count", func() error { _, err := EqualCount(goldenPredictions(), 1); return err }, true},
		{"lengths", func() error { _, err := NewSample([]float64{0.5}, nil); return err }, false},
		{"no predictions", func() error { return (&Predictions{}).Check() }, false},
		{"correct is short", func() error { return (&Predictions{Confidence: []float64{0.5}}).Check() }, false},
		{"weight is short", func() error {
			return (&Predictions{Confidence: []float64{0.5}, Correct: []bool{true}, Weight: []float64{}}).Check()
		}, false},
		{"weight Inf", func() error {
			return (&Predictions{Confidence: []float64{0.5}, Correct: []bool{true}, Weight: []float64{math.Inf(1)}}).Check()
		}, false},
		{"confidence 0 and 1", func() error {
			return (&Predictions{Confidence: []float64{0, 1}, Correct: []bool{true, true}, Weight: []float64{1e-300, 1}}).Check()
		}, true},
		{"1 class", func() error { _, err := TopLabel([]float64{1}, 1, []int{0}); return err }, false},
		{"probabilities are few", func() error {
			_, err := TopLabel([]float64{1, 0}, 2, []int{0, 0})
			return err
		}, false},
		{"label −1", func() error { _, err := TopLabel([]float64{1, 0}, 2, []int{-1}); return err }, false},
		{"label 1 of 2", func() error { _, err := TopLabel([]float64{1, 0}, 2, []int{1}); return err }, true},
		{"sum 1.0014", func() error { _, err := TopLabel([]float64{0.5, 0.5014}, 2, []int{1}); return err }, true},
		{"sum 1.0015", func() error { _, err := TopLabel([]float64{0.5, 0.5015}, 2, []int{1}); return err }, false},
		{"TPR 1", func() error { _, err := ThresholdAtTPR([]float64{0.5}, []bool{true}, 1); return err }, true},
		{"TPR above 1", func() error {
			_, err := ThresholdAtTPR([]float64{0.5}, []bool{true}, 1.01)
			return err
		}, false},
		{"holdout 0", func() error { _, err := Holdout(5, 0, 1); return err }, false},
		{"holdout of 2", func() error { _, err := Holdout(2, 0.5, 1); return err }, true},
		{"temperature, 1 class", func() error {
			_, err := FitTemperature([]float64{1}, 1, []int{0})
			return err
		}, false},
		{"temperature, no rows", func() error { _, err := FitTemperature(nil, 2, nil); return err }, false},
		{"temperature, lengths", func() error {
			_, err := FitTemperature([]float64{1, 2, 3}, 2, []int{0})
			return err
		}, false},
		{"temperature, label −1", func() error {
			_, err := FitTemperature([]float64{1, 2}, 2, []int{-1})
			return err
		}, false},
		{"temperature, Inf", func() error {
			_, err := FitTemperature([]float64{1, math.Inf(1)}, 2, []int{1})
			return err
		}, false},
		{"bounds 0 and 1", func() error { return CheckBounded([]Bounded{{0, 0, true}, {1, 1, true}, {0, 1, false}}) }, true},
	}
	for _, tt := range tests {
		if err := tt.call(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestTerms(t *testing.T) {
	terms := Terms{{"gap", 0.25}, {"noise", 0.5}}
	if got, err := json.Marshal(terms); err != nil || string(got) != `{"gap":0.25,"noise":0.5}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := json.Marshal(Terms{}); err != nil || string(got) != `{}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := json.Marshal(Terms{{"gap", math.NaN()}}); err == nil {
		t.Error("NaN was written")
	}
	if terms.Get("noise") != 0.5 || terms.Get("labels") != 0 {
		t.Error(terms.Get("noise"), terms.Get("labels"))
	}
	b, err := newBound(terms, nil, 0.1, 0.125, true)
	if err != nil || b.Sum() != 0.875 || b.Value != 0.875 || !b.Sound {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := newBound(terms, nil, 0.1, 0.5, false); err != nil || b.Value != 1 || b.Sum() != 1.25 || b.Sound {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := newBound(terms, nil, 0.1, math.NaN(), true); err == nil {
		t.Error("a bound that is not a number")
	}
}

// Bin k of EqualCount ends at rank ⌈k·n/bins⌉. It also holds all later examples with the same confidence as the example
// at this rank. The test checks the edges, weights and means of the bins.
func TestEqualCountIsTheDefinition(t *testing.T) {
	p := weightedPredictions(true)
	bins, err := EqualCount(p, 7)
	if err != nil {
		t.Fatal(err)
	}
	order := allOf(p)
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, p.Confidence[a]-p.Confidence[b])) })
	total := 0.0
	for _, w := range p.Weight {
		total += w
	}
	from := 0
	for k, b := range bins {
		to := from
		for to < p.N() && (to*7 < (k+1)*p.N() || p.Confidence[order[to]] == p.Confidence[order[to-1]]) {
			to++
		}
		var weight, conf, acc float64
		for _, i := range order[from:to] {
			weight += p.Weight[i]
			conf += p.Weight[i] * p.Confidence[i]
			acc += p.Weight[i] * indicator(p.Correct[i])
		}
		what := fmt.Sprintf("bin %d ", k)
		if b.N != to-from || b.Lower != p.Confidence[order[from]] || b.Upper != p.Confidence[order[to-1]] {
			t.Errorf("%s: %+v", what, b)
		}
		same(t, what+"weight", b.Weight, weight/total, 1e-12)
		same(t, what+"confidence", b.Confidence, conf/weight, 1e-12)
		same(t, what+"accuracy", b.Accuracy, acc/weight, 1e-12)
		from = to
	}
	if from != p.N() {
		t.Errorf("%d of %d examples in bins", from, p.N())
	}
	wide, err := EqualWidth(p, 4, UpperClosed)
	if err != nil || wide[1].Lower != 0.25 || wide[1].Upper != 0.5 || wide[3].Upper != 1 || wide[0].Lower != 0 {
		t.Errorf("%+v, %v", wide, err)
	}
}
