package tables

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// groups returns the tables of the certified accuracy by group. The first table holds the accuracies. If there are
// lower bounds, further tables hold them. Each table has one row per group and a last row for the worst group.
func (r Report) groups(s summary.Summary) []section {
	b := s.ByGroup
	of := fmt.Sprintf("%s%s in %%, by group and %s radius", s.Conditions.Accuracy(), r.runName(s), s.Conditions.NormTitle())
	all := []section{groupSection(s, of, func(p summary.GroupPoint) report.Cell { return report.Number(p.Accuracy.Value) })}
	together := fmt.Sprintf("with probability %g for all %d groups together", 1-b.Delta, len(b.Groups))
	if b.Worst[0].Certified != nil {
		t := groupSection(s, fmt.Sprintf("%s: of these examples at least, %s", of, together),
			func(p summary.GroupPoint) report.Cell { return report.OptionalNumber(p.Certified) })
		t.notes = append(t.notes, "The accuracy of each group allows for certificates that are wrong by chance, at all radii at once.")
		all = append(all, t)
	}
	if b.Worst[0].Population != nil {
		t := groupSection(s, fmt.Sprintf("%s: of the group's population at least, %s", of, together),
			func(p summary.GroupPoint) report.Cell { return report.OptionalNumber(p.Population) })
		t.notes = append(t.notes, "Clopper–Pearson at delta divided by the number of groups, each radius for itself, if the examples of a group are drawn from its population.",
			"Every mixture of the groups has at least the accuracy of the worst group.")
		all = append(all, t)
	}
	return all
}

// groupSection returns a table with one row per group, and a last row for the worst group.
func groupSection(s summary.Summary, caption string, cell func(p summary.GroupPoint) report.Cell) section {
	out := section{caption: caption}
	out.table.Columns = []report.Column{report.TextColumn("group"), report.ExactColumn("examples")}
	for _, p := range s.Curve {
		out.table.Columns = append(out.table.Columns, percent(fmt.Sprint(p.Radius), report.Down))
	}
	add := func(name string, examples report.Cell, curve []summary.GroupPoint) {
		row := []report.Cell{report.Text(name), examples}
		for _, p := range curve {
			row = append(row, cell(p))
		}
		out.table.AddRow(row...)
	}
	for _, g := range s.ByGroup.Groups {
		add(g.Name(), report.Count(g.Examples), g.Curve)
	}
	add("worst group", nil, s.ByGroup.Worst)
	return out
}
