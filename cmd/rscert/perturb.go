package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// perturbOptions are the flags of the command 'perturb'.
type perturbOptions struct {
	bandwidth float64
	auroc     []float64
	repeats   int
	plots     []string
	delta     float64
	seed      uint64
	firstRow  int
	out       string
	json      bool
	quiet     bool
}

func newPerturb(s streams) *cobra.Command {
	var o perturbOptions
	cmd := &cobra.Command{
		Use:   "perturb scores.csv --bandwidth h",
		Short: "Perturb scores so that 'rscert ce' can bound the calibration error",
		Long: `This command replaces each score by a random score near it. The random score has the
density of the hyperbolic secant kernel of bandwidth h on [0,1] (Ciosek et al. 2025,
equation 8). For any classifier, P(y=1|s) is then a smooth function of the perturbed
score s: its derivative is at most 1/(2h). The bounds of 'rscert ce' on perturbed scores
need this smoothness. They are bounds for the classifier that outputs perturbed scores.
So also perturb the scores when you use the classifier.

A larger h makes the bounds tighter and the classifier worse. --auroc takes a list of
values of h, such as 0.25 or 2^-6. For each h the command prints the area under the ROC
curve before and after perturbation, and an interval for the change of the area. With
--repeats R, the command perturbs the scores R times, and prints the mean and the
standard deviation of the area. With probability at least 1 − delta (--delta), the
interval for the change contains the true change of the area: the change for the
distribution from which the rows are drawn. This probability holds for each h alone. The
interval holds for any number of independent rows. --plot draws the area against h.

Choose h on data that you do not use for 'rscert ce'. If you choose h with labels that
'rscert ce' also uses, the bound of 'rscert ce' does not hold with its stated
probability.

The perturbation of a row depends only on its score, its row number, h and --seed, so
you can reproduce a file. Two scores with the same row number and seed get the same
random number, and the bounds of 'rscert ce' do not hold for such scores. If the dataset
has several files (shards, batches of requests), give each file its own --seed, or a
--first-row that continues the row numbers of the previous file. Perturb scores only
once. Do it last, after other changes such as 'rscert calibrate'. The command refuses
scores that are perturbed already, or that come from perturbed scores.

The output has the columns score and label (or confidence and correct). It also has the
columns sech_bandwidth, sech_seed and sech_row, which tell 'rscert ce' how the scores
were perturbed. The output keeps the other columns of the file, such as index and
weight, but not columns about the unperturbed scores (p0, logit, lower, …). If the file
has the probabilities p0, p1, … instead of scores, the command computes the scores as
'rscert ce' does: p1 for two classes, and the largest probability for more classes. Only
--auroc needs the labels. --auroc refuses weights. The output is CSV on stdout or in the
file --out.`,
		Example: `  rscert perturb scores.csv --auroc 0.25,0.0625,0.015625,0.00390625
  rscert perturb scores.csv --auroc 2^-1,2^-2,2^-4,2^-6,2^-8 --repeats 16 --plot auroc.svg
  rscert perturb scores.csv --bandwidth 0.015625 --out perturbed.csv
  rscert perturb scores.csv --bandwidth 0.015625 | rscert ce -`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return runPerturb(cmd.Context(), s, args[0], o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "h" { // the name of the bandwidth in the formula
			name = "bandwidth"
		}
		return pflag.NormalizedName(name)
	})
	f.Float64Var(&o.bandwidth, "bandwidth", 0, "bandwidth `h` of the kernel; --h is the same flag")
	f.Var((*powers)(&o.auroc), "auroc", "instead of perturbed scores, print the area under the ROC curve for these `bandwidths`, such as 0.25 or 2^-2")
	integerVar(f, &o.repeats, "repeats", 1, "number of times that --auroc perturbs the scores for each bandwidth")
	f.Float64Var(&o.delta, "delta", 0.05, "largest probability that an interval of --auroc is wrong")
	f.StringSliceVar(&o.plots, "plot", nil, "draw the result of --auroc to this .svg, .png or .pdf `file`")
	integerVar(f, &o.seed, "seed", 1, "seed of the perturbation")
	integerVar(f, &o.firstRow, "first-row", 0, "row number of the first row, to continue the row numbers of another file of the same dataset")
	f.StringVar(&o.out, "out", "", "write the CSV to this `file`")
	f.BoolVar(&o.json, "json", false, "print the --auroc report as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

func positive(h float64) bool { return h > 0 && !math.IsInf(h, 0) }

func (o perturbOptions) check() error {
	switch {
	case o.firstRow < 0:
		return badInputf("--first-row %d: want 0 or more", o.firstRow)
	case len(o.auroc) == 0 && o.bandwidth == 0:
		return badInputf("want --bandwidth, or --auroc with a list of bandwidths")
	case len(o.auroc) > 0 && (o.bandwidth != 0 || o.out != ""):
		return badInputf("--auroc writes no scores: leave out --bandwidth and --out")
	case len(o.auroc) == 0 && (o.json || len(o.plots) > 0 || o.repeats != 1):
		return badInputf("--json, --plot and --repeats need --auroc; scores are written as CSV")
	case o.repeats < 1 || o.repeats > 100_000:
		return badInputf("--repeats %d: want 1 to 100000", o.repeats)
	case !(o.delta > 0 && o.delta < 1):
		return badInputf("--delta %v: want a number between 0 and 1", o.delta)
	case len(o.auroc) == 0 && !positive(o.bandwidth):
		return badInputf("--bandwidth %v: want a positive number", o.bandwidth)
	}
	for _, h := range o.auroc {
		if !positive(h) {
			return badInputf("--auroc %v: want positive bandwidths", h)
		}
	}
	return nil
}

func runPerturb(ctx context.Context, s streams, path string, o perturbOptions) error {
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if len(o.auroc) > 0 {
		columns := predictions.BinaryColumns()
		columns.Optional = append(columns.Optional, predictions.PerturbedColumns...)
		table, err := readUnweighted(ctx, s, path, o.quiet, columns)
		if err == nil {
			err = badInput(predictions.CheckUnperturbed(table))
		}
		if err != nil {
			return err
		}
		return reportAUROC(ctx, s, table, path, o)
	}
	columns := predictions.BinaryColumns()
	columns.Optional = slices.Concat(columns.Optional, predictions.WeightColumns, predictions.PerturbedColumns)
	columns.KeepOthers = true
	table, err := readTable(ctx, s, path, o.quiet, columns)
	if err == nil {
		err = badInput(predictions.CheckUnperturbed(table))
	}
	if err != nil {
		return err
	}
	scores, err := predictions.ScoresOnly(table)
	if err != nil {
		return badInput(err)
	}
	if err := warnOfScores(s, path, table, scores); err != nil {
		return err
	}
	if err := perturbScores(table, scores.Score, calib.Sech{Bandwidth: o.bandwidth, Seed: o.seed}, o.firstRow); err != nil {
		return err
	}
	if o.out == "" {
		return o.writeScores(s.out, table, scores)
	}
	var b bytes.Buffer
	if err := o.writeScores(&b, table, scores); err != nil {
		return err
	}
	if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
		return err
	}
	s.wrote(o.out)
	return nil
}

// writeScores writes the perturbed scores and, for each row, the parameters of the perturbation: the bandwidth, the
// seed and the row number. If the input has labels or weights, writeScores also writes them. It copies the other
// columns of the input, except those that describe the unperturbed scores.
func (o perturbOptions) writeScores(out io.Writer, t *table.Table, scores predictions.Scored) error {
	names := scores.Names[:1:1]
	if scores.Label != nil {
		names = append(names, scores.Names[1])
	}
	var weights [][]float64
	for _, name := range append([]string{"fitted"}, predictions.WeightColumns...) {
		if column, ok := t.Column(name); ok {
			names, weights = append(names, name), append(weights, column)
		}
	}
	names = append(names, predictions.PerturbationColumns...)
	copied := copyColumns(t, names)
	w := table.NewWriter(out)
	w.Header(append(names, copied.names...)...)
	for i, x := range scores.Score {
		w.Float(x)
		if scores.Label != nil {
			w.Float(scores.Label[i])
		}
		for _, column := range weights {
			w.Float(column[i])
		}
		w.Float(o.bandwidth)
		w.Uint(o.seed)
		w.Int(o.firstRow + i)
		copied.write(w, i)
		w.EndRow()
	}
	return w.Flush()
}

// perturbScores perturbs the scores in place. The argument 'firstRow' is the row number of the first score.
func perturbScores(t *table.Table, score []float64, k calib.Sech, firstRow int) error {
	for i, x := range score {
		if !(x >= 0 && x <= 1) {
			return badInput(predictions.LocateRow(t, calib.OutsideUnit(i, "score", x)))
		}
		score[i] = k.Perturb(x, firstRow+i)
	}
	return nil
}
