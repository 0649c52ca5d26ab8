package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// group is a table of measures, with a column for each run.
type group struct {
	Caption string
	Rows    []measure
	Folded  bool // hidden until opened
	Plain   bool // the cells hold words, not numbers
}

// measure is a quantity with its meaning. It has one number for each run, or one number for each run and radius.
type measure struct {
	Name, Meaning string
	Lines         []line
}

// line holds one number for every run.
type line struct {
	Name  string // printed after the measure's name; empty for a single line
	Cells []cell // one for each run
}

// cell is a number and a note on it.
type cell struct{ Value, Note string }

// none is the cell for a run that lacks the measure.
var none = cell{Value: "–"}

func (p Page) measures() []group {
	groups := append([]group{{Caption: "Accuracy", Rows: p.accuracies()}}, p.norms()...)
	groups = append(groups, p.selective()...)
	groups = append(groups, p.pa()...)
	if rows := p.calibrations(); len(rows) > 0 {
		groups = append(groups, group{Caption: "Confidence and calibration under attack", Rows: rows})
	}
	if rows := p.thresholded(); len(rows) > 0 {
		groups = append(groups, group{Caption: "Errors of confident answers under attack", Rows: rows, Folded: true})
	}
	return groups
}

// across returns a line with a cell for every run.
func (p Page) across(name string, of func(summary.Summary) cell) line {
	l := line{Name: name}
	for _, r := range p.Runs {
		l.Cells = append(l.Cells, of(r.Summary))
	}
	return l
}

// single returns a measure with one line, which has a cell for each run.
func (p Page) single(name, meaning string, of func(summary.Summary) cell) measure {
	return measure{name, meaning, []line{p.across("", of)}}
}

func (p Page) accuracies() []measure {
	certified := measure{Name: report.Capitalise(summary.Accuracy(p.summaries())),
		Meaning: "The share of the examples whose certified class is the label and stays so under every " +
			"perturbation of " + article(summary.Norms(p.summaries())) + " norm up to the radius." + p.claims()}
	for _, radius := range p.radii() {
		certified.Lines = append(certified.Lines, p.across(p.radius(radius), func(s summary.Summary) cell {
			at := s.At(radius)
			c := cell{percent(at.Accuracy.Value, report.Down), interval(&at.Accuracy)}
			if at.Certified != nil {
				c.Note = "≥\u00a0" + percent(*at.Certified, report.Down) + ", " + c.Note
			}
			return c
		}))
	}
	return []measure{
		certified,
		p.single("Average certified "+summary.Norms(p.summaries())+" radius", "The mean of the certified radii, where a wrong or abstained example "+
			"counts as 0.", averageCell),
		p.single("Abstained", "The share of the examples for which no class could be certified.",
			func(s summary.Summary) cell { return shareCell(&s.Abstained, report.Nearest) }),
		p.single("Accuracy without noise", "The share of the examples that the model itself classifies correctly. "+
			"An estimate: nothing is certified.",
			func(s summary.Summary) cell { return shareCell(s.Clean, report.Down) }),
		p.single("Accuracy under noise", "The share of the examples for which most noisy samples vote for the "+
			"label: an estimate of the smoothed classifier's accuracy.",
			func(s summary.Summary) cell { return shareCell(s.Smoothed, report.Down) }),
	}
}

// roundRadius prints an average radius, rounded down.
func roundRadius(x float64) string {
	return report.Round(float64(report.RadiusNumber(x)), report.Down, 0, 3)
}

func averageCell(s summary.Summary) cell {
	a := s.AverageRadius
	c := cell{Value: roundRadius(a.Value)}
	var notes []string
	if a.Certified != nil {
		notes = append(notes, "≥\u00a0"+roundRadius(*a.Certified))
	}
	if a.Low != nil && a.High != nil {
		notes = append(notes, fmt.Sprintf("[%s,\u00a0%s]", roundRadius(*a.Low), report.Round(*a.High, report.Up, 0, 3)))
	}
	c.Note = strings.Join(notes, ", ")
	return c
}

// legend returns the text that explains the notes under the numbers.
func (p Page) legend() string {
	level, delta := p.Runs[0].Level, 0.0
	for _, r := range p.Runs {
		if r.Dataset != nil {
			delta = r.Dataset.Delta
		}
	}
	text := "The small print under a number gives: "
	if delta > 0 {
		text += fmt.Sprintf("after ≥ or ≤, the bound that holds for these examples with probability %s over the noise; "+
			"", complement(delta))
	}
	return text + fmt.Sprintf("in brackets, the %s confidence interval of the number for the population that the "+
		"examples are drawn from.", report.Round(level, report.Nearest, 2, report.Shortest)+"\u00a0%")
}

// radii returns the radii of the runs' curves.
func (p Page) radii() []float64 {
	radii := map[float64]bool{}
	for _, r := range p.Runs {
		for _, at := range r.Curve {
			radii[at.Radius] = true
		}
	}
	return slices.Sorted(maps.Keys(radii))
}

// calibrationKey identifies bounds by their radius. If the bounds state no radius, the field 'given' is false.
type calibrationKey struct {
	radius float64
	given  bool
}

func keyOf(c summary.Calibration) calibrationKey {
	if c.Radius == nil {
		return calibrationKey{}
	}
	return calibrationKey{*c.Radius, true}
}

// name returns a text for the radius of bounds, for example "L2 radius 0.5", or "within the bounds" if the bounds state
// no radius.
func (p Page) name(k calibrationKey) string {
	if !k.given {
		return "within the bounds"
	}
	return p.radius(k.radius)
}

// radius returns a text that names the norms of the runs and the radius r, for example "L2 radius 0.5".
func (p Page) radius(r float64) string {
	return fmt.Sprintf("%s radius %v", summary.Norms(p.summaries()), r)
}

// calibrationKeys returns the radii of the bounds, ascending.
func (p Page) calibrationKeys() []calibrationKey {
	keys := map[calibrationKey]bool{}
	for _, r := range p.Runs {
		for _, c := range r.Calibration {
			keys[keyOf(c)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(keys), func(a, b calibrationKey) int { return cmp.Compare(a.radius, b.radius) })
}

// calibrationAt returns a run's calibration at a radius, or nil if the run has none.
func calibrationAt(s summary.Summary, key calibrationKey) *summary.Calibration {
	for k := range s.Calibration {
		if keyOf(s.Calibration[k]) == key {
			return &s.Calibration[k]
		}
	}
	return nil
}

func (p Page) calibrations() []measure {
	keys := p.calibrationKeys()
	if len(keys) == 0 {
		return nil
	}
	cce := measure{Name: "Calibration error", Meaning: "The largest expected calibration error (CCE) that an attack " +
		"within the radius can cause by moving the confidence of each example, if every bound holds. The error is over " +
		"the examples whose class is certified at this radius."}
	cbs := measure{Name: "Brier score", Meaning: "The largest mean squared error of the confidence (CBS) that such an " +
		"attack can cause."}
	for _, key := range keys {
		cce.Lines = append(cce.Lines, p.across(p.name(key), func(s summary.Summary) cell {
			return boundCell(calibrationAt(s, key), ofCCE)
		}))
		cbs.Lines = append(cbs.Lines, p.across(p.name(key), func(s summary.Summary) cell {
			return boundCell(calibrationAt(s, key), ofCBS)
		}))
	}
	return []measure{cce, cbs}
}

// ofCCE and ofCBS each return two bounds. The bound 'value' is valid if every bound on a confidence holds. The bound
// 'certified' holds with probability 1 − δ, and is nil if it is unknown.
func ofCCE(c summary.Calibration) (value float64, certified *float64) {
	if c.Certified == nil {
		return c.CCE, nil
	}
	return c.CCE, &c.Certified.CCE
}

func ofCBS(c summary.Calibration) (value float64, certified *float64) {
	if c.Certified == nil {
		return c.CBS, nil
	}
	return c.CBS, &c.Certified.CBS
}

func boundCell(c *summary.Calibration, of func(summary.Calibration) (float64, *float64)) cell {
	if c == nil {
		return none
	}
	value, certified := of(*c)
	out := cell{Value: report.Round(value, report.Up, 0, 4), Note: counted(c.N)}
	if certified != nil {
		out.Note = "≤\u00a0" + report.Round(*certified, report.Up, 0, 4) + ", " + out.Note
	}
	return out
}

// thresholded returns one measure for each confidence threshold. The measure is an upper bound on the share of wrong
// answers under attack, among the answers whose confidence is at least the threshold. This upper bound is valid if
// every bound on a confidence holds.
func (p Page) thresholded() []measure {
	taus := map[float64]bool{}
	for _, r := range p.Runs {
		for _, c := range r.Calibration {
			for _, t := range c.Thresholded {
				taus[t.Tau] = true
			}
		}
	}
	var rows []measure
	for _, tau := range slices.Sorted(maps.Keys(taus)) {
		m := measure{Name: fmt.Sprintf("Confidence of at least %v", tau),
			Meaning: "The largest share of wrong answers, among the answers with such a confidence, that an attack within " +
				"the radius can cause, if every bound holds. An example whose class is not " +
				"certified counts as wrong unless its bounds rule that out."}
		for _, key := range p.calibrationKeys() {
			m.Lines = append(m.Lines, p.across(p.name(key), func(s summary.Summary) cell {
				return thresholdCell(calibrationAt(s, key), tau)
			}))
		}
		rows = append(rows, m)
	}
	return rows
}

func thresholdCell(c *summary.Calibration, tau float64) cell {
	if c == nil {
		return none
	}
	for _, t := range c.Thresholded {
		if t.Tau != tau {
			continue
		}
		if t.Answered() == 0 {
			return none
		}
		out := cell{Value: percent(t.Error, report.Up)}
		if t.Certified != nil {
			out.Note = "≤\u00a0" + percent(*t.Certified, report.Up)
		}
		return out
	}
	return none
}

func percent(x float64, to report.Rounding) string { return report.Round(x, to, 2, 1) + "\u00a0%" }

// complement returns 1 − δ as text.
func complement(delta float64) string {
	if delta == 0 { // the certificates are deterministic
		return "1"
	}
	return fmt.Sprintf("1 − %v", delta)
}

func shareCell(share *summary.Share, to report.Rounding) cell {
	if share == nil {
		return none
	}
	return cell{percent(share.Value, to), fmt.Sprintf("%d of %d, %s", share.Count, share.Of, interval(share))}
}

// interval returns the interval of a share, rounded outward.
func interval(s *summary.Share) string {
	return fmt.Sprintf("[%s,\u00a0%s]\u00a0%%", report.Round(s.Low, report.Down, 2, 1), report.Round(s.High, report.Up, 2, 1))
}

// classTable is the table of one run, with a row for each true class.
type classTable struct {
	Run   string
	Norm  string // norm of the radii, as a title
	Radii []string
	Rows  []classRow
}

type classRow struct {
	Name     string
	Examples int
	Cells    []string
}

func (p Page) classTables() []classTable {
	var all []classTable
	optional := func(s *summary.Share) string {
		if s == nil {
			return none.Value
		}
		return percent(s.Value, report.Down)
	}
	for _, r := range p.Runs {
		if len(r.Classes) == 0 {
			continue
		}
		t := classTable{Run: r.Name, Norm: r.Conditions.NormTitle()}
		for _, at := range r.Curve {
			t.Radii = append(t.Radii, fmt.Sprint(at.Radius))
		}
		for _, c := range r.Classes {
			row := classRow{Name: p.className(c.Label), Examples: c.Examples, Cells: []string{optional(c.Clean)}}
			for _, share := range c.Certified {
				row.Cells = append(row.Cells, percent(share.Value, report.Down))
			}
			row.Cells = append(row.Cells, roundRadius(c.AverageRadius), percent(c.Abstained.Value, report.Nearest))
			t.Rows = append(t.Rows, row)
		}
		all = append(all, t)
	}
	return all
}
