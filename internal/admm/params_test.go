package admm

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Runs must return one run for every combination of the grid's values, in the order of the grid's lists. Empty lists
// stand for the paper's values.
func TestParamGrid(t *testing.T) {
	g := ParamGrid{
		Starts: []Start{FromBrier, FromClean}, RatesZ: []float64{1, 2}, RatesA: []float64{3}, Growths: []float64{4, 5},
		Steps: 6, Rho: 7, MaxRho: 8,
	}
	var want []Params
	for _, start := range g.Starts {
		for _, z := range g.RatesZ {
			for _, growth := range g.Growths {
				want = append(want, Params{Start: start, RateZ: z, RateA: 3, Growth: growth, Steps: 6, Rho: 7, MaxRho: 8})
			}
		}
	}
	if got := g.Runs(true); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := g.Runs(false); !slices.Equal(got, want[:4]) {
		t.Errorf("without clean confidences %+v", got)
	}
	if got := (ParamGrid{}).Runs(true); !slices.Equal(got, PaperGrid().Runs(true)) {
		t.Errorf("nothing given: %+v", got)
	}
	if got := (ParamGrid{Starts: []Start{FromClean}}).Runs(false); len(got) != 0 {
		t.Errorf("no start, but %d runs", len(got))
	}
}

func TestStartNames(t *testing.T) {
	for _, s := range []Start{FromClean, FromBrier} {
		var back Start
		text, _ := s.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	var s Start
	if err := s.UnmarshalText([]byte("warm")); err == nil {
		t.Error("no error")
	}
}

// DECE uses the starts, the learning rate and the number of steps that its parameters set. Random starts lie within the
// intervals. For every second step of each run, the trace holds the soft error and the hard error.
func TestDECEHasItsSettings(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 41))
	samples, clean := certified(r, 40)
	p := mustProblem(t, samples, clean, mustBins(t, 9))
	par := DECEParams{Starts: []Start{FromClean}, Random: 2, Seed: 9, Rate: 0.03, Steps: 21}
	traced := make([][]Residuals, 3)
	got, err := p.DECE(t.Context(), par, Watch{Every: 2, Trace: func(run int, r Residuals) { traced[run] = append(traced[run], r) }})
	if err != nil {
		t.Fatal(err)
	}
	starts := [][]float64{p.start(FromClean)}
	for k := range uint64(2) {
		draw := rand.New(rand.NewPCG(9, k))
		var z []float64
		for _, v := range samples {
			z = append(z, v.Lower+draw.Float64()*(v.Upper-v.Lower))
		}
		starts = append(starts, z)
	}
	var top float64
	for run, z := range starts {
		top = max(top, p.ece(z))
		last := slices.Clone(z)
		want := ascendByHand(p, last, 21, 0.03)
		top = max(top, slices.Max(want))
		if len(traced[run]) != 10 {
			t.Fatalf("run %d: %d steps traced, want 10", run, len(traced[run]))
		}
		for i, r := range traced[run] {
			if r.Step != 2*(i+1) || math.Abs(r.ProjectedECE-want[r.Step-1]) > 1e-9 {
				t.Errorf("run %d: %+v, by definition %v", run, r, want[r.Step-1])
			}
		}
		// The trace holds every second step, so it ends at step 20. Therefore the test runs its own ascent for only 20
		// of the 21 steps.
		z20 := slices.Clone(z)
		partly(p, z20, 20, 21, 0.03)
		gap := make([]float64, 9)
		for n, x := range z20 {
			for k, w := range softDefinition(p.bins, x, 0.01*math.Pow(1e-4, 19.0/20)) {
				gap[k] += w * (truth(samples[n]) - x) / 40
			}
		}
		soft := 0.0
		for _, g := range gap {
			soft += math.Abs(g)
		}
		if r := traced[run][9]; math.Abs(r.SoftECE-soft) > 1e-6 {
			t.Errorf("run %d: soft error %v at step 20, by definition %v", run, r.SoftECE, soft)
		}
	}
	if math.Abs(got.ECE-top) > 1e-9 {
		t.Errorf("best %v, by definition %v", got.ECE, top)
	}
	again := mustDECE(t, t.Context(), p, par)
	par.Seed = 10
	if other := mustDECE(t, t.Context(), p, par); again.ECE != got.ECE || slices.Equal(other.Confidences, got.Confidences) && other.ECE != p.ece(clean) {
		t.Errorf("%v and %v with one seed, %v with another", got.ECE, again.ECE, other.ECE)
	}
}

// The function 'partly' runs only the beginning of an ascent. The argument 'first' is the number of steps to run, and
// the argument 'steps' is the length of the whole schedule.
func partly(p *Problem, z []float64, first, steps int, rate float64) {
	s := newSoftBins(p)
	for step := range first {
		x := float64(step) / float64(steps-1)
		s.ascend(z, 0.01*math.Pow(1e-4, x), rate*(1+math.Cos(math.Pi*x))/2, 0)
	}
}

func TestDECEWithoutAStart(t *testing.T) {
	samples, _ := certified(rand.New(rand.NewPCG(5, 42)), 5)
	p := mustProblem(t, samples, nil, mustBins(t, 3))
	par := DECEParams{Starts: []Start{FromClean}, Steps: 1}
	var none NoStartError
	if _, err := p.DECE(t.Context(), par, Watch{}); !errors.As(err, &none) || err.Error() == "" {
		t.Errorf("error %v", err)
	}
	par.Random = 1
	if _, err := p.DECE(t.Context(), par, Watch{}); err != nil {
		t.Error(err)
	}
}

// For each run, Best calls Trace with the residuals of the traced steps. These residuals equal the residuals that ADMM
// reports. If Trace is nil, Best traces no step.
func TestBestTraces(t *testing.T) {
	samples, clean := certified(rand.New(rand.NewPCG(5, 43)), 30)
	p := mustProblem(t, samples, clean, mustBins(t, 4))
	grid := ParamGrid{Starts: []Start{FromBrier}, RatesZ: []float64{0.01}, Growths: []float64{1.5}, Steps: 30, Rho: 0.2, MaxRho: 3}.Runs(true)
	traced := make([][]Residuals, len(grid))
	p.Best(t.Context(), grid, Watch{Every: 7, Trace: func(run int, r Residuals) { traced[run] = append(traced[run], r) }})
	for run, par := range grid {
		var want []Residuals
		p.ADMM(t.Context(), par, 7, func(r Residuals) {
			if r.Step%7 == 0 {
				want = append(want, r)
			}
		})
		if len(want) != 4 || !reflect.DeepEqual(traced[run], want) {
			t.Errorf("run %d: %+v, want %+v", run, traced[run], want)
		}
		for _, r := range want {
			if rho := math.Min(3, 0.2*math.Pow(1.5, float64(r.Step-1))); math.Abs(r.Rho-rho) > 1e-12 {
				t.Errorf("step %d: ρ %v, want %v", r.Step, r.Rho, rho)
			}
		}
	}
	if w := (Watch{Every: 7}); w.traceInterval() != 0 || w.traces(7) {
		t.Error("a trace that nobody asked for")
	}
}

// Of several runs with the same error, bestRun returns the first run, in whatever order the runs end. If any run was
// stopped, bestRun marks the result as interrupted.
func TestBestRunIsTheFirstOfEquals(t *testing.T) {
	eces := []float64{0.25, 0.5, 0.5, 0.125}
	got := bestRun(len(eces), func(run int) Estimate {
		return Estimate{ECE: eces[run], Confidences: []float64{float64(run)}, Interrupted: run == 3}
	})
	if got.ECE != 0.5 || got.Confidences[0] != 1 || !got.Interrupted {
		t.Errorf("%+v", got)
	}
}
