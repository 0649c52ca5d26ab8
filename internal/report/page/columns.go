package page

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
)

// article puts "an" or "a" before the name of a norm.
func article(norm string) string {
	if strings.HasPrefix(norm, "scaled") {
		return "a " + norm
	}
	return "an " + norm
}

// units explains the radii of runs whose noise has a scale for each column.
func (p Page) units() (all []assumption) {
	for _, r := range p.Runs {
		c := r.Columns
		if c == nil {
			continue
		}
		symbol := r.Conditions.Law.Law().Words().Symbol
		var axes []string
		for _, a := range c.SemiAxes {
			axes = append(axes, fmt.Sprintf("%s %s", quote.Line(a.Column), report.Round(a.Length, report.Down, 0, 6)))
		}
		text := fmt.Sprintf("The radii of %s are in units of each column's %s: the norm of a change δ is the %s norm of δ/%s. "+
			"If only one column changes, the radius %s allows these changes (in the column's own units): %s. "+
			"The largest %s ball of changes within this radius has the radius %s.",
			r.Name, symbol, r.Conditions.Norm.Title(), symbol, report.Round(c.Radius, report.Down, 0, 4), strings.Join(axes, ", "),
			r.Conditions.Norm.Title(), report.Round(c.Inscribed, report.Down, 0, 6))
		if len(c.Frozen) > 0 {
			text += " These columns are frozen, so nothing is certified of inputs that differ in them: " + quote.Line(strings.Join(c.Frozen, ", ")) + "."
		}
		all = append(all, assumption{"In which units are the radii?", text})
	}
	return all
}
