package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/comparison"
)

// write prints the tables.
func (r *radiusReport) write(w io.Writer) error {
	var summaries []certify.Summary
	for _, row := range r.Methods {
		summaries = append(summaries, row.Summary)
	}
	if !r.lead().any() && r.Methods[0].ByMargin == nil {
		if err := writeSummaries(w, summaries); err != nil {
			return err
		}
	} else if err := r.writeRows(w, summaries); err != nil {
		return err
	}
	if err := r.writeGains(w); err != nil {
		return err
	}
	return writeClasses(w, summaries...)
}

// leading says which columns stand to the left of the results. The column of the method has no field, because every
// table has this column. The field 'differ' means that the rows differ in the number of examples, in the number of
// sampled examples or in α.
type leading struct{ file, differ, sigma, margin, size, temperature bool }

func (l leading) any() bool { return l != leading{} }

// lead returns the leading columns that the rows need.
func (r *radiusReport) lead() leading {
	has := func(test func(*comparison.Row) bool) bool { return slices.ContainsFunc(r.Methods, test) }
	return leading{
		file: has(func(row *comparison.Row) bool { return row.File != "" }),
		differ: has(func(row *comparison.Row) bool {
			first := r.Methods[0]
			return row.Examples != first.Examples || row.Sampled != first.Sampled || row.Alpha != first.Alpha
		}),
		sigma:       has(func(row *comparison.Row) bool { return row.Sigma != r.Methods[0].Sigma }),
		margin:      has(func(row *comparison.Row) bool { return row.MarginKind != "" }),
		size:        has(func(row *comparison.Row) bool { return row.Size > 0 }),
		temperature: has(func(row *comparison.Row) bool { return row.Temperature > 0 }),
	}
}

// columns returns the leading columns. One of them is the column of the method.
func (l leading) columns() (columns []report.Column) {
	add := func(shown bool, c report.Column) {
		if shown {
			columns = append(columns, c)
		}
	}
	add(l.file, report.TextColumn("run"))
	add(l.differ, report.ExactColumn("examples"))
	add(l.differ, report.ExactColumn("α"))
	add(l.sigma, report.ExactColumn("σ"))
	add(l.margin, report.TextColumn("margin"))
	add(l.size, report.ExactColumn("n"))
	add(true, report.Column{Name: "method", Align: report.Right})
	add(l.temperature, report.ExactColumn("T"))
	return columns
}

// cells returns the cells of a row in the leading columns.
func (l leading) cells(row *comparison.Row) (cells []report.Cell) {
	add := func(shown bool, c report.Cell) {
		if shown {
			cells = append(cells, c)
		}
	}
	add(l.file, report.Text(row.File))
	add(l.differ, report.Count(row.Examples))
	add(l.differ, report.Number(row.Alpha))
	add(l.sigma, report.Number(row.Sigma))
	add(l.margin, report.Text(row.MarginKind))
	add(l.size, report.Count(row.Size))
	add(true, report.Text(nameMethod(row.Method, row.Sound)))
	if row.Temperature > 0 {
		add(l.temperature, report.Number(row.Temperature))
	} else {
		add(l.temperature, nil)
	}
	return cells
}

// writeRows prints a table with a row for each method and setting.
func (r *radiusReport) writeRows(w io.Writer, summaries []certify.Summary) error {
	lead := r.lead()
	quantity := ""
	if r.Methods[0].ByMargin != nil {
		quantity = "margin"
	}
	writeSummaryTitle(w, summaries[0], quantity, lead.sigma, lead.differ)
	t := report.Table{Columns: valueColumns(r.Methods[0].Values().At, r.average(), lead.columns()...)}
	repeats := 1
	for _, row := range r.Methods {
		v := row.Values()
		repeats = max(repeats, v.Count)
		cells := lead.cells(row)
		for _, c := range v.Certified {
			cells = append(cells, meanCell(v.Count, c))
		}
		t.AddRow(append(cells, meanCell(v.Count, v.Average), abstainedCell(v))...)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	switch {
	case repeats > 1:
		fmt.Fprintf(w, "\nmean ± standard deviation over %d subsamples of the votes (seed %d); the means describe the method, and are no\n"+
			"certified accuracies\n", repeats, *r.Seed)
	case !lead.differ:
		writeStatements(w, summaries)
	}
	more := ""
	if r.swept() {
		more = comparison.ChooseSetting
	}
	writeSummaryNotes(w, summaries, more)
	return r.writeConditions(w)
}

// writeConditions prints the conditions of the certificates. The conditions may differ between runs. If there are
// several runs, each line starts with the name of its run.
func (r *radiusReport) writeConditions(w io.Writer) error {
	done := map[string]bool{}
	for _, row := range r.Methods {
		if done[row.File] {
			continue
		}
		done[row.File] = true
		var text strings.Builder
		if err := conditionsOf(row.Summary).write(&text); err != nil {
			return err
		}
		for line := range strings.Lines(text.String()) {
			if row.File != "" {
				line = quote.Line(row.File) + ": " + line
			}
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// average returns the title of the column of averages.
func (r *radiusReport) average() string {
	if r.Methods[0].ByMargin != nil {
		return "average margin"
	}
	return "average radius"
}

// meanCell returns the cell for a value, or for the mean and the standard deviation of several values.
func meanCell(count int, s comparison.Spread) report.Cell {
	if count == 1 {
		return s.Mean
	}
	return report.Spread{Mean: float64(s.Mean), SD: float64(s.SD)}
}

// abstainedCell returns the cell for the number of examples without a certificate.
func abstainedCell(v comparison.Values) report.Cell {
	if v.Count == 1 {
		return report.Count(v.Abstained.Mean)
	}
	return report.Text(report.Round(float64(v.Abstained.Mean), report.Nearest, 0, 1))
}

// writeGains prints the table of --gain-over.
func (r *radiusReport) writeGains(w io.Writer) error {
	k := slices.IndexFunc(r.Methods, func(row *comparison.Row) bool { return row.Gain != nil })
	if k < 0 {
		return nil
	}
	fmt.Fprintf(w, "\ngain over %s: the difference (accuracies in points), and the difference in %% of the value of %s\n\n",
		r.Methods[k].Gain.Over, r.Methods[k].Gain.Over)
	lead := r.lead()
	columns := append(lead.columns(), report.TextColumn("gain"))
	for _, at := range r.Methods[k].Values().At {
		columns = append(columns, report.Column{Name: fmt.Sprint(at), Align: report.Right})
	}
	t := report.Table{Columns: append(columns, report.Column{Name: r.average(), Align: report.Right})}
	for _, row := range r.Methods {
		if row.Gain == nil {
			continue
		}
		difference := append(lead.cells(row), report.Text("difference"))
		relative := append(lead.cells(row), report.Text("in %"))
		for _, c := range row.Gain.Certified {
			difference = append(difference, gainCell(float64(c.Difference), 2, 1))
			relative = append(relative, gainCell(float64(c.Ratio)-1, 2, 2))
		}
		average := row.Gain.Average()
		t.AddRow(append(difference, gainCell(float64(average.Difference), 0, 4))...)
		t.AddRow(append(relative, gainCell(float64(average.Ratio)-1, 2, 2))...)
	}
	return t.WriteText(w)
}

// gainCell returns a cell with the number 10^shift·x, rounded to the given decimals. A number that is not negative gets
// the sign +.
func gainCell(x float64, shift, decimals int) report.Cell {
	text := report.Round(x, report.Nearest, shift, decimals)
	if x >= 0 || math.Round(x*math.Pow10(shift+decimals)) == 0 {
		text = "+" + text
	}
	return report.Text(text)
}
