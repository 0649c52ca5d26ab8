package conformal

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/law"
)

// The map 'means' holds ∫B_w dπ for each degree, with rho = 1 and c = 0.05. Another program computed the values. That
// program proves on 40,000 fixed cells that the weights are valid. Therefore it subtracts a slack of up to 2e-4.
var means = map[int]float64{2: 0.7955, 8: 0.8947, 32: 0.9195}

func TestWeightsReference(t *testing.T) {
	g := newTarget(law.Gaussian, 1, 1, 1, 1)
	for degree, want := range means {
		w, err := newProgram(g, degree).maximise(0.05)
		if err != nil {
			t.Fatal(err)
		}
		b, slack, err := slackened(newPolynomial(w), g, slackTolerance)
		if got := b.mean(0.05); err != nil || !(got >= want && got < want+2e-4) || slack > 1e-6 {
			t.Errorf("degree %d: %v with slack %v, want %v", degree, got, slack, want)
		}
	}
	// For degree 1, the best B_w is a line that touches g at 1−c, the mean of π. So ∫B_w dπ is g(0.95) = Φ(Φ⁻¹(0.95) −
	// 1).
	w, err := newProgram(g, 1).maximise(0.05)
	if got := newPolynomial(w).mean(0.05); err != nil || math.Abs(got-0.7405) > 1e-4 {
		t.Errorf("degree 1: %v (%v), want 0.7405", got, err)
	}
}

// proposeWeights must choose c so that the maximum of ∫B_w dπ is 1−a. This c must rise with the degree, because better
// weights allow more examples with a small p. For degree 1, B_w of the best weights is the line of the method RCP1, and
// c must be 1−β, where g(β) = 1−a.
func TestOperatingPoint(t *testing.T) {
	g := newTarget(law.Gaussian, 1, 1, 1, 1)
	beta, _ := law.Gaussian.CDF(law.Gaussian.Quantile(0.95) + 1)
	before := 0.0
	for _, degree := range []int{1, 2, 4, 8} {
		w, c, err := proposeWeights(g, degree, calibrationPopulation(0.05))
		if err != nil {
			t.Fatal(err)
		}
		if got := newPolynomial(w).mean(c); math.Abs(got-0.95) > 1e-3 || !(c > before) {
			t.Errorf("degree %d: mean %v at c = %v", degree, got, c)
		}
		if degree == 1 && math.Abs(c-(1-beta)) > 1e-4 {
			t.Errorf("degree 1: c = %v, want %v", c, 1-beta)
		}
		before = c
	}
}

// checkWeights compares the two sides of the theorem's condition at many points, by independent formulas.
func checkWeights(t *testing.T, b polynomial, g target) {
	t.Helper()
	w := b.weights()
	for k := 1; k < len(w); k++ {
		if w[k] < w[k-1] || w[k] > 1 {
			t.Fatalf("weights %v decrease or exceed 1", w)
		}
	}
	for i := range 20000 {
		p := (float64(i) + 0.5) / 20000
		if i%2 == 0 {
			p = mathext.RegIncBeta(0.05, 0.05, p) // many points near 0 and 1
		}
		left, right := bernstein(w, p), rightSide(g, p)
		if left > right+1e-12 {
			t.Fatalf("p = %v: %v > %v", p, left, right)
		}
	}
}

// bernstein returns Σ_k w(k)·C(d,k)·p^k·(1−p)^{d−k}.
func bernstein(w []float64, p float64) float64 {
	d := float64(len(w) - 1)
	sum := 0.0
	for k, x := range w {
		k := float64(k)
		choose := math.Exp(-math.Log(d+1) - mathext.Lbeta(k+1, d-k+1))
		sum += x * choose * math.Pow(p, k) * math.Pow(1-p, d-k)
	}
	return sum
}

// rightSide returns P(Bin(m′, g(p)) ≥ t′)^Q.
func rightSide(g target, p float64) float64 {
	if p <= 0 || p >= 1 {
		return p
	}
	q, _ := g.law.CDF(g.law.Quantile(p) - g.shift)
	if q <= 0 || q >= 1 {
		return q
	}
	return math.Pow(mathext.RegIncBeta(float64(g.need), float64(g.draws-g.need+1), q), float64(g.queries))
}

// For every law, bestWeights must return valid weights. The test checks this for several attacks, several counts t′ and
// several numbers of queries. For a slightly stronger attack, these weights must not be valid, unless their mean is
// almost 0.
func TestWeightsAreValid(t *testing.T) {
	for _, l := range law.Additives() {
		for _, g := range []target{
			newTarget(l, 0, 1, 1, 1), newTarget(l, 0.5, 1, 1, 3), newTarget(l, 1, 5, 2, 1), newTarget(l, 1.5, 20, 15, 1), newTarget(l, 3, 2, 2, 2),
		} {
			b, _, err := bestWeights(g, 8, calibrationPopulation(0.1))
			if err != nil {
				t.Fatalf("%s %+v: %v", l.Name(), g, err)
			}
			checkWeights(t, b, g)
			if !b.valid(g) {
				t.Errorf("%s %+v: the proof fails", l.Name(), g)
			}
			stronger := g
			stronger.shift += 0.05
			if b.valid(stronger) && b.mean(0.1) > 0.01 {
				t.Errorf("%s %+v: the weights hold for a stronger attack too", l.Name(), g)
			}
		}
	}
}

// The function 'slackened' subtracts a slack from the weights that a solver proposes. The result must be valid for
// every proposal.
func TestSlackMakesProposalsValid(t *testing.T) {
	g := newTarget(law.Gaussian, 1, 1, 1, 1)
	for _, w := range [][]float64{
		{0, 1}, {1, 1, 1}, {0.5, -3, 2}, {0, 0, 0, 0.9, 0.95}, {-0.2, 0.1, 0.4, 0.99}, {0, 0.3, 0.3, 0.3, 0.3, 1},
	} {
		b, _, err := slackened(newPolynomial(w), g, slackTolerance)
		if err != nil {
			t.Fatal(err)
		}
		checkWeights(t, b, g)
		if !b.valid(g) || b.lowered(-3000).valid(g) {
			t.Errorf("%v: valid %v, with 7e-7 more %v", w, b.valid(g), b.lowered(-3000).valid(g))
		}
	}
}

// The method 'elevated' must return weights of a higher degree for the same polynomial. One weight must equal a
// hypergeometric mean computed by hand.
func TestElevation(t *testing.T) {
	b := newPolynomial([]float64{-0.25, 0, 0.5, 1})
	e := b.elevated(7)
	for _, p := range []float64{0, 0.1, 0.35, 0.8, 1} {
		got, want := bernstein(e.weights(), p), bernstein(b.weights(), p)
		if got > want+1e-14 || got < want-0x1p-31 {
			t.Errorf("p = %v: %v, want %v", p, got, want)
		}
	}
	// In this case, N = 4 of 7 items are marked, and 3 items are drawn. The number k of marked draws has the
	// probabilities P(k) = C(4,k)C(3,3−k)/35 = 1/35, 12/35, 18/35, 4/35.
	if got, want := e.weights()[4], (-0.25+0.5*18+4)/35; math.Abs(got-want) > 0x1p-32 || got > want {
		t.Errorf("w(4) = %v, want %v", got, want)
	}
}

// The method 'high' must return an upper bound on the polynomial. The bound may exceed the polynomial only by rounding
// errors.
func TestPolynomialBound(t *testing.T) {
	b := newPolynomial([]float64{-0.5, 0.125, 0.25, 0.5, 0.625, 0.75})
	for i := range 1000 {
		p := float64(i) / 999
		got, want := b.high(p, make([]float64, len(b))), bernstein(b.weights(), p)
		if got < want-1e-15 || got > want+1e-14 {
			t.Fatalf("p = %v: %v, want %v", p, got, want)
		}
	}
}

// RCP1 excludes classes only if n+1 ≥ 1/(1−β), where n is the number of calibration examples. The map holds, for each
// miss probability, the smallest n with n+1 ≥ 1/(1−β). The number β depends on the miss probability.
func TestRCP1NeedsExamples(t *testing.T) {
	for miss, want := range map[float64]int{0.1: 88, 0.05: 244, 0.01: 2272} {
		d, err := NewDesign(Params{
			Rule: RCP1, Scorer: NewScorer(THR), Attack: Attack{Radius: 0.5, Scale: 0.5}, Miss: miss, Guarantee: Marginal,
		})
		if err != nil {
			t.Fatal(err)
		}
		for n, nontrivial := range map[int]bool{want - 1: false, want: true} {
			c := d.Calibrator()
			for i := range n {
				if err := c.Add(Point{Scores: []float64{float64(i)}}); err != nil {
					t.Fatal(err)
				}
			}
			p, err := c.Predictor(10)
			if err != nil {
				t.Fatal(err)
			}
			if got := !math.IsInf(float64(p.Cells[0].Tau), -1); got != nontrivial {
				t.Errorf("a = %v, %d examples: threshold %v", miss, n, p.Cells[0].Tau)
			}
			if nontrivial && (p.Cells[0].K != 1 || p.Cells[0].Tau != 0) {
				t.Errorf("a = %v, %d examples: rank %d, threshold %v", miss, n, p.Cells[0].K, p.Cells[0].Tau)
			}
		}
	}
}

// The weights of the rule RCP1 lie on a line. This line touches g at the β with g(β) = 1−a, and is nowhere above g.
func TestTangent(t *testing.T) {
	for _, l := range []law.Additive{law.Gaussian, law.Laplace} {
		g := newTarget(l, 0.7, 1, 1, 1)
		w := tangentWeights(g, 0.1)
		line := func(p float64) float64 { return w[0] + (w[1]-w[0])*p }
		beta, _ := l.CDF(l.Quantile(0.9) + 0.7)
		if math.Abs(line(beta)-0.9) > 1e-9 || math.Abs(rightSide(g, beta)-0.9) > 1e-9 {
			t.Errorf("%s: the line is %v at β, g is %v", l.Name(), line(beta), rightSide(g, beta))
		}
		for p := 0.001; p < 1; p += 0.001 {
			if line(p) > rightSide(g, p)+1e-9 {
				t.Fatalf("%s: the line exceeds g at %v", l.Name(), p)
			}
		}
	}
}

// The test has a target without an attack and with Q = 1. For this target, the method 'valid' must accept the weights
// 1{k ≥ t′} of degree m′. It must also accept weights of this degree that are below these. It must reject the other
// cases of the table.
func TestTrivialWeights(t *testing.T) {
	g := newTarget(law.Gaussian, 0, 5, 3, 1)
	for _, tt := range []struct {
		b    polynomial
		g    target
		want bool
	}{
		{step(3, 5), g, true}, {step(4, 5), g, true}, {step(3, 5).lowered(7), g, true},
		{step(2, 5), g, false}, {polynomial{0, 0, 1, unitWeight, unitWeight, unitWeight}, g, false}, {step(3, 4), g, false},
		{step(3, 5), newTarget(law.Gaussian, 1e-3, 5, 3, 1), false}, {step(3, 5), newTarget(law.Gaussian, 0, 5, 3, 2), false},
	} {
		if got := tt.b.valid(tt.g); got != tt.want {
			t.Errorf("%v for t′ = %d of %d, rho %v: valid %v", tt.b, tt.g.need, tt.g.draws, tt.g.shift, got)
		}
	}
}
