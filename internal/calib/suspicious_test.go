package calib

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
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
	balanced := classes(0, 1, 2) // 30 right, 30 wrong: the AUROC has the standard error √(61/(12·30·30)) = 0.0752
	for _, c := range []struct {
		what  string
		p     *Predictions
		auroc float64
		want  []Suspicion
	}{
		{"all labels", balanced, 0.5, nil}, {"just above", balanced, 0.5 - 0.300, nil},
		{"just below", balanced, 0.5 - 0.301, []Suspicion{{RankedBackwards, 0.5 - 0.301}}},
		{"no 0", classes(1, 2), 0.6, []Suspicion{{Kind: FirstLabelAbsent}}}, {"no 2", classes(0, 1), 0.6, []Suspicion{{LastLabelAbsent, 2}}},
		{"one label", classes(1), 0.6, []Suspicion{{Kind: ConstantLabels}}}, {"too few", short, 0.6, nil},
		{"constant", constant, math.NaN(), []Suspicion{{Kind: ConstantLabels}}}, {"few", few, math.NaN(), nil},
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

// With n scores of 0.6, one of which has the label 1, the mean score is 0.6n times the share of class 1.
func TestLikePercentages(t *testing.T) {
	for n, want := range map[int]bool{39: false, 40: false, 49: false, 51: true, 499: true, 501: false} {
		p := &Predictions{Quantity: ClassOneQuantity}
		score, label := make([]float64, n), make([]float64, n)
		label[n/2] = 1
		for i := range n {
			score[i] = 0.6
			p.Confidence, p.Correct = append(p.Confidence, 0.6), append(p.Correct, i == n/2)
		}
		sample, err := NewSample(score, label)
		if err != nil {
			t.Fatal(err)
		}
		for how, found := range map[string][]Suspicion{"predictions": Suspicions(p, 0.5), "sample": sample.Suspicions(ClassOneQuantity)} {
			if got := len(found) == 1 && found[0].Kind == LikePercentages && math.Abs(found[0].Value-0.6*float64(n)) < 1e-9; got != want {
				t.Errorf("%d %s: %v", n, how, found)
			}
		}
		if found := sample.Suspicions(TopLabelQuantity); len(found) > 0 {
			t.Errorf("confidences: %v", found)
		}
		// The row with the label 1 has the weight n, so the mean score is below twice the share of class 1.
		p.Weight = slices.Repeat([]float64{1}, n)
		p.Weight[n/2] = float64(n)
		if found := Suspicions(p, 0.5); len(found) > 0 {
			t.Errorf("weights: %v", found)
		}
	}
}

// A Sample and a Predictions with the same scores and labels have the same suspicions.
func TestSuspicionsOfSample(t *testing.T) {
	score, label := make([]float64, 80), make([]float64, 80)
	p := &Predictions{Quantity: ClassOneQuantity, Confidence: score, Correct: make([]bool, 80)}
	for i := range score {
		score[i] = float64(i) / 80
		p.Correct[i] = i < 40
		label[i] = indicator(p.Correct[i])
	}
	sample, err := NewSample(score, label)
	if err != nil {
		t.Fatal(err)
	}
	want := []Suspicion{{RankedBackwards, 0}}
	if got := sample.Suspicions(ClassOneQuantity); !slices.Equal(got, want) || !slices.Equal(Suspicions(p, 0), want) {
		t.Errorf("%v, want %v", got, want)
	}
	clear(label)
	if sample, err = NewSample(score, label); err != nil {
		t.Fatal(err)
	}
	want = []Suspicion{{Kind: ConstantLabels}}
	if got := sample.Suspicions(ClassOneQuantity); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSeparated(t *testing.T) {
	top := func(probability []float64, classes int, label ...int) *Predictions {
		p, err := TopLabel(probability, classes, label)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := func(score []float64, label ...int) *Predictions {
		p, err := ClassOne(score, label)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	three := []float64{0.6, 0.3, 0.1, 0.3, 0.6, 0.1}
	for _, c := range []struct {
		what string
		p    *Predictions
		want bool
	}{
		{"above a score", one([]float64{0.1, 0.3, 0.2}, 0, 1, 0), true},
		{"equal scores", one([]float64{0.1, 0.3, 0.3}, 0, 1, 0), false},
		{"below a score", one([]float64{0.3, 0.1}, 0, 1), false},
		{"one label", one([]float64{0.1, 0.3}, 1, 1), false}, {"label 0", one([]float64{0.1, 0.3}, 0, 0), false},
		{"no rows", one(nil), false},
		{"two classes", top([]float64{0.9, 0.1, 0.7, 0.3}, 2, 0, 1), true},
		{"two classes, mixed", top([]float64{0.7, 0.3, 0.9, 0.1}, 2, 0, 1), false},
		{"three classes", top(three, 3, 0, 1), true}, {"three classes, an error", top(three, 3, 0, 2), false},
		{"three classes, one label", top(three[:3], 3, 0), false},
		{"confidences", &Predictions{Confidence: []float64{0.1, 0.9}, Correct: []bool{false, true}}, false},
	} {
		if got := Separated(c.p); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestPoorOverlap(t *testing.T) {
	weights := func(n int, most float64) []float64 { // the mean is 1
		w := slices.Repeat([]float64{(float64(n) - most) / float64(n-1)}, n)
		w[0] = most
		return w
	}
	for _, c := range []struct {
		what   string
		weight []float64
		want   bool
	}{
		{"equal", []float64{1, 1}, false},
		{"mean ½", []float64{0.5, 0.5}, false}, {"mean below ½", []float64{0.5, 0.499}, true},
		{"mean 2", []float64{2, 2}, false}, {"mean above 2", []float64{2, 2.001}, true},
		// Take n weights with the sum n. One weight is m, and the others are equal. The effective size is near n²/(m² +
		// (n−m)²/n). For n = 400 and m = 88, this formula gives 20.0, which is the limit n/20.
		{"size 21", weights(400, 85), false}, {"size 19", weights(400, 90), true},
	} {
		if got := PoorOverlap(c.weight); got != c.want {
			t.Errorf("%s: %v (effective size %v)", c.what, got, EffectiveSize(c.weight))
		}
	}
}

// The error of OutsideUnit has the hint about percentages only if the value can be a percentage.
func TestOutsideUnit(t *testing.T) {
	for value, want := range map[float64]bool{-0.1: false, 1.01: true, 100: true, 100.5: false, math.Inf(1): false, math.NaN(): false} {
		err := OutsideUnit(3, "score", value)
		if says, _ := hint.Of(err); strings.Contains(says, "percentages") != want {
			t.Errorf("%v: hint %q", value, says)
		}
		var row *RowError
		if !errors.As(err, &row) || row.Row != 3 || row.Reason != fmt.Sprintf("score %v is outside [0, 1]", value) {
			t.Errorf("%v: %v", value, err)
		}
	}
}
