package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report/curves"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/report/tables"
	"github.com/rscert/rscert/internal/warning"
)

// reportOptions are the flags of the command 'report'.
type reportOptions struct {
	gateOptions
	page      pageOptions
	summary   summary.Options
	names     []string
	format    tables.Format
	json      bool
	selective bool
	classes   bool
	baseline  string
	audits    []string
	groups    groupOptions
	history   historyOptions
	project   projectionOptions
	// differences says whether to compare each further run with the first one.
	differences bool
	plots       []string
	curve       curves.Curve
	look        curves.Options
	byModel     byModelOptions
	// choices is the number of runs that the user can choose from, after seeing the results. Points of a sweep that
	// have not begun also count. The user may have stopped the sweep because of its first results. If these points did
	// not count, the number of runs would depend on the results, and the bounds would be invalid.
	choices int
}

func newReport(s streams) *cobra.Command {
	o := reportOptions{summary: summary.Default(), format: tables.Text}
	o.several = true
	var title string
	var completeByModel func()
	cmd := &cobra.Command{
		Use:   "report RUN…",
		Short: "Print tables of runs, compare runs with a baseline, and test requirements in CI",
		Long: `This command summarises runs: the certified accuracy at each radius, the clean and the
smoothed accuracy, the average certified radius and the abstentions. If a run bounds the
confidence, the summary also has bounds on the calibration error under attack and on the
error of confident answers. Several runs appear side by side, with their upper envelope:
the best of the runs at each radius.

RUN is a run folder, a folder that holds run folders (such as the folder of a sweep), a
file certificates.jsonl, or a log of the code of Cohen et al. 2019 (columns idx, label,
predict, radius and correct).

If a run was audited ('rscert audit'), the summary also has its accuracy under attack.

--html writes everything to a single page: the curves, a table of the examples with
pictures of the inputs (--data), the parameters, and the meaning of each number.

The summary has two kinds of numbers that take chance into account. The interval of an
accuracy is a Clopper–Pearson interval with the confidence level --level. It is about
the population from which the examples are drawn. The column "with probability" is about
the examples of the run only: it is a lower bound on their accuracy that holds with
probability 1 − delta. With this probability, at most k of the run's N certificates are
wrong, so the bound is the accuracy minus k/N. The command computes k from delta, alpha
and N.

With --group, the report also has the certified accuracy of each group of examples. With
'--group label', the groups are the true classes. The groups can also come from the file
of --groups, which has a row for each example; the column 'index' names the example.
Each of the G groups gets delta/G, so the lower bounds hold for all groups together. The
smallest of these bounds is also a lower bound on the accuracy for every mixture of the
groups.

With --require, the exit code is 3 if a requirement is not met. The following list has
one example of each kind of requirement. If a command stands in parentheses, only this
command can check the requirement. A requirement marked 'with groups' needs --group or
--groups. A requirement marked 'with classes' needs the flag --classes of 'rscert ce':

` + gate.Help() + `
Every requirement ends with >= or <= and a number. With the prefix 'certified:', the
requirement tests the bound that holds with probability 1 − delta. With the prefix
'best:certified:', it is enough that one of K runs meets the requirement; each of these
runs is then tested at delta/K (docs/gate.md). Some inputs never meet a requirement with
one of these prefixes: runs whose method is not sound, certificates that ignore rounding
(--noise float, or votes from other programs), and logs of other programs. The same is
true of a file of certificates that does not state the number of sampled examples.
Numbers are compared exactly: an accuracy of 59 of 100 meets >=0.59. If the input is
damaged or lacks the required value, the exit code is 2, never 3.

With --baseline, the command compares each RUN with another run on the same data,
example by example. --max-drop limits the loss of certified accuracy at every radius.

--rows and --cols print one table of all runs instead of the usual tables of the runs.
The table has a row for each combination of values of the parameters in --rows, and a
column for each combination of values of the parameters in --cols. Without --rows, it
has one row. A parameter is a name in run.json (such as sigma, n or seed), or one of the
words model, data and run. --value names the quantity in the cells. Write this name as
in the list of requirements above, but without the limit. An example is
certified-accuracy@0.5.

With --by-model, the command compares models, so that you can choose one. --names gives
the model of each run. For each radius the command prints a table with a row for each
model and σ. A row has the certified accuracy, the average radius, the certified
calibration error (CCE) and the certified Brier score (CBS). Another entry says whether
the row is on the Pareto front of certified accuracy and CCE. A last table has, for each
radius, two rank correlations (Spearman's ρ and Kendall's τ-b) over the rows, for each
pair of these quantities: certified accuracy, average radius, CCE and CBS. It leaves out
a pair that fewer than three rows have. You choose among K runs by their results.
Therefore the command uses delta/K, not delta, for the statements about each run. So the
statements with probability 1 − delta hold for all K runs together.

--within also chooses models, by the rule of Emde et al. 2025 (section 5.3). The value
of --within is a tolerance. The rule is applied at each radius. A model is a candidate
if its certified accuracy at this radius is at least the best certified accuracy at this
radius minus the tolerance. At each radius, the rule names the candidate with the
smallest CCE and the candidate with the smallest CBS; these can be the same model. With
--families, it does so for each family that has a candidate. The best certified accuracy
is always the best of all families.`,
		Example: `  rscert report run
  rscert report run-0.25 run-0.5 run-1 --names σ=0.25,σ=0.5,σ=1 --format latex
  rscert report run --radii 0.25,0.5 --json
  rscert report sweep
  rscert report run --groups patients.csv --group sex,region
  rscert report run --group label --require 'certified:worst-group-accuracy@0.25>=0.5'
  rscert report run-0.25 run-0.5 --html runs.html --data mnist/
  rscert report run-0.25 run-0.5 run-1 --plot accuracy.svg --plot accuracy.pdf
  rscert report run --curve calibration --plot calibration.svg
  rscert report a-0.25 a-0.5 b-0.25 b-0.5 --names a,a,b,b --by-model --within 0.03
  rscert report a-0.25 a-0.5 b-0.25 b-0.5 --curve pareto --plot pareto.svg
  rscert report run --require 'certified:certified-accuracy@0.5>=0.60' --require 'clean-accuracy>=0.95' --junit gate.xml
  rscert report runs/* --rows model --cols sigma --value certified-accuracy@0.5
  rscert report run-0.25 run-0.5 --differences --radii 0.25,0.5
  rscert report run-0.25 run-0.5 --require 'best:certified:certified-accuracy@0.5>=0.60'
  rscert report run --require 'certified-accuracy@0.5>=0.60' --history gate.jsonl --curve history --plot gate.svg
  rscert report new --baseline released --max-drop 0.01 --radii 0.25,0.5`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want one run or more")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.look.Title = given(cmd, "title", &title)
			if err := o.project.complete(cmd.Flags().Changed("value")); err != nil {
				return err
			}
			if o.project.given() {
				o.also = append(o.also, o.project.value)
			}
			completeByModel()
			return runReport(cmd.Context(), s, args, o)
		},
	}
	cmd.SetFlagErrorFunc(explainFlag)
	f := cmd.Flags()
	f.SortFlags = false
	choiceVar(f, &o.format, "format", tables.Text, tables.Formats, "`format` of the tables: "+tables.Formats.String())
	f.BoolVar(&o.json, "json", false, "print JSON; the same as --format json")
	radiiVar(f, &o.summary.Radii, "radii", "`radii` for which the tables show the certified accuracy; default: round numbers")
	normsFlag(f, &o.summary.Norms)
	f.StringSliceVar(&o.names, "names", nil, "`names` for the runs, in the order of the arguments; default: the names of the folders or files")
	radiusVar(f, &o.summary.AxesRadius, "axes-radius", "if the run has a σ for each input column, print how far each of these columns may change within this certified `radius` while the other columns stay as they are; default: the median radius of the correct examples")
	f.BoolVar(&o.classes, "classes", false, "also print a table with one row per true class")
	divideFlags(cmd, &o.groups, "also print the certified accuracy of each group; with --group label, the groups are the true classes")
	f.Float64Var(&o.summary.Level, "level", summary.DefaultLevel, "confidence level of the intervals")
	f.Float64Var(&o.summary.Delta, "delta", summary.DefaultDelta, "largest probability that a statement about all examples together is wrong")
	integerVar(f, &o.summary.Bins, "bins", summary.DefaultBins, "number of bins for the calibration errors; all bins have the same width")
	f.Float64SliceVar(&o.summary.Taus, "tau", o.summary.Taus, "confidence `thresholds`; for each threshold, bound the error of the answers with at least this confidence")
	f.BoolVar(&o.selective, "selective", false, "for a smoothed classifier that may stay silent (give no answer), also bound the share of wrong answers among its answers (docs/reject.md)")
	f.StringSliceVar(&o.audits, "audit", nil, "audit `folders` of the runs; default: RUN/audit for each run")
	projectionFlags(cmd, &o.project)
	f.BoolVar(&o.differences, "differences", false, "also test whether the certified accuracy of each later run differs from the first run's; all runs must have the same examples; ~ means that the data show no difference")
	group(cmd, "The tables")
	completeByModel = byModelFlags(cmd, &o.byModel)
	f.StringSliceVar(&o.plots, "plot", nil, "draw a curve to this .svg, .png or .pdf `file`")
	choiceVar(f, &o.curve, "curve", curves.Accuracy, curves.Curves, "`name` of the curve: "+curves.Curves.Described())
	f.TextVar(&o.look.Size, "plot-size", picture.Size{}, "`size` of the figure in centimetres, such as 15x10")
	f.StringVar(&title, "title", "", "title of the figure")
	f.BoolVar(&o.look.Envelope, "envelope", true, "with several runs, also show their upper envelope: at each radius, the best of the runs")
	group(cmd, "The curve")
	pageFlags(cmd, &o.page)
	group(cmd, "The page")
	gateFlags(cmd, &o.gateOptions)
	f.StringVar(&o.baseline, "baseline", "", "compare each run with this `run`, example by example")
	f.TextVar(&o.drop, "max-drop", gate.Drop{}, "largest allowed loss of certified accuracy against --baseline, as a `difference` such as 0.01; if the loss is larger at any radius, the exit code is 3")
	historyFlags(cmd, &o.history)
	group(cmd, "Requirements")
	return cmd
}

func runReport(ctx context.Context, s streams, paths []string, o reportOptions) error {
	if o.json {
		o.format = tables.JSON
	}
	paths, missing, err := expandSweeps(s, paths, o.given())
	if err != nil {
		return err
	}
	o.choices = len(paths) + missing
	inputs := append(slices.Clone(paths), o.baseline)
	if err := o.check(inputs...); err != nil {
		return err
	}
	if err := errors.Join(o.page.check(inputs...), o.groups.check(), o.checkHistory(inputs...), o.byModel.check(len(paths))); err != nil {
		return err
	}
	switch {
	case o.byModel.wanted && o.project.given():
		return hint.Add(badInputf("--by-model and --rows or --cols print different tables"), "give --rows model for a table with one quantity")
	case o.differences && o.format == tables.CSV:
		return hint.Add(badInputf("--differences: the CSV table has no rows for differences between runs"), "--format json holds them")
	case o.drop.Given() && o.baseline == "":
		return badInputf("--max-drop %v: there is no --baseline", o.drop)
	case len(o.names) > 0 && len(o.names) != len(paths):
		return badInputf("--names: %d names for %d runs", len(o.names), len(paths))
	}
	formats, err := pictureFormats(o.plots, inputs...)
	if err != nil {
		return err
	}
	files := append(o.files(), written{"history", o.history.file}, written{"html", o.page.html})
	if err := checkDistinct(append(files, writtenBy("plot", o.plots)...)...); err != nil {
		return err
	}
	return o.decide(s, func() ([]gate.Outcome, error) { return o.report(ctx, s, paths, formats) })
}

// report reads the runs, checks the requirements and prints the tables.
func (o reportOptions) report(ctx context.Context, s streams, paths []string, formats []picture.Format) ([]gate.Outcome, error) {
	o.addToSummary()
	o.byModel.share(&o.summary, o.choices)
	var err error
	if o.summary.Groups, err = o.groups.grouping(ctx, s); err != nil {
		return nil, err
	}
	all, err := o.read(ctx, paths)
	if err != nil {
		return nil, badInput(err)
	}
	runs, baseline := all.runs, all.baseline
	r := tables.Report{Runs: runs, Classes: o.classes}
	if err := o.warn(s, runs, baseline); err != nil {
		return nil, err
	}
	if o.look.Models, err = o.byModel.compare(runs, o.summary.Radii, o.names, o.curve); err != nil {
		return nil, err
	}
	if o.byModel.wanted {
		r.Models = o.look.Models
	}
	o.look.Envelope = o.look.Envelope && summary.Comparable(runs)
	if len(runs) > 1 && o.look.Envelope {
		if r.Envelope, err = summary.Envelope(runs, o.choices); err != nil {
			return nil, err
		}
	}
	if err := o.compareAll(&r, all); err != nil {
		return nil, err
	}
	if r.History, err = o.history.record(s, runs, r.Requirements); err != nil {
		return nil, err
	}
	if r.History != nil {
		o.look.History = r.History.Entries
	}
	if err := o.draw(formats, runs); err != nil {
		return nil, err
	}
	if err := o.page.write(ctx, r); err != nil {
		return nil, err
	}
	s.wrote(append(slices.Clone(o.plots), o.page.html)...)
	return r.Requirements, r.Write(s.out, o.format)
}

// compareAll makes the table of --rows and --cols, compares the runs with each other and with the baseline, and checks
// the requirements.
func (o reportOptions) compareAll(r *tables.Report, all summarised) (err error) {
	if r.Projection, err = o.project.project(all.runs); err != nil {
		return err
	}
	if r.Differences, err = o.compareRuns(all.runs); err != nil {
		return err
	}
	o.shown.write = r.WriteMain
	if r.Requirements, err = o.checkAll(all); err != nil || all.baseline == nil {
		return err
	}
	if o.drop.Given() {
		if err := refuseChosen("max-drop", all.runs...); err != nil {
			return err
		}
	}
	for _, run := range all.runs {
		c, err := gate.Compare(*all.baseline, run)
		if err != nil {
			return badInput(err)
		}
		r.Comparisons = append(r.Comparisons, c)
		if o.drop.Given() {
			r.Requirements = append(r.Requirements, o.drop.Check(c)...)
		}
	}
	gate.Adjust(r.Comparisons)
	return nil
}

// warn prints the warnings of warnUnbound for the runs and the baseline. It also warns of unfinished runs. Unless the
// user turned the upper envelope off (--envelope=false), it also warns of runs that certify different examples, because
// such runs have no upper envelope.
func (o reportOptions) warn(s streams, runs []summary.Summary, baseline *summary.Summary) error {
	if baseline != nil {
		if err := warnUnbound(s, baseline.Path, baseline.Run); err != nil {
			return err
		}
	}
	for _, run := range runs {
		if err := warnUnbound(s, run.Path, run.Run); err != nil {
			return err
		}
		if run.Selected <= run.Examples {
			continue
		}
		if err := s.warnf(warning.RunUnfinished, "%s: the run is not finished: it has %d of %d examples", run.Path, run.Examples, run.Selected); err != nil {
			return err
		}
	}
	if o.look.Envelope && !summary.SameExamples(runs) {
		return s.warnf(warning.DifferentExamples, "the runs certify different examples, so they have no upper envelope; each row is about its own examples")
	}
	return nil
}

// addToSummary extends the options o.summary. The summaries then include the norms and thresholds of the requirements,
// and the bounds on p_A if the curve shows these bounds.
func (o *reportOptions) addToSummary() {
	o.summary.Taus = append(slices.Clone(o.summary.Taus), o.taus()...)
	for _, norm := range o.norms() {
		if !slices.Contains(o.summary.Norms, norm) {
			o.summary.Norms = append(o.summary.Norms, norm)
		}
	}
	o.summary.PA = o.curve == curves.PA
}

// draw writes the files of --plot.
func (o reportOptions) draw(formats []picture.Format, runs []summary.Summary) error {
	if o.look.Size == (picture.Size{}) {
		o.look.Size = o.curve.DefaultSize(runs)
	}
	for k, plot := range o.plots {
		content, err := o.curve.Draw(formats[k], runs, o.look)
		if err != nil {
			return badInput(fmt.Errorf("--curve %s: %w", o.curve, err))
		}
		if err := durable.WriteFile(plot, content); err != nil {
			return err
		}
	}
	return nil
}

// summarised holds the summaries of the runs. All summaries have the same radii.
type summarised struct {
	runs     []summary.Summary
	baseline *summary.Summary // nil without --baseline
	// choice holds a second summary of each run, for requirements on the best run. In these summaries, δ is divided by
	// the number of runs. The field is empty if there is no such requirement.
	choice []summary.Summary
}

// read summarises the runs, and the baseline if there is one.
func (o reportOptions) read(ctx context.Context, paths []string) (all summarised, err error) {
	runs := len(paths)
	if o.baseline != "" {
		paths = append(slices.Clone(paths), o.baseline)
	}
	var sources []summary.Source
	var largest float64
	for _, path := range paths {
		source, err := summary.Read(ctx, path)
		if err != nil {
			return all, err
		}
		most, err := source.Largest()
		if err != nil {
			return all, err
		}
		if err := o.addSelection(ctx, &source); err != nil {
			return all, err
		}
		if o.selective && source.Selection == nil {
			if source.Selection, err = summary.ReadSelection(ctx, path); err != nil {
				return all, err
			}
		}
		sources, largest = append(sources, source), max(largest, most)
	}
	if len(o.summary.Radii) == 0 {
		o.summary.Round = certify.RadiiUpTo(largest)
	}
	names := nameRuns(paths)
	copy(names, o.names)
	if all.runs, err = summarise(sources, names, o.summary); err != nil {
		return all, err
	}
	if o.baseline != "" {
		all.baseline, all.runs = &all.runs[runs], all.runs[:runs]
	}
	if slices.ContainsFunc(o.required, gate.Requirement.Best) {
		options := o.summary
		options.Choices = runs
		if all.choice, err = summarise(sources[:runs], names, options); err != nil {
			return all, err
		}
	}
	return all, o.addAudits(all.runs)
}

// summarise returns a summary of each source. The k-th name is the name of the k-th source.
func summarise(sources []summary.Source, names []string, options summary.Options) (sums []summary.Summary, err error) {
	for k, source := range sources {
		options.Name = names[k]
		sum, err := summary.New(source, options)
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

// nameRuns names each run by the last part of its path, or by the whole path if two runs would get the same name.
func nameRuns(paths []string) []string {
	names := make([]string, len(paths))
	seen := map[string]int{}
	for k, path := range paths {
		names[k] = filepath.Base(path)
		seen[names[k]]++
	}
	for k, path := range paths {
		if seen[names[k]] > 1 {
			names[k] = path
		}
	}
	return names
}
