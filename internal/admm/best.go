package admm

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Watch holds functions that observe a search of several runs. Each function may be nil. Several goroutines may call
// the functions at the same time.
type Watch struct {
	Progress func(steps int, ece float64) // steps: number of steps since the last call; ece: error of the last step
	Every    int                          // Trace receives every Every-th step of a run; 0: no step
	Trace    func(run int, r Residuals)   // runs are counted from 0; the steps of a run come in order
}

// step reports one step of a run.
func (w Watch) step(run int, r Residuals) {
	if w.Progress != nil {
		w.Progress(1, r.ProjectedECE)
	}
	if w.traces(r.Step) {
		w.Trace(run, r)
	}
}

func (w Watch) traces(step int) bool { return w.Trace != nil && w.Every > 0 && step%w.Every == 0 }

// traceInterval returns the field Every, or 0 if the field Trace is nil.
func (w Watch) traceInterval() int {
	if w.Trace == nil {
		return 0
	}
	return w.Every
}

// Best does one run of ADMM for each element of the grid, in parallel, and returns the run with the largest calibration
// error. If several runs reach this error, Best returns the first of them. If ctx ends, Best returns the best run so
// far.
func (p *Problem) Best(ctx context.Context, grid []Params, w Watch) Estimate {
	return bestRun(len(grid), func(run int) Estimate {
		return p.ADMM(ctx, grid[run], w.traceInterval(), func(r Residuals) { w.step(run, r) })
	})
}

// bestRun does all runs in parallel and returns the run with the largest calibration error. If several runs reach this
// error, it returns the first of them. The result counts as interrupted if any run was interrupted.
func bestRun(runs int, do func(run int) Estimate) Estimate {
	found := make([]Estimate, runs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for run := range runs {
		group.Go(func() error {
			found[run] = do(run)
			return nil
		})
	}
	_ = group.Wait() // no run returns an error
	best := found[0]
	for _, e := range found[1:] {
		interrupted := best.Interrupted || e.Interrupted
		if e.ECE > best.ECE {
			best = e
		}
		best.Interrupted = interrupted
	}
	return best
}
