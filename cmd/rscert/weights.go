package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// weightsOptions are the flags of the command 'weights'.
type weightsOptions struct {
	features []string
	fit      calib.RatioFit
	out      string
	json     bool
	quiet    bool
}

func newWeights(s streams) *cobra.Command {
	var o weightsOptions
	cmd := &cobra.Command{
		Use:   "weights SOURCE TARGET --features a,b --out weighted.csv",
		Short: "Estimate weights that make one population resemble another",
		Long: `This command estimates importance weights for the rows of SOURCE. With these weights,
the rows of SOURCE represent the population of TARGET. 'rscert metrics' and 'rscert ce'
use the weights. TARGET needs no labels and no scores.

The weight of a row estimates a density ratio: how many times more frequent rows with
the same features are in the population of TARGET than in the population of SOURCE. The
estimate comes from a logistic regression that tells the rows of the two files apart by
the columns in --features. The command splits the rows into --folds folds. For each
fold, it fits the regression on the other folds and computes the weights of the fold.
The command lowers weights above --weight-bound to --weight-bound.

Nothing bounds the error of the weights. They are right only if the logarithm of the
density ratio is linear in the features, and if the features explain every relevant
difference between the populations. So 'rscert ce' marks its bounds for these weights as
not sound. If you give 'rscert ce' the flags '--method binned-tv-weighted
--weight-sensitivity G' with G > 1, the bounds can be sound: they then assume that every
true weight lies between weight/G and weight·G.

Each of the two files is CSV, JSON lines, npz or Parquet. The output is CSV. It has the
columns of SOURCE and three new columns: weight, weight_bound, and weight_estimated,
which is always 1. The features come first, together with the columns that hold
predictions (score, label, confidence, correct, p0, p1, …, index). The weights come
next, and the remaining columns come last. From an npz file, the output keeps only
one-dimensional arrays of numbers. From a Parquet file, it leaves out columns of lists
and columns with nested fields (groups).`,
		Example: `  rscert weights validation.csv hospital.csv --features age,pressure --out weighted.csv
  rscert ce weighted.csv --monotone --method binned-tv-weighted --weight-sensitivity 1.5`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return badInputf("want two files, SOURCE and TARGET, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWeights(cmd.Context(), s, args[0], args[1], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.features, "features", nil, "`columns` on which the weights depend, separated by commas; SOURCE and TARGET must both have these columns")
	f.StringVar(&o.out, "out", "", "write SOURCE with its weights to this CSV `file`")
	f.Float64Var(&o.fit.Bound, "weight-bound", 10, "largest `weight`; larger estimates are lowered to it")
	integerVar(f, &o.fit.Folds, "folds", 5, "number of folds for the regression")
	integerVar(f, &o.fit.Seed, "seed", 1, "seed of the random division of the rows into folds")
	f.BoolVar(&o.json, "json", false, "print the report as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// weightsReport is what --json prints.
type weightsReport struct {
	Source        int      `json:"source"` // number of rows of the source
	Target        int      `json:"target"`
	Features      []string `json:"features"`
	Folds         int      `json:"folds"`
	Seed          uint64   `json:"seed"`
	Bound         float64  `json:"bound"`
	Estimated     bool     `json:"estimated"` // always true
	EffectiveSize float64  `json:"effective_sample_size"`
	Mean          float64  `json:"mean"`
	Largest       float64  `json:"largest"`
	Clipped       int      `json:"clipped"`
	// The difference of a feature is the distance between its means in the source and in the target, in units of its
	// standard deviation. Before is the largest difference over the features, computed without weights. After is the
	// largest difference over the features, computed with weights.
	Before float64 `json:"difference_before"`
	After  float64 `json:"difference_after"`
}

func (o weightsOptions) check(source, target string) error {
	switch {
	case len(o.features) == 0:
		return badInputf("want --features, the columns on which the weights depend")
	case o.out == "":
		return badInputf("want --out FILE")
	case !(o.fit.Bound >= 1):
		return badInputf("--weight-bound %v: want a number of at least 1", o.fit.Bound)
	case o.fit.Folds < 2 || o.fit.Folds > 255:
		return badInputf("--folds %d: want 2 to 255", o.fit.Folds)
	}
	for i, name := range o.features {
		if slices.Contains(o.features[:i], name) {
			return badInputf("--features: %s appears twice", name)
		}
		if slices.Contains([]string{"label", "labels", "correct"}, name) || slices.Contains(predictions.WeightColumns, name) {
			return badInputf("--features: the weights must not depend on the column %s", name)
		}
	}
	return checkOutput("out", o.out, source, target)
}

func runWeights(ctx context.Context, s streams, source, target string, o weightsOptions) error {
	if err := o.check(source, target); err != nil {
		return err
	}
	columns := predictions.ScoreColumns()
	columns.Required = o.features
	columns.Match = predictions.Columns().Match
	columns.Optional = slices.Concat(columns.Optional, predictions.PerturbationColumns, predictions.WeightColumns)
	columns.KeepOthers = true
	from, err := readTable(ctx, s, source, o.quiet, columns)
	if err != nil {
		return err
	}
	for _, name := range predictions.WeightColumns {
		if _, ok := from.Column(name); ok {
			return badInputf("%s: has a column %s already", from.Path, name)
		}
	}
	to, err := readTable(ctx, s, target, o.quiet, table.Options{Required: o.features})
	if err != nil {
		return err
	}
	found, err := calib.EstimateRatios(o.matrix(from), o.matrix(to), o.fit)
	if err != nil {
		return badInput(fmt.Errorf("%s and %s: %w", displayPath(source), displayPath(target), err))
	}
	r := weightsReport{Source: from.N, Target: to.N, Features: o.features, Folds: o.fit.Folds, Seed: o.fit.Seed,
		Bound: o.fit.Bound, Estimated: true, EffectiveSize: calib.EffectiveSize(found.Weight),
		Largest: slices.Max(found.Weight), Clipped: found.Clipped, Before: found.Before, After: found.After}
	for _, w := range found.Weight {
		r.Mean += w / float64(from.N)
	}
	if calib.PoorOverlap(found.Weight) {
		err := s.warnf(warning.PoorOverlap, "%s: few rows resemble the population of %s: the weights have the mean %.3g instead of 1, "+
			"and the effective sample size is %.3g of %d rows", displayPath(source), displayPath(target), r.Mean, r.EffectiveSize, r.Source)
		if err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := errors.Join(ctx.Err(), o.writeRows(&b, from, found.Weight)); err != nil {
		return err
	}
	if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
		return err
	}
	s.wrote(o.out)
	if o.json {
		return report.WriteJSON(s.out, "weights", r)
	}
	return r.print(s.out)
}

// matrix returns the features of a table.
func (o weightsOptions) matrix(t *table.Table) calib.Features {
	f := calib.Features{N: t.N, D: len(o.features), Values: make([]float64, t.N*len(o.features))}
	for j, name := range o.features {
		column, _ := t.Column(name)
		for i, x := range column {
			f.Values[i*f.D+j] = x
		}
	}
	return f
}

// writeRows writes the columns of the table and the weights as CSV.
func (o weightsOptions) writeRows(out io.Writer, t *table.Table, weight []float64) error {
	w := table.NewWriter(out)
	names := t.Names()
	var texts []table.TextColumn
	header := slices.Concat(names, predictions.WeightColumns)
	for _, column := range t.Others() {
		header, texts = append(header, column.Name), append(texts, column)
	}
	w.Header(header...)
	for i, x := range weight {
		for _, name := range names {
			column, _ := t.Column(name)
			w.Float(column[i])
		}
		w.Float(x)
		w.Float(o.fit.Bound)
		w.Bool(true)
		for _, column := range texts {
			w.Text(column.Values[i])
		}
		w.EndRow()
	}
	return w.Flush()
}

func (r weightsReport) print(out io.Writer) error {
	fmt.Fprintf(out, "weights of %d rows for the population of %d rows, by logistic regression on %s, cross-fitted over %d folds\n\n",
		r.Source, r.Target, strings.Join(r.Features, ", "), r.Folds)
	t := report.Table{Columns: []report.Column{report.TextColumn(""), report.TextColumn("")}}
	for _, line := range [][2]string{
		{"effective sample size", fmt.Sprintf("%.1f of %d", r.EffectiveSize, r.Source)},
		{"mean weight", fmt.Sprintf("%.4f, in theory 1", r.Mean)},
		{"largest weight", fmt.Sprintf("%.4g; %d rows were limited to %g", r.Largest, r.Clipped, r.Bound)},
		{"largest difference of a feature's mean", fmt.Sprintf("%.3f standard deviations, %.3f with weights", r.Before, r.After)},
	} {
		t.AddRow(report.Text(line[0]), report.Text(line[1]))
	}
	if err := t.WriteText(out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "\nThese weights are estimates, and nothing bounds their error: the features may not explain all of the\n"+
		"difference between the populations, and the regression may be wrong. 'rscert ce' marks bounds that need\n"+
		"exact weights as not sound; --weight-sensitivity states by which factor the weights may be wrong.")
	return err
}
