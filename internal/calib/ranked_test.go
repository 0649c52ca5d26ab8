package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The values come from scikit-learn 1.9.1 (roc_auc_score, average_precision_score). There are three cases: plain
// predictions, predictions with weights, and predictions with confidences rounded to one digit.
func TestRankedAgrees(t *testing.T) {
	p := goldenPredictions()
	weighted := *p
	weighted.Weight = make([]float64, p.N())
	tied := Predictions{Correct: p.Correct}
	for i, c := range p.Confidence {
		weighted.Weight[i] = 1 + float64(i%5)
		tied.Confidence = append(tied.Confidence, min(0.9, max(0.1, math.RoundToEven(c*10)/10)))
	}
	for name, test := range map[string]struct {
		p         *Predictions
		auroc, ap float64
	}{
		"plain":   {p, 0.8333578143360751, 0.8106375588702109},
		"weights": {&weighted, 0.844525505514706, 0.8163753327579747},
		"ties":    {&tied, 0.8282535252643948, 0.7761363924074366},
	} {
		auroc, err := Rank(test.p).AUROC()
		near(t, name+" AUROC", auroc, test.auroc, 1e-12)
		ap, err2 := Rank(test.p).AveragePrecision()
		near(t, name+" AP", ap, test.ap, 1e-12)
		if err != nil || err2 != nil {
			t.Error(name, err, err2)
		}
	}
	for _, right := range []bool{false, true} {
		r := Rank(&Predictions{Confidence: []float64{0.5, 0.6}, Correct: []bool{right, right}})
		if x, err := r.AUROC(); err == nil || !math.IsNaN(x) {
			t.Error(x, err)
		}
		if x, err := r.AveragePrecision(); err == nil || !math.IsNaN(x) {
			t.Error(x, err)
		}
	}
}

// The values come from IsotonicRegression of scikit-learn 1.9.1, which interpolates between the ends of neighbouring
// pools. The test does the same with the result of Isotonic.
func TestIsotonicAgrees(t *testing.T) {
	x, y := Rank(goldenPredictions()).Isotonic()
	at := func(c float64) float64 {
		if c <= x[0] {
			return y[0]
		}
		for k := 1; k < len(x); k++ {
			if c <= x[k] {
				return y[k-1] + (y[k]-y[k-1])*(c-x[k-1])/(x[k]-x[k-1])
			}
		}
		return y[len(y)-1]
	}
	want := []float64{0.08333333333333333, 0.10526315789473684, 0.14285714285714285, 0.19047619047619047,
		0.22727272727272727, 0.3333333333333333, 0.5857142857142857, 0.7758333333333333, 1}
	for k, c := range []float64{0, .1, .25, .4, .5, .613, .7, .85, 1} {
		near(t, "isotonic", at(c), want[k], 1e-12)
	}
	for k := 1; k < len(x); k++ {
		if !(x[k] > x[k-1] && y[k] >= y[k-1]) {
			t.Fatalf("knots %v %v then %v %v", x[k-1], y[k-1], x[k], y[k])
		}
	}
}

// Every example is in exactly one bin of EqualCount, also if many confidences are equal. Weights of 1 give the same
// bins as no weights.
func TestEqualCountHoldsEveryExampleOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for range 50 {
		p := &Predictions{}
		for range 1 + rng.IntN(60) {
			p.Confidence = append(p.Confidence, float64(rng.IntN(20))/20)
			p.Correct = append(p.Correct, rng.IntN(2) == 0)
			p.Weight = append(p.Weight, 1)
		}
		bins, _ := EqualCount(p, 7)
		plain := *p
		plain.Weight = nil
		same, _ := EqualCount(&plain, 7)
		n := 0
		for k, b := range bins {
			right, in := 0, 0
			for i, c := range p.Confidence {
				if c >= b.Lower && c <= b.Upper {
					in++
					right += int(indicator(p.Correct[i]))
				}
			}
			if in != b.N || int64(right) != b.correct || same[k].N != b.N || same[k].Accuracy != b.Accuracy {
				t.Fatalf("bin %+v of %d examples, %d right", b, in, right)
			}
			n += b.N
		}
		if n != p.N() || len(same) != len(bins) {
			t.Fatalf("%d of %d examples", n, p.N())
		}
	}
}

// Isotonic regression is the best nondecreasing fit: no random fit, and no perturbation of the result, is better.
func TestIsotonicIsBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 3))
	for range 200 {
		p := &Predictions{}
		for range 1 + rng.IntN(40) {
			p.Confidence = append(p.Confidence, float64(rng.IntN(12))/12)
			p.Correct = append(p.Correct, rng.IntN(2) == 0)
		}
		x, y := Rank(p).Isotonic()
		value := func(c float64) float64 {
			// every confidence lies on a constant piece of the fit, and x holds the ends of these pieces
			for k := range x {
				if c <= x[k] {
					return y[k]
				}
			}
			return math.NaN()
		}
		loss := func(f func(c float64) float64) (sum float64) {
			for i, c := range p.Confidence {
				sum += math.Pow(indicator(p.Correct[i])-f(c), 2)
			}
			return sum
		}
		for k := 1; k < len(y); k++ {
			if y[k] < y[k-1] {
				t.Fatalf("%v falls", y)
			}
		}
		best := loss(value)
		for range 20 {
			a, b, cut := rng.Float64(), rng.Float64(), rng.Float64()
			other := func(c float64) float64 { return min(a, b) + math.Abs(a-b)*indicator(c > cut) }
			mixed := func(c float64) float64 { return 0.95*value(c) + 0.05*other(c) }
			if loss(other) < best-1e-9 || loss(mixed) < best-1e-9 {
				t.Fatalf("a better one than %v at %v", y, x)
			}
		}
	}
}
