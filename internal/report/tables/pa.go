package tables

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// pa returns the table of the bounds on p_A, with one row per run. It returns no table if the summaries have no such
// bounds.
func (r Report) pa() []section {
	if r.Runs[0].PA == nil {
		return nil
	}
	s := section{caption: fmt.Sprintf("examples in %%, by the lower bound on p_A, the probability of the certified class (%s)", examples(r.Runs))}
	s.table.Columns = []report.Column{{Name: "run", Align: report.Right}}
	for _, p := range r.Runs[0].PA.Shares {
		s.table.Columns = append(s.table.Columns, percent(fmt.Sprintf("≥ %g", p.AtLeast), report.Down))
	}
	s.table.Columns = append(s.table.Columns, report.RoundedColumn("median", report.Down, 4), report.RoundedColumn("largest", report.Down, 4),
		report.ExactColumn("n"), report.RoundedColumn("average "+summary.Norms(r.Runs)+" radius", report.Down, 4))
	for _, run := range r.Runs {
		row := []report.Cell{r.rowName(run)}
		for _, p := range run.PA.Shares {
			row = append(row, report.Number(p.Share.Value))
		}
		s.table.AddRow(append(row, report.Number(run.PA.Median), report.Number(run.PA.Largest), report.Count(run.Conditions.N),
			report.RadiusNumber(run.AverageRadius.Value))...)
	}
	s.notes = []string{"Only examples with the right class count; for the median, the others have the bound 0. n samples limit the bound, " +
		"so the average radius grows with n. Easy examples have the largest radii and dominate it."}
	return []section{s}
}

// tidyPA returns one row of the CSV table for each entry of PA.Shares. The row holds the share of the run's examples
// whose bound on p_A is at least tau.
func tidyPA(s summary.Summary) (rows []csvRow) {
	if s.PA == nil {
		return nil
	}
	for _, p := range s.PA.Shares {
		row := shareRow(s.Name, "pa", &p.Share, nil, nil, nil)
		row.tau = p.AtLeast
		rows = append(rows, row)
	}
	return rows
}
