package page

import "github.com/rscert/rscert/internal/report/summary"

// norms returns a group for each norm that the summary of a run lists in Norms. The group shows the certified accuracy
// by the radius in this norm, and the average radius.
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
