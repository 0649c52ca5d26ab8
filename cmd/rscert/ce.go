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
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/table"
)

// ceOptions are the flags of ce.
type ceOptions struct {
	methods []calib.BoundMethod
	lower   calib.LowerMethod
	chosen  bool // --method is given
	calib.BoundParams
	varies                                bool // --variation or --monotone is given
	monotone, joint, perturb, json, quiet bool
	curve                                 string
	planGap                               float64
	gate                                  gateOptions
	weights                               weightOptions
	groups                                groupOptions
	cluster                               clusterOptions
	classes                               bool
	fits                                  string
	plots                                 []string
	norms                                 normOptions
	subsamples                            sizesOptions
}

func newCE(s streams) *cobra.Command {
	var o ceOptions
	cmd := &cobra.Command{
		Use:   "ce scores.csv --monotone",
		Short: "Bound the calibration error of a binary classifier from above and from below",
		Long: `This command bounds the calibration error E|s − P(y=1|s)| of a binary classifier from
above and from below. Each sound bound holds with probability at least 1 − delta, for
any distribution of the scores. All bounds are sound, except the bounds that this text
or the output marks as not sound. The lower bound needs no assumption. Each upper bound
needs one of these assumptions:

  --monotone      P(y=1|s) only increases, or only decreases, in s
  --variation V   P(y=1|s) has total variation at most V as s goes from 0 to 1
  --bandwidth h   the scores were perturbed with the sech kernel of bandwidth h

If P(y=1|s) is monotone, its total variation is at most 1. No test can verify the first
two assumptions (--monotone and --variation), but data can refute them. So the command
also bounds the total variation from below. If this bound is above the assumed total
variation (V of --variation, or 1 for --monotone), the exit code is 1. The command
computes no such bound for rows with weights or for perturbed scores.

The third assumption (--bandwidth) puts no condition on P(y=1|s) for the original
scores. The bounds under this assumption are about the perturbed scores, so also perturb
the scores when you use the classifier. 'rscert perturb' perturbs scores and records the
bandwidth h in the file. With --perturb, this command perturbs the scores itself. For
the third assumption, the command refuses scores that the perturbation cannot have
produced.

The next list names the assumption of each method. In the list, 'variation' stands for
--monotone or --variation, 'perturbed' stands for perturbed scores, and 'weights' stands
for 'variation' together with a column named 'weight'.

` + describeBoundMethods() + `
Without --method, the command computes binned-tv for --monotone or --variation, and
binned-lipschitz for perturbed scores. Whatever methods you choose, the command also
prints one estimate of the error. This estimate has no guarantee. Finally, the command
bounds the error on this dataset from above. It does so for each method whose name
begins with 'binned-', except binned-tv-weighted. The error on this dataset is the mean
of |s − P(y=1|s)| over the scores in the file. With --cluster or weights, it is the mean
over the scores of the kept rows only. For inexact weights (such as the estimated
weights of 'rscert weights'), the command gives no such bound.

Each sound bound alone holds with probability at least 1 − delta. With --joint, the
command divides delta among all bounds on the error and on the calibration curve
(--curve). All of these bounds that are sound then hold together, with probability at
least 1 − delta. Two kinds of bounds are not among them: the bounds on this dataset's
error, and the lower bound on the total variation. Choose --method, --bandwidth,
--variation and --seed before you look at the bounds.

--curve FILE writes the calibration curve as CSV. Each row is a bin of neighbouring
scores. The row holds the mean label in the bin, and a lower and an upper limit for
the mean of P(y=1|s) over the bin. With probability 1 − delta the limits hold
in all bins at once, for any P(y=1|s).

The file has the columns score (in [0,1]) and label (0 or 1). For a classifier with more
than two classes it has the columns confidence and correct instead. If the file has
neither of these pairs of columns, it needs the columns p0, p1, … and label. For such a
file, s is p1 for two classes, and the largest probability for more classes. The command
leaves out rows with a 1 in the column 'fitted'. 'rscert calibrate --out' writes this
column. The format is CSV, JSON lines, npz or Parquet; the first three may also be .gz
files. If the file name is -, the command reads stdin.

The bound of each method rests on an estimate of P(y=1|s). --fits FILE writes these
estimates as CSV, together with the calibration curve. The columns are score, method,
eta_hat (the estimate), lower and upper. In the rows of the calibration curve, the
columns lower and upper hold its limits. In the rows of the estimates, these two columns
are empty. --plot FILE draws the estimates and the limits. The estimates have no
guarantee.

Let CE be the calibration error E|s − P(y=1|s)|. --norms Q also bounds the L_q
calibration error (E|s − P(y=1|s)|^q)^(1/q). The L_q error is at least CE and at most
CE^(1/q). --score-margin M also bounds the mean divergence KL(P(y=1|s)‖s), in nats. The
bound on the divergence assumes that every score of the population lies between M and 1
− M. Under this assumption, the divergence is at least 2·CE² and at most
CE·ln(1/M)/(1−M). If scores can come arbitrarily near 0 or 1, CE gives no upper bound on
the divergence. The bounds of --norms and --score-margin hold whenever the bounds on CE
hold.

--sizes shows how the bounds depend on the number of rows. For each size, the command
draws --repeats subsamples of this size, each without replacement. It prints the mean
and the standard deviation of each bound. It also prints the distance of each mean from
the binned estimate of the error; this estimate uses all rows. This estimate is a proxy
for the unknown error; it has no guarantee. For each bound, the command also prints the
slope of log(distance) against log(size). An upper bound is trivial if it is 1, and a
lower bound if it is 0. The slope leaves out a size if the bound is trivial in a
subsample of this size. The slope of an upper bound also leaves out a size if the mean
bound is not above the estimate; the slope of a lower bound, if the mean bound is not
below the estimate. Subsamples of one file share rows, so they are not independent, and
no guarantee covers several subsamples together. --out writes the table as CSV, and
--plot draws it.

--group COLUMN also bounds the error of each group of rows. Each of these bounds uses
delta divided by the number of groups. The assumption of the method (such as --monotone)
must hold in each group. The values of the column are numbers or text. With several
columns, each column makes groups of its own, and the number of groups counts the groups
of all columns. The largest of the groups' upper bounds holds for every mixture of the
groups, so it holds even if the shares of the groups change.

--classes also bounds the error of each class. The file then has the columns p0, p1, …
and label. The score of class k is pk, and its label is 1 if the row has class k. Each
of these bounds uses delta divided by the number of classes. The assumption of the
method (such as --monotone) must hold for each class. The mean of the upper bounds is an
upper bound on the class-wise calibration error.

With --joint, delta is divided into equal shares: one share for the bounds on the whole
file, one share for all groups together, and one share for all classes together.

--cluster COLUMN is for rows that may depend on each other, such as the rows of one
patient, of one site or of one video. Rows with the same value in the column form a
cluster. The clusters must be independent draws. The command keeps one row of each
cluster, at random (--seed). The kept rows are independent, so the bounds hold for a
random row of a random cluster: every cluster counts once, however many rows it has. For
the bounds of a group, the command looks only at the rows of this group, and keeps one
of them for each cluster. The command refuses a row without a cluster, and rows with
weights.

If the file has a column 'weight', the bounds are about the population Q that the
weights describe. A row's weight is the density of Q with respect to the population of
the rows. The command keeps each row with probability weight/W. Here W (--weight-bound,
or the column weight_bound) is at least as large as every weight in the whole
population. The kept rows are independent draws from Q. The bounds for --group and
--classes also use the kept rows.

The method 'binned-tv-weighted' uses all rows of a file with weights, not only the kept
rows. This method needs weights whose mean in the population is 1. Let W be the upper
bound on the weights (--weight-bound, or the column weight_bound). If the mean of the
squared weights is above about W/5, the bounds from the kept rows are smaller than the
bound of 'binned-tv-weighted'. Choose the method before you look at the bounds.

The weights can be inexact. The command treats them as inexact if the column
weight_estimated is 1 ('rscert weights' writes this column) or if you give
--weight-sensitivity G with G > 1. For inexact weights, only the bounds of
'binned-tv-weighted' with G > 1 are sound. These bounds assume that every true weight
lies between weight/G and weight·G. For inexact weights, the command refuses --group,
--classes, --curve, --fits and --plot.`,
		Example: `  rscert ce scores.csv --monotone
  rscert ce scores.csv --monotone --group sex --group region
  rscert ce probabilities.csv --monotone --classes
  rscert ce visits.csv --monotone --cluster patient
  rscert ce weighted.csv --monotone --weight-bound 8
  rscert ce weighted.csv --monotone --method binned-tv-weighted --weight-sensitivity 1.2
  rscert perturb scores.csv --bandwidth 0.015625 --out perturbed.csv
  rscert ce perturbed.csv
  rscert ce scores.csv --monotone --method binned-tv,binned-best --plan-gap 0.02
  rscert ce scores.csv --monotone --sizes 1000,3000,10000 --repeats 64 --plot sizes.svg
  rscert ce scores.csv --monotone --method binned-best --require 'ce-upper<=0.03'
  rscert ce scores.csv --method nw --bandwidth 0.015625 --perturb --json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.chosen = given(cmd, "method", &o.methods) != nil
			o.cluster.find(cmd)
			o.varies = o.monotone || given(cmd, "variation", &o.Variation) != nil
			return runCE(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	choiceListVar(f, &o.methods, "method", defaultBoundMethods(), calib.BoundChoices(), "`methods` of the upper bounds, separated by commas: "+calib.BoundChoices().String())
	choiceVar(f, &o.lower, "lower", calib.LowerBetting, calib.LowerMethods, "`method` of the lower bound: "+calib.LowerMethods.Described())
	f.Float64Var(&o.Delta, "delta", 0.05, "largest probability that a bound is wrong")
	f.BoolVar(&o.monotone, "monotone", false, "assume that P(y=1|s) only increases or only decreases; this implies --variation 1")
	f.Float64Var(&o.Variation, "variation", 0, "assume that P(y=1|s) has at most this total `variation`")
	f.Float64Var(&o.Bandwidth, "bandwidth", 0, "bandwidth `h` of the kernel; needed with --perturb, and for perturbed scores in a file that does not record h")
	f.BoolVar(&o.perturb, "perturb", false, "first perturb the scores with the bandwidth of --bandwidth, as 'rscert perturb' does")
	integerVar(f, &o.Folds, "folds", 5, "number of folds for the cross-fitting in the methods 'tv', 'nw', 'nw-second-order' and 'ciosek-nw'")
	integerVar(f, &o.Seed, "seed", 1, "seed of all random choices: row order, folds, noise, kept rows and subsamples")
	f.BoolVar(&o.joint, "joint", false, "divide delta among the bounds on the error of the population (also for groups and classes) and on the calibration curve, so that all of these bounds that are sound hold together")
	f.Float64Var(&o.weights.bound, "weight-bound", 0, "upper limit `W` of the weights in the whole population; default: the column weight_bound")
	f.Float64Var(&o.weights.sensitivity, "weight-sensitivity", 1, "largest `factor` by which a true weight may be above or below the weight in the file, for the method 'binned-tv-weighted'")
	divideFlags(cmd, &o.groups, "also bound the error of each group")
	clusterFlag(f, &o.cluster, "the command keeps one random row of each cluster")
	f.BoolVar(&o.classes, "classes", false, "also bound the error of each class, for a file with the probabilities of all classes")
	f.StringVar(&o.curve, "curve", "", "write the calibration curve to this CSV `file`")
	f.StringVar(&o.fits, "fits", "", "write the estimates of P(y=1|s) by all methods to this CSV `file`")
	f.Float64SliceVar(&o.norms.norms, "norms", nil, "also bound the L_q calibration error for these `numbers` q ≥ 1, such as 2")
	f.Float64Var(&o.norms.margin, "score-margin", 0, "assume that every score of the population is at least this `distance` from 0 and 1, and bound the mean divergence KL(P(y=1|s)‖s)")
	f.IntSliceVar(&o.subsamples.sizes, "sizes", nil, "compute the bounds from subsamples with these `numbers` of rows")
	integerVar(f, &o.subsamples.repeats, "repeats", 64, "number of subsamples of each size for --sizes")
	f.StringVar(&o.subsamples.out, "out", "", "write the table of --sizes to this CSV `file`")
	f.StringSliceVar(&o.plots, "plot", nil, "draw the estimates of P(y=1|s) to this .svg, .png or .pdf `file`; with --sizes, draw the bounds")
	f.Float64Var(&o.planGap, "plan-gap", 0, "compute no bounds; instead estimate how many labels each method needs for an upper bound of this `size`, such as 0.02; the estimate is for a calibrated classifier whose scores are like those in the file; the file needs only the scores")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	gateFlags(cmd, &o.gate)
	return cmd
}

func (o *ceOptions) check() error {
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
	return errors.Join(o.weights.check(), o.groups.check(), o.subsamples.check(o))
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
	Weights    *ceWeights                  `json:"weights,omitempty"`
	Cluster    *rowClusters                `json:"cluster,omitempty"`
	Estimate   float64                     `json:"estimate"` // without a guarantee
	Lower      map[string]calib.LowerBound `json:"lower"`
	Bounds     map[string]calib.Bound      `json:"bounds"`
	// VariationLower is a lower bound on the total variation of P(y=1|s). The probability that this bound holds is at
	// least 1 − delta. With --joint, this delta is still the whole --delta and not a share of it.
	VariationLower *calib.LowerBound `json:"variation_lower,omitempty"`
	Groups         *ceGroups         `json:"by_group,omitempty"`
	Classes        *ceClasses        `json:"by_class,omitempty"`
	Norms          []ceNorm          `json:"norms,omitempty"`
	Divergence     *ceNorm           `json:"kl,omitempty"`

	Requirements []gate.Outcome `json:"requirements,omitempty"`

	Quantity calib.Quantity `json:"quantity"`                 // the event whose probability the score states
	Columns  []string       `json:"columns"`                  // columns or arrays of the scores and labels in use
	Unused   []string       `json:"unused_columns,omitempty"` // unused columns of scores and labels

	// the method of the main lower bound; the map 'Lower' holds this bound under the method's name
	lower calib.LowerMethod
}

func runCE(ctx context.Context, s streams, path string, o ceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := errors.Join(checkOutput("curve", o.curve, path), checkOutput("fits", o.fits, path),
		checkOutput("out", o.subsamples.out, path), o.gate.check(path)); err != nil {
		return err
	}
	if o.monotone {
		o.Variation = 1
	}
	if o.planGap != 0 {
		return planCE(ctx, s, path, o)
	}
	if len(o.subsamples.sizes) > 0 {
		return boundSizes(ctx, s, path, o)
	}
	return o.gate.decide(s, func() ([]gate.Outcome, error) {
		var r ceReport
		err := r.run(ctx, s, path, o)
		return r.Requirements, err
	})
}

// run computes bounds on the calibration error, checks the requirements and prints the results.
func (r *ceReport) run(ctx context.Context, s streams, path string, o ceOptions) error {
	*r = ceReport{Delta: o.Delta, Joint: o.joint, Folds: o.Folds, Seed: o.Seed, Perturbed: o.perturb, lower: o.lower}
	sample, err := r.readSample(ctx, s, path, &o)
	if err != nil {
		return err
	}
	if o.curves() && !r.Weights.exact() {
		return badInputf("%s: --curve, --fits and --plot need exact weights, and these weights are not exact", displayPath(path))
	}
	methods, err := o.supported(path)
	if err != nil {
		return err
	}
	if err := errors.Join(r.checkSample(sample, methods, path, o), o.norms.check(methods, sample, path)); err != nil {
		return err
	}
	if o.varies {
		r.Variation = &o.Variation
	}
	r.Bandwidth = o.Bandwidth
	r.Assumption = r.describeAssumptions(methods)
	if err := r.compute(ctx, s, sample, methods, path, o); err != nil {
		return err
	}
	refuted := r.refuted(path)
	if refuted == nil { // refuted upper bounds may be false, so no requirement is checked against them
		if r.Requirements, err = o.gate.checkSummary(r.summary(path)); err != nil {
			return err
		}
	}
	if o.json {
		err = report.WriteJSON(s.out, "ce", r)
	} else {
		err = r.print(s.out, methods)
	}
	return errors.Join(err, refuted)
}

// refuted returns an error if the bounds contradict the assumption. There are two cases. In the first case, a sound
// lower bound is above a sound upper bound for the same rows: all rows, a group or a class. In the second case, the
// lower bound on the total variation of P(y=1|s) is above the assumed total variation. The assumption is then false,
// unless an event of small probability occurred.
func (r *ceReport) refuted(path string) error {
	err := r.refute(displayPath(path), r.Lower, r.Bounds, failureChance(r.Lower, r.Bounds))
	for _, parts := range r.parts() {
		// The returned error is about the first group or class with contradictory bounds. The data determine which
		// group or class this is. So the returned error states the sum of the failure probabilities of the bounds of
		// all groups, or of all classes.
		chance := 0.0
		for _, part := range parts {
			chance += failureChance(part.Lower, part.Bounds)
		}
		for _, part := range parts {
			if err == nil {
				err = r.refute(displayPath(path)+": "+part.name, part.Lower, part.Bounds, chance)
			}
		}
	}
	if err == nil {
		err = r.refuteVariation(displayPath(path))
	}
	return err
}

// failureChance returns the sum of the failure probabilities of the sound bounds.
func failureChance(lowers map[string]calib.LowerBound, uppers map[string]calib.Bound) float64 {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(lowers)) {
		if b := lowers[name]; b.Sound {
			sum += b.Delta
		}
	}
	for _, name := range slices.Sorted(maps.Keys(uppers)) {
		if b := uppers[name]; b.Sound {
			sum += b.Delta
		}
	}
	return sum
}

// refute compares the bounds for one set of rows. It returns an error if a sound lower bound is above a sound upper
// bound. The data determine which two bounds the error names. So the error states the argument 'chance', an upper bound
// on the probability that at least one of the bounds fails.
func (r *ceReport) refute(rows string, lowers map[string]calib.LowerBound, uppers map[string]calib.Bound, chance float64) error {
	var lower calib.LowerBound
	for _, b := range lowers {
		if b.Sound && b.Value >= lower.Value {
			lower = b
		}
	}
	for _, name := range slices.Sorted(maps.Keys(uppers)) {
		upper := uppers[name]
		if !upper.Sound || lower.Value <= upper.Value {
			continue
		}
		return hint.Add(fmt.Errorf("%s: the error is at least %s and, by %s, at most %s: the assumption is false, or an event of probability at most %g occurred",
			rows, report.Round(lower.Value, report.Down, 0, 4), name, report.Round(upper.Value, report.Up, 0, 4), min(1, math.Round(chance*1e9)/1e9)),
			"this is what the upper bounds assume: %s", r.Assumption)
	}
	return nil
}

// readSample reads the scores and the recorded bandwidth, and perturbs the scores for --perturb.
func (r *ceReport) readSample(ctx context.Context, s streams, path string, o *ceOptions) (*calib.Sample, error) {
	columns := predictions.BinaryColumns()
	columns.Optional = slices.Concat(columns.Optional, predictions.PerturbedColumns, predictions.WeightColumns)
	columns, err := o.cluster.extend(columns)
	if err != nil {
		return nil, err
	}
	table, err := readTable(ctx, s, path, o.quiet, o.groups.extend(columns))
	if err != nil {
		return nil, err
	}
	if table, err = leaveOutFitted(s, table, o.cluster); err != nil {
		return nil, err
	}
	scores, err := predictions.Scores(table)
	if err != nil {
		return nil, badInput(err)
	}
	score, label := scores.Score, scores.Label
	r.Quantity, r.Columns, r.Unused = scores.Quantity(), scores.Columns, scores.Unused
	if err := r.readBandwidth(table, o); err != nil {
		return nil, err
	}
	if r.Cluster, err = o.cluster.divide(table, o.Seed); err != nil {
		return nil, err
	}
	if o.perturb {
		before := scores
		if r.Cluster != nil { // rows of one cluster may be copies
			one := r.Cluster.keepAll(table.N)
			before.Score, before.Label = selectRows(score, one), selectRows(label, one)
		}
		if err := warnOfScores(s, path, table, before); err != nil {
			return nil, err
		}
		if err := perturbScores(table, score, calib.Sech{Bandwidth: o.Bandwidth, Seed: o.Seed}, 0); err != nil {
			return nil, err
		}
	}
	kept, err := r.keepRows(table, score, label, o)
	if err != nil {
		return nil, err
	}
	if err := r.divide(ctx, s, table, kept, score, label, o); err != nil {
		return nil, err
	}
	sample, err := calib.NewSample(selectRows(score, kept), selectRows(label, kept))
	if err != nil {
		return nil, badInput(predictions.LocateRow(table, err))
	}
	if o.perturb { // warnOfScores has already checked the scores as they were before the perturbation
		return sample, nil
	}
	return sample, warnOfSample(s, path, table, scores, sample)
}

// keepRows returns the rows that the bounds use: all rows, or the rows that --cluster or the weights keep. It sets r.N.
func (r *ceReport) keepRows(t *table.Table, score, label []float64, o *ceOptions) (kept []int, err error) {
	r.N = t.N
	if r.Cluster == nil {
		return r.weighRows(t, score, label, o)
	}
	if _, err := calib.NewSample(score, label); err != nil { // refuse invalid values also in the rows that are not kept
		return nil, badInput(predictions.LocateRow(t, err))
	}
	switch w, _, err := o.weights.readWeights(t); {
	case err != nil:
		return nil, err
	case w != nil:
		return nil, refuseClusterWeights(t, 0)
	}
	kept = r.Cluster.keepAll(t.N)
	r.N = len(kept)
	return kept, nil
}

// readBandwidth reads the bandwidth that the table records.
func (r *ceReport) readBandwidth(t *table.Table, o *ceOptions) error {
	recorded, err := predictions.Perturbation(t)
	if err == nil && o.perturb {
		err = predictions.CheckUnperturbed(t)
	}
	switch {
	case err != nil:
		return badInput(err)
	case recorded == 0:
	case o.Bandwidth != 0 && o.Bandwidth != recorded:
		return badInputf("%s: --bandwidth %v, but its scores were perturbed with %v", t.Path, o.Bandwidth, recorded)
	default:
		o.Bandwidth, r.Recorded = recorded, true
	}
	return nil
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
	formats, err := pictureFormats(o.plots, path)
	if err != nil {
		return err
	}
	plan := calib.BoundPlan{Methods: methods, Lower: o.lower, Curve: o.curves(), Joint: o.joint, Params: o.BoundParams}
	if parts := r.parts(); o.joint {
		// the bounds for all rows, for the groups and for the classes get equal shares of delta
		plan.Params.Delta /= float64(1 + len(parts))
	}
	bar := progress.Start(s.progress(o.quiet), "bounds", int64(plan.Parts()), 0)
	defer bar.Finish()
	plan.Done = func(bound string) { bar.Add(1, bound) }
	found, err := plan.Compute(ctx, sample)
	if err == nil {
		plan.Curve = false
		err = r.computeParts(ctx, path, plan)
	}
	var refused *calib.BoundMethodError
	switch {
	case errors.As(err, &refused): // the flags are valid, so the cause of the error is the file: it has too few rows
		return badInput(fmt.Errorf("%s: %w", displayPath(path), err))
	case err != nil:
		return fmt.Errorf("%s: %w", displayPath(path), err)
	}
	r.Bounds, r.Estimate = found.Upper, found.Estimate
	r.Lower = map[string]calib.LowerBound{o.lower.String(): found.Lower}
	if found.Weighted != nil {
		r.Lower[weightedLower] = *found.Weighted
	}
	r.qualify(methods)
	if err := errors.Join(r.boundVariation(sample, methods), r.deriveNorms(o.norms)); err != nil {
		return err
	}
	return o.writeCurves(s, sample, methods, found, formats)
}

// curves reports whether a flag needs the calibration curve.
func (o ceOptions) curves() bool { return o.curve != "" || o.fits != "" || len(o.plots) > 0 }

// writeCurves writes the calibration curve and the estimates of the methods.
func (o ceOptions) writeCurves(s streams, sample *calib.Sample, methods []calib.BoundMethod, found calib.ErrorBounds,
	formats []picture.Format) error {
	var files []string
	if o.curve != "" {
		if err := writeCurve(o.curve, found.Curve); err != nil {
			return err
		}
		files = append(files, o.curve)
	}
	if o.fits != "" || len(o.plots) > 0 {
		fits := fitAll(sample, methods, o, found)
		if o.fits != "" {
			if err := writeFits(o.fits, fits, found.Curve); err != nil {
				return err
			}
			files = append(files, o.fits)
		}
		if err := drawFits(o, formats, fits, found.Curve); err != nil {
			return err
		}
	}
	s.wrote(append(files, o.plots...)...)
	return nil
}
