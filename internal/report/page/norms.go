package page

import "github.com/rscert/rscert/internal/report/summary"

// norms returns a group of measures for each norm in the field Norms of a summary. The group shows the certified
// accuracy at radii in this norm, and the average radius in this norm.
func (p Page) norms() (groups []group) {
	for _, norm := range summary.FurtherNorms(p.summaries()) {
		runs := summary.AllIn(norm, p.summaries())
		in := Page{Runs: make([]Run, len(runs))}
		for k, s := range runs {
			in.Runs[k].Summary = s
		}
		groups = append(groups, group{Caption: "Certified accuracy by the " + norm.Title() + " radius that follows from the certified radius", Rows: in.accuracies()[:2]})
	}
	return groups
}
