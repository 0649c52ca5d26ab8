package admm

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// ascendByHand runs the ascent of DECE from z. It computes the soft assignments and the gradients from their
// definitions, and the temperature and the rate from their schedules. It returns the hard calibration error after every
// step.
func ascendByHand(p *Problem, z []float64, steps int, firstRate float64) []float64 {
	m := p.bins.Len()
	var errors []float64
	for step := range steps {
		t := float64(step) / float64(steps-1)
		tau := 0.01 * math.Pow(1e-4, t)
		rate := firstRate / 2 * (1 + math.Cos(math.Pi*t))
		soft := make([][]float64, len(z))
		gap := make([]float64, m)
		for n, x := range z {
			soft[n] = softDefinition(p.bins, x, tau)
			for k, s := range soft[n] {
				gap[k] += s * (truth(p.samples[n]) - x)
			}
		}
		for n, x := range z {
			mean := 0.0
			for k, s := range soft[n] {
				mean += float64(k+1) * s
			}
			grad := 0.0
			for k, s := range soft[n] {
				if gap[k] != 0 {
					ds := s * (float64(k+1) - mean) / tau
					grad += math.Copysign(1, gap[k]) * (ds*(truth(p.samples[n])-x) - s)
				}
			}
			grad = math.Max(-1, math.Min(1, grad))
			z[n] = math.Max(p.samples[n].Lower, math.Min(p.samples[n].Upper, x+rate*grad))
		}
		errors = append(errors, p.ece(z))
	}
	return errors
}

func TestDECEFollowsTheAscent(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 31))
	var climbed int
	for range 20 {
		samples, clean := certified(r, 40)
		p := mustProblem(t, samples, clean, mustBins(t, 1+r.IntN(12)))
		const steps = 25
		var want []float64
		top := math.Inf(-1)
		for _, start := range []Start{FromBrier, FromClean} {
			z := p.start(start)
			top = max(top, p.ece(z))
			want = append(want, ascendByHand(p, z, steps, 0.01)...)
		}
		first := top
		var told atomic.Int64
		runs := make([][]float64, 2)
		e, err := p.DECE(t.Context(), DECEParams{Steps: steps}, Watch{
			Progress: func(n int, _ float64) { told.Add(int64(n)) },
			Every:    1,
			Trace:    func(run int, r Residuals) { runs[run] = append(runs[run], r.ProjectedECE) },
		})
		got := slices.Concat(runs...)
		if err != nil || told.Load() != int64(len(got)) {
			t.Errorf("%d steps told, %d traced (%v)", told.Load(), len(got), err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d steps, want %d", len(got), len(want))
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Fatalf("step %d: calibration error %v, by definition %v", i, got[i], want[i])
			}
			top = max(top, want[i])
		}
		if math.Abs(e.ECE-top) > 1e-9 || e.ECE != p.ece(e.Confidences) || e.Interrupted {
			t.Errorf("ECE %v of %v, interrupted %v; the best step has %v", e.ECE, p.ece(e.Confidences), e.Interrupted, top)
		}
		if top > first {
			climbed++
		}
	}
	if climbed < 5 {
		t.Errorf("only %d of 20 searches found more than their starts", climbed)
	}
}

// Without clean confidences, the only start is the confidences with the largest Brier score (the Brier confidences). So
// a search with one step for each start reports only one step.
func TestDECEWithoutCleanConfidences(t *testing.T) {
	samples, _ := certified(rand.New(rand.NewPCG(5, 32)), 30)
	p := mustProblem(t, samples, nil, mustBins(t, 5))
	z := p.start(FromBrier)
	want := p.ece(z)
	var steps int
	e, err := p.DECE(t.Context(), DECEParams{Steps: 1}, Watch{Progress: func(int, float64) { steps++ }})
	if err != nil || steps != 1 || e.ECE < want {
		t.Errorf("%d steps, ECE %v, at the start %v", steps, e.ECE, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := mustDECE(t, ctx, p, DECEParams{Steps: 10}); !e.Interrupted || e.ECE != want {
		t.Errorf("stopped before the first step: %+v", e)
	}
}

// projectByHand computes the confidences of the projected copy of the iterate (see Problem.ADMM). It puts each sample
// into the reachable bin with the largest assignment a_nm, or into the first of several such bins. It clamps z to the
// bin and the interval.
func projectByHand(s *state) []float64 {
	out := make([]float64, s.n)
	for n, v := range s.samples {
		at, top := -1, math.Inf(-1)
		for k := range s.m {
			if reaches(s.bins, v, k) && s.a[n*s.m+k] > top {
				at, top = k, s.a[n*s.m+k]
			}
		}
		high := s.bins.Edges()[at+1]
		if at < s.m-1 {
			high = math.Nextafter(high, 0)
		}
		out[n] = math.Max(math.Max(v.Lower, s.bins.Edges()[at]), math.Min(math.Min(v.Upper, high), s.z[n*s.m+at]))
	}
	return out
}

func TestADMMReportsItsSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 33))
	for _, m := range []int{1, 2, 7} {
		samples, clean := certified(r, 50)
		p := mustProblem(t, samples, clean, mustBins(t, m))
		par := Params{Start: FromClean, RateZ: 0.01, RateA: 0.1, Growth: 1.4, Steps: 40} // ρ reaches its limit of 10 in step 21
		s := newState(p, par)
		rho, best := 0.01, 0.0
		var bestZ []float64
		var step int
		e := p.ADMM(t.Context(), par, 3, func(got Residuals) {
			step++
			next := math.Min(10, rho*1.4)
			s.assign(rho)
			s.move(rho, next)
			rho = next
			z := projectByHand(s)
			want := p.ece(z)
			if want > best {
				best, bestZ = want, z
			}
			soft := make([]float64, m)
			for n, v := range samples {
				for k := range m {
					soft[k] += (truth(v) - s.z[n*m+k]) * s.a[n*m+k]
				}
			}
			var softECE float64
			for _, g := range soft {
				softECE += math.Abs(g) / 50
			}
			if got.Step != step || math.Abs(got.ProjectedECE-want) > 1e-12 {
				t.Errorf("M = %d, step %d: %+v, projected copy has %v", m, step, got, want)
			}
			if step%3 != 0 {
				softECE = 0
			}
			sphere := 0.0
			for _, a := range s.a {
				sphere += (a - 0.5) * (a - 0.5)
			}
			sphere = math.Abs(math.Sqrt(sphere) - math.Sqrt(float64(50*m))/2)
			if step%3 == 0 && math.Abs(got.Sphere-sphere) > 1e-12 {
				t.Errorf("M = %d, step %d: %v from the sphere, want %v", m, step, got.Sphere, sphere)
			}
			if math.Abs(got.SoftECE-softECE) > 1e-12 || (got.Unique.Sum != 0) != (step%3 == 0) {
				t.Errorf("M = %d, step %d: %+v, relaxed error %v", m, step, got, softECE)
			}
		})
		if step != 40 || math.Abs(e.ECE-best) > 1e-12 || e.Interrupted {
			t.Errorf("M = %d: %d steps, ECE %v, best step %v", m, step, e.ECE, best)
		}
		for n, z := range e.Confidences {
			if z != bestZ[n] {
				t.Fatalf("M = %d: confidence %v of sample %d, best step has %v", m, z, n, bestZ[n])
			}
		}
	}
}

// Best returns the best run of the grid, or the first of several equally good runs.
func TestBestIsTheBestRun(t *testing.T) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 34)), 80)
	p := mustProblem(t, samples, clean, mustBins(t, 10))
	grid := PaperGrid().Runs(true)
	want := Estimate{ECE: -1}
	for i := range grid {
		grid[i].Steps = 25
		if e := p.ADMM(t.Context(), grid[i], 0, nil); e.ECE > want.ECE {
			want = e
		}
	}
	got := p.Best(t.Context(), grid, Watch{})
	if got.ECE != want.ECE || got.Interrupted {
		t.Errorf("%v, interrupted %v, want %v", got.ECE, got.Interrupted, want.ECE)
	}
	for n := range want.Confidences {
		if got.Confidences[n] != want.Confidences[n] {
			t.Fatalf("confidence %d is %v, want %v", n, got.Confidences[n], want.Confidences[n])
		}
	}
}

// If any run was stopped, Best marks the best run as interrupted.
func TestBestSaysThatARunWasStopped(t *testing.T) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 35)), 10)
	p := mustProblem(t, samples, clean, mustBins(t, 3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none, some := Params{Start: FromBrier}, Params{Start: FromClean, RateZ: 0.01, RateA: 0.1, Growth: 1.01, Steps: 5}
	for name, grid := range map[string][]Params{
		"first": {some, none, none}, "second": {none, some, none}, "last": {none, none, some},
	} {
		if !p.Best(ctx, grid, Watch{}).Interrupted {
			t.Errorf("the %s run was stopped, the search was not", name)
		}
	}
	if p.Best(ctx, []Params{none, none}, Watch{}).Interrupted {
		t.Error("no run was stopped, the search was")
	}
}

// takeSigns gives sign 0 to a bin with gap 0. In the gradient of DECE, such a bin adds nothing.
func TestNoGapHasNoSign(t *testing.T) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 36)), 10)
	p := mustProblem(t, samples, clean, mustBins(t, 3))
	s := newState(p, Params{})
	copy(s.gap, []float64{0.5, 0, -0.5})
	s.takeSigns()
	for k, want := range []float64{1, 0, -1} {
		if s.sign[k] != want || s.gap[k] != 0 {
			t.Errorf("bin %d: sign %v, gap %v", k, s.sign[k], s.gap[k])
		}
	}
	soft := newSoftBins(p)
	soft.gaps(clean, 0.01)
	clear(soft.gap)
	if g := soft.gradient(0, clean[0], 0.01); g != 0 {
		t.Errorf("gradient %v without gaps", g)
	}
}

// PaperGrid has the runs of Emde et al. 2025, appendix I.1.
func TestGridIsThePapers(t *testing.T) {
	seen := map[Params]int{}
	for _, par := range PaperGrid().Runs(true) {
		seen[par]++
	}
	for _, start := range []Start{FromClean, FromBrier} {
		for _, rateZ := range []float64{1e-3, 1e-2} {
			for _, rateA := range []float64{1e-2, 1e-1} {
				for _, growth := range []float64{1.004, 1.01} {
					if seen[Params{Start: start, RateZ: rateZ, RateA: rateA, Growth: growth, Steps: 3000, Rho: 0.01, MaxRho: 10}] != 1 {
						t.Errorf("start %v, α_z %v, α_a %v, growth %v is not in the grid once", start, rateZ, rateA, growth)
					}
				}
			}
		}
	}
	for _, par := range PaperGrid().Runs(false) {
		if par.Start != FromBrier {
			t.Errorf("%+v without clean confidences", par)
		}
	}
	if DECESteps != 1000 {
		t.Errorf("%d steps of dECE", DECESteps)
	}
}

func TestClampAndStarts(t *testing.T) {
	for _, tt := range [][4]float64{{0.5, 0, 1, 0.5}, {-1, 0, 1, 0}, {2, 0, 1, 1}, {0, 0, 1, 0}, {1, 0, 1, 1}} {
		if got := clamp(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("clamp(%v) = %v", tt[:3], got)
		}
	}
	wrong := calib.Bounded{Lower: 0.2, Upper: 0.4}
	samples := []calib.Bounded{{Lower: 0.2, Upper: 0.4, Correct: true}, wrong, wrong}
	p := mustProblem(t, samples, []float64{0.1, 0.3, 0.9}, mustBins(t, 3))
	for start, want := range map[Start][]float64{FromClean: {0.2, 0.3, 0.4}, FromBrier: {0.2, 0.4, 0.4}} {
		for n, x := range p.start(start) {
			if x != want[n] {
				t.Errorf("start %v: %v, want %v", start, p.start(start), want)
			}
		}
	}
	if e := p.Brier(); e.ECE != p.ece([]float64{0.2, 0.4, 0.4}) || e.Confidences[0] != 0.2 {
		t.Errorf("%+v", e)
	}
	// Without clean confidences, the method 'start' returns the Brier confidences for FromClean too.
	q := mustProblem(t, samples, nil, mustBins(t, 3))
	if z := q.start(FromClean); z[0] != 0.2 || z[1] != 0.4 {
		t.Errorf("%v", z)
	}
}
