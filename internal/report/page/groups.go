package page

import (
	"fmt"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// groupTables holds the tables of the groups of one run. The first table shows the accuracy of each group. Two more
// tables show lower bounds on the accuracy: one for these examples, and one for the population of each group. A table
// of lower bounds is left out if the bounds are unknown.
type groupTables struct {
	Run    string
	Groups int
	Tables []groupTable
}

// groupTable has a row for each group, and a last row for the worst group.
type groupTable struct {
	Caption string
	Radii   []string
	Rows    []groupRow
	Notes   []string
}

type groupRow struct {
	Name, Examples string // Examples is empty for the worst group
	Cells          []string
}

// groupTables returns the tables of all runs with groups. The tables show the same numbers as the text report.
func (p Page) groupTables() (all []groupTables) {
	for _, r := range p.Runs {
		b := r.ByGroup
		if b == nil {
			continue
		}
		of := fmt.Sprintf("%s by group and %s radius", report.Capitalise(r.Conditions.Accuracy()), r.Conditions.NormTitle())
		together := fmt.Sprintf("with probability %s for all %d groups together", complement(b.Delta), len(b.Groups))
		t := groupTables{Run: r.Name, Groups: len(b.Groups)}
		t.Tables = append(t.Tables, tableOfGroups(r.Summary, of, func(g summary.GroupPoint) *float64 { return &g.Accuracy.Value }))
		if b.Worst[0].Certified != nil {
			t.Tables = append(t.Tables, tableOfGroups(r.Summary, of+": of these examples at least, "+together,
				func(g summary.GroupPoint) *float64 { return g.Certified },
				"The accuracy of each group allows for certificates that are wrong by chance, at all radii at once."))
		}
		if b.Worst[0].Population != nil {
			t.Tables = append(t.Tables, tableOfGroups(r.Summary, of+": of the group's population at least, "+together,
				func(g summary.GroupPoint) *float64 { return g.Population },
				"Clopper–Pearson at delta divided by the number of groups, each radius for itself, if the examples of a group are drawn from its population.",
				"Every mixture of the groups has at least the accuracy of the worst group."))
		}
		all = append(all, t)
	}
	return all
}

// tableOfGroups returns a table with a row for each group and a column for each radius. Each cell shows one number from
// the GroupPoint for the group and radius of the cell. The function 'of' selects this number.
func tableOfGroups(s summary.Summary, caption string, of func(summary.GroupPoint) *float64, notes ...string) groupTable {
	t := groupTable{Caption: caption, Notes: notes}
	for _, at := range s.Curve {
		t.Radii = append(t.Radii, fmt.Sprint(at.Radius))
	}
	add := func(name, examples string, curve []summary.GroupPoint) {
		row := groupRow{Name: name, Examples: examples}
		for _, at := range curve {
			cell := none.Value
			if x := of(at); x != nil {
				cell = percent(*x, report.Down)
			}
			row.Cells = append(row.Cells, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, g := range s.ByGroup.Groups {
		add(quote.Line(g.Name()), fmt.Sprint(g.Examples), g.Curve)
	}
	add("worst group", "", s.ByGroup.Worst)
	return t
}
