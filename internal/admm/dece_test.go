package admm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// softDefinition computes the soft assignment from its definition in DECE: softmax((w z + b)/τ).
func softDefinition(b calib.Bins, z float64, tau float64) []float64 {
	m := b.Len()
	logit := make([]float64, m)
	top := math.Inf(-1)
	for k := range m {
		logit[k] = float64(k+1) * z
		for j := range k {
			logit[k] -= b.Edges()[j+1]
		}
		logit[k] /= tau
		top = math.Max(top, logit[k])
	}
	var sum float64
	for k := range logit {
		logit[k] = math.Exp(logit[k] - top)
		sum += logit[k]
	}
	for k := range logit {
		logit[k] /= sum
	}
	return logit
}

func newSoftBins(p *Problem) *softBins {
	n, m := len(p.samples), p.bins.Len()
	return &softBins{p, make([]float64, n*m), make([]int, n), make([]int, n), make([]float64, m), make([]float64, n)}
}

func TestDECEIsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 20))
	for range 200 {
		b := mustBins(t, 1+r.IntN(20))
		samples := randomSamples(r, b, 1+r.IntN(30))
		p := mustProblem(t, samples, nil, b)
		s := newSoftBins(p)
		tau := math.Pow(10, -1-4*r.Float64())
		z := make([]float64, len(samples))
		gap := make([]float64, b.Len())
		for i, v := range samples {
			z[i] = v.Lower + r.Float64()*(v.Upper-v.Lower)
			for k, w := range softDefinition(b, z[i], tau) {
				gap[k] += w * (truth(v) - z[i])
			}
		}
		var want float64
		for _, g := range gap {
			want += math.Abs(g)
		}
		if got := s.gaps(z, tau); math.Abs(got-want) > 1e-8*float64(len(z)) {
			t.Fatalf("M = %d, τ = %g: N·dECE %v, by definition %v", b.Len(), tau, got, want)
		}
	}
}

// The gradient agrees with central differences. The test omits points at which some gap is close to 0 but not 0,
// because |gap| has a kink at 0.
func TestDECEGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 21))
	b := mustBins(t, 15)
	const tau, h = 0.01, 1e-6
	var compared int
	for range 100 {
		samples := randomSamples(r, b, 20)
		s := newSoftBins(mustProblem(t, samples, nil, b))
		z := make([]float64, len(samples))
		for i := range z {
			z[i] = 0.05 + 0.9*r.Float64()
		}
		s.gaps(z, tau)
		kink := false
		for _, g := range s.gap {
			kink = kink || (g != 0 && math.Abs(g) < 1e-3)
		}
		if kink {
			continue
		}
		i := r.IntN(len(z))
		got := s.gradient(i, z[i], tau)
		x := z[i]
		z[i] = x + h
		up := s.gaps(z, tau)
		z[i] = x - h
		down := s.gaps(z, tau)
		if want := (up - down) / (2 * h); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
			t.Fatalf("gradient %v, by differences %v", got, want)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d points away from kinks", compared)
	}
}

// As τ → 0 the dECE becomes the ECE (the paper reports a difference below 10⁻⁶ at τ = 10⁻⁶).
func TestDECEBecomesECE(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 22))
	samples, clean := certified(r, 500)
	p := mustProblem(t, samples, clean, mustBins(t, 15))
	soft := newSoftBins(p).gaps(clean, lastTau) / 500
	if hard := p.ece(clean); math.Abs(soft-hard) > 1e-6 {
		t.Errorf("dECE %v at τ = %g, ECE %v", soft, lastTau, hard)
	}
}

func TestDECEDoesNotFallBelowItsStart(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 23))
	samples, clean := certified(r, 300)
	p := mustProblem(t, samples, clean, mustBins(t, 15))
	e := mustDECE(t, t.Context(), p, DECEParams{Steps: 200})
	if e.ECE < p.Brier().ECE || e.ECE < p.ece(clean) {
		t.Errorf("dECE ascent %v, Brier confidences %v, clean %v", e.ECE, p.Brier().ECE, p.ece(clean))
	}
}

// The learning rate changes as its schedule says. Only Plateau lowers the rate after a series of steps without a larger
// calibration error.
func TestLearningRate(t *testing.T) {
	for schedule, want := range map[Schedule][4]float64{Cosine: {0.5, 0.25, 0, 0}, Constant: {0.5, 0.5, 0.5, 0.5}, Plateau: {0.5, 0.5, 0.5, 0.05}} {
		l := learningRate{schedule: schedule, rate: 0.5}
		got := [4]float64{l.at(0), l.at(0.5), l.at(1)}
		l.observe(0.2)
		for range 10 {
			l.observe(0.2)
		}
		if schedule == Plateau && l.rate != 0.5 {
			t.Errorf("after ten steps the rate is %v", l.rate)
		}
		l.observe(0.1)
		got[3] = l.at(1)
		for k := range got {
			if math.Abs(got[k]-want[k]) > 1e-15 {
				t.Errorf("%s: %v, want %v", schedule, got, want)
			}
		}
		for range 10 { // a larger calibration error resets the count of steps to 0
			l.observe(0.3)
		}
		if schedule == Plateau && l.rate != 0.05 {
			t.Errorf("%s: %v after a larger value", schedule, l.rate)
		}
	}
}

// With momentum, DECE adds a share of the previous velocity to the gradient. The velocity is the step divided by the
// learning rate.
func TestDECEMomentum(t *testing.T) {
	p := mustProblem(t, []calib.Bounded{{Lower: 0, Upper: 1}, {Lower: 0, Upper: 1, Correct: true}}, nil, mustBins(t, 1))
	s, z := newSoftBins(p), []float64{0.5, 0.4}
	gaps := []float64{0, 0}
	for range 2 { // the gap Σ(c−z) of the only bin is positive, so the gradient is −1 and both confidences fall
		s.ascend(z, 0.01, 0.01, 0.5)
		gaps = append(gaps, z[0])
	}
	if math.Abs(gaps[2]-0.49) > 1e-15 || math.Abs(gaps[3]-(0.49-0.015)) > 1e-15 {
		t.Errorf("steps to %v", gaps[2:])
	}
}

// The confidences of a Gaussian start lie in their intervals, around the middle. DECE uses Gaussian starts in addition
// to the other starts.
func TestGaussianStart(t *testing.T) {
	var samples []calib.Bounded
	for range 4000 {
		samples = append(samples, calib.Bounded{Lower: 0.2, Upper: 0.6})
	}
	p := mustProblem(t, samples, nil, mustBins(t, 5))
	var inside, sum float64
	for _, z := range p.gaussianStart(1, 0) {
		if z < 0.2 || z > 0.6 {
			t.Fatalf("%v", z)
		}
		if z > 0.2 && z < 0.6 { // not clamped: 68 % of the draws are within one standard deviation of the middle
			inside++
		}
		sum += z
	}
	if math.Abs(inside/4000-0.683) > 0.03 || math.Abs(sum/4000-0.4) > 0.01 {
		t.Errorf("share inside %v, mean %v", inside/4000, sum/4000)
	}
	one := DECEParams{Starts: []Start{FromBrier}, Random: 1, Steps: 1}
	two := one
	two.Gaussian = 2
	if got := mustDECE(t, t.Context(), p, two).ECE; got < mustDECE(t, t.Context(), p, one).ECE || two.Drawn() != 3 {
		t.Errorf("more starts give %v", got)
	}
}

func BenchmarkDECE(b *testing.B) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 14)), 7000)
	p := mustProblem(b, samples, clean, mustBins(b, 15))
	for b.Loop() {
		mustDECE(b, b.Context(), p, DECEParams{Steps: 100})
	}
	b.ReportMetric(b.Elapsed().Seconds()*DECESteps/100/float64(b.N), "s/run")
}
