package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/curves"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/page"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/warning"
)

// conformalEvaluateOptions are the flags of conformal evaluate.
type conformalEvaluateOptions struct {
	gateOptions
	level      float64
	strata     bool
	plots      []string
	curve      curves.SetCurve
	look       curves.Options
	html       string
	classNames string
	json       bool
}

func newConformalEvaluate(s streams) *cobra.Command {
	var o conformalEvaluateOptions
	var title string
	cmd := &cobra.Command{
		Use:   "evaluate sets.jsonl…",
		Short: "Measure coverage and size of the prediction sets of labelled inputs",
		Long: `This command reads the prediction sets that 'rscert conformal apply' wrote. For each
file it prints the coverage, the mean size of the sets, the number of sets with one
class and the number of empty sets. The coverage is the share of the sets that contain
the label. The command also prints a Clopper–Pearson interval for it.

The column p is the p-value of a test of two assumptions. First, the calibration
examples and the inputs are exchangeable. Second, the inputs are not attacked. Under
both assumptions, the number of misses (sets without the label) has a beta-binomial
distribution. If the sets allow for an attack, or if scores are tied, the number of
misses is stochastically smaller than this distribution says. The value p is the
probability that a number with this beta-binomial distribution is at least the observed
number of misses. With the guarantee 'label' or 'group', the command tests each class or
group. Then p is the smallest p-value of these tests, multiplied by the number of tests,
but at most 1. A small p is evidence that the inputs differ from the calibration
examples, or that they are attacked beyond the radius.

If the sets were computed with --certified-size, the command also bounds their mean
size under the worst attack within the radius.

--html writes one HTML page with the tables, the curves and the conditions of the
guarantee. The page also has the coverage for each size of the sets, for each class and,
with groups, for each group.

With --require, the exit code is 3 if a requirement is not met. There are two kinds of
requirements, as in these examples:

  conformal-coverage>=0.9  share of the sets that contain the label
  conformal-size<=1.2      mean number of classes in a set

Sets that are marked as not sound (sets without a guarantee under attack) never meet a
requirement on the coverage. If some inputs have no label, the coverage over all inputs
is not known. If --require then contains a requirement on the coverage, the command ends
with exit code 2.`,
		Example: `  rscert conformal evaluate sets.jsonl
  rscert conformal evaluate sets.jsonl --require 'conformal-coverage>=0.9' --require 'conformal-size<=1.2'
  rscert conformal evaluate sets-0.25.jsonl sets-0.5.jsonl sets-1.jsonl --plot size.svg
  rscert conformal evaluate sets.jsonl --strata --json
  rscert conformal evaluate sets.jsonl attacked.jsonl --html sets.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("want one sets.jsonl or more")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.look.Title = given(cmd, "title", &title)
			return runConformalEvaluate(s, args, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.level, "level", 0.95, "confidence level of each interval")
	f.BoolVar(&o.strata, "strata", false, "also print the coverage for each set size, for each class and for each group")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	group(cmd, "The tables")
	f.StringVar(&o.html, "html", "", "write one HTML `file` with the tables, the curves and the conditions of the guarantee")
	f.StringVar(&o.classNames, "class-names", "", "with --html, `file` with the class names, in the format of "+
		"--class-names of certify")
	group(cmd, "The page")
	f.StringSliceVar(&o.plots, "plot", nil, "draw a curve to this .svg, .png or .pdf `file`; the curve has one point for each sets.jsonl")
	choiceVar(f, &o.curve, "curve", curves.SetSize, curves.SetCurves, "`name` of the curve: "+curves.SetCurves.Described())
	o.look.Size = picture.Size{Width: 15, Height: 10}
	f.TextVar(&o.look.Size, "plot-size", o.look.Size, "`size` of the figure in centimetres, such as 15x10")
	f.StringVar(&title, "title", "", "title of the figure")
	group(cmd, "The curve")
	gateFlags(cmd, &o.gateOptions)
	group(cmd, "Requirements")
	return cmd
}

// conformalEvaluated is what conformal evaluate --json prints.
type conformalEvaluated struct {
	Files        []*conformalfile.Evaluated `json:"files"`
	Requirements []gate.Outcome             `json:"requirements,omitempty"`
}

func runConformalEvaluate(s streams, paths []string, o conformalEvaluateOptions) error {
	if !(o.level > 0 && o.level < 1) {
		return badInputf("--level %v: want a number between 0 and 1", o.level)
	}
	if err := o.check(paths...); err != nil {
		return err
	}
	if o.html == "" && o.classNames != "" {
		return badInputf("--class-names needs --html")
	}
	if err := checkOutput("html", o.html, append(paths, o.classNames)...); err != nil {
		return err
	}
	formats, err := pictureFormats(o.plots, paths...)
	if err != nil {
		return err
	}
	return o.decide(s, func() ([]gate.Outcome, error) { return o.evaluate(s, paths, formats) })
}

// evaluate evaluates the files, checks the requirements and prints the tables.
func (o conformalEvaluateOptions) evaluate(
	s streams, paths []string, formats []picture.Format,
) ([]gate.Outcome, error) {
	r := conformalEvaluated{}
	var summaries []summary.Summary
	for _, path := range paths {
		e, err := conformalfile.Evaluate(path, 1-o.level)
		if err != nil {
			return nil, badInput(err)
		}
		r.Files = append(r.Files, e)
		if e.Labelled > 0 && e.Labelled < e.Sets {
			err := s.warnf(warning.SetsUnlabelled, "%s: the coverage is that of the %d labelled sets of %d", path, e.Labelled, e.Sets)
			if err != nil {
				return nil, err
			}
		}
		sets := &summary.Sets{Inputs: e.Sets, Size: e.Classes, Labelled: e.Labelled, Unsound: e.Unsound, Why: e.WhyUnsound()}
		if e.Evaluation != nil {
			sets.Covered = int(e.Evaluation.Covered)
		}
		summaries = append(summaries, summary.Summary{Name: filepath.Base(path), Path: path, Sets: sets})
	}
	outcomes, err := o.checkSummary(summaries...)
	if err != nil {
		return nil, err
	}
	r.Requirements = outcomes
	if err := o.draw(r.Files, formats); err != nil {
		return nil, err
	}
	if err := o.writePage(r); err != nil {
		return nil, err
	}
	s.wrote(o.plots...)
	if o.json {
		return outcomes, report.WriteJSON(s.out, "conformal-evaluate", r)
	}
	return outcomes, o.print(s.out, r)
}

// draw writes the files of --plot.
func (o conformalEvaluateOptions) draw(files []*conformalfile.Evaluated, formats []picture.Format) error {
	if len(formats) == 0 {
		return nil
	}
	points := setPoints(files)
	if len(points) < len(files) {
		for _, e := range files {
			if e.Evaluation == nil {
				return badInputf("%s: its inputs have no labels", e.File)
			}
		}
	}
	return writePictures(o.plots, formats, func(format picture.Format) ([]byte, error) {
		return o.curve.Draw(format, points, o.look)
	})
}

// setPoints returns the points of the curves. Files whose inputs have no labels have no point.
func setPoints(files []*conformalfile.Evaluated) (points []curves.SetPoint) {
	for _, e := range files {
		v := e.Evaluation
		if v == nil {
			continue
		}
		points = append(points, curves.SetPoint{
			Name: fmt.Sprintf("%s, miss %.4g", e.Rule, e.Miss), Norm: e.Norm.Title(), Radius: e.Radius,
			Size: float64(e.Classes) / float64(e.Sets), Coverage: v.Coverage.Coverage, Lower: v.Lower, Upper: v.Upper,
			Wanted: 1 - e.Miss,
		})
	}
	return points
}

// writePage writes the page of --html.
func (o conformalEvaluateOptions) writePage(r conformalEvaluated) (err error) {
	if o.html == "" {
		return nil
	}
	p := page.Sets{Files: r.Files, Level: o.level, Requirements: r.Requirements}
	if o.classNames != "" {
		if p.ClassNames, err = dataset.ReadClassNames(o.classNames); err != nil {
			return badInput(err)
		}
	}
	if points := setPoints(r.Files); len(points) > 0 {
		for _, curve := range curves.SetCurves.Values() {
			svg, err := curve.Draw(picture.SVG, points, o.look)
			if err != nil {
				return err
			}
			what := report.Capitalise(curves.SetCurves.What(curve))
			p.Figures = append(p.Figures, page.Figure{Title: what, Meaning: "A point for each file.", SVG: svg})
		}
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	return durable.WriteFile(o.html, text.Bytes())
}

// print prints the tables.
func (o conformalEvaluateOptions) print(w io.Writer, r conformalEvaluated) error {
	var b bytes.Buffer
	percent := func(name string) report.Column {
		c := report.RoundedColumn(name, report.Nearest, 1)
		c.Percent = true
		return c
	}
	table := report.Table{Columns: []report.Column{
		report.TextColumn("file"), report.TextColumn("rule"), report.RoundedColumn("radius", report.Down, 3),
		report.ExactColumn("miss"), report.ExactColumn("sets"),
		percent("coverage %"), percent(fmt.Sprintf("%g %% interval", 100*o.level)),
		report.RoundedColumn("p", report.Nearest, 3),
		report.RoundedColumn("size", report.Nearest, 3), report.ExactColumn("one"), report.ExactColumn("empty"),
		report.RoundedColumn("draws", report.Nearest, 1),
		report.RoundedColumn("certified size", report.Up, 3),
	}}
	for _, e := range r.Files {
		row := []report.Cell{report.Text(filepath.Base(e.File)), report.Text(e.Rule), report.Number(e.Radius),
			report.Number(e.Miss), report.Count(e.Sets)}
		if v := e.Evaluation; v != nil {
			row = append(row, report.Number(v.Coverage.Coverage), report.Interval{Low: v.Lower, High: v.Upper}, worstMisses(v),
				report.Number(float64(e.Classes)/float64(e.Sets)), report.Count(v.Singletons), report.Count(v.Empty),
				report.Number(v.MeanDraws), nil)
			if c := v.CertifiedSize; c != nil {
				row[len(row)-1] = report.Number(c.Upper)
			}
		} else {
			row = append(row, nil, nil, nil, report.Number(float64(e.Classes)/float64(e.Sets)))
		}
		table.AddRow(row...)
	}
	if err := table.WriteText(&b); err != nil {
		return err
	}
	for _, e := range r.Files {
		if err := o.printFile(&b, e); err != nil {
			return err
		}
	}
	if len(r.Requirements) > 0 {
		b.WriteString("\n")
	}
	for _, outcome := range r.Requirements {
		if outcome.Met {
			fmt.Fprintln(&b, outcome.Line())
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// worstMisses combines the tests for too many misses into one p-value. It returns nil if there are no such tests.
func worstMisses(v *conformal.Evaluation) report.Cell {
	if p, known := v.TooManyMisses(); known {
		return report.Number(p)
	}
	return nil
}

// unsoundSets says in words how many of the sets have no guarantee.
func unsoundSets(e *conformalfile.Evaluated) string {
	if e.Unsound == e.Sets {
		return "these sets"
	}
	return fmt.Sprintf("%d of these %d sets", e.Unsound, e.Sets)
}

// printFile prints the notes and the tables by stratum for one file.
func (o conformalEvaluateOptions) printFile(w io.Writer, e *conformalfile.Evaluated) error {
	name := filepath.Base(e.File)
	if !e.Sound {
		fmt.Fprintf(w, "\n%s: %s promise nothing under attack: %s.\n", name, unsoundSets(e), e.WhyUnsound())
	}
	if e.Arithmetic != certify.Exact {
		fmt.Fprintf(w, "\n%s: these sets are for idealised noise, not for the floats that were run.\n", name)
	}
	if !o.strata || e.Evaluation == nil {
		return nil
	}
	for _, part := range []struct {
		of     string
		strata []conformal.Stratum
	}{{"size", e.Evaluation.BySize}, {"class", e.Evaluation.ByClass}, {"group", e.Evaluation.ByGroup}} {
		if len(part.strata) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s, by %s\n\n", name, part.of)
		share := report.RoundedColumn("coverage %", report.Nearest, 1)
		interval := report.RoundedColumn(fmt.Sprintf("%g %% interval", 100*o.level), report.Nearest, 1)
		share.Percent, interval.Percent = true, true
		table := report.Table{Columns: []report.Column{
			report.TextColumn(strings.ToLower(part.of)), report.ExactColumn("sets"), share, interval,
			report.RoundedColumn("size", report.Nearest, 3),
		}}
		for _, s := range part.strata {
			table.AddRow(report.Text(s.Name), report.Count(s.N), report.Number(s.Coverage.Coverage),
				report.Interval{Low: s.Lower, High: s.Upper}, report.Number(s.MeanSize))
		}
		if err := table.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}
