package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// temperatureOptions are the flags of the command 'temperature'.
type temperatureOptions struct {
	measurement // the seed in measurement also determines the random split
	holdout     float64
	split       bool // --holdout is given
	test, out   string
	cluster     clusterOptions
	json, quiet bool
}

func newTemperature(s streams) *cobra.Command {
	var o temperatureOptions
	cmd := &cobra.Command{
		Use:   "temperature logits.npz",
		Short: "Fit the softmax temperature, and report metrics before and after the fit",
		Long: `This command finds the temperature T > 0 that minimises the negative log-likelihood of
softmax(logits/T) (Guo et al. 2017). It reports calibration metrics before the fit (T =
1) and after it. The metrics use data that the fit did not use: a random share of the
rows (--holdout) or another file (--test). The command searches for the best T in an
interval, and widens this interval until the best T lies inside it. In the following two
cases there is no best T. If the label of every fitted row has the largest logit, the
likelihood grows as T falls to 0, and the command reports T = 0.001. If uniform
probabilities fit better than softmax(logits/T) for every T, the likelihood grows with
T, and the command reports T = 1000. In both cases the command also says that T is at
its limit.

An npz or Parquet file holds logits [N, m] and labels [N]. For two classes, a file (npz,
Parquet, CSV or JSON lines) can instead hold the log-odds of class 1 as an array
'logits' [N] or a column 'logit'. The file of --test can have another of these formats.
A logit of -Inf rules a class out. --out writes a CSV file with the probabilities of
every row at T. Its columns are p0, p1, …, label and 'fitted', which is 1 if the fit
used the row. The CSV file also has the other columns of the input, such as index. It
leaves out columns about the old predictions, such as old probabilities and confidences.

Use --cluster if rows may depend on each other, as the rows of one patient do. The value
of --cluster is the column that identifies the patient. Rows with the same value in this
column form a cluster. No cluster is in both the fit and the metrics. So --holdout is a
share of the clusters, not of the rows, and the command refuses a file of --test that
shares a cluster with the input. The metrics count every row once, and their intervals
treat the rows as independent. For intervals that allow for the clusters, apply 'rscert
metrics --cluster' to the file of --out.`,
		Example: `  rscert temperature logits.npz
  rscert temperature validation.npz --test test.npz --json
  rscert temperature logits.npz --holdout 0.3 --out calibrated.csv`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.split = given(cmd, "holdout", &o.holdout) != nil
			o.cluster.find(cmd)
			return runTemperature(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.holdout, "holdout", 0.5, "share of the rows, between 0 and 1, that the fit leaves out for the metrics; with --cluster, share of the clusters")
	f.StringVar(&o.test, "test", "", "compute the metrics on this `file`, and fit T on all rows of the input")
	clusterFlag(f, &o.cluster, "the fit uses either all rows of a cluster or none")
	integerVar(f, &o.Seed, "seed", 1, "seed of the random choices in four places: the split, the bootstrap interval of the NLL, the betting intervals of the Brier scores, and the simulated calibration test (only --json prints this test)")
	integerVar(f, &o.Bins, "bins", 15, "number of bins in ECE and AdaECE")
	f.Float64Var(&o.Level, "level", 0.95, "confidence level of the intervals")
	f.StringVar(&o.out, "out", "", "write the calibrated probabilities of every row to this CSV `file`")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// logitData returns logits [N×m] and labels.
func logitData(t *table.Table) (calibrator.Data, error) {
	logits, classes, label, err := predictions.Logits(t)
	return calibrator.Data{Input: calibrator.Logits, Values: logits, Columns: classes, Classes: classes, Label: label}, err
}

// temperatureReport is what --json prints.
type temperatureReport struct {
	Temperature float64 `json:"temperature"`
	AtLimit     bool    `json:"at_limit"`
	Classes     int     `json:"classes"`
	Fitted      int     `json:"n_fit"`
	Tested      int     `json:"n_test"`
	NLLFit      float64 `json:"nll_fit"`

	Cluster *splitClusters `json:"cluster,omitempty"`

	Level  float64     `json:"level"`
	Bins   int         `json:"bins"`
	Edge   calib.Edge  `json:"edge"`
	Before calibration `json:"before"`
	After  calibration `json:"after"`
}

func (o temperatureOptions) check() error {
	switch {
	case o.test != "" && o.split:
		return badInputf("--holdout and --test exclude each other")
	case !(o.holdout > 0 && o.holdout < 1):
		return badInputf("--holdout %v: want a number between 0 and 1", o.holdout)
	}
	return o.measurement.check()
}

func runTemperature(ctx context.Context, s streams, path string, o temperatureOptions) error {
	if err := checkOutput("out", o.out, path, o.test); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	reader := outputReader{predictions.LogitColumns(), logitData}
	all, table, err := reader.read(ctx, s, path, o.cluster, o.out != "", o.quiet)
	if err != nil {
		return err
	}
	c := newCalibrationTask(all, table)
	train, err := c.holdOut(ctx, s, reader, split{o.test, o.holdout, o.Seed, o.cluster}, o.quiet)
	if err != nil {
		return err
	}
	if c.test.Classes != all.Classes {
		return badInputf("%s: %d classes, %s has %d", c.testTable.Path, c.test.Classes, table.Path, all.Classes)
	}
	if err := warnOfOneClass(s, table.Path, train.Label); err != nil {
		return err
	}
	found, err := calib.FitTemperature(train.Values, train.Classes, train.Label)
	if err != nil {
		return fmt.Errorf("%s: %w", table.Path, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := temperatureReport{Temperature: found.Temperature, AtLimit: found.AtLimit, Classes: all.Classes,
		Fitted: train.N(), Tested: c.test.N(), NLLFit: found.NLL, Cluster: c.cluster, Level: o.Level, Bins: o.Bins, Edge: o.Edge}
	at := func(temperature float64) func([]float64) []float64 {
		return func(logits []float64) []float64 { return calib.Softmax(logits, all.Classes, temperature) }
	}
	before, after, err := c.measure(o.measurement, at(1), at(found.Temperature))
	if err != nil {
		return err
	}
	r.Before, r.After = *before, *after
	if o.out != "" {
		var b bytes.Buffer
		if err := c.writeProbabilities(&b, at(found.Temperature)(all.Values)); err != nil {
			return err
		}
		if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
			return err
		}
		s.wrote(o.out)
	}
	if o.json {
		return report.WriteJSON(s.out, "temperature", r)
	}
	return r.print(s)
}

func (r temperatureReport) print(s streams) error {
	limit := ""
	if r.AtLimit {
		limit = " (at its limit: " + noMaximum(r.Temperature) + ")"
	}
	fmt.Fprintf(s.out, "T = %.6g%s, fitted on %d rows; metrics on %d others, %d bins %s, intervals at level %g\n\n",
		r.Temperature, limit, r.Fitted, r.Tested, r.Bins, r.Edge.Brackets(), r.Level)
	if err := writeBeforeAfter(s.out, r.Before, r.After); err != nil {
		return err
	}
	r.Cluster.print(s.out)
	return nil
}
