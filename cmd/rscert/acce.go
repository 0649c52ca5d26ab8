package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/acce/acceplot"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/runfolder"
)

// acceOptions are the flags of acce.
type acceOptions struct {
	bins        int
	edge        calib.Edge
	solvers     []acce.Solver
	radii       []float64
	statement   statementOptions
	thresholds  []float64
	adaptive    bool
	same        bool
	groups      groupOptions
	search      searchOptions
	out         string
	plots       []string
	plotSize    *picture.Size // nil: the number of panels determines the size
	curve       acceplot.Curve
	names       []string
	gate        gateOptions
	json, quiet bool
}

// statementOptions are the flags for acce's statement about the whole dataset. The statement holds with probability at
// least 1 − delta.
type statementOptions struct {
	delta    float64
	alpha    *float64 // nil: taken from the run or the file
	examples int      // 0: taken from the run or the file
	wanted   bool     // whether the user gave one of these flags; acce then needs alpha and the number of examples
}

func newACCE(s streams) *cobra.Command {
	var o acceOptions
	var alpha float64
	var size picture.Size
	cmd := &cobra.Command{
		Use:   "acce bounds.csv | RUN…",
		Short: "Bound the calibration error and the Brier score under attack",
		Long: `This command bounds how wrong the calibration of a model can get under an attack. The
input holds bounds on the confidence of each prediction under every attack within a
radius. The command computes the worst calibration that an adversary can reach by
moving every confidence within its bounds (Emde et al. 2025):

  CBS    certified Brier score: the largest top-label Brier score that the adversary
         can reach (Theorem 3.3)
  CCE    certified calibration error: the largest expected calibration error (ECE) that
         the adversary can reach; the ECE uses bins [lo,hi) of equal width, and --bins
         sets their number

--solver chooses how the command looks for the largest calibration error. The solver
'exact' computes the largest calibration error. The other solvers are searches. A search
finds a large calibration error, which need not be the largest. The result of a search
is an estimate from below and certifies nothing. The solvers compute these values:

` + describeSolvers() + `
The flags --admm-… configure the search 'admm', and the flags --dece-… configure the
search 'dece'. For the starts, the learning rates and the penalties of 'admm', the
defaults are the values in the paper (Emde et al. 2025). The paper does not state the
learning rate, the schedule and the momentum of 'dece', so rscert chooses their
defaults. Some of the flags --admm-… take lists. ADMM runs once for every combination of
the values in these lists: by default 16 times, or 8 times if the file has no column
'confidence'. --trace writes the calibration error at every tenth step of 'admm' and
'dece'; --trace-every sets another interval. For ADMM, --trace also writes the distances
of the variables from the constraints.

With --adaptive, the command also computes a lower and an upper bound on the largest
AdaECE under attack. AdaECE is the calibration error over bins of equal count; --bins
sets the number of these bins. The command finds confidences for which AdaECE reaches
the lower bound. When the adversary moves confidences, the edges of the bins move too.
The upper bound holds for every position of the edges.

CBS and CCE are valid upper bounds if every bound in the file holds. Each bound alone
holds with probability 1 − alpha. At each radius separately, with probability 1 − delta,
at most k of the n bounds for this radius fail. Here k is the 1 − delta quantile of
Bin(examples, alpha), and 'examples' is the number of all sampled examples. This number
includes the examples without a certified class, because for each example the same noise
decides whether the class is certified and whether the bound fails. If at most k bounds
fail, the Brier score is at most CBS + k/n, and the calibration error is at most CCE +
2k/n. All statements with probability 1 − delta, here and below, need independent noise
for each example.

--tau is for a classifier that answers only where its confidence is at least τ. The
command prints E/(E+C), an upper bound on the share of answers that are wrong under
attack. Here E counts the examples whose answer may be wrong, and C counts the examples
whose answer is right under every attack. The bound E/(E+C) holds if every bound in the
file holds. With probability 1 − delta, this share is at most (E+k)/(E+C). Here k is the
same number as in CBS + k/n and CCE + 2k/n above: the 1 − delta quantile of
Bin(examples, alpha).

With --group, the command also computes CBS and CCE for each group of examples, such as
the true classes (--group label). A run records the true classes. For other groups of
its examples, give a file (--groups) with a column named 'index' and the columns that
--group names. The noise must not decide which group an example is in. For each group,
the bounds that allow for k failures get delta/G: this is the largest probability that
they are wrong. Here G is the number of groups plus the number of sampled examples that
are not in the file of the bounds. With several columns in --group, each of these
examples counts once for each column. Such an example counts because it may belong to a
group that the file of the bounds does not show. Because each group gets only delta/G,
the bounds that allow for k failures hold for all groups at once, with probability 1 −
delta. The largest of the groups' bounds that allow for k failures also holds for every
mixture of the groups.

If the file has a column 'weight', CBS and CCE are weighted means over the examples in
the file. In the bounds that allow for k failures, the sum of the k largest weights,
divided by the sum of all weights, replaces k/n. --adaptive, --tau and the searches
count every row once, so they refuse rows with different weights.

The file has the columns lower and upper (in [0,1]) and correct (0 or 1). The columns
index, confidence (without attack), radius, examples, alpha, certified and weight are
optional. In a row with certified = 0, the columns lower and upper hold bounds on the
score of the label, not on the score of the predicted class. These rows count only in
four places: for --tau; for the calibration error without attack (it covers all
examples); for the number of sampled examples; and for the groups of --group. The format
is CSV, JSON lines, npz or Parquet; the first three may also be .gz files. If the file
name is -, the command reads stdin. If the argument is a run folder, the command reads
bounds.csv in this folder.

--plot draws one of the figures listed below, and --curve chooses the figure. For the
figures 'solvers' and 'cbs', the command takes several inputs, such as the runs at
several σ.

` + describeAcceCurves(),
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --confidence-radii 0.25,0.5 --out run
  rscert acce run
  rscert acce run --tau 0.5,0.7,0.9 --plot attack.svg
  rscert confidence scores.npz --sigma 0.5 --radii 0.25,0.5 --out bounds.csv
  rscert acce bounds.csv
  rscert acce bounds.csv --delta 0.05 --alpha 0.001 --examples 1000 --json
  rscert acce bounds.csv --same-examples
  rscert acce run --group label
  rscert acce run --groups patients.csv --group sex,region
  rscert acce bounds.csv --solver exact,admm --admm-learning-rate-a 0.001 --trace trace.csv
  rscert acce bounds.csv --radius 0.25 --solver exact,admm,dece,brier --out attack.csv
  rscert acce run-0.25 run-0.5 --solver exact,admm,dece,brier --curve solvers --plot solvers.svg
  rscert acce run --radius 0.25 --solver exact,admm --curve lagrangian --plot lagrangian.svg
  rscert acce run --require 'certified:cce@0.25<=0.15' --require 'cbs@0.25<=0.05'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.curve.OfSeveral() && len(args) > 1 {
				return nil
			}
			return oneFile(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.statement.alpha = given(cmd, "alpha", &alpha)
			o.statement.wanted = slices.ContainsFunc([]string{"delta", "alpha", "examples"}, cmd.Flags().Changed)
			o.plotSize = given(cmd, "plot-size", &size)
			if err := o.search.check(cmd, o.solvers); err != nil {
				return err
			}
			if err := o.checkCurve(len(args)); err != nil {
				return err
			}
			return runACCE(cmd.Context(), s, args, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	integerVar(f, &o.bins, "bins", 15, "number of bins of equal width in the calibration error")
	choiceVar(f, &o.edge, "edge", calib.LowerClosed, calib.Edges, "`edge` that each bin includes; the only value is 'lower', that is, bins [lo,hi)")
	choiceListVar(f, &o.solvers, "solver", acce.Solvers[:1], acce.SolverChoices(), "`solvers` to run: "+acce.SolverChoices().String())
	f.BoolVar(&o.adaptive, "adaptive", false, "also bound the calibration error with bins of equal count")
	radiiVar(f, &o.radii, "radius", "use only the rows with these `radii`; default: all radii, each separately")
	f.Float64SliceVar(&o.thresholds, "tau", nil, "`thresholds` τ; for each τ, bound the error of a classifier that answers only where its confidence is at least τ")
	f.Float64Var(&o.statement.delta, "delta", 0.05, "for the bounds that hold even if k bounds in the file fail: the largest probability, at each radius, that these bounds are wrong")
	f.Float64Var(&alpha, "alpha", 0, "largest probability that a single bound in the file is wrong; default: the value in the run or the file")
	integerVar(f, &o.statement.examples, "examples", 0, "number of all sampled examples, with or without a certified class; default: the number in the run or the file")
	f.StringSliceVar(&o.plots, "plot", nil, "draw a figure to this .svg, .png or .pdf `file`")
	choiceVar(f, &o.curve, "curve", acceplot.UnderAttack, acceplot.Curves, "`name` of the figure: "+acceplot.Curves.String())
	f.StringSliceVar(&o.names, "names", nil, "`names` for the inputs in the figures 'solvers' and 'cbs'; default: the names of the folders or files")
	f.TextVar(&size, "plot-size", picture.Size{}, "`size` of the figure in centimetres, such as 15x10; default: depends on the figure and the number of its panels")
	f.BoolVar(&o.same, "same-examples", false, "at every radius, use the same examples: those that are certified at all radii")
	divideFlags(cmd, &o.groups, "also compute CBS and CCE for each group")
	gateFlags(cmd, &o.gate)
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.StringVar(&o.out, "out", "", "CSV `file` for the worst confidences that the solvers find")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Computation")
	addSearchFlags(cmd, &o.search)
	group(cmd, "Searches (admm and dece)")
	return cmd
}

// describeSolvers lists the solvers for the help text.
func describeSolvers() string {
	var b strings.Builder
	for _, s := range acce.Solvers {
		fmt.Fprintf(&b, "  %-6s %s\n", s.Name, s.What)
	}
	return b.String()
}

// study checks the flags and returns the study that they describe. It takes alpha and the number of examples from the
// argument 'bounds' if the user did not give them as flags.
func (o acceOptions) study(s streams, bounds runfolder.Bounds) (acce.Options, error) {
	st := o.statement
	switch {
	case o.bins < 1 || o.bins > acce.MaxBins:
		return acce.Options{}, badInputf("--bins %d: want 1 to %d", o.bins, acce.MaxBins)
	case o.edge != calib.LowerClosed:
		return acce.Options{}, hint.Add(badInputf("--edge %s: the certified calibration error is defined for bins [lo,hi), which include the lower edge", o.edge),
			"to compare, compute the ECE for the same bins: rscert metrics --edge lower")
	case !(st.delta > 0 && st.delta < 1):
		return acce.Options{}, badInputf("--delta %v: want a number between 0 and 1", st.delta)
	}
	alpha, examples, err := bounds.Sampled(st.alpha, st.examples)
	study := acce.Options{
		Bins: o.bins, Solvers: o.solvers, Radii: o.radii, Adaptive: o.adaptive, Attack: o.out != "" || len(o.plots) > 0 && o.curve == acceplot.UnderAttack,
		Thresholds:   slices.Concat(o.thresholds, o.gate.taus()),
		Dataset:      &acce.Dataset{Delta: st.delta, Alpha: alpha, Examples: examples, Optional: !st.wanted},
		SameExamples: o.same, ADMM: o.search.admm, DECE: o.search.dece,
		Progress: func(radius *float64, solver string, steps int) (acce.Progress, func()) {
			return showSearch(s, o.quiet, radius, solver, steps)
		},
	}
	if o.search.trace != "" || o.curve.OfSteps() {
		study.TraceEvery = o.search.traceEvery
	}
	if bounds.OfRun() {
		study.Quantity, study.Norm = string(meanScores), &bounds.Norm
	}
	return study, badInput(err)
}

func runACCE(ctx context.Context, s streams, paths []string, o acceOptions) error {
	formats, err := o.checkFiles(paths)
	if err != nil {
		return err
	}
	if err := errors.Join(o.gate.check(paths...), o.groups.check()); err != nil {
		return err
	}
	return o.gate.decide(s, func() ([]gate.Outcome, error) { return o.solveAll(ctx, s, paths, formats) })
}

// solvedBounds holds the bounds of one input and the study of these bounds.
type solvedBounds struct {
	path    string
	bounds  runfolder.Bounds
	study   *acce.Study
	results []acce.Result
}

// solveAll computes the study of each input and prints the results. Each input is a run or a file of bounds.
// solveAll returns the outcomes of the requirements.
func (o acceOptions) solveAll(ctx context.Context, s streams, paths []string, formats []picture.Format) ([]gate.Outcome, error) {
	var all []solvedBounds
	for _, path := range paths {
		solved, err := o.solve(ctx, s, path)
		if err != nil {
			return nil, err
		}
		all = append(all, solved)
		if len(solved.results) < solved.study.Radii() {
			break
		}
	}
	// An interrupted search prints its best result so far, but writes no file.
	if ctx.Err() == nil {
		first := all[0].study // --out and --trace allow only one input
		err := errors.Join(writeWith(o.out, first.WriteAttack), writeWith(o.search.trace, first.WriteTrace), o.draw(formats, all))
		if err != nil {
			return nil, err
		}
		s.wrote(append([]string{o.out, o.search.trace}, o.plots...)...)
	}
	if err := printStudies(s, o, all); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var outcomes []gate.Outcome
	for _, solved := range all {
		of, err := o.gate.checkStudy(solved.path, solved.bounds, solved.results)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, of...)
	}
	return outcomes, nil
}

// solve computes the study of the bounds in a file or run.
func (o acceOptions) solve(ctx context.Context, s streams, path string) (solvedBounds, error) {
	solved := solvedBounds{path: path}
	var err error
	if solved.bounds, err = findBounds(ctx, path, s); err != nil {
		return solved, err
	}
	options, err := o.study(s, solved.bounds)
	if err != nil {
		return solved, err
	}
	start := time.Now()
	table, err := readTable(ctx, s, solved.bounds.File, o.quiet, o.groups.extend(acce.Columns()))
	if err != nil {
		return solved, err
	}
	if err := warnOfEstimatedWeights(s, table, path, "nothing bounds their error: no figure accounts for it"); err != nil {
		return solved, err
	}
	if options.Groups, err = o.groups.split(ctx, s, o.quiet, table); err != nil {
		return solved, err
	}
	if solved.study, err = acce.NewStudy(table, options); err != nil {
		return solved, badInput(err)
	}
	reading := time.Since(start).Seconds()
	if solved.results, err = solved.study.Solve(ctx); err != nil {
		return solved, err
	}
	for _, r := range solved.results {
		r.Seconds["read"] = reading
	}
	return solved, nil
}

// checkFiles checks the output files against the inputs and returns the formats of the pictures.
func (o acceOptions) checkFiles(inputs []string) ([]picture.Format, error) {
	for _, f := range []struct{ flag, path string }{{"out", o.out}, {"trace", o.search.trace}} {
		if err := checkOutput(f.flag, f.path, inputs...); err != nil {
			return nil, err
		}
	}
	if o.out != "" && o.out == o.search.trace {
		return nil, badInputf("--trace %s: is the same file as --out", o.out)
	}
	return pictureFormats(o.plots, inputs...)
}

// writeWith creates the named file and fills it with the function 'write'. It does nothing if the name is empty.
func writeWith(file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return durable.WriteFile(file, b.Bytes())
}

// showSearch shows the largest calibration error that a search has found so far.
func showSearch(s streams, quiet bool, radius *float64, name string, steps int) (acce.Progress, func()) {
	if radius != nil {
		name += fmt.Sprintf(" at radius %v", *radius)
	}
	bar := progress.Start(s.progress(quiet), name, int64(steps), 0)
	var mu sync.Mutex
	best := 0.0
	return func(steps int, ece float64) {
		mu.Lock()
		best = max(best, ece)
		found := fmt.Sprintf("best %.4f", best)
		mu.Unlock()
		bar.Add(int64(steps), found)
	}, bar.Finish
}
