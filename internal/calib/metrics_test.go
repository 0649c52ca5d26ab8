package calib

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// goldenPredictions returns 240 examples whose metrics were computed by other programs. Those programs received the
// same arrays as input. The formulas below compute the arrays.
func goldenPredictions() *Predictions {
	const n = 240
	p := &Predictions{Confidence: make([]float64, n), Correct: make([]bool, n)}
	for i := range n {
		p.Confidence[i] = (float64(i*37%101) + 0.5) / 101
		p.Correct[i] = float64((i*i*7+i)%17)/17 < math.Pow(p.Confidence[i], 1.5)
	}
	return p
}

func goldenLogits() (logits []float64, classes int, label []int) {
	const n, m = 240, 4
	for i := range n {
		row := make([]float64, m)
		for k := range row {
			row[k] = float64((i*7+k*13)%23-11) / 4
			if k == i*i%m {
				row[k] *= 2
			}
		}
		order := []int{0, 1, 2, 3}
		slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, row[a]-row[b])) })
		label = append(label, order[m-1-(i*i*5+i)%7/3])
		logits = append(logits, row...)
	}
	return logits, m, label
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %.17g, want %.17g", what, got, want)
	}
}

// The values come from scikit-learn 1.9.1 (brier_score_loss, log_loss, calibration_curve, roc_auc_score) and netcal
// 1.4.0 (ECE, MCE). The function binary_calibration_error of torchmetrics 1.9.0 (torch 2.15.0) returns the same ECE
// (norm 'l1') and the same MCE (norm 'max') to the last digit.
func TestMetricsAgree(t *testing.T) {
	p := goldenPredictions()
	near(t, "Brier", p.TopLabelBrier(), 0.17531696238930825, 1e-12)
	near(t, "NLL", p.TopLabelNLL(), 0.5303776065937464, 1e-12)
	label := make([]float64, p.N())
	for i, ok := range p.Correct {
		label[i] = indicator(ok)
	}
	s, err := NewSample(p.Confidence, label)
	if err != nil {
		t.Fatal(err)
	}
	auroc, err := s.AUROC()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "AUROC", auroc, 0.8333578143360751, 1e-12)

	accuracy := []float64{0.125, 0.125, 0.13043478260869565, 0.16666666666666666, 0.2222222222222222, 0.2916666666666667, 0.34782608695652173, 0.7083333333333334, 0.75, 1}
	confidence := []float64{0.049504950495049514, 0.14851485148514856, 0.24558760223848464, 0.34570957095709565, 0.4508617528419509, 0.5561056105610561, 0.6549720189410244, 0.7533003300330033, 0.8523102310231022, 0.9524321997417132}
	for _, edge := range []Edge{UpperClosed, LowerClosed} {
		bins, err := EqualWidth(p, 10, edge)
		if err != nil {
			t.Fatal(err)
		}
		for k, b := range bins {
			if edge == UpperClosed || k < 4 || k > 5 { // the confidence 0.5 is the edge between the bins 4 and 5
				near(t, "bin accuracy", b.Accuracy, accuracy[k], 1e-12)
				near(t, "bin confidence", b.Confidence, confidence[k], 1e-12)
			}
		}
		near(t, "ECE(10)", ECE(bins), 0.1397277227722772, 1e-12)
		near(t, "MCE(10)", MCE(bins), 0.3071459319845027, 1e-12)
		bins, _ = EqualWidth(p, 15, edge)
		near(t, "ECE(15)", ECE(bins), 0.13646864686468643, 1e-12)
		near(t, "MCE(15)", MCE(bins), 0.3255902513328256, 1e-12)
	}

	p.Weight = make([]float64, p.N())
	for i := range p.Weight {
		p.Weight[i] = 1 + float64(i%5)
	}
	near(t, "weighted Brier", p.TopLabelBrier(), 0.16988476075330305, 1e-12)
	near(t, "weighted NLL", p.TopLabelNLL(), 0.5117833922504719, 1e-12)
}

// The values come from scikit-learn 1.9.1 (log_loss) and SciPy 1.17.1 (minimize_scalar).
func TestTemperatureAgrees(t *testing.T) {
	logits, m, label := goldenLogits()
	p, err := TopLabel(Softmax(logits, m, 1), m, label)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "NLL", p.NLL(), 1.7194551626132792, 1e-12)
	fit, err := FitTemperature(logits, m, label)
	if err != nil {
		t.Fatal(err)
	}
	// The minimum is flat, so the error of SciPy's T is about the square root of SciPy's tolerance.
	near(t, "T", fit.Temperature, 3.4622132591404764, 1e-6)
	near(t, "NLL at T", fit.NLL, 1.2343609998140863, 1e-12)
	if fit.AtLimit {
		t.Error("at the limit")
	}
	_, slope, curvature := nllAt(logits, m, label, 1/fit.Temperature)
	if math.Abs(slope) > 1e-13 || curvature <= 0 {
		t.Errorf("slope %v, curvature %v", slope, curvature)
	}
	p, _ = TopLabel(Softmax(logits, m, fit.Temperature), m, label)
	near(t, "NLL of the probabilities", p.NLL(), fit.NLL, 1e-12)
}

func TestTemperatureLimits(t *testing.T) {
	tests := []struct {
		name   string
		logits []float64
		label  []int
		want   float64
	}{
		{"separable", []float64{2, 1, 0, 3}, []int{0, 1}, MinTemperature},
		{"one row", []float64{0.1, 0}, []int{0}, MinTemperature},
		{"worse than none", []float64{2, 1, 0, 3}, []int{1, 0}, MaxTemperature},
	}
	for _, tt := range tests {
		fit, err := FitTemperature(tt.logits, 2, tt.label)
		if err != nil || fit.Temperature != tt.want || !fit.AtLimit || math.IsNaN(fit.NLL) {
			t.Errorf("%s: %+v, %v", tt.name, fit, err)
		}
	}
	// If the NLL does not depend on T, the result is T = 1.
	for name, logits := range map[string][]float64{"equal logits": {5, 5}, "huge and separable": {1e300, -1e300}} {
		if fit, err := FitTemperature(logits, 2, []int{0}); err != nil || fit.Temperature != 1 || fit.AtLimit {
			t.Errorf("%s: %+v, %v", name, fit, err)
		}
	}
	// The data are nearly separable. In each of the 10⁶ rows the two logits differ by 1, and the label has the larger
	// logit in all rows except one. So the best T satisfies σ(−1/T) = 10⁻⁶, where σ is the logistic function.
	const n = 1_000_000
	logits, label := make([]float64, 2*n), make([]int, n)
	for i := range n {
		logits[2*i] = 1
	}
	label[7] = 1
	fit, err := FitTemperature(logits, 2, label)
	near(t, "T", fit.Temperature, 1/math.Log(n-1), 1e-9)
	if err != nil || fit.AtLimit {
		t.Errorf("%+v, %v", fit, err)
	}
	var row *RowError
	if _, err := FitTemperature([]float64{0, math.NaN()}, 2, []int{0}); !errors.As(err, &row) {
		t.Error(err)
	}
	if _, err := FitTemperature([]float64{0, 1}, 2, []int{2}); !errors.As(err, &row) {
		t.Error(err)
	}
}

// FitTemperature finds a minimum outside [10⁻³, 10³]. If all logits are multiplied by a number, T is multiplied by the
// same number.
func TestTemperatureFarOut(t *testing.T) {
	logits, m, label := goldenLogits()
	fit, err := FitTemperature(logits, m, label)
	if err != nil {
		t.Fatal(err)
	}
	for _, scale := range []float64{1e-200, 1e-9, 1e-3, 1e4, 1e12, 1e200} {
		scaled := slices.Clone(logits)
		for i := range scaled {
			scaled[i] *= scale
		}
		got, err := FitTemperature(scaled, m, label)
		if err != nil || got.AtLimit || math.Abs(got.Temperature/(scale*fit.Temperature)-1) > 1e-9 || math.Abs(got.NLL-fit.NLL) > 1e-12 {
			t.Errorf("scale %v: %+v, %v; want T %v", scale, got, err, scale*fit.Temperature)
		}
	}
	// The result stays the same if a class with probability 0 in every row is added.
	var wide []float64
	for i := range label {
		wide = append(append(wide, logits[i*m:(i+1)*m]...), math.Inf(-1))
	}
	got, err := FitTemperature(wide, m+1, label)
	near(t, "T beside −∞", got.Temperature, fit.Temperature, 1e-9)
	p := Softmax(wide, m+1, 2)
	if err != nil || p[m] != 0 || math.IsNaN(p[0]) {
		t.Error(err, p[:m+1])
	}
	if _, err := FitTemperature([]float64{math.Inf(-1), 1}, 2, []int{0}); err == nil {
		t.Error("a label that is ruled out")
	}
}

func TestEdges(t *testing.T) {
	for _, tt := range []struct {
		c            float64
		bins         int
		upper, lower int
	}{
		{0, 10, 0, 0}, {1, 10, 9, 9}, {0.1, 10, 0, 1}, {0.3, 10, 2, 3}, {0.7, 10, 6, 7},
		{math.Nextafter(0.3, 1), 10, 3, 3}, {math.Nextafter(0.3, 0), 10, 2, 2},
		{0.5, 1, 0, 0}, {0.5, 2, 0, 1}, {1e-320, 15, 0, 0},
	} {
		if got := UpperClosed.bin(tt.c, tt.bins); got != tt.upper {
			t.Errorf("(lo,hi]: %v of %d in bin %d, want %d", tt.c, tt.bins, got, tt.upper)
		}
		if got := LowerClosed.bin(tt.c, tt.bins); got != tt.lower {
			t.Errorf("[lo,hi): %v of %d in bin %d, want %d", tt.c, tt.bins, got, tt.lower)
		}
	}
	// With UpperClosed, a confidence on the edge between two bins always belongs to the lower bin. With LowerClosed, it
	// always belongs to the upper bin. The rounding of c·bins does not change this.
	for bins := 1; bins <= 200; bins++ {
		for k := range bins + 1 {
			c := float64(k) / float64(bins)
			if got := UpperClosed.bin(c, bins); got != max(0, k-1) {
				t.Fatalf("(lo,hi]: edge %d of %d in bin %d", k, bins, got)
			}
			if got := LowerClosed.bin(c, bins); got != min(bins-1, k) {
				t.Fatalf("[lo,hi): edge %d of %d in bin %d", k, bins, got)
			}
		}
	}
}

func TestEqualCount(t *testing.T) {
	sizes := func(conf []float64, bins int) []int {
		b, err := EqualCount(&Predictions{Confidence: conf, Correct: make([]bool, len(conf))}, bins)
		if err != nil {
			t.Fatal(err)
		}
		var out []int
		for _, x := range b {
			out = append(out, x.N)
		}
		return out
	}
	for _, tt := range []struct {
		conf []float64
		bins int
		want []int
	}{
		{[]float64{.1, .2, .3, .4, .5, .6}, 3, []int{2, 2, 2}},
		{[]float64{.5, .1, .4, .2, .3}, 2, []int{3, 2}},
		{[]float64{.1, .5, .5, .5, .5, .9}, 3, []int{5, 1}}, // equal confidences share a bin
		{[]float64{.5, .5, .5}, 2, []int{3}},
		{[]float64{.5}, 15, []int{1}},
		{[]float64{.1, .9}, 15, []int{1, 1}},
	} {
		if got := sizes(tt.conf, tt.bins); !slices.Equal(got, tt.want) {
			t.Errorf("%v in %d: %v, want %v", tt.conf, tt.bins, got, tt.want)
		}
	}
}

// A weight of 2 acts like two copies of the example.
func TestWeightsAreRepeats(t *testing.T) {
	p := goldenPredictions()
	p.Weight = make([]float64, p.N())
	q := &Predictions{}
	for i := range p.Weight {
		p.Weight[i] = float64(1 + i%3)
		for range 1 + i%3 {
			q.Confidence = append(q.Confidence, p.Confidence[i])
			q.Correct = append(q.Correct, p.Correct[i])
		}
	}
	a, _ := EqualWidth(p, 15, UpperClosed)
	b, _ := EqualWidth(q, 15, UpperClosed)
	near(t, "ECE", ECE(a), ECE(b), 1e-12)
	near(t, "MCE", MCE(a), MCE(b), 1e-12)
	near(t, "accuracy", p.Accuracy(), q.Accuracy(), 1e-12)
	near(t, "confidence", p.MeanConfidence(), q.MeanConfidence(), 1e-12)
}

// On unusual inputs, the accuracy, the ECE, the AdaECE, the MCE and the Brier score lie in their intervals, and the
// intervals lie in [0, 1]. The accuracy of each nonempty bin lies in its band. The NLL is not NaN, and it is infinite
// only if an outcome has probability 0.
func TestMetricsOnOddInputs(t *testing.T) {
	cases := map[string]*Predictions{
		"n = 1":        {Confidence: []float64{0.7}, Correct: []bool{true}},
		"n = 1, wrong": {Confidence: []float64{0.7}, Correct: []bool{false}},
		"certain":      {Confidence: []float64{1, 1, 1}, Correct: []bool{true, true, true}},
		"certain, not": {Confidence: []float64{0, 1}, Correct: []bool{false, true}},
		"impossible":   {Confidence: []float64{1, 0.5}, Correct: []bool{false, true}},
		"ties":         {Confidence: []float64{0.5, 0.5, 0.5, 0.5}, Correct: []bool{true, false, true, false}},
		"weights":      {Confidence: []float64{0.5, 0.9}, Correct: []bool{true, false}, Weight: []float64{1e-9, 1e9}},
	}
	for name, p := range cases {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		bins, _ := EqualWidth(p, 15, UpperClosed)
		ada, _ := EqualCount(p, 15)
		for what, e := range map[string]Estimate{
			"accuracy": AccuracyEstimate(p, 0.95), "ECE": ECEEstimate(p, bins, 0.95), "AdaECE": ECEEstimate(p, ada, 0.95),
			"MCE": MCEEstimate(p, bins, 0.95), "Brier": BrierEstimate(p, 0.95, 1),
		} {
			if !(e.Lower >= 0 && e.Lower <= e.Value+1e-12 && e.Value <= e.Upper+1e-12 && e.Upper <= 1) {
				t.Errorf("%s: %s %+v", name, what, e)
			}
		}
		nll := NLLEstimate(p, 0.95, 1)
		if math.IsNaN(nll.Value) || (name == "impossible") != math.IsInf(nll.Value, 1) {
			t.Errorf("%s: NLL %+v", name, nll)
		}
		for k, band := range Bands(p, bins, 0.95) {
			if b := bins[k]; b.N > 0 && !(band[0] <= b.Accuracy && b.Accuracy <= band[1]) {
				t.Errorf("%s: band %v around %v", name, band, b.Accuracy)
			}
		}
	}
	var row *RowError
	for name, p := range map[string]*Predictions{
		"confidence": {Confidence: []float64{0.5, 1.5}, Correct: []bool{true, true}},
		"NaN":        {Confidence: []float64{0.5, math.NaN()}, Correct: []bool{true, true}},
		"weight":     {Confidence: []float64{0.5, 0.5}, Correct: []bool{true, true}, Weight: []float64{1, 0}},
	} {
		if err := p.Check(); !errors.As(err, &row) || row.Row != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTopLabel(t *testing.T) {
	p, err := TopLabel([]float64{.2, .5, .3, .4, .4, .2}, 3, []int{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Confidence, []float64{.5, .4}) || !slices.Equal(p.Correct, []bool{true, false}) {
		t.Errorf("%+v", p)
	}
	for _, tt := range []struct {
		p     []float64
		label int
		want  string
	}{
		{[]float64{.5, .6}, 0, "row 0: probabilities sum to 1.1, not 1"},
		{[]float64{-.1, 1.1}, 0, "row 0: probability -0.1 is outside [0, 1]"},
		{[]float64{.5, .5}, 2, "row 0: label 2 is outside 0 to 1"},
	} {
		if _, err := TopLabel(tt.p, 2, []int{tt.label}); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// The test computes the classwise ECE from its definition.
func TestClasswiseECE(t *testing.T) {
	logits, m, label := goldenLogits()
	p, _ := TopLabel(Softmax(logits, m, 2), m, label)
	want := 0.0
	for k := range m {
		for b := range 10 {
			sum := 0.0
			for i, y := range label {
				if x := p.Probability[i*m+k]; x > float64(b)/10 && x <= float64(b+1)/10 {
					sum += indicator(y == k) - x
				}
			}
			want += math.Abs(sum) / float64(len(label)*m)
		}
	}
	got, each, err := ClasswiseECE(p, 10, UpperClosed)
	if err != nil || len(each) != m {
		t.Fatal(each, err)
	}
	near(t, "classwise ECE", got, want, 1e-12)
	e, err := ClasswiseEstimate(p, 10, UpperClosed, 0.95)
	if err != nil || !(e.Lower <= got && got <= e.Upper) {
		t.Errorf("%+v %v", e, err)
	}
}

// Every interval covers its target at its level, for calibrated and miscalibrated predictions, with and without
// weights. For the accuracy and the calibration errors, the target is the value that the metric has if each outcome is
// replaced by its probability. For the Brier score and the NLL, the target is the expectation of the metric given the
// confidences. A percentile bootstrap around the ECE would fail: if the target is 0, the lower end of the bootstrap
// interval is above 0.
func TestMetricIntervalsCover(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const n, trials, level = 300, 400, 0.9
	rng := rand.New(rand.NewPCG(31, 1))
	for name, eta := range map[string]func(c float64) float64{
		"calibrated":    func(c float64) float64 { return c },
		"overconfident": func(c float64) float64 { return 0.5 + 0.6*(c-0.5) },
		"mixed":         func(c float64) float64 { return c + 0.08*math.Sin(40*c) },
		"sure":          func(c float64) float64 { return min(1, 0.9+c/10) },
	} {
		for _, weighted := range []bool{false, true} {
			misses := map[string]int{}
			for trial := range uint64(trials) {
				p := &Predictions{}
				prob := []float64{}
				for range n {
					c := 0.5 + 0.49*math.Sqrt(rng.Float64())
					p.Confidence = append(p.Confidence, c)
					p.Correct = append(p.Correct, rng.Float64() < eta(c))
					prob = append(prob, eta(c))
					if weighted {
						p.Weight = append(p.Weight, 0.2+rng.ExpFloat64())
					}
				}
				truth := func(bins []Bin) (ece, mce, rmsce float64) {
					for _, b := range bins {
						var d, w, acc float64
						for i, c := range p.Confidence { // no confidence lies on an edge
							if c < b.Lower || c > b.Upper {
								continue
							}
							w += p.weight(i)
							d += p.weight(i) * (prob[i] - p.Confidence[i])
							acc += p.weight(i) * prob[i]
						}
						if b.N > 0 {
							ece += math.Abs(d) / w * b.Weight
							mce = max(mce, math.Abs(acc/w-b.Confidence))
							rmsce += d * d / w / w * b.Weight
						}
					}
					return ece, mce, math.Sqrt(rmsce)
				}
				check := func(what string, e Estimate, want float64) {
					if want < e.Lower-1e-12 || want > e.Upper+1e-12 {
						misses[what]++
					}
				}
				bins, _ := EqualWidth(p, 10, UpperClosed)
				ada, _ := EqualCount(p, 10)
				ece, mce, rmsce := truth(bins)
				check("ECE", ECEEstimate(p, bins, level), ece)
				check("MCE", MCEEstimate(p, bins, level), mce)
				check("RMSCE", RMSCEEstimate(p, bins, level), rmsce)
				ece, _, rmsce = truth(ada)
				check("AdaRMSCE", RMSCEEstimate(p, ada, level), rmsce)
				check("AdaECE", ECEEstimate(p, ada, level), ece)
				check("accuracy", AccuracyEstimate(p, level), p.meanOf(func(i int) float64 { return prob[i] }))
				mean := func(right, wrong func(c float64) float64) float64 {
					return p.meanOf(func(i int) float64 {
						c := p.Confidence[i]
						return prob[i]*right(c) + (1-prob[i])*wrong(c)
					})
				}
				check("Brier", BrierEstimate(p, level, trial), mean(func(c float64) float64 { return (1 - c) * (1 - c) }, func(c float64) float64 { return c * c }))
				check("NLL", NLLEstimate(p, level, trial), mean(func(c float64) float64 { return -math.Log(c) }, func(c float64) float64 { return -math.Log1p(-c) }))
			}
			for what, m := range misses {
				if tooMany(m, trials, 1-level) {
					t.Errorf("%s, weighted %v: %s missed %d of %d at level %v", name, weighted, what, m, trials, level)
				}
			}
		}
	}
}

// The bootstrap interval has the right length: for the mean of normal variables it is about as long as the normal
// interval.
func TestBootstrapLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{200, 20_000} {
		p := &Predictions{Confidence: make([]float64, n), Correct: make([]bool, n)}
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		e := p.bootstrapMean(func(i int) float64 { return x[i] }, 0.95, 1)
		near(t, "half length·√n", (e.Upper-e.Lower)/2*math.Sqrt(float64(n)), 1.96, 0.25)
	}
}

// The bound that the function 'deviation' returns must hold at its stated level. The residuals are −1 or 1, the limits
// of their range.
func TestDeviationCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const trials = 4000
	for _, n := range []int{1, 5, 60} {
		for _, prob := range []float64{0.02, 0.5, 0.98} {
			misses := 0
			for range trials {
				var mean, squares float64
				for range n {
					x := -1.0
					if rng.Float64() < prob {
						x = 1
					}
					mean += x / float64(n)
					squares += x * x / float64(n*n)
				}
				if 2*prob-1-mean > deviation(n, 1/float64(n), squares, math.Log(20)) {
					misses++
				}
			}
			if tooMany(misses, trials, 0.05) {
				t.Errorf("n %d, p %v: %d of %d misses at 0.05", n, prob, misses, trials)
			}
		}
	}
}

func TestHoldout(t *testing.T) {
	for _, n := range []int{2, 3, 1000} {
		for _, share := range []float64{1e-9, 0.2, 0.5, 1 - 1e-9} {
			out, err := Holdout(n, share, 3)
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, held := range out {
				if held {
					count++
				}
			}
			if want := min(n-1, max(1, int(math.Round(share*float64(n))))); count != want {
				t.Errorf("n %d share %v: %d held out, want %d", n, share, count, want)
			}
		}
	}
	if _, err := Holdout(1, 0.5, 1); err == nil {
		t.Error("one row was split")
	}
	if _, err := Holdout(5, 1, 1); err == nil {
		t.Error("share 1")
	}
}

func TestThresholdAtTPR(t *testing.T) {
	conf := []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 0.95}
	correct := []bool{true, true, true, true, true, true, true, true, true, true, false}
	for _, tt := range []struct{ tpr, want float64 }{{1, .1}, {0.9, .2}, {0.95, .1}, {0.5, .6}, {1e-9, 1}, {0.7, .4}} {
		got, err := ThresholdAtTPR(conf, correct, tt.tpr)
		if err != nil || got != tt.want {
			t.Errorf("TPR %v: %v %v, want %v", tt.tpr, got, err, tt.want)
		}
	}
	if _, err := ThresholdAtTPR(conf[:1], []bool{false}, 0.9); err == nil {
		t.Error("no correct answer")
	}
	if _, err := ThresholdAtTPR(conf, correct, 0); err == nil {
		t.Error("TPR 0")
	}
}
