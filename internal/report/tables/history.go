package tables

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/history"
)

// trends returns the table of the history, with one row for each entry of h.Trends.
func trends(h history.Result) section {
	out := section{caption: fmt.Sprintf("history: commit %s, line %d of %d in %s", h.Commit, h.Line, h.Commits, h.File)}
	value := func(name string) report.Column { return report.RoundedColumn(name, report.Nearest, 4) }
	change := value("change")
	change.Sign = true
	out.table.Columns = []report.Column{report.TextColumn("quantity"), report.TextColumn("run"), report.ExactColumn("commits"),
		value("previous"), value("this"), change, report.TextColumn("")}
	for _, t := range h.Trends {
		row := []report.Cell{report.Text(t.Quantity), report.Text(t.Run), report.Count(t.Commits), report.OptionalNumber(t.Previous), report.Number(t.Value), nil}
		if t.Previous != nil {
			row[len(row)-1] = report.Number(t.Value - *t.Previous)
		}
		note := t.Warning
		if note == "" && t.Worst {
			note = "the worst value so far"
		}
		out.table.AddRow(append(row, report.Text(note))...)
	}
	if !h.Added {
		out.notes = append(out.notes, fmt.Sprintf("The commit already had line %d, which stays as it is: the table shows the values of this line.", h.Line))
	}
	return out
}
