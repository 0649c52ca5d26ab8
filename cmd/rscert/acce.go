package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/gate"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
)

// acceOptions are the flags of acce.
type acceOptions struct {
	bins         int
	solvers      []acce.Solver
	radii        []float64
	delta, alpha *float64 // nil: not given
	examples     int      // 0: not given
	adaptive     bool
	out          string
	gate         gateOptions
	json, quiet  bool
}

func newACCE(s streams) *cobra.Command {
	var o acceOptions
	var delta, alpha float64
	cmd := &cobra.Command{
		Use:   "acce bounds.csv | RUN",
		Short: "Bound the calibration under attack: CBS, exact CCE, ADMM, dECE",
		Long: `ACCE takes bounds on each prediction's confidence within a radius and tells how
bad calibration can get when an adversary moves every confidence within its
bounds (Emde et al. 2025):

  CBS    certified Brier score: the largest top-label Brier score (Theorem 3.3)
  CCE    certified calibration error: the largest expected calibration error
         over --bins equal-width bins [lo,hi), by --solver exact

The solvers but exact find confidences with a large calibration error, not the
largest. They are estimates from below and certify nothing:

` + describeSolvers() + `
With --adaptive, bounds from both sides on the largest calibration error with
--bins bins of equal count (AdaECE): one that an attack attains, and one that
holds for every way to bin.

CBS and CCE hold if every bound in the file holds. Each bound holds with
probability 1 − alpha for itself. For all at once give --delta, --alpha and
--examples: with probability 1 − delta at most k of the n bounds fail, k the
1 − delta quantile of Bin(examples, alpha), so the Brier score is at most
CBS + k/n and the calibration error at most CCE + 2k/n. This needs independent
noise for each example. --examples counts all that were sampled: 'rscert
confidence' leaves out those whose class is not certified, which is decided by
the same noise.

The file has columns lower, upper (in [0,1]) and correct (0 or 1); index,
confidence (without attack), radius and examples (as --examples) where known.
CSV, JSON lines or npz; .gz; - for stdin. Of a run folder, bounds.csv is read;
alpha and the number of examples are the run's.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --confidence-radii 0.25,0.5 --out run
  rscert acce run --delta 0.05
  rscert confidence scores.npz --sigma 0.5 --radii 0.25,0.5 --out bounds.csv
  rscert acce bounds.csv
  rscert acce bounds.csv --delta 0.05 --alpha 0.001 --examples 1000 --json
  rscert acce bounds.csv --radius 0.25 --solver exact,admm,dece,brier --out attack.csv
  rscert acce run --delta 0.05 --require 'certified:cce@0.25<=0.15' --require 'cbs@0.25<=0.05'`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.delta, o.alpha = given(cmd, "delta", &delta), given(cmd, "alpha", &alpha)
			return runACCE(cmd.Context(), s, args[0], o)
		},
	}
	cmd.SetFlagErrorFunc(explainFlag)
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.bins, "bins", 15, "equal-width bins of the calibration error")
	textListVar(f, &o.solvers, "solver", acce.Solvers[:1], "`solvers` to run")
	f.BoolVar(&o.adaptive, "adaptive", false, "bound the calibration error with equal-count bins too")
	f.Float64SliceVar(&o.radii, "radius", nil, "take the rows with these `radii` (default all, each for itself)")
	f.Float64Var(&delta, "delta", 0, "allowed failure probability of a statement about the whole dataset")
	f.Float64Var(&alpha, "alpha", 0, "failure probability of each of the bounds, for --delta")
	f.IntVar(&o.examples, "examples", 0, "examples that were sampled, those that the file leaves out too, for --delta")
	gateFlags(cmd, &o.gate)
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.out, "out", "", "CSV `file` for the confidences that attain the result: the attack")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// describeSolvers lists the solvers for the help text.
func describeSolvers() string {
	var b strings.Builder
	for _, s := range acce.Solvers {
		fmt.Fprintf(&b, "  %-6s %s\n", s.Name, s.What)
	}
	return b.String()
}

// settle checks the flags and takes from the bounds' run what is not given.
func (o *acceOptions) settle(bounds runfolder.Bounds) error {
	switch {
	case o.bins < 1 || o.bins > acce.MaxBins:
		return badInputf("--bins %d: want 1 to %d", o.bins, acce.MaxBins)
	case o.delta != nil && !(*o.delta > 0 && *o.delta < 1):
		return badInputf("--delta %v: want a number between 0 and 1", *o.delta)
	case o.delta == nil && slices.ContainsFunc(o.gate.required, gate.Requirement.Certified):
		return badInputf("--require certified:…: needs --delta, the failure probability of the statement")
	case o.delta == nil && (o.alpha != nil || o.examples != 0):
		return badInputf("--alpha and --examples are for --delta")
	case o.delta == nil:
		return nil
	}
	alpha, examples, err := bounds.Sampled(o.alpha, o.examples)
	o.alpha, o.examples = &alpha, examples
	return badInput(err)
}

// study is what the flags ask for.
func (o acceOptions) study(s streams) acce.Options {
	study := acce.Options{
		Bins: o.bins, Solvers: o.solvers, Radii: o.radii, Adaptive: o.adaptive, Attack: o.out != "",
		Progress: func(radius *float64, solver string, steps int) (acce.Progress, func()) {
			return showSearch(s, o.quiet, radius, solver, steps)
		},
	}
	if o.delta != nil {
		study.Dataset = &acce.Dataset{Delta: *o.delta, Alpha: *o.alpha, Examples: o.examples}
	}
	return study
}

func runACCE(ctx context.Context, s streams, path string, o acceOptions) error {
	if err := errors.Join(checkOutput("out", o.out, path), o.gate.check(path)); err != nil {
		return err
	}
	return o.gate.decide(s, func() ([]gate.Outcome, error) { return solveACCE(ctx, s, path, o) })
}

// solveACCE prints the study of the bounds and returns the outcome of what is required of them.
func solveACCE(ctx context.Context, s streams, path string, o acceOptions) ([]gate.Outcome, error) {
	bounds, err := findBounds(path, s.err)
	if err != nil {
		return nil, err
	}
	if err := o.settle(bounds); err != nil {
		return nil, err
	}
	start := time.Now()
	table, err := readTable(ctx, s, bounds.File, o.quiet, acce.Columns())
	if err != nil {
		return nil, err
	}
	study, err := acce.NewStudy(table, o.study(s))
	if err != nil {
		return nil, badInput(err)
	}
	reading := time.Since(start).Seconds()
	results, err := study.Solve(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		r.Seconds["read"] = reading
	}
	// What an interrupted search has found is shown, but is not the work asked for: no file.
	if o.out != "" && ctx.Err() == nil {
		var b bytes.Buffer
		if err := study.WriteAttack(&b); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
			return nil, err
		}
	}
	if err := printStudy(s, o, results, study.Radii()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return o.gate.checkStudy(path, bounds, table, results)
}

// showSearch shows the largest calibration error that a solver has found.
func showSearch(s streams, quiet bool, radius *float64, name string, steps int) (acce.Progress, func()) {
	if radius != nil {
		name += fmt.Sprintf(" at radius %v", *radius)
	}
	bar := progress.Start(s.progress(quiet), name, int64(steps), 0)
	var mu sync.Mutex
	best := 0.0
	return func(steps int, ece float64) {
		mu.Lock()
		best = max(best, ece)
		found := fmt.Sprintf("best %.4f", best)
		mu.Unlock()
		bar.Add(int64(steps), found)
	}, bar.Finish
}
