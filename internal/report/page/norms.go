package page

import (
	"fmt"

	"github.com/rscert/rscert/internal/report/summary"
)

// norms returns a group for each further norm: the certified accuracy by the radius in this norm, and its average.
func (p Page) norms() (groups []group) {
	for _, norm := range summary.FurtherNorms(p.summaries()) {
		runs := summary.AllIn(norm, p.summaries())
		in := Page{Runs: make([]Run, len(runs))}
		for k, s := range runs {
			in.Runs[k].Summary = s
		}
		rows := in.accuracies()
		for k := range rows[0].Lines {
			rows[0].Lines[k].Name = fmt.Sprintf("%s %s", norm.Title(), rows[0].Lines[k].Name)
		}
		groups = append(groups, group{Caption: "Certified accuracy by the " + norm.Title() + " radius that follows from the certified radius", Rows: rows[:2]})
	}
	return groups
}
