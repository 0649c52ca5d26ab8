package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// calibrateOptions are the flags of calibrate.
type calibrateOptions struct {
	measurement // its seed is also the seed of the random split
	method      calibrator.Method
	fit         calibrator.Options
	holdout     float64
	split       bool // --holdout is given
	fitting     bool // --method is given
	heldOut     string
	cluster     clusterOptions
	apply       string
	save, onnx  string
	out         string
	json, quiet bool
}

func newCalibrate(s streams) *cobra.Command {
	var o calibrateOptions
	cmd := &cobra.Command{
		Use:   "calibrate outputs.npz",
		Short: "Fit a map from a model's outputs to calibrated probabilities; save it as JSON and ONNX",
		Long: `This command fits a calibration map on labelled outputs of a model. It reports metrics
before and after calibration. It computes these metrics on data that the fit did not
use: on a random share of the rows (--holdout) or on another file (--held-out). With
--apply, it applies a saved map and fits nothing.

The list shows the map of each method:

` + calibrator.Help() + `

Here σ is the logistic function, z is the vector of logits, d is the log-odds of a class
(limited to ±30), s is the probability of this class, and p is the vector of all
probabilities. The letters T, w, W, a, b and c are fitted parameters. The methods
'vector' and 'matrix' penalise the squared distance of the map from the identity map.
The last five methods of the list ('platt' to 'histogram') map a single probability. For
two classes, they map the probability of class 1. For more classes, the method maps the
probability of each class separately and divides the results by their sum.

The file (npz, Parquet, CSV or JSON lines) holds the labels in the column or array
'label'. The file also holds the outputs of the model in one of these forms: 'logits'
[N, m] for N rows and m classes; 'logit', the log-odds of class 1 of two classes; the
probabilities p0, p1, …; or 'score', the probability of class 1 of two classes.

Use --cluster if rows may depend on each other, such as the rows of one patient. The
value of --cluster is the column that identifies the patient. Rows with the same value
in this column form a cluster. No cluster is in both the fit and the metrics. Therefore
--holdout is a share of the clusters, not of the rows. The command refuses a file of
--held-out that shares a cluster with the file of the fit. The metrics count every row
once, and the intervals of the metrics treat the rows as independent. For intervals that
allow for the clusters, apply 'rscert metrics --cluster' to the file of --out.

--out writes the calibrated probabilities of every row as CSV with the columns p0, p1,
…, label and fitted (1 if the map was fitted on the row). With the method venn-abers,
--out also writes p₀ and p₁, the values of the two isotonic maps in the list above. For
two classes, the columns va_p0 and va_p1 hold p₀ and p₁ of class 1. For more classes,
the columns va_p0_0 and va_p1_0 hold p₀ and p₁ of class 0, and so on for each class.
--out also keeps the other columns of the file, such as index, but not columns about the
uncalibrated outputs (score, logit, correct, …).

--save writes the map as JSON. --onnx writes the map as an ONNX graph (float32,
operator set 13). The graph has one input, named "outputs", which takes the outputs of
the model. Append the graph to the model with onnx.compose.merge_models in Python.`,
		Example: `  rscert calibrate logits.npz --method temperature --save map.json --onnx map.onnx
  rscert calibrate validation.npz --held-out test.npz --method matrix --l2 0.01
  rscert calibrate scores.csv --method isotonic --save map.json
  rscert calibrate visits.csv --method platt --cluster patient --out calibrated.csv
  rscert calibrate new.csv --apply map.json --out calibrated.csv`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.split = given(cmd, "holdout", &o.holdout) != nil
			o.fitting = given(cmd, "method", &o.method) != nil
			o.cluster.find(cmd)
			return runCalibrate(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	maps := calibrator.Choices()
	choiceVar(f, &o.method, "method", calibrator.Methods[0], maps, "`method` that fits the map: "+maps.String())
	f.Float64Var(&o.fit.L2, "l2", 1e-3, "weight of the penalty of the methods 'vector', 'matrix' and 'dirichlet'")
	choiceVar(f, &o.fit.Penalty, "penalty", calibrator.ODIR, calibrator.Penalties, "`parameters` whose squares the method 'dirichlet' penalises: "+calibrator.Penalties.Described())
	f.Float64Var(&o.fit.L2Bias, "l2-bias", 1e-3, "weight of the penalty on the squared biases, for 'dirichlet' with --penalty odir")
	integerVar(f, &o.fit.Bins, "histogram-bins", 15, "number of bins of the method 'histogram'")
	group(cmd, "The map")
	f.Float64Var(&o.holdout, "holdout", 0.5, "share of the rows that the fit leaves out for the metrics; with --cluster, share of the clusters")
	f.StringVar(&o.heldOut, "held-out", "", "compute the metrics on this `file`, and fit the map on all rows of the input")
	clusterFlag(f, &o.cluster, "the fit uses either all rows of a cluster or none")
	group(cmd, "Test data")
	f.StringVar(&o.apply, "apply", "", "apply the map in this JSON `file` instead of fitting a map")
	f.StringVar(&o.save, "save", "", "write the map to this JSON `file`")
	f.StringVar(&o.onnx, "onnx", "", "write the map to this ONNX `file`")
	f.StringVar(&o.out, "out", "", "write the calibrated probabilities of every row to this CSV `file`")
	group(cmd, "Files")
	integerVar(f, &o.Seed, "seed", 1, "seed of the random choices in four places: the split, the bootstrap interval of the NLL, the betting intervals of the Brier scores, and the simulated calibration test (only --json prints this test)")
	integerVar(f, &o.Bins, "bins", 15, "number of bins in ECE and AdaECE")
	f.Float64Var(&o.Level, "level", 0.95, "confidence level of the intervals")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

func (o calibrateOptions) checkFlags(path string) error {
	switch {
	case o.heldOut != "" && o.split:
		return badInputf("--holdout and --held-out exclude each other")
	case o.apply != "" && (o.fitting || o.split || o.heldOut != "" || o.cluster.set):
		return badInputf("--apply fits nothing: leave out --method, --holdout, --held-out and --cluster")
	case !(o.holdout > 0 && o.holdout < 1):
		return badInputf("--holdout %v: want a number between 0 and 1", o.holdout)
	case o.fit.Bins < 1:
		return badInputf("--histogram-bins %d: want 1 or more", o.fit.Bins)
	case !(o.fit.L2 > 0 && o.fit.L2 <= 1e6):
		return badInputf("--l2 %v: want a number above 0, at most 1e6", o.fit.L2)
	case !(o.fit.L2Bias > 0 && o.fit.L2Bias <= 1e6):
		return badInputf("--l2-bias %v: want a number above 0, at most 1e6", o.fit.L2Bias)
	}
	for _, file := range []struct{ flag, path string }{{"save", o.save}, {"onnx", o.onnx}, {"out", o.out}} {
		if err := checkOutput(file.flag, file.path, path, o.heldOut, o.apply); err != nil {
			return err
		}
	}
	return o.measurement.check()
}

// calibrateReport is what --json prints.
type calibrateReport struct {
	Method  string         `json:"method"`
	Input   string         `json:"input"`
	Classes int            `json:"classes"`
	Fitted  int            `json:"n_fit"`
	Tested  int            `json:"n_test"`
	Cluster *splitClusters `json:"cluster,omitempty"`
	Level   float64        `json:"level"`
	Bins    int            `json:"bins"`
	Edge    calib.Edge     `json:"edge"`
	Map     calibrator.Map `json:"map"`
	Before  *calibration   `json:"before,omitempty"` // nil without labels
	After   *calibration   `json:"after,omitempty"`
}

func runCalibrate(ctx context.Context, s streams, path string, o calibrateOptions) error {
	if err := o.checkFlags(path); err != nil {
		return err
	}
	all, table, err := classifierOutputs().read(ctx, s, path, o.cluster, o.out != "", o.quiet)
	if err != nil {
		return err
	}
	c := newCalibrationTask(all, table)
	if o.apply != "" {
		if err = c.readMap(o.apply); err == nil {
			err = errors.Join(c.warnOfFittedRows(s, o.apply), warnOfOutputs(s, c.table.Path, c.all, false, o.cluster))
		}
	} else {
		err = c.fit(ctx, s, o)
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := calibrateReport{Method: c.found.Method, Input: string(c.found.Input), Classes: c.found.Classes, Cluster: c.cluster, Level: o.Level, Edge: o.Edge,
		Bins: o.Bins, Map: c.found, Tested: c.test.N()}
	for _, fitted := range c.fitted {
		if fitted {
			r.Fitted++
		}
	}
	if c.test.Label != nil {
		if r.Before, r.After, err = c.measure(o.measurement, calibrator.Identity(c.test).Apply, c.found.Apply); err != nil {
			return err
		}
	}
	if err := c.write(o); err != nil {
		return err
	}
	s.wrote(o.save, o.onnx, o.out)
	if o.json {
		return report.WriteJSON(s.out, "calibrate", r)
	}
	return r.print(s.out)
}

// calibrationTask holds the rows and the calibration map for one call of the command 'calibrate' or 'temperature'.
type calibrationTask struct {
	all, test        calibrator.Data
	table, testTable *table.Table
	rows             []int  // for each row of 'test', its index in testTable; nil if 'test' has all rows of testTable
	fitted           []bool // for each row of the field 'all', whether the map was fitted on it
	found            calibrator.Map
	cluster          *splitClusters // nil without --cluster
	refit            bool           // whether the saved map was fitted on some of the rows of 'all'
}

// outputReader reads the outputs of a classifier from the columns of a file.
type outputReader struct {
	columns table.Options
	parse   func(t *table.Table) (calibrator.Data, error)
}

// classifierOutputs returns a reader of probabilities, scores or logits.
func classifierOutputs() outputReader {
	return outputReader{predictions.OutputColumns(), predictions.Outputs}
}

// read reads a file. If keepOthers is set, the table also keeps the other columns of the file.
func (r outputReader) read(
	ctx context.Context, s streams, path string, cluster clusterOptions, keepOthers, quiet bool,
) (calibrator.Data, *table.Table, error) {
	r.columns.KeepOthers = keepOthers
	t, err := cluster.readUnfitted(ctx, s, path, quiet, r.columns)
	if err != nil {
		return calibrator.Data{}, nil, err
	}
	d, err := r.parse(t)
	return d, t, badInput(err)
}

func newCalibrationTask(all calibrator.Data, table *table.Table) calibrationTask {
	return calibrationTask{all: all, table: table, test: all, testTable: table, fitted: make([]bool, all.N())}
}

// holdOut splits off the test data and returns the rows that remain for the fit. If the test data are in a separate
// file, it returns all rows.
func (c *calibrationTask) holdOut(ctx context.Context, s streams, reader outputReader, o split, quiet bool) (train calibrator.Data, err error) {
	// Look for copied rows before the split: a random split can put copies of one row on both sides.
	if err := warnOfOutputs(s, c.table.Path, c.all, true, o.cluster); err != nil {
		return train, err
	}
	if o.file != "" {
		if c.test, c.testTable, err = reader.read(ctx, s, o.file, o.cluster, false, quiet); err != nil {
			return train, err
		}
		if err := warnOfOutputs(s, c.testTable.Path, c.test, false, o.cluster); err != nil {
			return train, err
		}
		for i := range c.fitted {
			c.fitted[i] = true
		}
		if err := c.checkHeldOut(s, o.file); err != nil || !o.cluster.set {
			return c.all, err
		}
		_, err := c.holdOutClusters(s, o)
		return c.all, err
	}
	held, err := c.drawHeldOut(s, o)
	if err != nil {
		return train, err
	}
	train, c.test = c.all.Split(held)
	for i, h := range held {
		c.fitted[i] = !h
		if h {
			c.rows = append(c.rows, i)
		}
	}
	return train, nil
}

// drawHeldOut draws the rows of the input that are held out: rows at random or, with --cluster, whole clusters.
func (c *calibrationTask) drawHeldOut(s streams, o split) ([]bool, error) {
	if o.cluster.set {
		return c.holdOutClusters(s, o)
	}
	held, err := calib.Holdout(c.all.N(), o.share, o.seed)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", c.table.Path, err))
	}
	return held, nil
}

// split says which rows are held out for testing. The other rows are for fitting.
type split struct {
	file    string  // test data; "": the test data are a part of the input
	share   float64 // share of the rows that is held out; with --cluster, share of the clusters that is held out
	seed    uint64
	cluster clusterOptions
}

func (c *calibrationTask) readMap(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return badInput(err)
	}
	if c.found, err = calibrator.Parse(content); err != nil {
		return badInput(fmt.Errorf("%s: %w", path, err))
	}
	return c.sameShape(c.all, c.table.Path, path)
}

// sameShape returns an error if the map cannot be applied to the outputs d.
func (c *calibrationTask) sameShape(d calibrator.Data, path, other string) error {
	if m := c.found; d.Input != m.Input || d.Columns != m.Columns {
		return badInputf("%s: has %d columns of %s, but %s takes %d of %s", path, d.Columns, d.Input, other, m.Columns, m.Input)
	}
	if len(c.found.Weight) > 1 && c.found.Before == nil && slices.ContainsFunc(d.Values, func(x float64) bool { return math.IsInf(x, 0) }) {
		return badInputf("%s: has logits of -Inf, which a %s map cannot use", path, c.found.Method)
	}
	return nil
}

// fit fits the map on the rows that are not held out for testing.
func (c *calibrationTask) fit(ctx context.Context, s streams, o calibrateOptions) error {
	if c.all.Label == nil {
		return badInputf("%s: no column label: fitting needs labels", c.table.Path)
	}
	train, err := c.holdOut(ctx, s, classifierOutputs(), split{o.heldOut, o.holdout, o.Seed, o.cluster}, o.quiet)
	if err != nil {
		return err
	}
	if err := warnOfOneClass(s, c.table.Path, train.Label); err != nil {
		return err
	}
	found, err := o.method.Fit(train, o.fit)
	if err != nil {
		return badInput(predictions.LocateRow(c.table, err))
	}
	c.found = found
	if err := c.sameShape(c.test, c.testTable.Path, c.table.Path); err != nil || found.AtLimit {
		return err
	}
	return warnOfSeparated(s, c.table.Path, train)
}

// measure computes the metrics of the test rows before and after calibration.
func (c *calibrationTask) measure(m measurement, plain, mapped func(values []float64) []float64) (before, after *calibration, err error) {
	for _, step := range []struct {
		to    **calibration
		apply func(values []float64) []float64
	}{{&before, plain}, {&after, mapped}} {
		p, err := predictionsOf(step.apply(c.test.Values), c.test)
		if err == nil {
			var metrics calib.Metrics
			metrics, err = calib.Measure(p, m.MetricOptions)
			values := newCalibration(metrics)
			*step.to = &values
		}
		if err != nil {
			var row *calib.RowError
			if errors.As(err, &row) && c.rows != nil {
				row.Row = c.rows[row.Row]
			}
			return nil, nil, badInput(predictions.LocateRow(c.testTable, err))
		}
	}
	return before, after, nil
}

// predictionsOf makes predictions from probabilities. The predictions are about class 1 if the outputs have one column,
// and about the top label otherwise.
func predictionsOf(probability []float64, d calibrator.Data) (*calib.Predictions, error) {
	p, err := calib.TopLabel(probability, d.Classes, d.Label)
	if err == nil && d.Columns == 1 {
		return predictions.SelectClassOne(p)
	}
	return p, err
}
