package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSuspicions(t *testing.T) {
	classes := func(labels ...int) *Predictions {
		p := &Predictions{Classes: 3}
		for i := range 60 {
			y := labels[i%len(labels)]
			p.Label = append(p.Label, y)
			p.Confidence, p.Correct = append(p.Confidence, 0.5), append(p.Correct, i%2 == 0)
		}
		return p
	}
	short := classes(1, 2)
	short.Label = short.Label[:59]
	constant := &Predictions{Quantity: ClassOneQuantity, Confidence: make([]float64, 40), Correct: make([]bool, 40)}
	few := &Predictions{Quantity: ClassOneQuantity, Confidence: make([]float64, 39), Correct: make([]bool, 39)}
	balanced := classes(0, 1, 2) // 30 of each kind: the standard error is √(61/(12·30·30)) = 0.0752
	for _, c := range []struct {
		what  string
		p     *Predictions
		auroc float64
		want  []Suspicion
	}{
		{"all labels", balanced, 0.5, nil}, {"just above", balanced, 0.5 - 0.300, nil},
		{"just below", balanced, 0.5 - 0.301, []Suspicion{RankedBackwards}},
		{"no 0", classes(1, 2), 0.6, []Suspicion{FirstLabelAbsent}}, {"no 2", classes(0, 1), 0.6, []Suspicion{LastLabelAbsent}},
		{"one label", classes(1), 0.6, []Suspicion{ConstantLabels}}, {"too few", short, 0.6, nil},
		{"constant", constant, math.NaN(), []Suspicion{ConstantLabels}}, {"few", few, math.NaN(), nil},
	} {
		if got := Suspicions(c.p, c.auroc); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	// Random scores are not suspicious.
	rng := rand.New(rand.NewPCG(8, 8))
	for range 200 {
		p := &Predictions{Quantity: ClassOneQuantity}
		for range 100 {
			p.Confidence, p.Correct = append(p.Confidence, rng.Float64()), append(p.Correct, rng.Float64() < 0.3)
		}
		auroc, err := Rank(p).AUROC()
		if err != nil || len(Suspicions(p, auroc)) > 0 {
			t.Errorf("random scores of AUROC %v are suspicious: %v", auroc, err)
		}
	}
}
