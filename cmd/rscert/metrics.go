package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/tabular"
)

// metricsOptions are the flags of metrics as given.
type metricsOptions struct {
	bins    int
	edge    string
	level   float64
	seed    uint64
	plots   []string
	heldOut string
	tpr     float64
	json    bool
	quiet   bool
}

func newMetrics(s streams) *cobra.Command {
	var o metricsOptions
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
votes are the probabilities.

ECE uses --bins bins of equal width, AdaECE as many of equal count. The intervals
of ECE, AdaECE, classwise ECE, MCE and Brier hold for every number of examples;
those of the calibration errors are for the binned error with each label
replaced by its probability, which the plain ECE overestimates. The interval of
the NLL is a BCa bootstrap: for small or heavy-tailed data it is too short. None
of these bounds the calibration error itself: errors within a bin cancel. See
'rscert ce'.`,
		Example: `  rscert metrics predictions.csv
  rscert metrics predictions.csv --bins 10 --plot reliability.svg --json
  rscert metrics attacked.csv --held-out clean.csv --tpr 0.99`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return runMetrics(cmd.Context(), s, args[0], o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.bins, "bins", 15, "number of bins")
	f.StringVar(&o.edge, "edge", "upper", "edge that belongs to a bin: upper, (lo,hi], or lower, [lo,hi)")
	f.Float64Var(&o.level, "level", 0.95, "confidence level of the intervals")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the bootstrap")
	f.StringSliceVar(&o.plots, "plot", nil, "write the reliability diagram to this .svg or .png `file`")
	f.StringVar(&o.heldOut, "held-out", "", "clean predictions `file`: report the confidence-thresholded robust test error\n(the input needs columns adversarial_confidence, adversarial_correct)")
	f.Float64Var(&o.tpr, "tpr", 0.99, "share of the correct held-out answers that reach the threshold")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

func parseEdge(s string) (calib.Edge, error) {
	switch s {
	case "upper":
		return calib.UpperClosed, nil
	case "lower":
		return calib.LowerClosed, nil
	}
	return 0, badInputf("--edge %q: want upper or lower", s)
}

// number is a float64 that JSON writes as null where it is not finite.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// estimate is a metric and its interval as printed.
type estimate struct {
	Value    number `json:"value"`
	Low      number `json:"low"`
	High     number `json:"high"`
	Interval string `json:"interval"`
}

func newEstimate(e calib.Estimate) *estimate {
	return &estimate{number(e.Value), number(e.Lower), number(e.Upper), string(e.Method)}
}

// interval prints the ends, rounded outward.
func (e *estimate) interval() string {
	return fmt.Sprintf("[%s, %s]", floorDecimals(float64(e.Low), 4), ceilDecimals(float64(e.High), 4))
}

// metricsReport is what metrics --json prints.
type metricsReport struct {
	N           int              `json:"n"`
	Classes     int              `json:"classes,omitempty"`
	Weighted    bool             `json:"weighted"`
	Level       float64          `json:"level"`
	Bins        int              `json:"bins"`
	Edge        string           `json:"edge"`
	calibration                  // embedded: its fields appear beside the others
	Rejection   *rejection       `json:"rejection,omitempty"`
	Reliability []reliabilityBin `json:"reliability"`
}

// calibration are the metrics of one set of predictions.
type calibration struct {
	Accuracy       *estimate `json:"accuracy"`
	MeanConfidence float64   `json:"mean_confidence"`
	ECE            *estimate `json:"ece"`
	AdaECE         *estimate `json:"adaece"`
	MCE            *estimate `json:"mce"`
	Brier          *estimate `json:"brier"`
	NLL            *estimate `json:"nll,omitempty"`           // of the probability vectors
	TopLabelNLL    *estimate `json:"top_label_nll,omitempty"` // where these are not known
	ClasswiseECE   *estimate `json:"classwise_ece,omitempty"`
}

type reliabilityBin struct {
	calib.Bin
	AccuracyLow  float64 `json:"accuracy_low"`
	AccuracyHigh float64 `json:"accuracy_high"`
}

// rejection is the confidence-thresholded robust test error.
type rejection struct {
	TPR             float64 `json:"tpr"`
	Threshold       float64 `json:"threshold"`
	RobustTestError number  `json:"robust_test_error"`
	Unthresholded   number  `json:"robust_test_error_unthresholded"`
}

// measure computes every metric that p allows, and the bins of the ECE.
func measure(p *calib.Predictions, bins int, edge calib.Edge, level float64, seed uint64) (calibration, []calib.Bin, error) {
	width, err := calib.EqualWidth(p, bins, edge)
	if err != nil {
		return calibration{}, nil, err
	}
	count, err := calib.EqualCount(p, bins)
	if err != nil {
		return calibration{}, nil, err
	}
	c := calibration{
		Accuracy:       newEstimate(calib.AccuracyEstimate(p, level)),
		MeanConfidence: p.MeanConfidence(),
		ECE:            newEstimate(calib.ECEEstimate(p, width, level)),
		AdaECE:         newEstimate(calib.ECEEstimate(p, count, level)),
		MCE:            newEstimate(calib.MCEEstimate(p, width, level)),
		Brier:          newEstimate(calib.BrierEstimate(p, level)),
	}
	nll := newEstimate(calib.NLLEstimate(p, level, seed))
	if p.Probability == nil {
		c.TopLabelNLL = nll
		return c, width, nil
	}
	c.NLL = nll
	classwise, err := calib.ClasswiseEstimate(p, bins, edge, level)
	if err != nil {
		return calibration{}, nil, err
	}
	c.ClasswiseECE = newEstimate(classwise)
	return c, width, nil
}

func runMetrics(ctx context.Context, s streams, path string, o metricsOptions) error {
	edge, err := parseEdge(o.edge)
	if err != nil {
		return err
	}
	if o.bins < 1 || o.bins > 1_000_000 {
		return badInputf("--bins %d: want 1 to 1000000", o.bins)
	}
	if !(o.level > 0 && o.level < 1) {
		return badInputf("--level %v: want a number between 0 and 1", o.level)
	}
	formats := make([]reliability.Format, len(o.plots))
	for k, plot := range o.plots {
		if err := checkOutput("plot", plot, path); err != nil {
			return err
		}
		if formats[k], err = reliability.FormatOf(plot); err != nil {
			return badInput(fmt.Errorf("--plot: %w", err))
		}
	}
	p, table, err := readPredictions(ctx, s, path, o.quiet)
	if err != nil {
		return err
	}
	r := metricsReport{N: p.N(), Classes: p.Classes, Weighted: p.Weight != nil, Level: o.level, Bins: o.bins, Edge: o.edge}
	if o.heldOut != "" {
		if r.Rejection, err = rejectionOf(ctx, s, p, table, o); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var bins []calib.Bin
	if r.calibration, bins, err = measure(p, o.bins, edge, o.level, o.seed); err != nil {
		return err
	}
	bands := calib.Bands(p, bins, o.level)
	for k, b := range bins {
		r.Reliability = append(r.Reliability, reliabilityBin{b, bands[k][0], bands[k][1]})
	}
	for k, plot := range o.plots {
		title := fmt.Sprintf("%s: %d predictions, ECE %.4f", filepath.Base(displayPath(path)), p.N(), float64(r.ECE.Value))
		picture, err := reliability.Draw(bins, bands, title, formats[k])
		if err != nil {
			return err
		}
		if err := durable.WriteFile(plot, picture); err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.print(s)
}

func (r metricsReport) print(s streams) error {
	fmt.Fprintf(s.out, "%d predictions", r.N)
	if r.Classes > 0 {
		fmt.Fprintf(s.out, " of %d classes", r.Classes)
	}
	if r.Weighted {
		fmt.Fprint(s.out, ", weighted")
	}
	fmt.Fprintf(s.out, "; %d bins; intervals at level %g\n\n", r.Bins, r.Level)
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	r.each(func(name string, e *estimate) {
		interval := "none"
		if !math.IsNaN(float64(e.Low)) {
			interval = e.interval()
		}
		fmt.Fprintf(t, "  %s\t%.4f\t%s\t%s\n", name, float64(e.Value), interval, e.Interval)
	})
	fmt.Fprintf(t, "  mean confidence\t%.4f\t\t\n", r.MeanConfidence)
	if err := t.Flush(); err != nil {
		return err
	}
	if j := r.Rejection; j != nil {
		fmt.Fprintf(s.out, "\nat %g %% TPR (confidence ≥ %.6g): robust test error %.4f; without a threshold %.4f\n",
			100*j.TPR, j.Threshold, float64(j.RobustTestError), float64(j.Unthresholded))
	}
	return nil
}

// each calls f for the metrics there are, in the order they are printed.
func (c calibration) each(f func(name string, e *estimate)) {
	for _, row := range []struct {
		name string
		e    *estimate
	}{
		{"accuracy", c.Accuracy}, {"ECE", c.ECE}, {"AdaECE", c.AdaECE}, {"MCE", c.MCE}, {"classwise ECE", c.ClasswiseECE},
		{"Brier (top label)", c.Brier}, {"NLL", c.NLL}, {"NLL (top label)", c.TopLabelNLL},
	} {
		if row.e != nil {
			f(row.name, row.e)
		}
	}
}

const (
	adversarialConfidence = "adversarial_confidence"
	adversarialCorrect    = "adversarial_correct"
)

func rejectionOf(ctx context.Context, s streams, p *calib.Predictions, table *tabular.Table, o metricsOptions) (*rejection, error) {
	if p.Weight != nil {
		return nil, badInputf("--held-out: examples cannot have weights")
	}
	var conf, correct []float64
	if table != nil {
		conf, _ = table.Column(adversarialConfidence)
		correct, _ = table.Column(adversarialCorrect)
	}
	if conf == nil || correct == nil {
		return nil, badInputf("--held-out: the input needs columns %s and %s", adversarialConfidence, adversarialCorrect)
	}
	attacked := make([]calib.Attacked, p.N())
	for i := range attacked {
		if !(conf[i] >= 0 && conf[i] <= 1) {
			return nil, badInput(table.Errorf(i, "%s %v is outside [0, 1]", adversarialConfidence, conf[i]))
		}
		right, err := zeroOne(table, i, adversarialCorrect, correct[i])
		if err != nil {
			return nil, err
		}
		attacked[i] = calib.Attacked{Correct: p.Correct[i], AdversarialCorrect: right, Confidence: p.Confidence[i], AdversarialConfidence: conf[i]}
	}
	clean, _, err := readPredictions(ctx, s, o.heldOut, o.quiet)
	if err != nil {
		return nil, err
	}
	tau, err := calib.ThresholdAtTPR(clean.Confidence, clean.Correct, o.tpr)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", displayPath(o.heldOut), err))
	}
	return &rejection{o.tpr, tau, number(calib.RobustTestError(attacked, tau)), number(calib.RobustTestError(attacked, 0))}, nil
}

// probabilityColumn matches the columns of a probability vector: p0, prob_3,
// score12, class7.
var probabilityColumn = regexp.MustCompile(`^(?:p|prob|probability|score|class)_?(\d+)$`)

// readPredictions reads predictions.csv or the votes of a run. The table is nil
// for votes.
func readPredictions(ctx context.Context, s streams, path string, quiet bool) (*calib.Predictions, *tabular.Table, error) {
	if info, err := os.Stat(path); (err == nil && info.IsDir()) || strings.HasSuffix(path, runfolder.VotesFile) {
		p, err := predictionsOfVotes(path)
		return p, nil, badInput(err)
	}
	t, err := readTable(ctx, s, path, quiet, tabular.Options{
		Optional: []string{"confidence", "correct", "score", "label", "weight", adversarialConfidence, adversarialCorrect},
		Match:    probabilityColumn.MatchString,
		Matrices: []string{"probabilities", "scores"},
	})
	if err != nil {
		return nil, nil, err
	}
	p, err := predictionsOf(t)
	if err != nil {
		return nil, nil, err
	}
	p.Weight, _ = t.Column("weight")
	if err := p.Check(); err != nil {
		return nil, nil, rowError(t, err)
	}
	return p, t, nil
}

func predictionsOf(t *tabular.Table) (*calib.Predictions, error) {
	confidence, ok1 := t.Column("confidence")
	correct, ok2 := t.Column("correct")
	if ok1 && ok2 {
		p := &calib.Predictions{Confidence: confidence, Correct: make([]bool, t.N)}
		for i, y := range correct {
			right, err := zeroOne(t, i, "correct", y)
			if err != nil {
				return nil, err
			}
			p.Correct[i] = right
		}
		return p, nil
	}
	probability, classes, err := probabilities(t)
	if err != nil {
		return nil, err
	}
	if label, ok := t.Column("label"); ok && classes > 0 {
		classOf, err := integers(t, "label", label)
		if err != nil {
			return nil, err
		}
		p, err := calib.TopLabel(probability, classes, classOf)
		if err != nil {
			return nil, rowError(t, err)
		}
		return p, nil
	}
	found := "none of them"
	if names := t.Names(); len(names) > 0 {
		found = "only " + strings.Join(names, ", ")
	}
	return nil, badInputf("%s: want columns confidence and correct, or p0, p1, … and label, or score and label; found %s", t.Path, found)
}

// probabilities collects the probability vectors; classes is 0 if there are
// none.
func probabilities(t *tabular.Table) (probability []float64, classes int, err error) {
	for _, name := range []string{"probabilities", "scores"} {
		if m, ok := t.Matrix(name); ok {
			return m.Data, m.Cols, nil
		}
	}
	columns := map[int][]float64{}
	for _, name := range t.Names() {
		if m := probabilityColumn.FindStringSubmatch(name); m != nil {
			k, err := strconv.Atoi(m[1])
			if err != nil || columns[k] != nil {
				return nil, 0, badInputf("%s: column %s: class %s appears twice or is too large", t.Path, name, m[1])
			}
			columns[k], _ = t.Column(name)
		}
	}
	if score, ok := t.Column("score"); ok && len(columns) == 0 {
		probability = make([]float64, 0, 2*t.N)
		for _, x := range score {
			probability = append(probability, 1-x, x)
		}
		return probability, 2, nil
	}
	classes = len(columns)
	if classes == 0 {
		return nil, 0, nil
	}
	probability = make([]float64, t.N*classes)
	for k := range classes {
		c, ok := columns[k]
		if !ok {
			return nil, 0, badInputf("%s: %d probability columns, but none for class %d", t.Path, classes, k)
		}
		for i, x := range c {
			probability[i*classes+k] = x
		}
	}
	return probability, classes, nil
}

func zeroOne(t *tabular.Table, i int, name string, y float64) (bool, error) {
	if y != 0 && y != 1 {
		return false, badInput(t.Errorf(i, "%s %v is not 0 or 1", name, y))
	}
	return y == 1, nil
}

// integers converts a column of class numbers.
func integers(t *tabular.Table, name string, column []float64) ([]int, error) {
	out := make([]int, len(column))
	for i, y := range column {
		if y != math.Trunc(y) || math.Abs(y) > math.MaxInt32 {
			return nil, badInput(t.Errorf(i, "%s %v is not a class number", name, y))
		}
		out[i] = int(y)
	}
	return out, nil
}

// predictionsOfVotes takes the shares of the votes as probabilities.
func predictionsOfVotes(path string) (*calib.Predictions, error) {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	votes, err := evidence.Votes()
	if err != nil {
		return nil, err
	}
	classes := len(votes[0].Counts)
	var probability []float64
	var label []int
	for _, v := range votes {
		for _, c := range v.Counts {
			probability = append(probability, float64(c)/float64(v.N))
		}
		label = append(label, v.Label)
	}
	p, err := calib.TopLabel(probability, classes, label)
	var row *calib.RowError
	if errors.As(err, &row) {
		return nil, fmt.Errorf("%s: example %d: %s", path, votes[row.Row].Index, row.Reason)
	}
	return p, err
}
