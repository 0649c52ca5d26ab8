package admm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// The function 'certified' draws n predictions that resemble the predictions of a certified classifier. They are
// confident where they are right, and their intervals have the shape of the standard certificate, Φ(Φ⁻¹(z) ± r).
func certified(r *rand.Rand, n int) (samples []calib.Bounded, clean []float64) {
	samples, clean = make([]calib.Bounded, n), make([]float64, n)
	for i := range samples {
		x := 1 + 1.2*r.NormFloat64()
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		clean[i] = phi(x)
		samples[i] = calib.Bounded{Lower: phi(x - 0.4), Upper: phi(x + 0.4), Correct: r.Float64() < clean[i]-0.05}
	}
	return samples, clean
}

func mustBins(t testing.TB, m int) calib.Bins {
	t.Helper()
	b, err := calib.NewBins(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// randomSamples draws intervals of many kinds: wide, narrow, degenerate, and with ends at the edges of bins or at the
// floats next to these edges.
func randomSamples(r *rand.Rand, b calib.Bins, n int) []calib.Bounded {
	kind := r.IntN(3)
	end := func() float64 {
		if kind > 0 && r.IntN(3) > 0 {
			e := b.Edges()[r.IntN(len(b.Edges()))]
			switch r.IntN(3) {
			case 0:
				return math.Nextafter(e, 0)
			case 1:
				return math.Nextafter(e, 1)
			}
			return e
		}
		return r.Float64()
	}
	out := make([]calib.Bounded, n)
	for i := range out {
		x, y := end(), end()
		switch r.IntN(4) {
		case 0:
			y = x
		case 1:
			y = min(1, x+r.Float64()*0.2)
		}
		out[i] = calib.Bounded{Lower: min(x, y), Upper: max(x, y), Correct: r.IntN(2) == 0}
	}
	return out
}

func mustProblem(t testing.TB, samples []calib.Bounded, clean []float64, b calib.Bins) *Problem {
	t.Helper()
	p, err := NewProblem(samples, clean, b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustDECE(t testing.TB, ctx context.Context, p *Problem, par DECEParams) Estimate {
	t.Helper()
	e, err := p.DECE(ctx, par, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The function 'reaches' reports whether the interval v has a point in bin m. It compares the ends of v with the edges
// of the bin and does not call Bins.Index.
func reaches(b calib.Bins, v calib.Bounded, m int) bool {
	below := v.Lower < b.Edges()[m+1] || m == b.Len()-1
	return below && v.Upper >= b.Edges()[m]
}

// rounding is a bound on rounding errors: sums of the same terms in different orders differ by at most this much.
const rounding = 1e-12

// The type 'reference' runs the steps of Algorithm 1 as the paper prints them. To decide which bins are in reach, it
// uses the rule of Problem.ADMM, not the rule of the paper. It keeps every variable, and it writes the paper's matrices
// C, K and B as loops. It shares no code with the type 'state'.
type reference struct {
	n, m               int
	c                  []float64
	lo, hi             [][]float64
	out                [][]bool // k_nm: bin m is out of reach of sample n
	a, z, g, q1, q2    [][]float64
	l1, l2, l5         [][]float64
	l3, l4             []float64
	rho, rateA, rateZ  float64
	reach, growth, top float64 // reach is ‖q₂ − ½‖∞, growth is the factor on ρ, and top is the largest ρ
}

func grid(n, m int) [][]float64 {
	x := make([][]float64, n)
	for i := range x {
		x[i] = make([]float64, m)
	}
	return x
}

func newReference(b calib.Bins, samples []calib.Bounded, start []float64, par Params) *reference {
	n, m := len(samples), b.Len()
	s := &reference{n: n, m: m, c: make([]float64, n), lo: grid(n, m), hi: grid(n, m),
		a: grid(n, m), z: grid(n, m), g: grid(n, m), q1: grid(n, m), q2: grid(n, m),
		l1: grid(n, m), l2: grid(n, m), l5: grid(n, m), l3: make([]float64, n), l4: make([]float64, n),
		rho: 0.01, rateA: par.RateA, rateZ: par.RateZ, growth: par.Growth, top: 10, reach: 0.5}
	if par.Rho != 0 {
		s.rho, s.top = par.Rho, par.MaxRho
	}
	for i, v := range samples {
		if v.Correct {
			s.c[i] = 1
		}
		s.out = append(s.out, make([]bool, m))
		for k := range m {
			s.out[i][k] = !reaches(b, v, k)
			if !s.out[i][k] {
				s.lo[i][k] = math.Max(v.Lower, b.Edges()[k])
				s.hi[i][k] = math.Min(v.Upper, b.Edges()[k+1])
				if k < m-1 {
					s.hi[i][k] = math.Min(v.Upper, math.Nextafter(b.Edges()[k+1], 0))
				}
			}
			s.a[i][k] = 1 / float64(m)
			s.z[i][k] = math.Max(s.lo[i][k], math.Min(s.hi[i][k], start[i]))
			s.g[i][k], s.q1[i][k], s.q2[i][k] = s.z[i][k], s.a[i][k], s.a[i][k]
		}
	}
	return s
}

func (s *reference) signs() []float64 {
	sign := make([]float64, s.m)
	for k := range sign {
		var sum float64
		for i := range s.n {
			sum += (s.c[i] - s.z[i][k]) * s.a[i][k]
		}
		if sum != 0 {
			sign[k] = math.Copysign(1, sum)
		}
	}
	return sign
}

func (s *reference) step() {
	rho := s.rho
	sign := s.signs()
	for i := range s.n {
		unique, valid := -1.0, 0.0
		for k := range s.m {
			unique += s.a[i][k]
			if s.out[i][k] {
				valid += s.a[i][k]
			}
		}
		for k := range s.m {
			a := s.a[i][k]
			grad := -(s.c[i] - s.z[i][k]) * sign[k]
			grad += s.l1[i][k] + rho*(a-s.q1[i][k])
			grad += s.l2[i][k] + rho*(a-s.q2[i][k])
			grad += s.l3[i] + rho*unique
			if s.out[i][k] {
				grad += s.l4[i] + rho*valid
			}
			grad = math.Max(-5, math.Min(5, grad))
			s.a[i][k] = 0.5 + math.Max(-1.2*s.reach, math.Min(1.2*s.reach, a-s.rateA*grad-0.5))
		}
	}
	sign = s.signs()
	for i := range s.n {
		for k := range s.m {
			z := s.z[i][k]
			z -= s.rateZ * (s.a[i][k]*sign[k] + s.l5[i][k] + rho*(z-s.g[i][k]))
			s.z[i][k] = z
			s.g[i][k] = math.Max(s.lo[i][k], math.Min(s.hi[i][k], s.l5[i][k]/rho+z))
			s.q1[i][k] = math.Max(0, math.Min(1, s.l1[i][k]/rho+s.a[i][k]))
		}
	}
	var square float64
	for i := range s.n {
		for k := range s.m {
			s.q2[i][k] = s.l2[i][k]/rho + s.a[i][k] - 0.5
			square += s.q2[i][k] * s.q2[i][k]
		}
	}
	s.reach = 0
	for i := range s.n {
		unique, valid := -1.0, 0.0
		for k := range s.m {
			s.q2[i][k] = 0.5 + math.Sqrt(float64(s.n*s.m))/2*s.q2[i][k]/math.Sqrt(square)
			s.reach = math.Max(s.reach, math.Abs(s.q2[i][k]-0.5))
			unique += s.a[i][k]
			if s.out[i][k] {
				valid += s.a[i][k]
			}
			s.l1[i][k] += rho * (s.a[i][k] - s.q1[i][k])
			s.l2[i][k] += rho * (s.a[i][k] - s.q2[i][k])
			s.l5[i][k] += rho * (s.z[i][k] - s.g[i][k])
		}
		s.l3[i] += rho * unique
		s.l4[i] += rho * valid
	}
	s.rho = math.Min(s.top, s.rho*s.growth)
}

// The optimised iteration takes the same steps as a direct implementation of Algorithm 1. The test compares only the
// first steps. Later, a rounding error can change the sign of a gap, or decide whether a value is clamped. From then on
// the two implementations take different steps.
func TestADMMFollowsAlgorithm1(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 10))
	for _, tt := range []struct {
		m     int
		steps int
		par   Params
	}{
		{15, 150, Params{Start: FromClean, RateZ: 0.001, RateA: 0.01, Growth: 1.004, Steps: 0}},
		{15, 150, Params{Start: FromBrier, RateZ: 0.01, RateA: 0.01, Growth: 1.01, Steps: 0}},
		{7, 80, Params{Start: FromBrier, RateZ: 0.01, RateA: 0.1, Growth: 1.01, Steps: 0}},
		{15, 90, Params{Start: FromBrier, RateZ: 0.02, RateA: 0.03, Growth: 1.05, Rho: 0.03, MaxRho: 0.4}},
		{1, 50, Params{Start: FromClean, RateZ: 0.01, RateA: 0.01, Growth: 1.01, Steps: 0}},
	} {
		b := mustBins(t, tt.m)
		samples, clean := certified(r, 60)
		p := mustProblem(t, samples, clean, b)
		s := newState(p, tt.par)
		ref := newReference(b, samples, p.start(tt.par.Start), tt.par)
		for step := range tt.steps {
			rho := ref.rho
			ref.step()
			s.assign(rho)
			s.move(rho, ref.rho)
			for i := range s.n {
				for k := range s.m {
					c := i*s.m + k
					for name, pair := range map[string][2]float64{
						"a": {s.a[c], ref.a[i][k]}, "z": {s.z[c], ref.z[i][k]},
						"λ1": {s.l1[c], ref.l1[i][k]}, "λ2": {s.l2[c], ref.l2[i][k]}, "λ5": {s.l5[c], ref.l5[i][k]},
						"λ3": {s.l3[i], ref.l3[i]}, "λ4": {s.l4[i], ref.l4[i]},
					} {
						if math.Abs(pair[0]-pair[1]) > 1e-9 {
							t.Fatalf("M = %d, step %d: %s[%d,%d] is %v, Algorithm 1 gives %v", tt.m, step+1, name, i, k, pair[0], pair[1])
						}
					}
				}
			}
		}
	}
}

// Every estimate is the calibration error of some confidences in the intervals, and is at most the maximum that
// calib.CCE computes. At every step, the calibration error of the projected copy of the iterate (see Problem.ADMM) is
// also at most this maximum, up to rounding errors.
func TestEstimatesAreFeasibleAndBelowExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 11))
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		b := mustBins(t, 1+r.IntN(20))
		var samples []calib.Bounded
		var clean []float64
		if round%2 == 0 {
			samples, clean = certified(r, 1+r.IntN(100))
		} else {
			samples = randomSamples(r, b, 1+r.IntN(100))
		}
		w, err := calib.CCE(samples, b)
		if err != nil {
			t.Fatal(err)
		}
		p := mustProblem(t, samples, clean, b)
		check := func(name string, e Estimate) {
			t.Helper()
			for i, v := range samples {
				if !(e.Confidences[i] >= v.Lower && e.Confidences[i] <= v.Upper) {
					t.Fatalf("%s: confidence %v outside %v", name, e.Confidences[i], v)
				}
			}
			if got := p.ece(e.Confidences); got != e.ECE {
				t.Fatalf("%s: ECE %v, its confidences have %v", name, e.ECE, got)
			}
			if e.ECE > w.Value {
				t.Fatalf("%s: %v above the exact %v", name, e.ECE, w.Value)
			}
		}
		check("Brier", p.Brier())
		check("dECE", mustDECE(t, t.Context(), p, DECEParams{Steps: 60}))
		for _, par := range PaperGrid().Runs(clean != nil) {
			par.Steps = 60
			check(fmt.Sprintf("ADMM %+v", par), p.ADMM(t.Context(), par, 0, func(r Residuals) {
				if r.ProjectedECE > w.Value+rounding {
					t.Fatalf("step %d: projected copy at %v, exact %v", r.Step, r.ProjectedECE, w.Value)
				}
			}))
		}
		grid := PaperGrid().Runs(clean != nil)
		for i := range grid {
			grid[i].Steps = 30
		}
		check("best of the grid", p.Best(t.Context(), grid, Watch{}))
	}
}

// If the predictions resemble those of a certified classifier and the learning rate for the assignment is small, ADMM
// converges. The constraints are met in the limit, and the relaxed error approaches the projected error. With the rates
// of the paper's grid, α_a = 0.01 or 0.1, ADMM does not converge. At ρ = 10 the quadratic terms have the curvature ρ(2
// + M + K), so the gradient step overshoots. Here M is the number of bins, and K is the number of bins that contain no
// point of the sample's interval. No theorem says that ADMM converges or that the estimate is near the exact value. The
// test checks only two things. ADMM converges for these predictions. And its estimate is larger than the calibration
// error of the confidences that have the largest Brier score.
func TestADMMConverges(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	r := rand.New(rand.NewPCG(5, 12))
	const n, m = 400, 15
	samples, clean := certified(r, n)
	p := mustProblem(t, samples, clean, mustBins(t, m))
	var first, last Residuals
	par := Params{Start: FromBrier, RateZ: 0.01, RateA: 0.001, Growth: 1.02, Steps: Steps}
	e := p.ADMM(t.Context(), par, 100, func(r Residuals) {
		if r.Step == 100 {
			first = r
		}
		if r.Step == Steps {
			last = r
		}
	})
	if e.ECE <= p.Brier().ECE {
		t.Errorf("ADMM %v, Brier confidences %v", e.ECE, p.Brier().ECE)
	}
	for _, c := range []struct {
		name               string
		first, last, limit float64 // deviations at step 100 and at the end, and the limit for 'last'
	}{
		{"binary", first.Binary.Sum / (n * m), last.Binary.Sum / (n * m), 0.03},
		{"unique", first.Unique.Sum / n, last.Unique.Sum / n, 0.02},
		{"valid", first.Valid.Sum / n, last.Valid.Sum / n, 0.02},
		{"confidence", first.Confidence.Sum / (n * m), last.Confidence.Sum / (n * m), 0.002},
		{"sphere", first.Sphere, last.Sphere, 0.5},
		{"relaxed error", math.Abs(first.SoftECE - first.ProjectedECE), math.Abs(last.SoftECE - last.ProjectedECE), 0.2},
	} {
		t.Logf("%s: off by %.3g at step 100, %.3g at the end", c.name, c.first, c.last)
		if !(c.last <= c.limit) {
			t.Errorf("%s off by %g after %d steps, want %g", c.name, c.last, Steps, c.limit)
		}
	}
}

// The expected residuals are computed by hand.
func TestResiduals(t *testing.T) {
	samples := []calib.Bounded{{Lower: 0.2, Upper: 0.4, Correct: true}, {Lower: 0.6, Upper: 0.7}}
	s := newState(mustProblem(t, samples, nil, mustBins(t, 2)), Params{Start: FromBrier})
	copy(s.a, []float64{1.25, 0.25, -0.5, 1})
	copy(s.z, []float64{0.5, 0.25, 0, 0.625})
	var r Residuals
	s.residuals(&r)
	want := Residuals{
		SoftECE:    r.SoftECE,                     // not tested: SoftECE comes from s.gap, which this test does not set
		Confidence: Norms{0.5 - 0.4 + 0.25, 0.25}, // bin 2 is out of reach of sample 1, and bin 1 is out of reach of sample 2
		Binary:     Norms{0.25 + 0.25 + 0.5, 0.5},
		Unique:     Norms{0.5 + 0.5, 0.5},
		Valid:      Norms{0.25 + 0.5, 0.5},
		Box:        Norms{0.25 + 0.5, 0.5},
		Sphere:     math.Sqrt(0.75*0.75+0.25*0.25+1+0.25) - 1,
	}
	near := func(a, b Norms) bool { return math.Abs(a.Sum-b.Sum) < 1e-15 && math.Abs(a.Max-b.Max) < 1e-15 }
	if !near(r.Confidence, want.Confidence) || !near(r.Binary, want.Binary) || !near(r.Unique, want.Unique) ||
		!near(r.Valid, want.Valid) || !near(r.Box, want.Box) || math.Abs(r.Sphere-want.Sphere) > 1e-15 {
		t.Errorf("got %+v\nwant %+v", r, want)
	}
}

func TestInterruptedSearchReturnsTheBestSoFar(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 13))
	samples, clean := certified(r, 200)
	p := mustProblem(t, samples, clean, mustBins(t, 15))
	ctx, cancel := context.WithCancel(t.Context())
	var steps int
	var best float64
	e := p.ADMM(ctx, PaperGrid().Runs(true)[0], 0, func(r Residuals) {
		steps++
		best = max(best, r.ProjectedECE)
		if steps == 40 {
			cancel()
		}
	})
	if steps != 40 || !e.Interrupted || math.Abs(e.ECE-best) > rounding {
		t.Errorf("%d steps, interrupted %v, ECE %v, best seen %v", steps, e.Interrupted, e.ECE, best)
	}
	for name, e := range map[string]Estimate{
		"Best": p.Best(ctx, PaperGrid().Runs(true), Watch{}),
		"ADMM": p.ADMM(ctx, PaperGrid().Runs(true)[0], 0, nil),
		"dECE": mustDECE(t, ctx, p, DECEParams{}),
	} {
		if !e.Interrupted || len(e.Confidences) != len(samples) || e.ECE != p.ece(e.Confidences) {
			t.Errorf("%s: stopped before the first step: %v, %v", name, e.Interrupted, e.ECE)
		}
	}
}

func TestGrid(t *testing.T) {
	seen := map[Params]bool{}
	for _, par := range PaperGrid().Runs(true) {
		seen[par] = true
	}
	if len(seen) != 16 || len(PaperGrid().Runs(false)) != 8 {
		t.Errorf("%d and %d runs, want 16 and 8", len(seen), len(PaperGrid().Runs(false)))
	}
}

func BenchmarkADMM(b *testing.B) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 14)), 7000)
	p := mustProblem(b, samples, clean, mustBins(b, 15))
	par := PaperGrid().Runs(true)[0]
	par.Steps = 100
	for b.Loop() {
		p.ADMM(b.Context(), par, 0, nil)
	}
	b.ReportMetric(b.Elapsed().Seconds()*Steps/float64(par.Steps)/float64(b.N), "s/run")
}
