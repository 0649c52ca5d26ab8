package page

import (
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// selective returns a group with one measure: the errors among the answers. It returns nil if no run has such errors.
func (p Page) selective() []group {
	m := measure{Name: "Error among the answers", Meaning: "The largest share of wrong answers among the inputs that get an " +
		"answer, under every attack within the radius, if every certificate holds (at half of α each). The attack may silence " +
		"every answer that is not certified."}
	for _, radius := range p.radii() {
		found := false
		line := p.across(p.radius(radius), func(s summary.Summary) cell {
			x, ok := s.SelectiveAt(radius)
			found = found || ok
			return selectiveCell(x, ok)
		})
		if found {
			m.Lines = append(m.Lines, line)
		}
	}
	if len(m.Lines) == 0 {
		return nil
	}
	return []group{{Caption: "Errors among the answers under attack", Rows: []measure{m}}}
}

// selectiveCell returns a cell with the error x.Error: the largest share of wrong answers among the inputs that get an
// answer, if every certificate holds. The cell also holds up to two bounds on this error: one for these examples, and
// one for the population.
func selectiveCell(x summary.Selective, ok bool) cell {
	switch {
	case !ok || x.Unsafe+x.Answered == 0:
		return none
	case x.Certified == nil:
		return cell{Value: percent(x.Error, report.Up)}
	case x.Population == nil:
		return cell{percent(x.Error, report.Up), "≤\u00a0" + percent(*x.Certified, report.Up)}
	}
	return cell{percent(x.Error, report.Up), fmt.Sprintf("≤\u00a0%s, population ≤\u00a0%s", percent(*x.Certified, report.Up), percent(*x.Population, report.Up))}
}

// pa returns a group of measures that describe the distribution of the bounds on p_A, or nil if no run has such bounds.
func (p Page) pa() []group {
	if p.Runs[0].PA == nil {
		return nil
	}
	m := measure{Name: "Share of the examples", Meaning: "The share of the examples whose certified class is the label and whose " +
		"lower bound on p_A, the probability of the certified class under the noise, is at least this large."}
	for k, share := range p.Runs[0].PA.Shares {
		m.Lines = append(m.Lines, p.across(fmt.Sprintf("p_A ≥ %g", share.AtLeast), func(s summary.Summary) cell { return shareCell(&s.PA.Shares[k].Share, report.Nearest) }))
	}
	return []group{{Caption: "Lower bounds on p_A", Rows: []measure{
		m,
		p.single("Median bound", "Half of the examples reach this bound. A wrong or abstained example counts as 0.",
			func(s summary.Summary) cell { return cell{Value: report.Round(s.PA.Median, report.Down, 0, 4)} }),
		p.single("Largest bound", "The largest bound of an example. It grows with the number of samples, and the average radius grows with it.",
			func(s summary.Summary) cell { return cell{Value: report.Round(s.PA.Largest, report.Down, 0, 4)} }),
	}}}
}
