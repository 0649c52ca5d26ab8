package acce

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/table"
)

// traceRun identifies a run of a search.
type traceRun struct {
	start                string
	rateZ, rateA, growth float64 // only ADMM uses 'rateA' and 'growth'
}

// trace holds the residuals of the runs of one search.
type trace struct {
	radius *float64
	solver string
	runs   []traceRun
	steps  [][]admm.Residuals // the traced steps of each run
}

// trace returns a Watch. The Watch records the residuals of one search, and WriteTrace later writes these residuals. If
// the options request no trace, the Watch records nothing.
func (s *Study) trace(g group, solver string, runs []traceRun) admm.Watch {
	if s.options.TraceEvery == 0 {
		return admm.Watch{}
	}
	steps := make([][]admm.Residuals, len(runs))
	s.traces = append(s.traces, trace{g.radius, solver, runs, steps})
	return admm.Watch{
		Every: s.options.TraceEvery,
		Trace: func(run int, r admm.Residuals) { steps[run] = append(steps[run], r) },
	}
}

// WriteTrace writes the recorded residuals, one row for each traced step of each run. Each row holds the relaxed
// calibration error, and the calibration error of the projected confidences. A row of the solver admm also holds the
// terms of the Lagrangian, and the distances to the constraints of the program (admm.Residuals). For each constraint,
// the row holds the sum of the distances over all predictions and bins, and their maximum. For the constraint 'sphere'
// there is only one distance. The solver dece has no constraints, so its rows leave these columns empty. In a row of
// dece, the relaxed error is the differentiable error. WriteTrace needs Options.TraceEvery.
func (s *Study) WriteTrace(out io.Writer) error {
	w := table.NewWriter(out)
	var radius []string
	if slices.ContainsFunc(s.traces, func(t trace) bool { return t.radius != nil }) {
		radius = []string{"radius"}
	}
	w.Header(append(radius, "solver", "run", "start", "learning_rate_z", "learning_rate_a", "rho_growth", "step", "rho", "relaxed_ece", "projected_ece",
		"confidence_sum", "confidence_max", "binary_sum", "binary_max", "one_bin_sum", "one_bin_max",
		"in_reach_sum", "in_reach_max", "box_sum", "box_max", "sphere",
		"lagrangian", "box_term", "sphere_term", "confidence_term", "one_bin_term", "in_reach_term")...)
	for _, t := range s.traces {
		for run, steps := range t.steps {
			for _, r := range steps {
				t.write(w, run, r)
			}
		}
	}
	return w.Flush()
}

// SearchRun is a traced run of ADMM.
type SearchRun struct {
	Radius               *float64 // nil if the table has no radii
	N, Bins              int
	Start                string // confidences at the start
	RateZ, RateA, Growth float64
	Steps                []admm.Residuals
	Exact                *float64 // the CCE that the exact solver computed (Result.CCE); nil if this solver did not run
}

// LargestRun looks at the traced steps of all runs of ADMM, and returns the run with the largest calibration error. If
// several runs reach this error, LargestRun returns the first of them. The study must not have several radii.
// LargestRun needs Options.TraceEvery. Call it after Solve.
func (s *Study) LargestRun() (SearchRun, error) {
	if len(s.groups) > 1 {
		return SearchRun{}, hint.Add(fmt.Errorf("%s: there are %d radii, and the steps of ADMM are about one radius", s.table.Path, len(s.groups)),
			"choose a radius with %s", param.Radius)
	}
	at := slices.IndexFunc(s.traces, func(t trace) bool { return t.solver == "admm" })
	if at < 0 {
		return SearchRun{}, hint.Add(errors.New("the solver admm did not run"), "add %s exact,admm", param.Solver)
	}
	t, best, largest := s.traces[at], -1, -1.0
	for run, steps := range t.steps {
		for _, r := range steps {
			if r.ProjectedECE > largest {
				best, largest = run, r.ProjectedECE
			}
		}
	}
	if best < 0 {
		return SearchRun{}, hint.Add(errors.New("ADMM has no traced step"), "trace more steps with %s 1", param.TraceEvery)
	}
	of := t.runs[best]
	out := SearchRun{Radius: t.radius, N: len(s.groups[0].Intervals), Bins: s.bins.Len(), Start: of.start, RateZ: of.rateZ, RateA: of.rateA,
		Growth: of.growth, Steps: t.steps[best]}
	if len(s.results) > 0 {
		out.Exact = s.results[0].CCE
	}
	return out, nil
}

func (t trace) write(w *table.Writer, run int, r admm.Residuals) {
	if t.radius != nil {
		w.Float(*t.radius)
	}
	of := t.runs[run]
	w.Text(t.solver)
	w.Int(run)
	w.Text(of.start)
	w.Float(of.rateZ)
	constrained := t.solver == "admm"
	number := func(x float64) {
		if constrained {
			w.Float(x)
		} else {
			w.Empty()
		}
	}
	number(of.rateA)
	number(of.growth)
	w.Int(r.Step)
	number(r.Rho)
	w.Float(r.SoftECE)
	w.Float(r.ProjectedECE)
	for _, n := range []admm.Norms{r.Confidence, r.Binary, r.Unique, r.Valid, r.Box} {
		number(n.Sum)
		number(n.Max)
	}
	number(r.Sphere)
	l := r.Lagrangian
	for _, x := range []float64{l.Value(), l.Box, l.Sphere, l.Confidence, l.Unique, l.Valid} {
		number(x)
	}
	w.EndRow()
}

// checkStarts returns an error if a search would have no confidences to start from.
func (o Options) checkStarts(t *table.Table, haveClean bool) error {
	for _, s := range o.Solvers {
		if s.Name == "admm" && len(o.ADMM.Runs(haveClean)) == 0 || s.Name == "dece" && len(o.DECE.StartsFrom(haveClean))+o.DECE.Drawn() == 0 {
			return hint.New(fmt.Sprintf("%s: no column confidence for --%s-starts clean", t.Path, s.Name), "start from brier")
		}
	}
	return nil
}
