package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The values come from the functions smECE_sigma(f, y, σ) and smECE of relplot 1.0.3 (numpy 2.4.6). The test needs
// tolerances, because relplot uses a mesh of 200 points, divides by a density, and stops the bisection for σ after ten
// steps.
func TestSmoothECEAgrees(t *testing.T) {
	p := goldenPredictions()
	s := newGridSmoother(p)
	for sigma, want := range map[float64]float64{
		0.05: 0.13161409613508218, 0.1: 0.12149872215888287, 0.2: 0.11513385944779683,
	} {
		near(t, "smECE_σ", s.ece(sigma), want, 6e-4)
	}
	near(t, "smECE", SmoothECE(p).ECE, 0.11868181908434221, 1e-3)
}

// The test computes smECE_σ from its definition. It computes the reflected kernel as a sum over reflections, and the
// integral by the midpoint rule.
func TestSmoothECEIsItsDefinition(t *testing.T) {
	p := goldenPredictions()
	p.Weight = make([]float64, p.N())
	total := 0.0
	for i := range p.Weight {
		p.Weight[i] = 1 + float64(i%3)
		total += p.Weight[i]
	}
	p.Confidence[3], p.Confidence[4] = 0, 1 // at the ends, the kernel and its reflection coincide
	s := newGridSmoother(p)
	for _, sigma := range []float64{0.03, 0.3, 0.8} {
		const steps = 1000
		want := 0.0
		for j := range steps {
			at, sum := (float64(j)+0.5)/steps, 0.0
			for i, c := range p.Confidence {
				k := 0.0
				for shift := -4.0; shift <= 4; shift += 2 {
					a, b := (at-c+shift)/sigma, (at+c+shift)/sigma
					k += math.Exp(-a*a/2) + math.Exp(-b*b/2)
				}
				sum += p.weight(i) / total * p.residual(i) * k / (sigma * math.Sqrt(2*math.Pi))
			}
			want += math.Abs(sum) / steps
		}
		near(t, "smECE_σ", s.ece(sigma), want, 2e-6)
	}
	curve := SmoothECE(p)
	near(t, "fixed point", s.ece(curve.ECE), curve.ECE, 1e-9)
	mass := 0.0
	for _, d := range curve.Density[1:] {
		mass += d / smoothGrid
	}
	near(t, "density", mass, 1, 1e-3)
}

// The values come from the function unbiased_l2_ce of uncertainty-calibration 0.1.4, with bins from get_equal_bins and
// get_equal_prob_bins.
func TestDebiasedL2Agrees(t *testing.T) {
	p := goldenPredictions()
	for bins, want := range map[int]float64{10: 0.14861131054780297, 15: 0.13251866934115808} {
		b, _ := EqualWidth(p, bins, UpperClosed)
		near(t, "debiased L2, equal width", DebiasedL2(p, b), want, 1e-12)
	}
	// The package uncertainty-calibration ends its bins of equal count at fixed ranks, even between two equal
	// confidences. But rscert keeps equal confidences in one bin. The bins of the two programs do not differ otherwise.
	// The test has 240 examples with 101 different confidences in 10 bins, so the difference is small.
	b, _ := EqualCount(p, 10)
	near(t, "debiased L2, equal count", DebiasedL2(p, b), 0.1488379461343055, 5e-3)
	one := &Predictions{Confidence: []float64{0.2}, Correct: []bool{true}}
	b, _ = EqualWidth(one, 5, UpperClosed)
	near(t, "one example", DebiasedL2(one, b), 0, 0)
}

// DebiasedL2 estimates the squared error and replaces a negative estimate by 0. Before this replacement, the estimate
// is unbiased: for calibrated predictions its mean is 0. The plain squared L2 error of n predictions with confidence c
// in one bin has the mean c(1−c)/n.
func TestDebiasedL2IsUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	const trials, n = 4000, 50
	var debiased, plain float64
	for range trials {
		p := &Predictions{}
		for range n {
			p.Confidence = append(p.Confidence, 0.3)
			p.Correct = append(p.Correct, rng.Float64() < 0.3)
		}
		b, _ := EqualWidth(p, 1, UpperClosed)
		gap := b[0].Accuracy - b[0].Confidence
		plain += gap * gap / trials
		// For a single bin, DebiasedL2 returns √max(0, x) with x = gap² − accuracy·(1−accuracy)/(n−1). The test
		// averages x itself, which can be negative.
		debiased += (gap*gap - b[0].Accuracy*(1-b[0].Accuracy)/(n-1)) / trials
		if d := DebiasedL2(p, b); math.Abs(d*d-max(0, gap*gap-b[0].Accuracy*(1-b[0].Accuracy)/(n-1))) > 1e-12 {
			t.Fatal(d)
		}
	}
	near(t, "plain", plain, 0.21/n, 4e-4)
	near(t, "debiased", debiased, 0, 4e-4) // standard error 9e-5
}

// The expected values were computed from the formula with numpy 2.4.6 and scipy.stats.norm.
func TestSpiegelhalterAgrees(t *testing.T) {
	z, pValue := Spiegelhalter(goldenPredictions())
	near(t, "Z", z, 0.7408182578088144, 1e-12)
	near(t, "p", pValue, 0.4588036433719821, 1e-12)
	if z, _ := Spiegelhalter(&Predictions{Confidence: []float64{0.5}, Correct: []bool{true}}); !math.IsNaN(z) {
		t.Error(z)
	}
}

// The value comes from brier_score_loss(scale_by_half=False) of scikit-learn 1.9.1 for four classes.
func TestMulticlassBrierAgrees(t *testing.T) {
	logits, m, label := goldenLogits()
	p, err := TopLabel(Softmax(logits, m, 2), m, label)
	if err != nil {
		t.Fatal(err)
	}
	e, d, err := MulticlassBrierEstimate(p, 10, UpperClosed, 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "Brier", e.Value, 0.7283738489290064, 1e-12)
	near(t, "sum of the parts", d.Reliability-d.Resolution+d.Uncertainty+d.Within, e.Value, 1e-12)
	if !(e.Lower < e.Value && e.Value < e.Upper && e.Upper-e.Lower < 0.4) {
		t.Errorf("%+v", e)
	}
}

// If all examples of a bin have the same confidence, the fourth term of the decomposition (Within) is 0.
func TestBrierDecomposition(t *testing.T) {
	p := &Predictions{}
	for i := range 100 {
		p.Confidence = append(p.Confidence, []float64{0.25, 0.75}[i%2])
		p.Correct = append(p.Correct, i%2 == 0 && i < 40 || i%2 == 1 && i < 60) // 20 of 50 and 30 of 50 are correct
	}
	bins, _ := EqualWidth(p, 4, LowerClosed)
	d := DecomposeBrier(bins, p.TopLabelBrier())
	near(t, "reliability", d.Reliability, (0.15*0.15+0.15*0.15)/2, 1e-12)
	near(t, "resolution", d.Resolution, 0.01, 1e-12)
	near(t, "uncertainty", d.Uncertainty, 0.25, 1e-12)
	near(t, "within", d.Within, 0, 1e-12)
	// If the confidences in a bin differ, Within is not 0.
	p.Confidence[0] = 0.3
	bins, _ = EqualWidth(p, 4, LowerClosed)
	if d := DecomposeBrier(bins, p.TopLabelBrier()); math.Abs(d.Within) < 1e-4 {
		t.Errorf("%+v", d)
	}
}

// For every law and sample size, the interval of MeanInterval misses the mean with a frequency of at most α, apart from
// chance. For α = 0.05 and 1,000 values with a large variance, the interval is at most 1.55 times as long as the normal
// interval.
func TestBettingIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	worst := 0.0
	for name, law := range map[string]struct {
		draw     func() float64
		mean, sd float64
	}{
		"uniform":    {rng.Float64, 0.5, math.Sqrt(1. / 12)},
		"coin":       {func() float64 { return indicator(rng.Float64() < 0.3) }, 0.3, math.Sqrt(0.21)},
		"rare":       {func() float64 { return indicator(rng.Float64() < 0.01) }, 0.01, math.Sqrt(0.0099)},
		"U-shaped":   {func() float64 { x := math.Sin(math.Pi * rng.Float64() / 2); return x * x }, 0.5, math.Sqrt(0.125)},
		"Brier":      {func() float64 { c := rng.Float64(); x := indicator(rng.Float64() < c) - c; return x * x }, 1. / 6, math.Sqrt(1./30 - 1./36)},
		"constant":   {func() float64 { return 0.3 }, 0.3, 0},
		"nearly one": {func() float64 { return 1 - 0.02*rng.ExpFloat64()/10 }, 0.998, 0.002},
	} {
		for _, n := range []int{1, 40, 1000} {
			for _, alpha := range []float64{0.5, 0.2, 0.05} {
				trials := 200
				if testing.Short() {
					trials = 60
				}
				misses, length := 0, 0.0
				for trial := range uint64(trials) {
					x := make([]float64, n)
					for i := range x {
						x[i] = clamp01(law.draw())
					}
					low, high := MeanInterval(n, func(i int) float64 { return x[i] }, alpha, trial)
					length += (high - low) / float64(trials)
					if law.mean < low-1e-9 || law.mean > high+1e-9 {
						misses++
					}
				}
				worst = max(worst, float64(misses)/float64(trials)/alpha)
				if tooMany(misses, trials, alpha) {
					t.Errorf("%s, n %d, α %v: %d of %d missed", name, n, alpha, misses, trials)
				}
				normal := 2 * 1.96 * law.sd / math.Sqrt(float64(n))
				if n == 1000 && alpha == 0.05 && law.sd > 0.2 && length > 1.55*normal {
					t.Errorf("%s, n %d: length %v, normal %v", name, n, length, normal)
				}
			}
		}
	}
	t.Logf("worst ratio of misses to α: %.3f", worst)
}

// If all values are nodes k/bettingCells of the histogram, logCapital makes no approximation: its result is the
// logarithm of Π(1 + λ(x−m)).
func TestBettingCapital(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	x := make([]float64, 200)
	for i := range x {
		x[i] = float64(rng.IntN(9)) / 8
	}
	rounds := dealRounds(len(x), func(i int) float64 { return x[i] }, 5)
	stakes := rounds.stakes(len(x), 3)
	examples := 0.0
	for j, round := range rounds {
		for _, c := range round {
			examples += c
		}
		for _, m := range []float64{0.2, 0.9} {
			got := bettingRounds{round}.logCapital(stakes[j:j+1], m, false)
			want := 0.0
			for k, c := range round {
				want += c * math.Log(1+min(stakes[j], 0.75/m)*(float64(k)/1024-m))
			}
			near(t, "ln capital", got, want, 1e-12)
		}
	}
	if examples != float64(len(x)) || len(rounds) != 5 {
		t.Errorf("%v examples in %d rounds", examples, len(rounds))
	}
	// A value between two nodes adds less than its exact logarithm, because its weight is split between the nodes.
	between := func(int) float64 { return 0.3 + 0.4/1024 }
	rounds = dealRounds(1, between, 1)
	for _, mirrored := range []bool{false, true} {
		v := between(0)
		if mirrored {
			v = 1 - v
		}
		got, want := rounds.logCapital([]float64{1.2}, 0.5, mirrored), math.Log(1+1.2*(v-0.5))
		if !(got <= want && got > want-1e-6) {
			t.Errorf("ln capital %v, exact %v", got, want)
		}
	}
}

// If the stated probabilities are true, p ≤ α with a frequency of at most α. If the probabilities are false, p is
// small.
func TestCalibrationTestIsValid(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 1))
	trials := 1000
	if testing.Short() {
		trials = 300
	}
	worst := 0.0
	for name, draw := range map[string]func() float64{
		"uniform": rng.Float64,
		"sure":    func() float64 { return 1 - 0.01*rng.Float64() },
		"rare":    func() float64 { return 0.002 },
		"atom":    func() float64 { return 0.5 },
	} {
		for _, n := range []int{1, 30, 1000} {
			misses := map[float64]int{}
			for range trials {
				p := &Predictions{}
				for range n {
					c := draw()
					p.Confidence = append(p.Confidence, c)
					p.Correct = append(p.Correct, rng.Float64() < c)
				}
				pValue := CalibrationTest(p)
				for _, alpha := range []float64{0.5, 0.2, 0.05} {
					if pValue <= alpha {
						misses[alpha]++
					}
				}
			}
			for alpha, m := range misses {
				worst = max(worst, float64(m)/float64(trials)/alpha)
				if tooMany(m, trials, alpha) {
					t.Errorf("%s, n %d, α %v: %d of %d", name, n, alpha, m, trials)
				}
			}
		}
	}
	t.Logf("worst ratio of rejections to α: %.3f", worst)
	for name, eta := range map[string]func(float64) float64{
		"overconfident as a whole": func(c float64) float64 { return c - 0.1*c },
		"too extreme":              func(c float64) float64 { return 0.5 + 0.8*(c-0.5) },
		"in one bin":               func(c float64) float64 { return c - 0.35*indicator(c > 0.5 && c < 0.5625) },
		"up and down":              func(c float64) float64 { return c + 0.1*min(1, 20*c*(1-c))*math.Copysign(1, math.Sin(32*math.Pi*c/4)) },
	} {
		p := &Predictions{}
		for range 4000 {
			c := rng.Float64()
			p.Confidence = append(p.Confidence, c)
			p.Correct = append(p.Correct, rng.Float64() < eta(c))
		}
		if pValue := CalibrationTest(p); pValue > 0.01 {
			t.Errorf("%s: p = %v", name, pValue)
		}
	}
	// A wrong answer with confidence 1 has probability 0.
	if p := CalibrationTest(&Predictions{Confidence: []float64{1}, Correct: []bool{false}}); p != 0 {
		t.Errorf("an impossible answer: p = %v", p)
	}
}

// If every stated probability is true, the evidence (the average in CalibrationTest) has expectation at most 1. The
// test computes the expectation exactly, over all outcomes of few examples. The test would fail if the evidence used a
// third of Bennett's term V_m(e^λ − 1 − λ).
func TestEvidenceIsFair(t *testing.T) {
	largest := 0.0
	for _, c := range [][]float64{
		{0.5}, {0.01, 0.02}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
		{0.1, 0.1, 0.2, 0.6, 0.7, 0.9, 0.9, 0.99, 0.3, 0.31}, {0.97, 0.97, 0.97, 0.97, 0.97, 0.97, 0.97, 0.97},
	} {
		p := &Predictions{Confidence: c, Correct: make([]bool, len(c))}
		expectation := 0.0
		for outcome := range 1 << len(c) {
			probability := 1.0
			for i, x := range c {
				if p.Correct[i] = outcome>>i&1 == 1; p.Correct[i] {
					probability *= x
				} else {
					probability *= 1 - x
				}
			}
			expectation += probability * math.Exp(p.logEvidence())
		}
		if largest = max(largest, expectation); expectation > 1+1e-12 {
			t.Errorf("%v: expectation %v", c, expectation)
		}
	}
	if largest < 0.3 {
		t.Errorf("the largest expectation is %v: nothing is left to find", largest)
	}
}

// The test computes the evidence from its definition, factor by factor.
func TestEvidenceFromTheFormula(t *testing.T) {
	p := goldenPredictions()
	// The result of members(c) is the sign of the bet on an example with confidence c, or 0 for no bet.
	bet := func(members func(c float64) float64) float64 {
		var r, v, sum float64
		for i, c := range p.Confidence {
			r += members(c) * (indicator(p.Correct[i]) - c)
			v += math.Abs(members(c)) * c * (1 - c)
		}
		for u := 1.0; u <= 4096; u *= 2 {
			lambda := min(4, math.Sqrt(2*u/v))
			cost := math.Exp(lambda) - 1 - lambda
			sum += (math.Exp(lambda*r-v*cost) + math.Exp(-lambda*r-v*cost)) / 26
		}
		return sum
	}
	want, product, single := bet(func(float64) float64 { return 1 }), 1.0, 0.0
	want += bet(func(c float64) float64 { return math.Copysign(1, c-0.5) })
	for k := range 16 {
		e := bet(func(c float64) float64 { return indicator(math.Floor(16*c) == float64(k)) })
		product *= e
		single += e / 16
	}
	want = (want + product + single) / 4
	near(t, "E", math.Exp(p.logEvidence())/want, 1, 1e-9)
}

// The interval contains exactly the means that the p-value does not refute at the interval's level.
func TestMeanPValueInvertsInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for trial := range uint64(50) {
		n := 20 + rng.IntN(400)
		shift := 0.6 * rng.Float64()
		x := make([]float64, n)
		for i := range x {
			x[i] = shift + 0.4*rng.Float64()
		}
		at := func(i int) float64 { return x[i] }
		const alpha = 0.05
		low, high := MeanInterval(n, at, alpha, trial)
		for m, refuted := range map[float64]bool{low - 1e-6: true, low + 1e-6: false, high - 1e-6: false, high + 1e-6: true, shift + 0.2: false} {
			if m <= 0 || m >= 1 || (m == shift+0.2 && (m < low || m > high)) {
				continue
			}
			if p := MeanPValue(n, at, m, alpha, trial); (p <= alpha) != refuted {
				t.Errorf("n %d: p = %v at %v, interval [%v, %v]", n, p, m, low, high)
			}
		}
	}
}
