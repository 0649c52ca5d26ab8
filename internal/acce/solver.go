package acce

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/choice"
)

// Solver searches for a large calibration error under attack.
type Solver struct {
	Name   string
	Column string // heading of the solver's value in a table
	What   string
	// Exact says that the value is the maximum. Any other solver returns a value that some confidences within the
	// bounds attain. Such a value is at most the maximum and certifies nothing.
	Exact bool
	Key   string // JSON key of the solver's value

	search func(ctx context.Context, p problem) (finding, error)
	value  func(r *Result) **float64
}

// Solvers lists every solver.
var Solvers = []Solver{
	{"exact", "CCE", "the largest calibration error (CCE)", true, "cce", searchExactly,
		func(r *Result) **float64 { return &r.CCE }},
	{"admm", "ADMM*", "the largest error that ADMM finds in any of its runs (Algorithm 1, appendix I.1)", false, "acce.admm",
		searchADMM, func(r *Result) **float64 { return &r.ACCE.ADMM }},
	{"dece", "dECE*", "the largest error that gradient ascent on the differentiable calibration error finds (appendix M)", false, "dece", searchDECE,
		func(r *Result) **float64 { return &r.DECE }},
	{"brier", "Brier*", "the calibration error of the confidences with the largest Brier score", false, "brier_ece",
		searchBrier, func(r *Result) **float64 { return &r.BrierECE }},
}

// Value returns the solver's value in r, or nil if the solver did not run.
func (s Solver) Value(r Result) *float64 { return *s.value(&r) }

func (s Solver) String() string { return s.Name }

// SolverChoices lists Solvers under the names that a user types.
func SolverChoices() choice.List[Solver] {
	return choice.Of("solver", Solvers...).Describe(func(s Solver) string { return s.What })
}

// Progress receives the number of steps since its last call, and the calibration error after the latest step. Several
// goroutines may call it at the same time.
type Progress func(steps int, ece float64)

// problem is the input of a solver.
type problem struct {
	group
	options *Options
	bins    calib.Bins
	watch   func(g group, name string, steps int) (step Progress, done func())
	// trace returns a Watch that records the residuals for WriteTrace.
	trace func(g group, solver string, runs []traceRun) admm.Watch
}

// finding is the output of a solver.
type finding struct {
	value       float64
	confidences []float64 // the confidences that attain the value; nil if not wanted
	interrupted bool
}

func newFinding(e admm.Estimate) finding {
	return finding{e.ECE, e.Confidences, e.Interrupted}
}

func searchExactly(_ context.Context, p problem) (finding, error) {
	worst, err := calib.WeightedCCE(p.Intervals, p.bins, p.units)
	if err != nil {
		return finding{}, err
	}
	f := finding{value: worst.Value}
	if p.options.Attack {
		f.confidences = worst.Confidences(p.Intervals)
	}
	return f, nil
}

func searchADMM(ctx context.Context, p problem) (finding, error) {
	ascent, err := admm.NewProblem(p.Intervals, p.Confidence, p.bins)
	if err != nil {
		return finding{}, err
	}
	grid := p.options.ADMM.Runs(p.Confidence != nil)
	runs := make([]traceRun, len(grid))
	steps := 0
	for i, run := range grid {
		runs[i] = traceRun{run.Start.String(), run.RateZ, run.RateA, run.Growth}
		steps += run.Steps
	}
	watch := p.trace(p.group, "admm", runs)
	var done func()
	watch.Progress, done = p.watch(p.group, "ADMM", steps)
	defer done()
	return newFinding(ascent.Best(ctx, grid, watch)), nil
}

func searchDECE(ctx context.Context, p problem) (finding, error) {
	ascent, err := admm.NewProblem(p.Intervals, p.Confidence, p.bins)
	if err != nil {
		return finding{}, err
	}
	par := p.options.DECE.Complete()
	var runs []traceRun
	for _, start := range par.StartsFrom(p.Confidence != nil) {
		runs = append(runs, traceRun{start: start.String(), rateZ: par.Rate})
	}
	for k := range par.Random {
		runs = append(runs, traceRun{start: fmt.Sprintf("random %d", k), rateZ: par.Rate})
	}
	for k := range par.Gaussian {
		runs = append(runs, traceRun{start: fmt.Sprintf("gaussian %d", k), rateZ: par.Rate})
	}
	watch := p.trace(p.group, "dece", runs)
	var done func()
	watch.Progress, done = p.watch(p.group, "dECE", len(runs)*par.Steps)
	defer done()
	e, err := ascent.DECE(ctx, par, watch)
	return newFinding(e), err
}

func searchBrier(_ context.Context, p problem) (finding, error) {
	ascent, err := admm.NewProblem(p.Intervals, p.Confidence, p.bins)
	if err != nil {
		return finding{}, err
	}
	return newFinding(ascent.Brier()), nil
}
