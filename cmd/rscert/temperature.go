package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/tabular"
)

// temperatureOptions are the flags of temperature as given.
type temperatureOptions struct {
	holdout float64
	test    string
	seed    uint64
	bins    int
	level   float64
	out     string
	json    bool
	quiet   bool
}

func newTemperature(s streams) *cobra.Command {
	var o temperatureOptions
	cmd := &cobra.Command{
		Use:   "temperature logits.npz",
		Short: "Fit the softmax temperature, with metrics before and after",
		Long: `Temperature finds the T > 0 that minimises the negative log-likelihood of
softmax(logits/T) (Guo et al. 2017), and reports calibration metrics before (T =
1) and after on data that T was not fitted on: a random --holdout share of the
rows, or another file with --test. If the fitted rows are separable, the
likelihood grows as T falls to 0; T then is 0.001 and said to be at its limit.

The npz file holds logits [N, m] and labels [N]. --out writes the probabilities
of every row at T as CSV: p0 … , label, fitted (1 if T was fitted on the row).`,
		Example: `  rscert temperature logits.npz
  rscert temperature validation.npz --test test.npz --json
  rscert temperature logits.npz --holdout 0.3 --out calibrated.csv`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			split := cmd.Flags().Changed("holdout")
			return runTemperature(cmd.Context(), s, args[0], o, split)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.holdout, "holdout", 0.5, "share of the rows held out for the metrics")
	f.StringVar(&o.test, "test", "", "npz `file` for the metrics; every row of the input is then fitted")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the split and of the bootstrap")
	f.IntVar(&o.bins, "bins", 15, "number of bins of ECE and AdaECE")
	f.Float64Var(&o.level, "level", 0.95, "confidence level of the intervals")
	f.StringVar(&o.out, "out", "", "CSV `file` of probabilities to write")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// logitSet are logits [n×classes], row-major, and labels.
type logitSet struct {
	table   *tabular.Table
	logits  []float64
	classes int
	label   []int
}

func readLogits(ctx context.Context, s streams, path string, quiet bool) (logitSet, error) {
	t, err := readTable(ctx, s, path, quiet, tabular.Options{Required: []string{"logits"}, Optional: []string{"labels", "label"}, Matrices: []string{"logits"}})
	if err != nil {
		return logitSet{}, err
	}
	m, ok := t.Matrix("logits")
	if !ok || m.Cols < 2 {
		return logitSet{}, badInputf("%s: logits: want an array [N, m] with m ≥ 2 classes", t.Path)
	}
	for _, name := range []string{"labels", "label"} {
		if column, ok := t.Column(name); ok {
			label, err := integers(t, name, column)
			return logitSet{t, m.Data, m.Cols, label}, err
		}
	}
	return logitSet{}, badInputf("%s: no array \"labels\"", t.Path)
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

func runTemperature(ctx context.Context, s streams, path string, o temperatureOptions, split bool) error {
	if err := checkOutput("out", o.out, path, o.test); err != nil {
		return err
	}
	switch {
	case o.test != "" && split:
		return badInputf("--holdout and --test exclude each other")
	case !(o.holdout > 0 && o.holdout < 1):
		return badInputf("--holdout %v: want a number between 0 and 1", o.holdout)
	case o.bins < 1 || o.bins > 1_000_000:
		return badInputf("--bins %d: want 1 to 1000000", o.bins)
	case !(o.level > 0 && o.level < 1):
		return badInputf("--level %v: want a number between 0 and 1", o.level)
	}
	all, err := readLogits(ctx, s, path, o.quiet)
	if err != nil {
		return err
	}
	// Every label is checked before any row is used.
	for i, y := range all.label {
		if y < 0 || y >= all.classes {
			return badInput(all.table.Errorf(i, "label %d is outside 0 to %d", y, all.classes-1))
		}
	}
	fit, test := all, logitSet{}
	held := make([]bool, len(all.label))
	if o.test != "" {
		if test, err = readLogits(ctx, s, o.test, o.quiet); err != nil {
			return err
		}
		if test.classes != all.classes {
			return badInputf("%s: %d classes, %s has %d", test.table.Path, test.classes, all.table.Path, all.classes)
		}
	} else {
		if held, err = calib.Holdout(len(all.label), o.holdout, o.seed); err != nil {
			return badInput(fmt.Errorf("%s: %w", all.table.Path, err))
		}
		fit, test = all.pick(held, false), all.pick(held, true)
	}
	found, err := calib.FitTemperature(fit.logits, fit.classes, fit.label)
	if err != nil {
		return fmt.Errorf("%s: %w", all.table.Path, err)
	}
	r := temperatureReport{Temperature: found.Temperature, AtLimit: found.AtLimit, Classes: all.classes, Fitted: len(fit.label),
		Tested: len(test.label), NLLFit: found.NLL, Level: o.level, Bins: o.bins}
	for _, at := range []struct {
		t   float64
		out *calibration
	}{{1, &r.Before}, {found.Temperature, &r.After}} {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := calib.TopLabel(calib.Softmax(test.logits, test.classes, at.t), test.classes, test.label)
		if err != nil {
			return rowError(test.table, err)
		}
		if *at.out, _, err = measure(p, o.bins, calib.UpperClosed, o.level, o.seed); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := durable.WriteFile(o.out, all.calibrated(found.Temperature, held)); err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.print(s)
}

// calibrated is the CSV of --out.
func (l logitSet) calibrated(t float64, held []bool) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	for k := range l.classes {
		fmt.Fprintf(w, "p%d,", k)
	}
	fmt.Fprintln(w, "label,fitted")
	p := calib.Softmax(l.logits, l.classes, t)
	var line []byte
	for i, y := range l.label {
		line = line[:0]
		for _, x := range p[i*l.classes : (i+1)*l.classes] {
			line = append(strconv.AppendFloat(line, x, 'g', -1, 64), ',')
		}
		line = append(strconv.AppendInt(line, int64(y), 10), ',')
		if held[i] {
			line = append(line, '0', '\n')
		} else {
			line = append(line, '1', '\n')
		}
		_, _ = w.Write(line)
	}
	_ = w.Flush() // to memory
	return b.Bytes()
}

func (r temperatureReport) print(s streams) error {
	limit := ""
	if r.AtLimit {
		limit = " (at the limit of the search: the likelihood has no maximum)"
	}
	fmt.Fprintf(s.out, "T = %.6g%s, fitted on %d rows; metrics on %d others, %d bins, intervals at level %g\n\n",
		r.Temperature, limit, r.Fitted, r.Tested, r.Bins, r.Level)
	var after []*estimate
	r.After.each(func(_ string, e *estimate) { after = append(after, e) })
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "  \tbefore\t\tafter\t\n")
	cell := func(e *estimate) string {
		if math.IsNaN(float64(e.Low)) {
			return fmt.Sprintf("%.4f\t", float64(e.Value))
		}
		return fmt.Sprintf("%.4f\t%s", float64(e.Value), e.interval())
	}
	k := 0
	r.Before.each(func(name string, e *estimate) {
		fmt.Fprintln(t, strings.Join([]string{"  " + name, cell(e), cell(after[k])}, "\t"))
		k++
	})
	return t.Flush()
}
