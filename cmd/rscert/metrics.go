package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/report"
)

// metricsOptions are the flags of metrics.
type metricsOptions struct {
	measurement
	plots    []string
	diagram  diagramOptions
	quantity *calib.Quantity // nil: the columns determine it
	// The field 'probabilities' says what serves as the probabilities of a run: vote shares or mean scores. If it is
	// nil, metrics uses the mean scores of a run folder under two conditions: bounds.csv in this folder has the mean
	// scores of every example, and --quantity is not class-1. If one of these conditions fails, metrics uses the vote
	// shares.
	probabilities *probabilities
	jointBands    bool
	consistency   bool // draw and report consistency bands
	everyExample  bool // for bounds.csv: include examples without a certified class
	rejection     rejectionOptions
	versus        string
	groups        groupOptions
	cluster       clusterOptions
	radius        *float64
	json, quiet   bool
}

func newMetrics(s streams) *cobra.Command {
	var o metricsOptions
	var radius, share float64
	var quantity calib.Quantity
	var title string
	var of probabilities
	cmd := &cobra.Command{
		Use:   "metrics predictions.csv | RUN | --models FILE",
		Short: "Compute ECE, smooth ECE, Brier score, NLL, AUROC and a calibration test, with intervals",
		Long: `This command computes calibration metrics of predictions, with two-sided confidence
intervals. It also draws the reliability diagram. To bound the calibration error under
attack, use 'rscert acce'.

The input is a CSV, JSON lines, npz or Parquet file. Text files can be compressed as
.gz, and the file name - means stdin. The file has one of these sets of columns:

  confidence, correct          the top label's probability; whether the top label is right (0 or 1)
  p0, p1, …, label             the probabilities of all classes; the true class
  probabilities, labels        the same quantities as arrays [N, m] and [N] of an npz file
  score, label                 the probability of class 1; the true class (0 or 1)

The columns weight and index are optional. The command leaves out rows with a 1 in the
column 'fitted', which 'rscert calibrate --out' writes.

The input can also be a run folder or its votes.jsonl. --probabilities says which
numbers of a run the command uses as probabilities. They are either the vote shares of
all classes, or the mean scores without attack. There is only one mean score for each
example: the score of one class. This class is the one that the run tried to certify.
Mean scores need a run folder with bounds on the confidence (certify
--confidence-radii). For top-label calibration of such a folder, mean scores are the
default, as in 'rscert acce'. In all other cases, vote shares are the default.

The input can also be a bounds.csv (from 'rscert certify --confidence-radii' or 'rscert
confidence') or the --out file of 'rscert acce'. These files have a column 'radius'.
From such a file, the command uses only rows of one radius. Of these rows, it leaves out
those without a certified class. If the file has several radii, --radius chooses one.

From the columns score and label, the command computes class-1 calibration: how often
the label is 1 if the score is s. From other columns it computes top-label calibration:
how often the answer is right if its confidence is c. For two classes, --quantity
selects class-1 or top-label calibration.

The flag --bins sets the number of bins. ECE, classwise ECE, RMSCE and MCE use bins of
equal width. AdaECE, AdaRMSCE and the debiased L2 error use bins with equal numbers of
examples. The smooth ECE uses no bins.

The intervals of ECE, AdaECE, classwise ECE, RMSCE, AdaRMSCE, MCE and Brier score hold
for any number of examples. Every binned calibration error has an ideal value. This is
the value that its formula gives if the true probability of each label replaces the
label. If the command prints an interval for such an error, this interval covers the
ideal value with probability at least --level. The debiased L2 error has no interval. On
average the plain ECE is larger than its ideal value. The interval of the NLL is a BCa
bootstrap interval, which is too short for small or heavy-tailed data. No interval of
this command bounds the unbinned calibration error: positive and negative errors within
a bin can cancel. For bounds on this error, see 'rscert ce'.

The calibration tests by bets and by simulation have p-values that are valid for any
number of independent examples. The p-value of Spiegelhalter's test is valid only for
many examples.

--group COLUMN also computes the metrics of each group of rows. For some metrics, such
as the ECE, the command names the worst group. For a run, the groups are the labels
(--group label), or they come from a file (--groups) that has a column named 'index'.
With G groups, the intervals of each group have the level 1 − (1−level)/G. So with
probability --level, the intervals of a metric hold in all groups at once. The p-values
and the bootstrap intervals of the NLL hold only for each group alone.

--cluster COLUMN is for rows that may depend on each other, such as the rows of one
patient, of one site or of one video. Rows with the same value in the column form a
cluster. The clusters must be independent draws. The command keeps one row of each
cluster, at random (--seed). The kept rows are independent. So the intervals and tests
hold for a random row of a random cluster. Every cluster counts once, however many rows
it has. With --group, each group keeps one row of each cluster that has rows in the
group. With --versus, both files keep the same rows. The command refuses --cluster for
rows with weights. It also refuses --cluster together with a flag of the list
'Thresholds under attack'.

The flags of the list 'Thresholds under attack' are for a classifier that answers only
if its confidence reaches a threshold. Among the answers without attack that reach the
threshold, the test error is the share of wrong answers. The robust test error covers
both the answers without attack and the answers under attack. Consider the rows in which
at least one of these answers reaches the threshold. The robust test error is the share
of these rows in which a wrong answer reaches the threshold. The robust test error needs
--attack, or the columns adversarial_confidence and adversarial_correct in the input.

Each threshold has two rates. Take the rows whose answer without attack is right. The
true positive rate is the share of these rows whose answer without attack reaches the
threshold. An attack on such a row succeeds if it makes the answer wrong. Now consider
the rows with a successful attack. The false positive rate is the share of these rows in
which a wrong answer under attack reaches the threshold. For each rate of --tpr, the
command takes the largest threshold that has at least this true positive rate on
held-out predictions. The held-out predictions come from the file of --held-out, or they
are a random share of the input (--holdout). In the second case, the command computes
the test errors on the other rows.

--models compares several models and attacks. Each row of its CSV file names a model, an
attack and a file of predictions. The attack 'clean' means no attack, and the attack
'held-out' marks held-out predictions.

--versus compares the input with another classifier's predictions. The command prints
the differences between the two classifiers, with confidence intervals that hold for any
number of rows.`,
		Example: `  rscert metrics scores.csv
  rscert metrics scores.csv --quantity top-label
  rscert metrics predictions.csv --bins 10 --plot reliability.pdf --title 'ResNet-20' --json
  rscert metrics attack.csv --radius 0.5
  rscert metrics new.csv --versus old.csv
  rscert metrics predictions.csv --group sex,region
  rscert metrics visits.csv --cluster patient
  rscert metrics test.csv --held-out clean.csv --attack pgd.csv --attack square.csv --tpr 0.99
  rscert metrics test.csv --holdout 0.1 --attack pgd.csv,square.csv --tpr 0.99,0.98 --by-tau errors.svg
  rscert metrics --models models.csv --holdout 0.1 --tpr 0.99`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.rejection.models != "" {
				return noArguments(cmd, args)
			}
			return oneFile(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.cluster.find(cmd)
			o.radius = given(cmd, "radius", &radius)
			o.rejection.share = given(cmd, "holdout", &share)
			if o.rejection.models != "" {
				return runModelMetrics(cmd, s, o)
			}
			if cmd.Flags().Changed("tpr") && o.rejection.heldOut == "" && o.rejection.share == nil {
				return hint.Add(badInputf("--tpr needs held-out predictions"), "--held-out names a file with such predictions, and --holdout 0.1 holds out a tenth of the rows")
			}
			o.quantity = given(cmd, "quantity", &quantity)
			o.probabilities = given(cmd, "probabilities", &of)
			o.diagram.title = given(cmd, "title", &title)
			return runMetrics(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	integerVar(f, &o.Bins, "bins", 15, "number of bins in the calibration errors that use bins")
	choiceVar(f, &o.Edge, "edge", calib.UpperClosed, calib.Edges, "`edge` that each bin includes: "+calib.Edges.Described())
	f.Float64Var(&o.Level, "level", 0.95, "confidence level of the intervals")
	f.BoolVar(&o.jointBands, "joint-bands", false, "widen the intervals of the reliability diagram, so that with probability --level they hold in every bin at once")
	f.BoolVar(&o.consistency, "consistency-bands", false, "add bands to the reliability diagram; if the predictions are calibrated, then with probability at least --level all bins lie in their bands at once")
	divideFlags(cmd, &o.groups, "also compute the metrics of each group")
	clusterFlag(f, &o.cluster, "the command keeps one random row of each cluster")
	integerVar(f, &o.Seed, "seed", 1, "seed of the random choices in five places: the betting intervals (those of the Brier scores and those of --versus), the bootstrap, the simulated calibration test, --cluster and --holdout")
	integerVar(f, &o.Draws, "draws", 0, "number of simulations in the calibration test, at most 1000000; the smallest p-value is 1/(draws+1); default: 999, or fewer for more than 200,000 rows")
	radiusVar(f, &radius, "radius", "use only the rows with this radius")
	choiceVar(f, &quantity, "quantity", calib.TopLabelQuantity, calib.Quantities,
		"the `probability` whose calibration the command reports; default: 'class-1' for the columns score and label, otherwise 'top-label': "+calib.Quantities.Described())
	choiceVar(f, &of, "probabilities", voteShares, probabilityKinds,
		"for a run, the numbers that the command uses as probabilities; default: 'mean-scores' for top-label calibration of a run with bounds on the confidence, otherwise 'vote-shares': "+probabilityKinds.Described())
	group(cmd, "Metrics")
	f.StringSliceVar(&o.plots, "plot", nil, "write the reliability diagram to this .svg, .png or .pdf `file`")
	f.TextVar(&o.diagram.size, "plot-size", reliability.DefaultSize, "`size` of the diagram in centimetres, such as 15x10")
	f.StringVar(&title, "title", "", "title of the diagram; default: the file name, the number of rows and the ECE")
	choiceVar(f, &o.diagram.curve, "curve", kernelCurve, curveKinds,
		"`curve` in the diagram: "+curveKinds.Described())
	group(cmd, "The diagram")
	rejectionFlags(cmd, &o.rejection, &share)
	f.StringVar(&o.versus, "versus", "", "compare the input with this `file` of another classifier's predictions; the file must have the same rows as the input, in the same order")
	group(cmd, "Another classifier")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// metricsReport is the output of 'rscert metrics --json'.
type metricsReport struct {
	N       int `json:"n"`
	Classes int `json:"classes,omitempty"`
	// For a run, Probabilities names the numbers of the run that serve as probabilities: vote shares or mean scores.
	Probabilities probabilities    `json:"probabilities,omitempty"`
	Radius        *float64         `json:"radius,omitempty"` // radius of the rows, only with --radius
	Weighted      bool             `json:"weighted"`
	EffectiveSize float64          `json:"effective_sample_size,omitempty"` // of the weights
	Cluster       *rowClusters     `json:"cluster,omitempty"`
	Level         float64          `json:"level"`
	Bins          int              `json:"bins"`
	Edge          calib.Edge       `json:"edge"`
	calibration                    // embedded: JSON shows its fields as fields of metricsReport
	Rejection     *rejection       `json:"rejection,omitempty"`
	Thresholds    *thresholdErrors `json:"thresholds,omitempty"`
	Versus        *versus          `json:"versus,omitempty"`
	Groups        *metricGroups    `json:"by_group,omitempty"`
	JointBands    bool             `json:"joint_bands,omitempty"` // the intervals in 'Reliability' hold jointly
	Consistency   *consistency     `json:"consistency,omitempty"`
	Reliability   []reliabilityBin `json:"reliability"`
}

type reliabilityBin struct {
	calib.Bin
	AccuracyLow  float64 `json:"accuracy_low"`
	AccuracyHigh float64 `json:"accuracy_high"`

	ConsistencyLow  *float64 `json:"consistency_low,omitempty"`
	ConsistencyHigh *float64 `json:"consistency_high,omitempty"`
}

// consistency says how many bins lie outside their consistency bands. For a calibrated classifier, the probability that
// no bin lies outside its band is at least Level.
type consistency struct {
	Level   float64 `json:"level"`
	Outside int     `json:"outside"`
}

// bands returns the intervals of the reliability diagram.
func (o metricsOptions) bands(p *calib.Predictions, bins []calib.Bin) [][2]float64 {
	if o.jointBands {
		return calib.JointBands(p, bins, o.Level)
	}
	return calib.Bands(p, bins, o.Level)
}

func (o *metricsOptions) check() error {
	if o.cluster.set && o.rejection.given() {
		return badInputf("--cluster cannot be combined with %s: thresholds count every row", o.rejection.flag())
	}
	return errors.Join(o.rejection.check(), o.measurement.check(), o.groups.check())
}

// modelFlags lists the flags that have a meaning with --models.
var modelFlags = []string{"models", "holdout", "seed", "tpr", "tau", "radius", "json", "quiet", "config", "strict"}

// runModelMetrics compares the models and attacks of --models.
func runModelMetrics(cmd *cobra.Command, s streams, o metricsOptions) error {
	if err := o.rejection.checkModels(); err != nil {
		return err
	}
	var idle error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(modelFlags, f.Name) && cmd.InheritedFlags().Lookup(f.Name) == nil && idle == nil {
			idle = badInputf("--%s has no meaning with --models", f.Name)
		}
	})
	if idle != nil {
		return idle
	}
	r, err := readModels(cmd.Context(), s, o)
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "metrics-models", r)
	}
	return r.print(s.out)
}

func runMetrics(ctx context.Context, s streams, path string, o metricsOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	inputs := append([]string{path, o.versus, o.rejection.heldOut}, o.rejection.attacks...)
	formats, err := pictureFormats(o.plots, inputs...)
	if err != nil {
		return err
	}
	tauFormats, err := o.rejection.byTauFormats(inputs...)
	if err != nil {
		return err
	}
	if err := checkDistinct(append(writtenBy("plot", o.plots), writtenBy("by-tau", o.rejection.byTau)...)...); err != nil {
		return err
	}
	all, table, err := readPredictions(ctx, s, path, o)
	if err != nil {
		return err
	}
	p, clusters, err := o.cluster.keepPredictions(path, all, table, o.Seed)
	if err != nil {
		return err
	}
	r := newMetricsReport(p, clusters, o)
	if r.Thresholds, err = rejectByThreshold(ctx, s, path, p, table, o); err != nil {
		return err
	}
	r.Rejection = r.Thresholds.first()
	if r.Versus, err = compareWith(ctx, s, path, all, clusters, table != nil, o); err != nil {
		return err
	}
	if r.Groups, err = measureGroups(ctx, s, path, all, clusters, table, o); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := calib.Measure(p, o.MetricOptions)
	if err != nil {
		return err
	}
	if err := warnOfPredictions(s, path, p, m.AUROC); err != nil {
		return err
	}
	r.calibration = newCalibration(m)
	if p.Quantity == calib.ClassOneQuantity {
		r.Classes = 2
	}
	if holdsVotes(path) {
		r.Probabilities = voteShares
		if table != nil {
			r.Probabilities = meanScores
		}
	}
	bands, around, err := r.addReliability(p, m.Bins, o)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s: %d predictions, ECE %.4f", filepath.Base(displayPath(path)), p.N(), r.ECE.Value)
	if err := o.drawDiagrams(formats, m, bands, around, title); err != nil {
		return err
	}
	s.wrote(o.plots...)
	if err := o.writeByTau(s, tauFormats, r.Thresholds, path); err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "metrics", r)
	}
	return r.print(s)
}

// newMetricsReport returns a report that has no metrics yet.
func newMetricsReport(p *calib.Predictions, clusters *rowClusters, o metricsOptions) metricsReport {
	r := metricsReport{Cluster: clusters, N: p.N(), Classes: p.Classes, Radius: o.radius, Weighted: p.Weight != nil,
		Level: o.Level, Bins: o.Bins, Edge: o.Edge, JointBands: o.jointBands}
	if r.Weighted {
		r.EffectiveSize = calib.EffectiveSize(p.Weight)
	}
	return r
}

// addReliability adds the rows of the reliability diagram to the report. It returns the intervals, and the consistency
// bands if --consistency-bands is given.
func (r *metricsReport) addReliability(p *calib.Predictions, bins []calib.Bin, o metricsOptions) (bands, around [][2]float64, err error) {
	bands = o.bands(p, bins)
	for k, b := range bins {
		r.Reliability = append(r.Reliability, reliabilityBin{Bin: b, AccuracyLow: bands[k][0], AccuracyHigh: bands[k][1]})
	}
	if !o.consistency {
		return bands, nil, nil
	}
	c, err := calib.ConsistencyBands(p, bins, o.Level)
	if err != nil {
		return nil, nil, badInput(fmt.Errorf("--consistency-bands: %w", err))
	}
	r.Consistency = &consistency{c.Level, c.Outside}
	for k := range c.Bands {
		r.Reliability[k].ConsistencyLow, r.Reliability[k].ConsistencyHigh = &c.Bands[k][0], &c.Bands[k][1]
	}
	return bands, c.Bands, nil
}

// printHead says what the metrics are about.
func (r metricsReport) printHead(w io.Writer) {
	fmt.Fprintf(w, "%d predictions", r.N)
	if r.Classes > 0 {
		fmt.Fprintf(w, " of %d classes", r.Classes)
	}
	if r.Radius != nil {
		fmt.Fprintf(w, " at radius %g", *r.Radius)
	}
	if r.Weighted {
		fmt.Fprintf(w, ", weighted (effective sample size %.1f)", r.EffectiveSize)
	}
	of := ""
	if r.Probabilities != "" {
		of = " of " + r.Probabilities.words()
	}
	fmt.Fprintf(w, "; %s calibration%s; %d bins %s; intervals at level %g\n", r.Quantity, of, r.Bins, r.Edge.Brackets(), r.Level)
	r.Cluster.print(w, "All metrics, intervals and tests")
	fmt.Fprintln(w)
}

func (r metricsReport) print(s streams) error {
	r.printHead(s.out)
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
	mean := "mean confidence"
	if r.Quantity == calib.ClassOneQuantity {
		mean = "mean score"
	}
	t.AddRow(report.Text(mean), report.Number(r.MeanConfidence), report.Text(""), report.Text(""))
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	r.printWorstClass(s.out)
	if nll := cmp.Or(r.NLL, r.TopLabelNLL); nll != nil && nll.Interval == "" {
		fmt.Fprintf(s.out, "The NLL has no interval, because a bootstrap of fewer than %d examples is too short.\n", calib.MinBootstrap)
	}
	writeParts(s.out, "Brier", r.Brier.Value, r.BrierParts)
	if r.ClassParts != nil {
		writeParts(s.out, "Brier (all classes)", r.Multiclass.Value, *r.ClassParts)
	}
	r.printTests(s.out)
	if err := r.Thresholds.print(s.out); err != nil {
		return err
	}
	if r.Versus != nil {
		if err := r.Versus.print(s.out); err != nil {
			return err
		}
	}
	return r.Groups.print(s.out, r.Level)
}

// printTests prints the calibration tests. It also prints what the joint bands guarantee, and how many bins lie outside
// their consistency bands.
func (r metricsReport) printTests(w io.Writer) {
	if j := r.Test; j != nil {
		fmt.Fprintf(w, "calibrated? p = %.3g by bets on 16 bins, for any number of independent examples", float64(j.P))
		if !math.IsNaN(float64(j.Spiegelhalter)) {
			fmt.Fprintf(w, "; Spiegelhalter's Z = %s, p = %.3g for many",
				signed(float64(j.Spiegelhalter), 3), float64(j.SpiegelP))
		}
		fmt.Fprintf(w, "\n            p = %.3g by simulation (%d draws), for any number of independent examples, with more power\n",
			float64(j.MonteCarlo), j.Draws)
	}
	if r.JointBands {
		fmt.Fprintf(w, "joint bands: with probability ≥ %g, the intervals of all bins in the reliability diagram (--plot, --json) hold together\n", r.Level)
	}
	if c := r.Consistency; c != nil {
		fmt.Fprintf(w, "consistency: %d of %d bins lie outside their bands; with calibrated predictions, none do with probability ≥ %.4f\n",
			c.Outside, r.occupied(), math.Floor(1e4*c.Level)/1e4)
	}
}

// occupied returns the number of bins that are not empty.
func (r metricsReport) occupied() (n int) {
	for _, b := range r.Reliability {
		if b.N > 0 {
			n++
		}
	}
	return n
}

// printWorstClass prints the class with the largest ECE.
func (r metricsReport) printWorstClass(w io.Writer) {
	if len(r.ClassECE) == 0 {
		return
	}
	worst := 0
	for k, ece := range r.ClassECE {
		if ece > r.ClassECE[worst] {
			worst = k
		}
	}
	fmt.Fprintf(w, "The largest ECE of a class is %.4f, of class %d; --json lists all classes.\n", r.ClassECE[worst], worst)
}

// writeParts prints a Brier score as the sum of its parts.
func writeParts(w io.Writer, name string, brier report.Number, d calib.Decomposition) {
	fmt.Fprintf(w, "%s %.4f = reliability %.4f − resolution %.4f + uncertainty %.4f + within bins %s\n",
		name, float64(brier), d.Reliability, d.Resolution, d.Uncertainty, signed(d.Within, 4))
}

// signed formats x with the given number of decimals. If x rounds to 0, the text has no sign.
func signed(x float64, decimals int) string {
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return text
}
