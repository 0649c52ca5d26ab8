package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// units returns a note on the units of the radii if a run has a scale for each column. Otherwise it returns "".
func units(runs []summary.Summary) string {
	if !slices.ContainsFunc(runs, func(s summary.Summary) bool { return s.Conditions.Scaled }) {
		return ""
	}
	return "units of " + summary.ScaleSymbol(runs) + ", "
}

// columns returns a table with one row for each noisy column of the data. Each row shows how far its data column may
// change, at the radius in the caption, if no other data column changes.
func (r Report) columns(s summary.Summary) section {
	c := s.Columns
	symbol := summary.ScaleSymbol([]summary.Summary{s})
	out := section{caption: fmt.Sprintf("columns%s: how far each may change alone at the radius %s, in the column's own units",
		r.runName(s), report.Round(c.Radius, report.Down, 0, 4))}
	out.table.Columns = []report.Column{report.TextColumn("column"), report.ExactColumn(symbol), {Name: "semi-axis", Align: report.Right, Round: report.Down, Decimals: 6}}
	for _, a := range c.SemiAxes {
		out.table.AddRow(report.Text(a.Column), report.Number(a.Scale), report.Number(a.Length))
	}
	norm := s.Conditions.Norm.Title()
	out.notes = []string{
		fmt.Sprintf("Certified at a radius r: changes δ that are 0 in the frozen columns, if the %s norm of δ/%s is at most r.", norm, symbol),
		fmt.Sprintf("The largest %s ball in it has the radius %s. A ball of the same volume would have the radius %s, which certifies nothing.",
			norm, report.Round(c.Inscribed, report.Down, 0, 6), report.Round(c.Proxy, report.Nearest, 0, 6)),
	}
	if len(c.Frozen) > 0 {
		out.notes = append(out.notes, "Frozen: "+strings.Join(c.Frozen, ", ")+".")
	}
	return out
}
