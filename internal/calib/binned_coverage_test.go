package calib

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// pairLaw is a distribution of scores with a calibration function whose variation is known.
type pairLaw struct {
	name      string
	draw      func(*rand.Rand) float64
	eta       func(float64) float64
	variation float64
	truth     float64
}

func pairLaws() []pairLaw {
	square := func(s float64) float64 { return s * s }
	step := func(s float64) float64 { return math.Round(s) }
	atom := func(s float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return s } }
	constant := func(y float64) func(float64) float64 { return func(float64) float64 { return y } }
	of := func(draw func(*rand.Rand) float64, mean func(func(float64) float64) float64) func(string, func(float64) float64, float64) pairLaw {
		return func(name string, eta func(float64) float64, v float64) pairLaw {
			return pairLaw{name, draw, eta, v, mean(func(s float64) float64 { return math.Abs(s - eta(s)) })}
		}
	}
	flat := of(uniform, integrate)
	u := func(x float64) float64 { return math.Pow(math.Sin(math.Pi*x/2), 2) }
	ends := of(func(r *rand.Rand) float64 { return u(r.Float64()) },
		func(f func(float64) float64) float64 { return integrate(func(x float64) float64 { return f(u(x)) }) })
	rare := of(func(r *rand.Rand) float64 { return 0.02 * r.Float64() },
		func(f func(float64) float64) float64 {
			return integrate(func(x float64) float64 { return f(0.02 * x) })
		})
	two := of(func(r *rand.Rand) float64 { return 0.2 + 0.6*float64(r.IntN(2)) },
		func(f func(float64) float64) float64 { return (f(0.2) + f(0.8)) / 2 })
	mixed := of(scoreLaws[3].draw, scoreLaws[3].mean)
	return []pairLaw{
		flat("square", square, 1),
		flat("U", func(s float64) float64 { return (2*s - 1) * (2*s - 1) }, 2),
		flat("sigmoid", func(s float64) float64 { return 1 / (1 + math.Exp(5-10*s)) }, 1),
		flat("wave", func(s float64) float64 { return s + 0.2*s*(1-s)*math.Sin(60*math.Pi*s) }, 4.2),
		flat("calibrated", uniform01, 1),
		flat("step", step, 1),
		flat("constant", constant(0.5), 0),
		ends("ends, calibrated", uniform01, 1),
		ends("ends, step", step, 1),
		ends("ends, reversed", func(s float64) float64 { return 1 - s }, 1),
		rare("rare, calibrated", uniform01, 0.02),
		rare("rare, never", constant(0), 0),
		rare("rare, half", constant(0.01), 0),
		two("two points", constant(0.5), 0),
		two("two points, apart", func(s float64) float64 { return 1 - math.Round(s) }, 1),
		two("two points, calibrated", uniform01, 0.6),
		mixed("mixed", square, 1),
		{"atom", atom(0.3), constant(0.5), 0, 0.2},
		{"atom, calibrated", atom(0.5), constant(0.5), 0, 0},
		{"atom, nearly", atom(0.5), constant(0.52), 0, 0.02},
		{"atom at 0", atom(0), constant(0.01), 0, 0.01},
	}
}

// The method 'misses' draws samples of n pairs and counts how often each statement is false. The statements are the
// upper and lower bounds on CE, the bounds on the error of the sample (OfSample), and the bounds of the function Curve.
func (l pairLaw) misses(t *testing.T, n, trials int, delta float64) map[string]int {
	t.Helper()
	missed := map[string]int{}
	for trial := range uint64(trials) {
		s := draw(n, trial+1, l.draw, l.eta)
		b, err := BinnedVariation(s, delta, l.variation)
		if err != nil {
			t.Fatal(err)
		}
		best, err := BinnedBest(s, delta, l.variation)
		if err != nil {
			t.Fatal(err)
		}
		bentkus, err := BinnedBentkus(s, delta, l.variation)
		if err != nil {
			t.Fatal(err)
		}
		quadratic, err := BinnedQuadratic(s, delta, l.variation)
		if err != nil {
			t.Fatal(err)
		}
		lower, err := BettingLower(s, delta, trial)
		if err != nil {
			t.Fatal(err)
		}
		mixture, err := MixtureLower(s, delta, trial)
		if err != nil {
			t.Fatal(err)
		}
		curve, err := Curve(s, delta)
		if err != nil {
			t.Fatal(err)
		}
		scores, _ := unpackAll(s)
		own, outside, at := 0.0, false, 0
		for _, p := range curve {
			eta := 0.0
			for _, x := range scores[at : at+p.N] {
				eta += l.eta(x)
				own += math.Abs(x-l.eta(x)) / float64(n)
			}
			at += p.N
			eta /= float64(p.N)
			outside = outside || eta < p.Lower-1e-12 || eta > p.Upper+1e-12
		}
		for what, false := range map[string]bool{
			"upper": b.Value < l.truth-1e-9, "of sample": b.OfSample < own-1e-9,
			"best": best.Value < l.truth-1e-9, "best of sample": best.OfSample < own-1e-9,
			"bentkus": bentkus.Value < l.truth-1e-9, "bentkus of sample": bentkus.OfSample < own-1e-9,
			"quadratic": quadratic.Value < l.truth-1e-9, "quadratic of sample": quadratic.OfSample < own-1e-9,
			"lower": lower.Value > l.truth+1e-9, "mixture": mixture.Value > l.truth+1e-9, "curve": outside,
		} {
			if false {
				missed[what]++
			}
		}
	}
	return missed
}

// checkBinnedCoverage simulates every law, with trials[n] samples of n pairs. It fails if a kind of statement is false
// significantly more often than δ allows. For each kind it logs the share of false statements, divided by δ, for the
// law with the largest share.
func checkBinnedCoverage(t *testing.T, trials map[int]int) {
	t.Helper()
	for _, delta := range []float64{0.5, 0.2, 0.05} {
		t.Run(fmt.Sprintf("δ = %v", delta), func(t *testing.T) {
			t.Parallel()
			for _, n := range slices.Sorted(maps.Keys(trials)) {
				worst := map[string]float64{}
				for _, l := range pairLaws() {
					for what, missed := range l.misses(t, n, trials[n], delta) {
						worst[what] = max(worst[what], float64(missed)/float64(trials[n])/delta)
						// An exact binomial test at level 10⁻⁶ practically never raises a false alarm. With 600 samples
						// and δ ≤ 0.2 it almost surely detects a failure rate of 3δ.
						if tooMany(missed, trials[n], delta) {
							t.Errorf("%s, n %d: %s is false in %d of %d samples", l.name, n, what, missed, trials[n])
						}
					}
				}
				for _, what := range slices.Sorted(maps.Keys(worst)) {
					t.Logf("%d samples of %d pairs: worst share of false statements over δ: %s %.2f", trials[n], n, what, worst[what])
				}
			}
		})
	}
}

func TestBinnedCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	checkBinnedCoverage(t, map[int]int{150: 50})
}

// The simulation detects a bound that is too small, for example a bound with only a fifth of the concentration term.
func TestBinnedCoverageNeedsTheConcentration(t *testing.T) {
	// All scores are equal, so |s−ȳ| is the same number for all points of a sample. The distribution of this number
	// over the samples is nearly normal.
	l := pairLaws()[17]
	below := 0
	for trial := range uint64(200) {
		b, err := BinnedVariation(draw(150, trial, l.draw, l.eta), 0.05, 0)
		if err != nil {
			t.Fatal(err)
		}
		if b.Terms.Get("gap")+b.Terms.Get("concentration")/5 < l.truth {
			below++
		}
	}
	if !tooMany(below, 200, 0.05) {
		t.Errorf("only %d of 200 below with a fifth of the concentration", below)
	}
}

// perturbedAtoms draws scores from a few atoms and perturbs them. Neighbouring atoms have very different labels, so the
// calibration function of the perturbed scores has a large second derivative.
func perturbedAtoms(n int, h float64, seed uint64) (*Sample, error) {
	atoms, etas := []float64{0, 0.45, 0.55, 1}, []float64{0.4, 1, 0, 0.7}
	k := Sech{h, seed}
	rng := rand.New(rand.NewPCG(seed, 8))
	score, label := make([]float64, n), make([]float64, n)
	for i := range score {
		a := rng.IntN(4)
		score[i] = k.Perturb(atoms[a], i)
		if rng.Float64() < etas[a] {
			label[i] = 1
		}
	}
	return NewSample(score, label)
}

// checkSecondOrderCoverage fails in two cases. In the first case, the bound of BinnedLipschitz is below the true error
// significantly more often than δ allows. In the second case, fewer than half of the bounds come from fitted lines.
// BinnedLipschitz fits lines only if n is at least secondOrderFrom.
func checkSecondOrderCoverage(t *testing.T, n, trials int) {
	t.Helper()
	const h, delta = 1.0 / 16, 0.5
	atoms, etas := []float64{0, 0.45, 0.55, 1}, []float64{0.4, 1, 0, 0.7}
	truth := integrate(func(s float64) float64 {
		var p, y float64
		for i, a := range atoms {
			k := 1 / math.Cosh((s-a)/h) / (h * (math.Atan(math.Sinh((1-a)/h)) + math.Atan(math.Sinh(a/h)))) / 4
			p += k
			y += k * etas[i]
		}
		return math.Abs(s*p - y)
	})
	below, lines := 0, 0
	for trial := range uint64(trials) {
		s, err := perturbedAtoms(n, h, trial)
		if err != nil {
			t.Fatal(err)
		}
		b, err := BinnedLipschitz(s, delta, h)
		if err != nil {
			t.Fatal(err)
		}
		if b.Value < truth {
			below++
		}
		lines += int(b.Chosen.Get("order")) - 1
	}
	t.Logf("%d of %d below %v at δ = %v, %d by lines", below, trials, truth, delta, lines)
	if tooMany(below, trials, delta) || lines < trials/2 {
		t.Errorf("%d of %d below %v, %d by lines", below, trials, truth, lines)
	}
}

func TestSecondOrderCoverage(t *testing.T) { checkSecondOrderCoverage(t, secondOrderFrom, 12) }
