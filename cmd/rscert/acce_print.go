package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
)

// printStudies prints the results of all inputs.
func printStudies(s streams, o acceOptions, all []solvedBounds) error {
	if len(all) == 1 {
		return printStudy(s, o, all[0])
	}
	if o.json {
		type input struct {
			Path  string        `json:"path"`
			Radii []acce.Result `json:"radii"`
		}
		var inputs []input
		for _, solved := range all {
			inputs = append(inputs, input{displayPath(solved.path), solved.results})
		}
		return report.WriteJSON(s.out, "acce", map[string][]input{"inputs": inputs})
	}
	for k, solved := range all {
		if k > 0 {
			fmt.Fprintln(s.out)
		}
		fmt.Fprintf(s.out, "%s: ", quote.Line(displayPath(solved.path)))
		if err := printStudy(s, o, solved); err != nil {
			return err
		}
	}
	return nil
}

// printStudy prints the results of one input. After an interruption, some radii of the study may have no results.
func printStudy(s streams, o acceOptions, solved solvedBounds) error {
	results, asked := solved.results, solved.study.Radii()
	switch {
	case o.json && asked > 1:
		return report.WriteJSON(s.out, "acce", map[string][]acce.Result{"radii": results})
	case o.json:
		return report.WriteJSON(s.out, "acce", results[0])
	}
	fmt.Fprintf(s.out, "calibration under attack, %d equal-width bins %s\n", results[0].Bins, calib.LowerClosed.Brackets())
	printSubject(s.out, solved.bounds.ByVotes, results[0])
	fmt.Fprintln(s.out)
	t := tabulateStudy(results)
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if results[0].Estimates != nil {
		fmt.Fprintln(s.out,
			"* estimate from below: some confidences within the bounds are this bad, others may be worse.")
	}
	if results[0].SameExamples {
		fmt.Fprintf(s.out, "Every radius uses the same %d examples, those present at all radii.\n", results[0].N)
	}
	held := "CBS holds"
	if results[0].CCE != nil {
		held = "CBS and CCE hold"
	}
	fmt.Fprintf(s.out, "%s if every bound in the file holds.\n", held)
	if results[0].Certified == nil {
		fmt.Fprintln(s.out, "For a statement about all bounds together give --alpha, the failure probability of each.")
	}
	printCertified(s.out, results)
	if err := printThresholded(s.out, results); err != nil {
		return err
	}
	if err := printByGroup(s.out, results); err != nil {
		return err
	}
	if last := results[len(results)-1]; last.Interrupted || len(results) < asked {
		fmt.Fprintf(s.out, "Interrupted: %d of %d radii; the estimates are the best found so far.\n",
			len(results), asked)
	}
	return nil
}

// writeStudyMarkdown prints the table of results in Markdown.
func writeStudyMarkdown(w io.Writer, results []acce.Result) error {
	fmt.Fprintf(w, "**calibration under attack, %d equal-width bins**\n\n", results[0].Bins)
	t := tabulateStudy(results)
	return t.WriteMarkdown(w)
}

// studyColumn is a column of the table of results. A cell is nil where a result lacks the value.
type studyColumn struct {
	report.Column
	cell func(r acce.Result) report.Cell
}

// roundedStudyColumn returns a column whose numbers are rounded to four decimals. Callers choose report.Up for bounds
// and report.Down for values that an attack attains.
func roundedStudyColumn(name string, to report.Rounding, value func(r acce.Result) *float64) studyColumn {
	return studyColumn{report.RoundedColumn(name, to, 4), func(r acce.Result) report.Cell {
		return report.OptionalNumber(value(r))
	}}
}

// radiusTitle returns the name of a result's radius. The name includes the norm if the norm is known.
func radiusTitle(r acce.Result) string {
	if r.Norm == nil {
		return "radius"
	}
	return r.Norm.Title() + " radius"
}

// studyColumns returns all possible columns.
func studyColumns(results []acce.Result) []studyColumn {
	columns := []studyColumn{
		{report.ExactColumn(radiusTitle(results[0])), func(r acce.Result) report.Cell { return report.OptionalNumber(r.Radius) }},
		{report.ExactColumn("certified"), func(r acce.Result) report.Cell { return report.Count(r.N) }},
		{report.ExactColumn("left out"), func(r acce.Result) report.Cell {
			if r.LeftOut == nil {
				return nil
			}
			return report.Count(*r.LeftOut)
		}},
		roundedStudyColumn("ECE, no attack", report.Nearest, func(r acce.Result) *float64 { return r.ECE }),
		roundedStudyColumn("CBS", report.Up, func(r acce.Result) *float64 { return &r.CBS }),
	}
	for _, s := range acce.Solvers {
		to := report.Down
		if s.Exact {
			to = report.Up
		}
		columns = append(columns, roundedStudyColumn(s.Column, to, s.Value))
	}
	type value = func(acce.Result) *float64
	adaptive := func(pick func(a *acce.AdaptiveInterval) *float64) value {
		return func(r acce.Result) *float64 {
			if r.Adaptive == nil {
				return nil
			}
			return pick(r.Adaptive)
		}
	}
	certified := func(pick func(c *acce.Certified) *float64) value {
		return func(r acce.Result) *float64 {
			if r.Certified == nil {
				return nil
			}
			return pick(r.Certified)
		}
	}
	return append(columns,
		roundedStudyColumn("AdaECE ≥", report.Down,
			adaptive(func(a *acce.AdaptiveInterval) *float64 { return &a.Lower })),
		roundedStudyColumn("AdaECE ≤", report.Up,
			adaptive(func(a *acce.AdaptiveInterval) *float64 { return &a.Upper })),
		studyColumn{report.ExactColumn("failures ≤"), func(r acce.Result) report.Cell {
			if r.Certified == nil {
				return nil
			}
			return report.Count(r.Certified.Failures)
		}},
		roundedStudyColumn("CBS, all", report.Up, certified(func(c *acce.Certified) *float64 { return &c.CBS })),
		roundedStudyColumn("CCE, all", report.Up, certified(func(c *acce.Certified) *float64 { return c.CCE })),
		roundedStudyColumn("AdaECE, all", report.Up, certified(func(c *acce.Certified) *float64 { return c.Adaptive })),
	)
}

// tabulateStudy makes a table with one row per radius, without empty columns.
func tabulateStudy(results []acce.Result) *report.Table {
	columns := slices.DeleteFunc(studyColumns(results), func(c studyColumn) bool {
		return !slices.ContainsFunc(results, func(r acce.Result) bool { return c.cell(r) != nil })
	})
	var t report.Table
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, r := range results {
		var row []report.Cell
		for _, c := range columns {
			row = append(row, c.cell(r))
		}
		t.AddRow(row...)
	}
	return &t
}

// printSubject describes the classifier and the examples to which the results apply.
func printSubject(w io.Writer, byVotes bool, r acce.Result) {
	if r.Quantity != "" {
		how := "with the class of the largest mean score; its confidence is that score"
		if byVotes {
			how = "with the class of the most votes; its confidence is that class's mean score"
		}
		fmt.Fprintf(w, "the smoothed classifier answers %s\n", how)
	}
	if r.Examples > 0 {
		fmt.Fprintf(w, "%d examples were sampled; the table covers those with a certified class within the radius\n", r.Examples)
	}
	if r.EffectiveSize > 0 {
		fmt.Fprintf(w, "weighted means over the rows (effective sample size %.1f)\n", r.EffectiveSize)
	}
	if r.Clean != nil {
		fmt.Fprintf(w, "ECE of all %d without attack: %s\n", r.Clean.N, report.Round(r.Clean.ECE, report.Nearest, 0, 4))
	}
}

// printThresholded treats the classifier as one that answers only where its confidence is at least τ. It prints bounds
// on the share of wrong answers under attack. It prints nothing unless --tau or a requirement gives a τ.
func printThresholded(w io.Writer, results []acce.Result) error {
	if len(results[0].Thresholded) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nanswering only where the confidence is at least τ: share of answers that an attack makes wrong\n\n")
	t := report.Table{Columns: []report.Column{
		report.ExactColumn(radiusTitle(results[0])), report.ExactColumn("τ"),
		report.ExactColumn("may be wrong"), report.ExactColumn("surely right"), report.RoundedColumn("error ≤", report.Up, 4),
	}}
	all := results[0].Certified != nil
	if all {
		t.Columns = append(t.Columns, report.RoundedColumn("error, all", report.Up, 4))
	}
	for _, r := range results {
		for _, e := range r.Thresholded {
			row := []report.Cell{report.OptionalNumber(r.Radius), report.Number(e.Tau), report.Count(e.Wrong), report.Count(e.Right), report.Number(e.Error)}
			if all {
				row = append(row, report.OptionalNumber(e.Certified))
			}
			t.AddRow(row...)
		}
	}
	return t.WriteText(w)
}

// printCertified prints the statements about the whole dataset, if any.
func printCertified(w io.Writer, results []acce.Result) {
	for _, r := range results {
		c := r.Certified
		if c == nil {
			continue
		}
		where := "With"
		if r.Radius != nil {
			where = fmt.Sprintf("Within %s %v, with", radiusTitle(r), *r.Radius)
		}
		also, weighted := "", ""
		if r.EffectiveSize > 0 {
			weighted = "weighted "
		}
		if c.CCE != nil {
			also += ", the " + weighted + "calibration error at most " + report.Round(*c.CCE, report.Up, 0, 4)
		}
		if c.Adaptive != nil {
			also += ", with any bins at most " + report.Round(*c.Adaptive, report.Up, 0, 4)
		}
		fmt.Fprintf(w, "%s probability at least 1 − %v, at most %d of the %d bounds fail: "+
			"over these predictions the %sBrier score under attack is at most %s%s.\n",
			where, c.Delta, c.Failures, r.N, weighted, report.Round(c.CBS, report.Up, 0, 4), also)
	}
	if c := results[0].Certified; c != nil {
		taken := ""
		if c.ExamplesAssumed {
			taken = ", if the file leaves none out"
		}
		over := "Over"
		if len(results) > 1 {
			over = "For each radius separately, over"
		}
		fmt.Fprintf(w, "%s the noise of %d sampled examples%s, independent, with alpha = %v each.\n",
			over, c.Examples, taken, c.Alpha)
	}
}

// printByGroup prints the results of groups, if there are groups.
func printByGroup(w io.Writer, results []acce.Result) error {
	if results[0].ByGroup == nil {
		return nil
	}
	t, all := tabulateGroups(results)
	fmt.Fprintln(w)
	if err := t.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, r := range results {
		for _, g := range r.ByGroup.Without {
			fmt.Fprintf(w, "No example with %s is certified%s.\n", g.Name(), within(r))
		}
	}
	for _, r := range results {
		worst := r.ByGroup.Worst
		held, cbs, cce := "If every bound in the file holds", worst.CBS, worst.CCE
		if c := worst.Certified; all && c != nil {
			held, cbs, cce = fmt.Sprintf("With probability at least 1 − %v, for all %d groups together", c.Delta, r.ByGroup.Of), c.CBS, c.CCE
		}
		also := ""
		if cce != nil {
			also = ", and a calibration error of at most " + report.Round(*cce, report.Up, 0, 4)
		}
		fmt.Fprintf(w, "%s, every group of the table and every mixture of these groups has a Brier score under attack%s of at most %s%s.\n",
			held, within(r), report.Round(cbs, report.Up, 0, 4), also)
	}
	return nil
}

// within describes the radius of a result in words, such as " within L2 radius 0.5". It returns "" without a radius.
func within(r acce.Result) string {
	if r.Radius == nil {
		return ""
	}
	return fmt.Sprintf(" within %s %v", radiusTitle(r), *r.Radius)
}

// tabulateGroups makes a table with a row for each radius and group. The result 'all' says whether the table has
// columns about the whole dataset.
func tabulateGroups(results []acce.Result) (t report.Table, all bool) {
	up := func(name string) report.Column { return report.RoundedColumn(name, report.Up, 4) }
	all, radii := results[0].Certified != nil, results[0].Radius != nil
	t.Columns = []report.Column{report.TextColumn("group")}
	if radii {
		t.Columns = append(t.Columns, report.ExactColumn(radiusTitle(results[0])))
	}
	t.Columns = append(t.Columns, report.ExactColumn("certified"), report.RoundedColumn("ECE, no attack", report.Nearest, 4), up("CBS"), up("CCE"))
	if all {
		t.Columns = append(t.Columns, report.ExactColumn("failures ≤"), up("CBS, all"), up("CCE, all"))
	}
	for _, r := range results {
		for _, g := range r.ByGroup.Groups {
			row := []report.Cell{report.Text(g.Name())}
			if radii {
				row = append(row, report.OptionalNumber(r.Radius))
			}
			row = append(row, report.Count(g.N), report.OptionalNumber(g.ECE), report.Number(g.CBS), report.OptionalNumber(g.CCE))
			if c := g.Certified; all && c != nil {
				row = append(row, report.Count(c.Failures), report.Number(c.CBS), report.OptionalNumber(c.CCE))
			}
			t.AddRow(row...)
		}
	}
	return t, all
}
