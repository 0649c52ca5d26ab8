package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// temperatureOptions are the flags of temperature.
type temperatureOptions struct {
	measurement // its seed is the split's, too
	holdout     float64
	split       bool // by --holdout
	test, out   string
	json, quiet bool
}

func newTemperature(s streams) *cobra.Command {
	var o temperatureOptions
	cmd := &cobra.Command{
		Use:   "temperature logits.npz",
		Short: "Fit the softmax temperature, with metrics before and after",
		Long: `Temperature finds the T > 0 that minimises the negative log-likelihood of
softmax(logits/T) (Guo et al. 2017), and reports calibration metrics before (T =
1) and after on data that T was not fitted on: a random --holdout share of the
rows, or another file with --test. T is searched for until it is bracketed. If
the fitted rows are separable, the likelihood grows as T falls to 0; T then is
0.001 and said to be at its limit. If the logits are worse than none, it grows
with T, and T is 1000.

The npz or Parquet file holds logits [N, m] and labels [N]; logits [N], or a column
logit, are the log-odds of class 1 of two. -Inf rules a class out. --out writes the probabilities
of every row at T as CSV: p0 … , label, fitted (1 if T was fitted on the row).`,
		Example: `  rscert temperature logits.npz
  rscert temperature validation.npz --test test.npz --json
  rscert temperature logits.npz --holdout 0.3 --out calibrated.csv`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.split = given(cmd, "holdout", &o.holdout) != nil
			return runTemperature(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.holdout, "holdout", 0.5, "share of the rows held out for the metrics")
	f.StringVar(&o.test, "test", "", "npz `file` for the metrics; every row of the input is then fitted")
	integerVar(f, &o.seed, "seed", 1, "seed of the split and of the bootstrap")
	integerVar(f, &o.bins, "bins", 15, "number of bins of ECE and AdaECE")
	f.Float64Var(&o.level, "level", 0.95, "confidence level of the intervals")
	f.StringVar(&o.out, "out", "", "CSV `file` of probabilities to write")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// logitSet are logits [n×classes], row-major, and labels.
type logitSet struct {
	table   *table.Table
	logits  []float64
	classes int
	label   []int
}

func readLogits(ctx context.Context, s streams, path string, quiet bool) (logitSet, error) {
	t, err := readTable(ctx, s, path, quiet, predictions.LogitColumns())
	if err != nil {
		return logitSet{}, err
	}
	logits, classes, label, err := predictions.Logits(t)
	return logitSet{t, logits, classes, label}, badInput(err)
}

// pick returns the rows i with keep[i] == value.
func (l logitSet) pick(keep []bool, value bool) logitSet {
	out := logitSet{table: l.table, classes: l.classes}
	for i, k := range keep {
		if k == value {
			out.logits = append(out.logits, l.logits[i*l.classes:(i+1)*l.classes]...)
			out.label = append(out.label, l.label[i])
		}
	}
	return out
}

// temperatureReport is what --json prints.
type temperatureReport struct {
	Temperature float64     `json:"temperature"`
	AtLimit     bool        `json:"at_limit"`
	Classes     int         `json:"classes"`
	Fitted      int         `json:"n_fit"`
	Tested      int         `json:"n_test"`
	NLLFit      float64     `json:"nll_fit"`
	Level       float64     `json:"level"`
	Bins        int         `json:"bins"`
	Before      calibration `json:"before"`
	After       calibration `json:"after"`
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

// splitLogits is what a temperature is fitted on and tested on.
type splitLogits struct {
	all, fit, test logitSet
	held           []bool // rows of all that are not fitted
}

func readSplit(ctx context.Context, s streams, path string, o temperatureOptions) (d splitLogits, err error) {
	if d.all, err = readLogits(ctx, s, path, o.quiet); err != nil {
		return d, err
	}
	d.fit, d.held = d.all, make([]bool, len(d.all.label))
	if o.test != "" {
		if d.test, err = readLogits(ctx, s, o.test, o.quiet); err != nil {
			return d, err
		}
		if d.test.classes != d.all.classes {
			return d, badInputf("%s: %d classes, %s has %d",
				d.test.table.Path, d.test.classes, d.all.table.Path, d.all.classes)
		}
		return d, nil
	}
	if d.held, err = calib.Holdout(len(d.all.label), o.holdout, o.seed); err != nil {
		return d, badInput(fmt.Errorf("%s: %w", d.all.table.Path, err))
	}
	d.fit, d.test = d.all.pick(d.held, false), d.all.pick(d.held, true)
	return d, nil
}

func runTemperature(ctx context.Context, s streams, path string, o temperatureOptions) error {
	if err := checkOutput("out", o.out, path, o.test); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	d, err := readSplit(ctx, s, path, o)
	if err != nil {
		return err
	}
	found, err := calib.FitTemperature(d.fit.logits, d.fit.classes, d.fit.label)
	if err != nil {
		return fmt.Errorf("%s: %w", d.all.table.Path, err)
	}
	r := temperatureReport{Temperature: found.Temperature, AtLimit: found.AtLimit, Classes: d.all.classes,
		Fitted: len(d.fit.label), Tested: len(d.test.label), NLLFit: found.NLL, Level: o.level, Bins: o.bins}
	if r.Before, err = d.test.measure(1, o.measurement); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.After, err = d.test.measure(found.Temperature, o.measurement); err != nil {
		return err
	}
	if o.out != "" {
		var b bytes.Buffer
		if err := d.all.writeProbabilities(&b, found.Temperature, d.held); err != nil {
			return err
		}
		if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
			return err
		}
	}
	if o.json {
		return report.WriteJSON(s.out, "temperature", r)
	}
	return r.print(s)
}

// measure computes the metrics at a temperature.
func (l logitSet) measure(temperature float64, m measurement) (calibration, error) {
	p, err := calib.TopLabel(calib.Softmax(l.logits, l.classes, temperature), l.classes, l.label)
	if err != nil {
		return calibration{}, badInput(predictions.LocateRow(l.table, err))
	}
	c, _, err := m.measure(p)
	return c, err
}

// writeProbabilities writes the CSV of --out.
func (l logitSet) writeProbabilities(out io.Writer, temperature float64, held []bool) error {
	var names []string
	for k := range l.classes {
		names = append(names, "p"+strconv.Itoa(k))
	}
	w := table.NewWriter(out)
	w.Header(append(names, "label", "fitted")...)
	p := calib.Softmax(l.logits, l.classes, temperature)
	for i, y := range l.label {
		for _, x := range p[i*l.classes : (i+1)*l.classes] {
			w.Float(x)
		}
		w.Int(y)
		w.Bool(!held[i])
		w.EndRow()
	}
	return w.Flush()
}

// noMaximum says why the likelihood has no maximum.
func noMaximum(temperature float64) string {
	if temperature < 1 {
		return "every label has the largest logit, so the likelihood has no maximum"
	}
	return "the logits are worse than none, so the likelihood has no maximum"
}

func (r temperatureReport) print(s streams) error {
	limit := ""
	if r.AtLimit {
		limit = " (at its limit: " + noMaximum(r.Temperature) + ")"
	}
	fmt.Fprintf(s.out, "T = %.6g%s, fitted on %d rows; metrics on %d others, %d bins, intervals at level %g\n\n",
		r.Temperature, limit, r.Fitted, r.Tested, r.Bins, r.Level)
	return writeBeforeAfter(s.out, r.Before, r.After)
}

// writeBeforeAfter prints the metrics of the same examples before and after a map.
func writeBeforeAfter(w io.Writer, before, after calibration) error {
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""),
		{Name: "before", Decimals: 4}, {Decimals: 4}, {Name: "after", Decimals: 4}, {Decimals: 4},
	}}
	then := map[string]*estimate{}
	for _, m := range after.list() {
		then[m.name] = m.estimate
	}
	for _, m := range before.list() {
		var value, interval report.Cell
		if e := then[m.name]; e != nil { // some need answers of both kinds
			value, interval = e.Value, e.interval()
		}
		t.AddRow(report.Text(m.name), m.Value, m.interval(), value, interval)
	}
	return t.WriteText(w)
}
