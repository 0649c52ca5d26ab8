package tables

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
)

// noChange marks a row or a cell in which the data show no difference. The command benchstat prints the same mark.
const noChange = "~"

// mark returns the cell that says whether the data show a difference.
func mark(a gate.AccuracyChange) report.Cell {
	if a.Differs {
		return report.Text("")
	}
	return report.Text(noChange)
}

// noDifference returns the note that explains the mark noChange.
func noDifference(level float64) string {
	return fmt.Sprintf("%s: the data show no difference at the level %.2g, over all rows together (Holm). This does not prove that there is none.", noChange, 1-level)
}

// fromResults is the warning that the radii depend on the results.
const fromResults = "The results decided which radii the table has, and the p-values do not allow for this. Fix the radii beforehand."

// differences returns a table that compares each further run with the first run. Each cell begins with the change of
// the certified accuracy in percentage points, or with the mark noChange. Then the p-value follows.
func differences(all []gate.Comparison) section {
	first := all[0]
	out := section{caption: fmt.Sprintf("change of the certified accuracy from %s, in percentage points by %s, paired by example (%d examples)",
		first.Baseline, first.RadiusTitle, first.Examples)}
	out.table.Columns = []report.Column{report.TextColumn("run")}
	for _, a := range first.Accuracy {
		out.table.Columns = append(out.table.Columns, report.Column{Name: fmt.Sprint(a.Radius), Align: report.Right, Decimals: report.Shortest})
	}
	for _, c := range all {
		row := []report.Cell{report.Text(c.Run)}
		for _, a := range c.Accuracy {
			change := noChange
			if a.Differs {
				change = report.Round(a.Change, report.Nearest, 2, 1)
				if a.Change > 0 {
					change = "+" + change
				}
			}
			row = append(row, report.Text(fmt.Sprintf("%s (p=%s)", change, report.Round(a.Adjusted, report.Up, 0, 3))))
		}
		out.table.AddRow(row...)
		for _, caution := range says(c.Cautions) {
			out.notes = append(out.notes, c.Run+": "+caution)
		}
	}
	notes := []string{noDifference(first.Level) + " p: McNemar's exact test, two-sided, adjusted for the number of cells."}
	if first.RadiiFromResults {
		notes = append(notes, fromResults)
	}
	out.notes = append(notes, out.notes...)
	return out
}
