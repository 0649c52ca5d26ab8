package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
)

// ceOptions are the flags of ce.
type ceOptions struct {
	methods []calib.BoundMethod
	chosen  bool // --method is given
	calib.BoundParams
	varies                                bool // --variation or --monotone is given
	monotone, joint, perturb, json, quiet bool
	curve                                 string
}

func newCE(s streams) *cobra.Command {
	var o ceOptions
	cmd := &cobra.Command{
		Use:   "ce scores.csv --monotone",
		Short: "Bound the calibration error of a binary classifier from above and from below",
		Long: `This command bounds the calibration error E|s − P(y=1|s)| of a binary classifier from
above and from below. Each bound holds with probability at least 1 − delta, for any
distribution of the scores. The lower bound needs no assumption. No method bounds the
error from above without one of these assumptions:

  --monotone      P(y=1|s) only increases, or only decreases, in s
  --variation V   P(y=1|s) has total variation at most V as s goes from 0 to 1
  --bandwidth h   the scores were perturbed with the sech kernel of bandwidth h

A monotone function has total variation at most 1. No test can verify the first two
assumptions. The third assumption says nothing about P(y=1|s), but its bounds apply to
the perturbed scores: use the classifier with perturbed scores. 'rscert perturb'
perturbs scores and records h in the file. With --perturb, this command perturbs the
scores itself. For the third assumption, the command refuses scores that the
perturbation cannot have produced. The next list names the assumption of each method:
'variation' stands for --monotone or --variation, and 'perturbed' stands for perturbed
scores.

` + describeBoundMethods() + `
Without --method, the command computes the binned bound for each given assumption. It
also prints an estimate, which has no guarantee. Finally it bounds the error on this
dataset, which is the mean of |s − P(y=1|s)| over the scores in the file.

Each bound alone holds with probability 1 − delta. With --joint, the command divides
delta among all bounds, including the lower bound and the curve, so that all of them
hold together. Choose the method, the bandwidth, the variation and the seed before you
look at the bounds.

--curve FILE writes the calibration curve as CSV. Each row is a bin of neighbouring
scores. The row holds the mean label in the bin, and a lower and an upper limit for
the mean of P(y=1|s) over the bin. The limits hold in all bins together with
probability 1 − delta, for any P(y=1|s).

The file has the columns score (in [0,1]) and label (0 or 1). For a classifier with
more than two classes it has the columns confidence and correct instead. The format is
CSV, JSON lines or npz, or one of these as .gz. If the file name is -, the command
reads stdin.`,
		Example: `  rscert ce scores.csv --monotone
  rscert perturb scores.csv --bandwidth 0.015625 --out perturbed.csv
  rscert ce perturbed.csv
  rscert ce scores.csv --method nw --bandwidth 0.015625 --perturb --json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.chosen = given(cmd, "method", &o.methods) != nil
			o.varies = o.monotone || given(cmd, "variation", &o.Variation) != nil
			return runCE(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	choiceListVar(f, &o.methods, "method", defaultBoundMethods(), calib.BoundChoices(), "`methods` of the upper bounds, separated by commas: "+calib.BoundChoices().String())
	f.Float64Var(&o.Delta, "delta", 0.05, "largest probability that a bound is wrong")
	f.BoolVar(&o.monotone, "monotone", false, "assume that P(y=1|s) only increases or only decreases; this implies --variation 1")
	f.Float64Var(&o.Variation, "variation", 0, "assume that P(y=1|s) has at most this total `variation`")
	f.Float64Var(&o.Bandwidth, "bandwidth", 0, "bandwidth `h` of the kernel; give it with --perturb, or if the file of perturbed scores does not record its bandwidth")
	f.BoolVar(&o.perturb, "perturb", false, "first perturb the scores with the bandwidth of --bandwidth, as 'rscert perturb' does")
	integerVar(f, &o.Folds, "folds", 5, "number of folds for the cross-fitting in the methods 'tv' and 'nw'")
	integerVar(f, &o.Seed, "seed", 1, "seed of the random order in the lower bound, of the folds and of --perturb")
	f.BoolVar(&o.joint, "joint", false, "divide delta among the bounds, so that all of them hold together")
	f.StringVar(&o.curve, "curve", "", "write the calibration curve to this CSV `file`")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

func (o ceOptions) check() error {
	switch {
	case !(o.Delta > 0 && o.Delta < 1):
		return badInputf("--delta %v: want a number between 0 and 1", o.Delta)
	case o.Bandwidth < 0 || math.IsNaN(o.Bandwidth) || math.IsInf(o.Bandwidth, 0):
		return badInputf("--bandwidth %v: want a positive number", o.Bandwidth)
	case !(o.Variation >= 0) || math.IsInf(o.Variation, 0):
		return badInputf("--variation %v: want a number of at least 0", o.Variation)
	case o.monotone && o.Variation != 0 && o.Variation != 1:
		return badInputf("--monotone means --variation 1: give only one of them")
	case o.Folds < 2 || o.Folds > 255:
		return badInputf("--folds %d: want 2 to 255", o.Folds)
	case o.perturb && o.Bandwidth == 0:
		return badInputf("--perturb needs --bandwidth")
	}
	return nil
}

// ceReport is what --json prints.
type ceReport struct {
	N         int      `json:"n"`
	Delta     float64  `json:"delta"`
	Joint     bool     `json:"joint"`
	Folds     int      `json:"folds"`
	Seed      uint64   `json:"seed"`
	Variation *float64 `json:"variation,omitempty"` // the assumed bound on the variation
	Bandwidth float64  `json:"bandwidth,omitempty"`
	Perturbed bool     `json:"perturbed"` // whether this command perturbed the scores
	// Recorded tells whether the file records the bandwidth.
	Recorded   bool                        `json:"recorded"`
	Assumption string                      `json:"assumption"`
	Estimate   float64                     `json:"estimate"` // without a guarantee
	Lower      map[string]calib.LowerBound `json:"lower"`
	Bounds     map[string]calib.Bound      `json:"bounds"`
}

func runCE(ctx context.Context, s streams, path string, o ceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := checkOutput("curve", o.curve, path); err != nil {
		return err
	}
	if o.monotone {
		o.Variation = 1
	}
	r := ceReport{Delta: o.Delta, Joint: o.joint, Folds: o.Folds, Seed: o.Seed, Perturbed: o.perturb}
	sample, err := r.readSample(ctx, s, path, &o)
	if err != nil {
		return err
	}
	methods, err := o.supported(path)
	if err != nil {
		return err
	}
	if err := r.checkSample(sample, methods, path, o); err != nil {
		return err
	}
	if o.varies {
		r.Variation = &o.Variation
	}
	r.N, r.Bandwidth = sample.N(), o.Bandwidth
	r.Assumption = r.describeAssumptions(methods)
	if err := r.compute(ctx, s, sample, methods, path, o); err != nil {
		return err
	}
	if o.json {
		err = report.WriteJSON(s.out, "ce", r)
	} else {
		err = r.print(s.out, methods)
	}
	return errors.Join(err, r.refuted(path))
}

// refuted returns an error if the lower bound is above a sound upper bound. In this case the assumption of the upper
// bound is false, unless an event of small probability occurred.
func (r *ceReport) refuted(path string) error {
	lower := r.Lower["betting"]
	for _, name := range slices.Sorted(maps.Keys(r.Bounds)) {
		upper := r.Bounds[name]
		if !upper.Sound || lower.Value <= upper.Value {
			continue
		}
		return hint.Add(fmt.Errorf("%s: the error is at least %s and, by %s, at most %s: the assumption is false, or an event of probability at most %g occurred",
			displayPath(path), report.Round(lower.Value, report.Down, 0, 4), name, report.Round(upper.Value, report.Up, 0, 4), lower.Delta+upper.Delta),
			"this is what the upper bounds assume: %s", r.Assumption)
	}
	return nil
}

// readSample reads the scores and the recorded bandwidth, and perturbs the scores for --perturb.
func (r *ceReport) readSample(ctx context.Context, s streams, path string, o *ceOptions) (*calib.Sample, error) {
	columns := predictions.ScoreColumns()
	columns.Optional = append(columns.Optional, predictions.PerturbationColumns...)
	table, err := readUnweighted(ctx, s, path, o.quiet, columns)
	if err != nil {
		return nil, err
	}
	score, label, err := predictions.Scores(table)
	if err != nil {
		return nil, badInput(err)
	}
	recorded, err := predictions.Perturbation(table)
	if err != nil {
		return nil, badInput(err)
	}
	switch {
	case recorded == 0:
	case o.perturb:
		return nil, badInputf("%s: its scores are perturbed already: leave out --perturb", table.Path)
	case o.Bandwidth != 0 && o.Bandwidth != recorded:
		return nil, badInputf("%s: --bandwidth %v, but its scores were perturbed with %v", table.Path, o.Bandwidth, recorded)
	default:
		o.Bandwidth, r.Recorded = recorded, true
	}
	if o.perturb {
		if err := perturbScores(table, score, calib.Sech{Bandwidth: o.Bandwidth, Seed: o.Seed}, 0); err != nil {
			return nil, err
		}
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		return nil, badInput(predictions.LocateRow(table, err))
	}
	return sample, nil
}

// checkSample refuses an empty file, and scores that the perturbation cannot have produced.
func (r *ceReport) checkSample(sample *calib.Sample, methods []calib.BoundMethod, path string, o ceOptions) error {
	if sample.N() == 0 {
		return badInputf("%s: no rows", displayPath(path))
	}
	if !assume(methods, calib.PerturbedScores) {
		return nil
	}
	if err := calib.CheckPerturbed(sample, o.Bandwidth); err != nil {
		return hint.Add(badInputf("%s: these scores are not perturbed: %v", displayPath(path), err), perturbHint)
	}
	return nil
}

// compute computes the bounds and writes the curve.
func (r *ceReport) compute(ctx context.Context, s streams, sample *calib.Sample, methods []calib.BoundMethod, path string,
	o ceOptions) error {
	plan := calib.BoundPlan{Methods: methods, Curve: o.curve != "", Joint: o.joint, Params: o.BoundParams}
	bar := progress.Start(s.progress(o.quiet), "bounds", int64(plan.Parts()), 0)
	defer bar.Finish()
	plan.Done = func(bound string) { bar.Add(1, bound) }
	found, err := plan.Compute(ctx, sample)
	var refused *calib.BoundMethodError
	switch {
	case errors.As(err, &refused): // the flags are valid, so the file has too few rows
		return badInput(fmt.Errorf("%s: %w", displayPath(path), err))
	case err != nil:
		return fmt.Errorf("%s: %w", displayPath(path), err)
	}
	r.Bounds, r.Estimate = found.Upper, found.Estimate
	r.Lower = map[string]calib.LowerBound{"betting": found.Lower}
	if o.curve == "" {
		return nil
	}
	return writeCurve(o.curve, found.Curve)
}
