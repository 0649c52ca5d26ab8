package page

import (
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/tables"
)

// requirements holds the outcomes of the requirements on the runs.
type requirements struct {
	Lead string
	Rows []requirement
}

// requirement shows the outcome of one requirement.
type requirement struct {
	Met              bool
	Run, Text, Value string
}

// requirements returns the requirements and their outcomes for the template, or nil if there are no requirements.
func (p Page) requirements() *requirements {
	if len(p.Requirements) == 0 {
		return nil
	}
	r := requirements{Lead: gate.Verdict(p.Requirements)}
	for _, o := range p.Requirements {
		r.Rows = append(r.Rows, requirement{o.Met, quote.Line(o.Run), o.Requirement, quote.Line(o.Says)})
	}
	return &r
}

// comparison is the table of a run and its baseline.
type comparison struct {
	Caption string
	Names   []string
	Rows    [][]string
	Notes   []string
}

func (p Page) comparisons() (all []comparison) {
	for _, c := range p.Comparisons {
		c.Run, c.Baseline = quote.Line(c.Run), quote.Line(c.Baseline)
		caption, table, notes := tables.Comparison(c)
		names, rows := table.Strings()
		all = append(all, comparison{caption, names, rows, notes})
	}
	return all
}
