package tables

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// csvHeader holds the columns of a tidy table, with one row per number. The column 'certified' holds the bound that is
// true with probability 1 − δ. The last columns are the conditions of the number: soundness, arithmetic, precision,
// denoiser, and the norm of the radius. With groups of examples, a further column names the group.
var csvHeader = []string{"run", "quantity", "radius", "tau", "class", "count", "of", "value", "low", "high", "certified",
	"sound", "arithmetic", "precision", "denoiser", "norm"}

// csvRow is a row with one cell per column. A nil cell prints as empty.
type csvRow struct {
	run, quantity                                   string
	radius, tau, class, count, of, value, low, high any
	certified                                       *float64
	group                                           string
}

// line returns all cells of a row about a run. If the table has groups, the last cell is the group.
func (r csvRow) line(c summary.Conditions, groups bool) []string {
	cells := append(r.fields(), csvConditions(c)...)
	if groups {
		cells = append(cells, csvText(r.group))
	}
	return cells
}

func (r Report) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	groups := slices.ContainsFunc(r.Runs, func(s summary.Summary) bool { return s.ByGroup != nil })
	header := csvHeader
	if groups {
		header = append(slices.Clone(header), "group")
	}
	_ = out.Write(header) // out.Error returns the error of Write
	for _, s := range r.Runs {
		for _, row := range tidy(s) {
			_ = out.Write(row.line(s.Conditions, groups))
		}
		for _, n := range s.Norms {
			for _, row := range tidyRadii(n.Whole()) {
				_ = out.Write(row.line(n.Whole().Conditions, groups))
			}
		}
	}
	for _, p := range r.Envelope {
		row := shareRow("upper envelope", "certified-accuracy", &p.Accuracy, p.Radius, nil, p.Certified)
		_ = out.Write(row.line(summary.Conditions{Norm: r.Runs[0].Conditions.Norm, Scaled: r.Runs[0].Conditions.Scaled}, groups))
	}
	out.Flush()
	return out.Error()
}

func (r csvRow) fields() []string {
	fields := []string{csvText(r.run), r.quantity}
	for _, x := range []any{r.radius, r.tau, r.class, r.count, r.of, r.value, r.low, r.high} {
		fields = append(fields, csvField(x))
	}
	if r.certified == nil {
		return append(fields, "")
	}
	return append(fields, csvField(*r.certified))
}

// csvConditions returns the cells of the last columns, which hold the conditions.
func csvConditions(c summary.Conditions) []string {
	fields := []string{"", "", csvText(c.Precision), "", csvNorm(c)}
	if c.Sound != nil {
		fields[0], fields[1] = strconv.FormatBool(*c.Sound), c.Arithmetic.String()
	}
	if c.Denoiser != nil {
		fields[3] = csvText(c.Denoiser.String())
	}
	return fields
}

// csvNorm names the norm of the radii, and says whether they are in units of the columns' scales.
func csvNorm(c summary.Conditions) string {
	if c.Scaled {
		return "scaled-" + c.Norm.String()
	}
	return c.Norm.String()
}

// csvText returns text for a cell. If the text begins like a formula, csvText puts an apostrophe in front, so that a
// spreadsheet does not compute the cell.
func csvText(s string) string {
	s = quote.Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func csvField(x any) string {
	switch v := x.(type) {
	case nil:
		return ""
	case report.Number:
		return csvField(float64(v))
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case *float64:
		if v == nil {
			return ""
		}
		return csvField(*v)
	}
	return fmt.Sprint(x)
}

func shareRow(run, quantity string, s *summary.Share, radius, class any, certified *float64) csvRow {
	return csvRow{run, quantity, radius, nil, class, s.Count, s.Of, s.Value, s.Low, s.High, certified, ""}
}

// tidyRadii returns the rows for those numbers of a run that depend on the norm of the radii.
func tidyRadii(s summary.Summary) (rows []csvRow) {
	for _, p := range s.Curve {
		rows = append(rows, shareRow(s.Name, "certified-accuracy"+s.Conditions.Qualifiers(), &p.Accuracy, p.Radius, nil, p.Certified))
	}
	rows = append(rows, tidyGroups(s)...)
	a := s.AverageRadius
	return append(rows, csvRow{run: s.Name, quantity: "acr" + s.Conditions.Qualifiers(), of: s.Examples, value: a.Value, low: a.Low, high: a.High, certified: a.Certified})
}

// tidyGroups returns the rows for the certified accuracies of groups.
func tidyGroups(s summary.Summary) (rows []csvRow) {
	if s.ByGroup == nil {
		return nil
	}
	for _, g := range s.ByGroup.Groups {
		for _, p := range g.Curve {
			row := shareRow(s.Name, "certified-accuracy"+s.Conditions.Qualifiers(), &p.Accuracy, p.Radius, nil, p.Certified)
			row.group = g.Name()
			rows = append(rows, row)
		}
	}
	return rows
}

// tidy returns the numbers of a run as rows.
func tidy(s summary.Summary) []csvRow {
	rows := tidyRadii(s)
	share := func(quantity string, x *summary.Share, radius, class any, certified *float64) {
		if x != nil {
			rows = append(rows, shareRow(s.Name, quantity, x, radius, class, certified))
		}
	}
	share("clean-accuracy", s.Clean, nil, nil, nil)
	share("smoothed-accuracy", s.Smoothed, nil, nil, nil)
	share("abstain-rate", &s.Abstained, nil, nil, nil)
	for _, c := range s.Classes {
		for k, x := range c.Certified {
			share("certified-accuracy"+s.Conditions.Qualifiers(), &x, s.Curve[k].Radius, c.Label, nil)
		}
		rows = append(rows, csvRow{run: s.Name, quantity: "acr" + s.Conditions.Qualifiers(), class: c.Label, of: c.Examples, value: c.AverageRadius})
		share("clean-accuracy", c.Clean, nil, c.Label, nil)
		share("smoothed-accuracy", c.Smoothed, nil, c.Label, nil)
		share("abstain-rate", &c.Abstained, nil, c.Label, nil)
	}
	for _, x := range s.Selective {
		rows = append(rows, csvRow{run: s.Name, quantity: "selective-error", radius: x.Radius, count: x.Unsafe, of: x.Unsafe + x.Answered,
			value: x.Error, high: x.Population, certified: x.Certified})
	}
	for _, c := range s.Calibration {
		var cbs, cce *float64
		if c.Certified != nil {
			cbs, cce = &c.Certified.CBS, &c.Certified.CCE
		}
		if c.ECE != nil {
			rows = append(rows, csvRow{run: s.Name, quantity: "ece", radius: c.Radius, of: c.N, value: *c.ECE})
		}
		rows = append(rows, csvRow{run: s.Name, quantity: "cbs", radius: c.Radius, of: c.N, value: c.CBS, certified: cbs},
			csvRow{run: s.Name, quantity: "cce", radius: c.Radius, of: c.N, value: c.CCE, certified: cce})
		for _, t := range c.Thresholded {
			rows = append(rows, csvRow{run: s.Name, quantity: "thresholded-error", radius: c.Radius, tau: t.Tau,
				count: t.Wrong, of: t.Answered(), value: errorCell(t), certified: t.Certified})
		}
	}
	return append(rows, tidyPA(s)...)
}
