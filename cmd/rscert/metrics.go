package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/tabular"
)

// metricsOptions are the flags of metrics.
type metricsOptions struct {
	measurement
	plots       []string
	heldOut     string
	tpr         float64
	radius      *float64
	json, quiet bool
}

func newMetrics(s streams) *cobra.Command {
	var o metricsOptions
	var radius float64
	cmd := &cobra.Command{
		Use:   "metrics predictions.csv | RUN",
		Short: "Accuracy, ECE, AdaECE, MCE, Brier score and NLL with intervals",
		Long: `Metrics computes plain calibration metrics of predictions, each with a two-sided
confidence interval, and draws the reliability diagram.

The file (CSV, JSON lines or npz; .gz; - for stdin) has one of
  confidence, correct          the top label's probability; right or not (0/1)
  p0, p1, …, label             probabilities of all classes; the true class
  score, label                 the probability of class 1; the true class (0/1)
and, if wanted, weight. A run folder or votes.jsonl works too: the shares of the
votes are the probabilities. Of a file with a column radius (bounds.csv, 'acce --out')
the rows of one radius are taken; --radius chooses it where there are several.

ECE uses --bins bins of equal width, AdaECE as many of equal count. The intervals
of ECE, AdaECE, classwise ECE, MCE and Brier hold for every number of examples;
those of the calibration errors are for the binned error with each label
replaced by its probability, which the plain ECE overestimates. The interval of
the NLL is a BCa bootstrap: for small or heavy-tailed data it is too short. None
of these bounds the calibration error itself: errors within a bin cancel. See
'rscert ce'.`,
		Example: `  rscert metrics predictions.csv
  rscert metrics predictions.csv --bins 10 --plot reliability.svg --json
  rscert metrics attack.csv --radius 0.5
  rscert metrics attacked.csv --held-out clean.csv --tpr 0.99`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.radius = given(cmd, "radius", &radius)
			return runMetrics(cmd.Context(), s, args[0], o)
		},
	}
	cmd.SetFlagErrorFunc(explainFlag)
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.bins, "bins", 15, "number of bins")
	f.TextVar(&o.edge, "edge", calib.UpperClosed, "`edge` that belongs to a bin: upper, (lo,hi], or lower, [lo,hi)")
	f.Float64Var(&o.level, "level", 0.95, "confidence level of the intervals")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the bootstrap")
	f.Float64Var(&radius, "radius", 0, "take the rows with this radius")
	f.StringSliceVar(&o.plots, "plot", nil, "write the reliability diagram to this .svg or .png `file`")
	f.StringVar(&o.heldOut, "held-out", "", "clean predictions `file`: report the confidence-thresholded robust test error\n"+
		"(the input needs columns adversarial_confidence, adversarial_correct)")
	f.Float64Var(&o.tpr, "tpr", 0.99, "share of the correct held-out answers that reach the threshold")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// metricsReport is what metrics --json prints.
type metricsReport struct {
	N           int              `json:"n"`
	Classes     int              `json:"classes,omitempty"`
	Radius      *float64         `json:"radius,omitempty"` // of the rows, if it was chosen
	Weighted    bool             `json:"weighted"`
	Level       float64          `json:"level"`
	Bins        int              `json:"bins"`
	Edge        calib.Edge       `json:"edge"`
	calibration                  // embedded: its fields appear beside the others
	Rejection   *rejection       `json:"rejection,omitempty"`
	Reliability []reliabilityBin `json:"reliability"`
}

type reliabilityBin struct {
	calib.Bin
	AccuracyLow  float64 `json:"accuracy_low"`
	AccuracyHigh float64 `json:"accuracy_high"`
}

// rejection is the confidence-thresholded robust test error.
type rejection struct {
	TPR             float64       `json:"tpr"`
	Threshold       float64       `json:"threshold"`
	RobustTestError report.Number `json:"robust_test_error"`
	Unthresholded   report.Number `json:"robust_test_error_unthresholded"`
}

func runMetrics(ctx context.Context, s streams, path string, o metricsOptions) error {
	if err := o.measurement.check(); err != nil {
		return err
	}
	formats, err := pictureFormats(o.plots, path)
	if err != nil {
		return err
	}
	p, table, err := readPredictions(ctx, s, path, o.radius, o.quiet)
	if err != nil {
		return err
	}
	r := metricsReport{N: p.N(), Classes: p.Classes, Radius: o.radius, Weighted: p.Weight != nil,
		Level: o.level, Bins: o.bins, Edge: o.edge}
	if o.heldOut != "" {
		if r.Rejection, err = rejectByThreshold(ctx, s, p, table, o); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var bins []calib.Bin
	if r.calibration, bins, err = o.measure(p); err != nil {
		return err
	}
	bands := calib.Bands(p, bins, o.level)
	for k, b := range bins {
		r.Reliability = append(r.Reliability, reliabilityBin{b, bands[k][0], bands[k][1]})
	}
	title := fmt.Sprintf("%s: %d predictions, ECE %.4f", filepath.Base(displayPath(path)), p.N(), r.ECE.Value)
	for k, plot := range o.plots {
		picture, err := reliability.Draw(bins, bands, title, formats[k])
		if err != nil {
			return err
		}
		if err := durable.WriteFile(plot, picture); err != nil {
			return err
		}
	}
	if o.json {
		return report.WriteJSON(s.out, r)
	}
	return r.print(s)
}

// pictureFormats checks the files of --plot.
func pictureFormats(plots []string, input string) ([]reliability.Format, error) {
	formats := make([]reliability.Format, len(plots))
	for k, plot := range plots {
		if err := checkOutput("plot", plot, input); err != nil {
			return nil, err
		}
		var err error
		if formats[k], err = reliability.FormatOf(plot); err != nil {
			return nil, badInput(fmt.Errorf("--plot: %w", err))
		}
	}
	return formats, nil
}

func (r metricsReport) print(s streams) error {
	fmt.Fprintf(s.out, "%d predictions", r.N)
	if r.Classes > 0 {
		fmt.Fprintf(s.out, " of %d classes", r.Classes)
	}
	if r.Radius != nil {
		fmt.Fprintf(s.out, " at radius %g", *r.Radius)
	}
	if r.Weighted {
		fmt.Fprint(s.out, ", weighted")
	}
	fmt.Fprintf(s.out, "; %d bins; intervals at level %g\n\n", r.Bins, r.Level)
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""), {Decimals: 4}, {Decimals: 4}, report.TextColumn(""),
	}}
	for _, m := range r.list() {
		interval := m.interval()
		if interval == nil {
			interval = report.Text("none")
		}
		t.AddRow(report.Text(m.name), m.Value, interval, report.Text(m.Interval))
	}
	t.AddRow(report.Text("mean confidence"), report.Number(r.MeanConfidence), report.Text(""), report.Text(""))
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	if j := r.Rejection; j != nil {
		fmt.Fprintf(s.out, "\nat %g %% TPR (confidence ≥ %.6g): robust test error %.4f; without a threshold %.4f\n",
			100*j.TPR, j.Threshold, j.RobustTestError, j.Unthresholded)
	}
	return nil
}

func rejectByThreshold(
	ctx context.Context, s streams, p *calib.Predictions, table *tabular.Table, o metricsOptions,
) (*rejection, error) {
	if p.Weight != nil {
		return nil, badInputf("--held-out: examples cannot have weights")
	}
	if table == nil {
		table = &tabular.Table{} // votes have no columns
	}
	attacked, err := predictions.Attacked(table, p)
	if err != nil {
		return nil, badInput(fmt.Errorf("--held-out: %w", err))
	}
	clean, _, err := readPredictions(ctx, s, o.heldOut, nil, o.quiet)
	if err != nil {
		return nil, err
	}
	tau, err := calib.ThresholdAtTPR(clean.Confidence, clean.Correct, o.tpr)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", displayPath(o.heldOut), err))
	}
	return &rejection{
		TPR: o.tpr, Threshold: tau,
		RobustTestError: report.Number(calib.RobustTestError(attacked, tau)),
		Unthresholded:   report.Number(calib.RobustTestError(attacked, 0)),
	}, nil
}

// readPredictions reads predictions.csv, the rows of one radius of it, or the votes of a run. The table is nil for
// votes.
func readPredictions(
	ctx context.Context, s streams, path string, radius *float64, quiet bool,
) (*calib.Predictions, *tabular.Table, error) {
	if holdsVotes(path) {
		if radius != nil {
			return nil, nil, badInputf("%s: --radius is given, but votes have no radius", path)
		}
		p, err := readVotePredictions(path)
		return p, nil, badInput(err)
	}
	if runfolder.Owns(path) {
		if _, err := runfolder.Find(path); err != nil { // of a run that cannot be read, neither can its files
			return nil, nil, badInput(err)
		}
	}
	t, err := readTable(ctx, s, path, quiet, predictions.Columns())
	if err != nil {
		return nil, nil, err
	}
	if t, err = predictions.SelectRadius(t, radius); err != nil {
		return nil, nil, badInput(err)
	}
	p, err := predictions.FromTable(t)
	return p, t, badInput(err)
}

// holdsVotes reports whether path is a run folder or a file of votes.
func holdsVotes(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || strings.HasSuffix(path, runfolder.VotesFile)
}

// readVotePredictions takes the votes of a run or file as predictions.
func readVotePredictions(path string) (*calib.Predictions, error) {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	votes, err := evidence.Votes(func(certify.Votes) error { return nil })
	if err != nil {
		return nil, err
	}
	return predictions.FromVotes(path, votes)
}
