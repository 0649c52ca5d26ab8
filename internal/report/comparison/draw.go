package comparison

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
)

// Curve is the name of a chart that compares methods.
type Curve string

// These are the charts, with the default first.
const (
	RadiusCurve Curve = "radius"
	MarginCurve Curve = "margin"
	SizeCurve   Curve = "size"
)

// Curves lists the charts.
var Curves = choice.Of("curve", RadiusCurve, MarginCurve, SizeCurve).Describe(func(c Curve) string {
	return map[Curve]string{
		RadiusCurve: "certified accuracy against the radius", MarginCurve: "certified accuracy against the margin",
		SizeCurve: "average radius against the number of samples",
	}[c]
})

func (c Curve) String() string { return string(c) }

// A panel is one of the charts of a figure. It has a line for each method.
type panel struct {
	column string
	kind   certify.MarginKind // empty if all rows have the same kind of margin
	rows   []*Row
}

// The method 'panels' returns a grid of panels, which together hold all rows of the table. The grid has a row for each
// kind of margin, and a column for each combination of file, size and temperature. In the chart SizeCurve, a panel
// holds all sizes.
func (c Curve) panels(rows []*Row) (grid [][]panel) {
	var kinds []certify.MarginKind
	for _, r := range rows {
		if !slices.Contains(kinds, r.MarginKind) {
			kinds = append(kinds, r.MarginKind)
		}
	}
	columns := c.columns(rows)
	for _, kind := range kinds {
		var line []panel
		for _, s := range columns {
			p := panel{column: s.Describe(), kind: kind}
			for _, r := range rows {
				if own := c.column(r.Setting); r.MarginKind == kind && (own == s || s.hotter(own)) {
					p.rows = append(p.rows, r)
				}
			}
			line = append(line, p)
		}
		grid = append(grid, line)
	}
	return grid
}

// The method 'columns' returns the settings of the columns. Methods for votes have no temperature. A row of such a
// method appears in every column whose setting differs from the row's own setting only by having a temperature. A
// method for votes has a column of its own only if no other column has a temperature and otherwise the same setting.
func (c Curve) columns(rows []*Row) []Setting {
	var all []Setting
	for _, r := range rows {
		if s := c.column(r.Setting); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s Setting) bool {
		return slices.ContainsFunc(all, func(o Setting) bool { return o.hotter(s) })
	})
}

// The argument s is the setting of a row. The method 'column' returns the setting of the column of panels for this row
// (see the method 'columns'). The column's setting is s without the kind of margin and, in the chart SizeCurve, also
// without the size.
func (c Curve) column(s Setting) Setting {
	s.MarginKind = ""
	if c == SizeCurve {
		s.Size = 0
	}
	return s
}

// hotter reports whether s has a temperature, o has none, and s and o are otherwise equal.
func (s Setting) hotter(o Setting) bool {
	return s.Temperature > 0 && o.Temperature == 0 && Setting{s.File, s.MarginKind, s.Size, 0} == o
}

// DefaultSize returns the size of a figure in centimetres.
func (c Curve) DefaultSize(rows []*Row) picture.Size {
	grid := c.panels(rows)
	if len(grid) == 1 && len(grid[0]) == 1 {
		return picture.Size{Width: 15, Height: 10}
	}
	return picture.Size{Width: min(100, max(15, 11*float64(len(grid[0])))), Height: min(100, 8*float64(len(grid)))}
}

// Draw draws a chart of summarised rows.
func (c Curve) Draw(format picture.Format, rows []*Row, size picture.Size) ([]byte, error) {
	if c == SizeCurve && len(sizes(rows)) < 2 {
		return nil, fmt.Errorf("the curve %s needs two sizes or more", c)
	}
	var plots [][]*plot.Plot
	for _, line := range c.panels(rows) {
		var all []*Row
		for _, p := range line {
			all = append(all, p.rows...)
		}
		end := c.end(all)
		var drawn []*plot.Plot
		for _, p := range line {
			drawn = append(drawn, c.plot(p, end))
		}
		plots = append(plots, drawn)
	}
	alt := report.Capitalise(Curves.What(c)) + ", by method."
	return picture.Draw(format, size, alt, func(dc draw.Canvas) { picture.Panels(dc, plots) })
}

// The function 'sizes' returns the sizes of the rows in ascending order, each size once.
func sizes(rows []*Row) []int64 {
	var all []int64
	for _, r := range rows {
		all = append(all, r.Size)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The method 'values' returns the radii or the margins of a row.
func (c Curve) values(r *Row) []float64 {
	if c == MarginCurve {
		return r.margins
	}
	return r.radii
}

// end returns the right end of an axis: a little more than the largest finite radius or margin of the rows.
func (c Curve) end(rows []*Row) float64 {
	largest := 0.0
	for _, r := range rows {
		for _, x := range c.values(r) {
			if !math.IsInf(x, 1) {
				largest = max(largest, x)
			}
		}
	}
	if largest == 0 {
		return 1
	}
	return 1.1 * largest
}

// plot draws one panel.
func (c Curve) plot(p panel, end float64) *plot.Plot {
	x, y := p.rows[0].Norm.Title()+" radius", p.rows[0].Accuracy()
	switch {
	case c == SizeCurve:
		x, y = "samples", "average "+x
	case c == MarginCurve:
		x = p.rows[0].kind.String() + " margin"
	}
	if c != MarginCurve && p.kind != "" {
		x += " (" + p.kind.String() + " margin)"
	}
	drawn := picture.NewPlot(quote.Line(p.column), x, y)
	drawn.Add(picture.Grid())
	if c == SizeCurve {
		addSizes(drawn, p.rows)
		return drawn
	}
	var lines []picture.Line
	for k, r := range p.rows {
		l := picture.Line{Name: r.name(), Style: k}
		l.X, l.Y = r.reach(c.values(r), end)
		lines = append(lines, l)
	}
	picture.AddLines(drawn, lines...)
	drawn.X.Min, drawn.X.Max, drawn.Y.Min, drawn.Y.Max = 0, end, 0, 1
	return drawn
}

// The method 'name' returns the label of a row's line: the row's Method, with a remark if the method is not sound.
func (r *Row) name() string {
	if r.Sound {
		return r.Method
	}
	return r.Method + " (not sound)"
}

// addSizes adds a line for each method, with a band of one standard deviation on each side. An infinite average is left
// out.
func addSizes(p *plot.Plot, rows []*Row) {
	var names []string
	var lines []picture.Line
	for _, r := range rows {
		k := slices.Index(names, r.name())
		if k < 0 {
			k = len(names)
			names = append(names, r.name())
			lines = append(lines, picture.Line{Name: r.name(), Style: k, Marks: true})
		}
		average := repeats(r.turns, nil).AverageRadius
		mean, sd := float64(average.Mean), float64(average.SD)
		if math.IsInf(mean, 1) {
			continue
		}
		lines[k].Add(float64(r.Size), mean)
		lines[k].Low, lines[k].High = append(lines[k].Low, max(0, mean-sd)), append(lines[k].High, mean+sd)
	}
	lines = slices.DeleteFunc(lines, func(l picture.Line) bool { return len(l.X) == 0 })
	picture.AddLines(p, lines...)
	all := sizes(rows)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, picture.Decades{}
	p.X.Min, p.X.Max = float64(all[0]), float64(all[len(all)-1])
	p.Y.Min = 0
}
