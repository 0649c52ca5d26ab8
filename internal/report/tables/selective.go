package tables

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// selective returns the table of a run's error among the answered inputs, with one row per radius.
func (r Report) selective(s summary.Summary) section {
	out := section{caption: fmt.Sprintf("error%s among the answered inputs in %%, by %s radius", r.runName(s), s.Conditions.NormTitle())}
	out.table.Columns = []report.Column{report.ExactColumn(s.Conditions.RadiusTitle()), report.ExactColumn("unsafe"), report.ExactColumn("answered"), percent("error", report.Up)}
	first := s.Selective[0]
	if first.Certified != nil {
		out.table.Columns = append(out.table.Columns, percent(fmt.Sprintf("with probability %g", 1-s.Dataset.Delta), report.Up))
	}
	if first.Population != nil {
		out.table.Columns = append(out.table.Columns, percent("population", report.Up))
	}
	for _, x := range s.Selective {
		row := []report.Cell{report.Number(x.Radius), report.Count(x.Unsafe), report.Count(x.Answered), report.Number(x.Error)}
		for _, bound := range []*float64{x.Certified, x.Population} {
			if bound != nil {
				row = append(row, report.Number(*bound))
			}
		}
		out.table.AddRow(row...)
	}
	out.notes = append(out.notes,
		"An attack within the radius can make the classifier answer unsafe examples wrongly. The answered examples are certified to be answered rightly.",
		"Error: the largest share of wrong answers, where the attack silences every other example. Both certificates of an example take half of alpha.")
	if first.Certified != nil {
		out.notes = append(out.notes, "With probability: the error if as many certificates are wrong as chance explains.")
	}
	if first.Population != nil {
		out.notes = append(out.notes, fmt.Sprintf("Population: with probability %g, for new inputs drawn like these examples; each radius for itself.", 1-s.Dataset.Delta))
	}
	return out
}
