package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// From the losses of single rows, the test computes the mean losses and the interval for the difference of the Brier
// scores. ComparePaired must return the same values.
func TestComparePaired(t *testing.T) {
	a := &Predictions{Quantity: ClassOneQuantity, Confidence: []float64{0.9, 0.2, 0.001, 0.6}, Correct: []bool{true, false, true, false}}
	b := &Predictions{Quantity: ClassOneQuantity, Confidence: []float64{0.5, 0.4, 0.3, 0.7}, Correct: []bool{true, false, true, false}}
	got, err := ComparePaired(a, b, 0.9, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []PairedDifference{
		{Name: "error rate", First: 0.5, Second: 0.75},
		{Name: "Brier", First: (0.01 + 0.04 + 0.999*0.999 + 0.36) / 4, Second: (0.25 + 0.16 + 0.49 + 0.49) / 4},
		{Name: "clipped NLL", First: -(math.Log(0.9) + math.Log(0.8) + math.Log(0.01) + math.Log(0.4)) / 4,
			Second: -(math.Log(0.5) + math.Log(0.6) + math.Log(0.3) + math.Log(0.3)) / 4},
	}
	for k, w := range want {
		g := got[k]
		if g.Name != w.Name || math.Abs(g.First-w.First) > 1e-12 || math.Abs(g.Second-w.Second) > 1e-12 ||
			math.Abs(g.Difference-(w.First-w.Second)) > 1e-12 || !(g.Low < g.Difference && g.Difference < g.High) || g.P < 0.3 {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	low, high := MeanInterval(4, func(i int) float64 { return []float64{-0.24, -0.12, 0.508001, -0.13}[i]/2 + 0.5 }, 0.1, 3)
	if math.Abs(got[1].Low-(2*low-1)) > 1e-9 || math.Abs(got[1].High-(2*high-1)) > 1e-9 {
		t.Errorf("interval [%v, %v], want [%v, %v]", got[1].Low, got[1].High, 2*low-1, 2*high-1)
	}
}

// The test takes the ECE interval of each classifier at the level 1 − (1 − level)/2. From the ends of these two
// intervals, it computes the interval of the difference.
func TestCompareECE(t *testing.T) {
	a := &Predictions{Quantity: ClassOneQuantity, Confidence: []float64{0.9, 0.2, 0.001, 0.6}, Correct: []bool{true, false, true, false}}
	b := &Predictions{Quantity: ClassOneQuantity, Confidence: []float64{0.5, 0.4, 0.3, 0.7}, Correct: []bool{true, false, true, false}}
	got, err := CompareECE(a, b, MetricOptions{Bins: 2, Level: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	// The first classifier has the bins {0.2, 0.001} and {0.9, 0.6}. The second one has {0.5, 0.4, 0.3} and {0.7}.
	first, second := (math.Abs(1-0.201)+math.Abs(1-1.5))/4, (math.Abs(2-1.2)+0.7)/4
	if math.Abs(got.First-first) > 1e-12 || math.Abs(got.Second-second) > 1e-12 || math.Abs(got.Difference-(first-second)) > 1e-12 {
		t.Errorf("%+v, want the ECEs %v and %v", got, first, second)
	}
	if _, err := CompareECE(a, a.Only([]int{0, 1}), MetricOptions{Bins: 2, Level: 0.9}); err == nil {
		t.Error("classifiers with different numbers of rows are compared")
	}
	rng := rand.New(rand.NewPCG(5, 5))
	c, d := &Predictions{Quantity: ClassOneQuantity}, &Predictions{Quantity: ClassOneQuantity}
	for range 4000 {
		s := rng.Float64()
		y := rng.Float64() < s
		c.Confidence, c.Correct = append(c.Confidence, s), append(c.Correct, y)
		d.Confidence, d.Correct = append(d.Confidence, s*s*s), append(d.Correct, y)
	}
	if got, err = CompareECE(c, d, MetricOptions{Bins: 15, Level: 0.9}); err != nil {
		t.Fatal(err)
	}
	ends := func(p *Predictions) Estimate {
		bins, err := EqualWidth(p, 15, UpperClosed)
		if err != nil {
			t.Fatal(err)
		}
		return ECEEstimate(p, bins, 0.95)
	}
	if x, y := ends(c), ends(d); math.Abs(got.Low-(x.Lower-y.Upper)) > 1e-12 || math.Abs(got.High-(x.Upper-y.Lower)) > 1e-12 {
		t.Errorf("interval [%v, %v], want [%v, %v]", got.Low, got.High, x.Lower-y.Upper, x.Upper-y.Lower)
	}
	// The confidences of 'c' are calibrated, and the confidences of 'd' are too low by s − s³.
	truth := integrate(func(s float64) float64 { return s*s*s - s })
	if !(got.Low <= truth && truth <= got.High && got.High < 0) {
		t.Errorf("interval [%v, %v], want an interval below 0 that contains %v", got.Low, got.High, truth)
	}
}

// The interval for the difference of the Brier scores misses the true difference in at most a share 1−level of the
// samples. In at least half of the samples, the interval and the p-value show that the true difference is not 0.
func TestComparePairedCovers(t *testing.T) {
	const n, trials, level = 400, 150, 0.8
	missed, found := 0, 0
	for seed := range uint64(trials) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b := &Predictions{Quantity: ClassOneQuantity}, &Predictions{Quantity: ClassOneQuantity}
		for range n {
			s := rng.Float64()
			y := rng.Float64() < s
			a.Confidence, a.Correct = append(a.Confidence, s), append(a.Correct, y)
			b.Confidence, b.Correct = append(b.Confidence, s*s), append(b.Correct, y)
		}
		got, err := ComparePaired(a, b, level, seed)
		if err != nil {
			t.Fatal(err)
		}
		truth := -integrate(func(s float64) float64 { return (s - s*s) * (s - s*s) }) // difference of the Brier scores
		if truth < got[1].Low || truth > got[1].High {
			missed++
		}
		if got[1].High < 0 && got[1].P < 1-level {
			found++
		}
	}
	if tooMany(missed, trials, 1-level) || found < trials/2 {
		t.Errorf("%d of %d intervals miss the difference, %d find that it is not 0", missed, trials, found)
	}
}

func TestComparePairedErrors(t *testing.T) {
	one := func(q Quantity, correct, weighted bool, label int) *Predictions {
		p := &Predictions{Quantity: q, Confidence: []float64{0.5}, Correct: []bool{correct}}
		if weighted {
			p.Weight = []float64{1}
		}
		if label >= 0 {
			p.Label = []int{label}
		}
		return p
	}
	plain := one(TopLabelQuantity, true, false, -1)
	indexed := func(index float64) *Predictions {
		p := one(TopLabelQuantity, true, false, -1)
		p.Index = []float64{index}
		return p
	}
	for name, c := range map[string][2]*Predictions{
		"weights":    {plain, one(TopLabelQuantity, true, true, -1)},
		"quantities": {plain, one(ClassOneQuantity, true, false, -1)},
		"rows":       {plain, &Predictions{}},
		"no rows":    {&Predictions{}, &Predictions{}},
		"class one":  {one(ClassOneQuantity, true, false, -1), one(ClassOneQuantity, false, false, -1)},
		"labels":     {one(TopLabelQuantity, true, false, 1), one(TopLabelQuantity, true, false, 2)},
		"examples":   {indexed(3), indexed(4)},
	} {
		if _, err := ComparePaired(c[0], c[1], 0.9, 1); err == nil {
			t.Errorf("different %s are accepted", name)
		}
	}
	if _, err := ComparePaired(plain, one(TopLabelQuantity, false, false, -1), 0.9, 1); err != nil {
		t.Errorf("top-label predictions of one example: %v", err)
	}
	for _, p := range []*Predictions{plain, indexed(3)} {
		if _, err := ComparePaired(indexed(3), p, 0.9, 1); err != nil {
			t.Errorf("index %v: %v", p.Index, err)
		}
	}
}
