// Package acceplot draws charts for studies of calibration under attack. Two charts have the radius as the horizontal
// axis. One of them shows the certified Brier score of each input. The other one shows the calibration error that each
// solver finds. The other charts show the steps of ADMM. The charts correspond to figures 3, 9–11, 15 and 16 of Emde et
// al. 2025.
package acceplot

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
)

// Curve is the name of a chart.
type Curve string

// These are the charts, with the default first. Package reliability draws UnderAttack; package acceplot draws the
// others.
const (
	UnderAttack Curve = "under-attack"
	Solvers     Curve = "solvers"
	CBS         Curve = "cbs"
	Lagrangian  Curve = "lagrangian"
	Constraints Curve = "constraints"
	Assignment  Curve = "assignment"
)

// Curves lists all charts.
var Curves = choice.Of("curve", UnderAttack, Solvers, CBS, Lagrangian, Constraints, Assignment).Describe(func(c Curve) string {
	return map[Curve]string{
		UnderAttack: "reliability diagrams (without attack and under the worst attack), and a panel of CBS and CCE against the radius",
		Solvers:     "the calibration error that each solver finds, against the radius, with a panel for each input",
		CBS:         "CBS against the radius, with a line for each input",
		Lagrangian:  "the terms of ADMM's augmented Lagrangian by step, for one radius",
		Constraints: "the distances of ADMM's variables from the constraints by step, for one radius",
		Assignment:  "ADMM's assignments of the first 10 predictions to bins at three steps, for one radius",
	}[c]
})

func (c Curve) String() string { return string(c) }

// OfSeveral reports whether the chart may show several inputs.
func (c Curve) OfSeveral() bool { return c == Solvers || c == CBS }

// OfSteps reports whether the chart shows the steps of ADMM.
func (c Curve) OfSteps() bool { return c == Lagrangian || c == Constraints || c == Assignment }

// Input holds the name of one input (a table of bounds) and its results at ascending radii.
type Input struct {
	Name    string
	Results []acce.Result
}

// CheckRadii returns an error if the results of an input have no radii. Such an input has no curve against the radius.
func CheckRadii(inputs []Input) error {
	for _, in := range inputs {
		if in.Results[0].Radius == nil {
			return hint.New(in.Name+": the bounds have no radii, so there is no curve", "add the column radius")
		}
	}
	return nil
}

// ByRadius draws the chart Solvers or CBS. The inputs must have radii (CheckRadii).
func (c Curve) ByRadius(format picture.Format, inputs []Input, size picture.Size) ([]byte, error) {
	if c == CBS {
		return drawCBS(format, inputs, size)
	}
	return drawSolvers(format, inputs, size)
}

// radiusTitle returns the label of the horizontal axis.
func radiusTitle(inputs []Input) string {
	norm := inputs[0].Results[0].Norm
	for _, in := range inputs {
		if n := in.Results[0].Norm; norm == nil || n == nil || *n != *norm {
			return "radius"
		}
	}
	return norm.Title() + " radius"
}

// curveOf returns a line with a point for each result that has a value.
func curveOf(results []acce.Result, value func(acce.Result) *float64) (l picture.Line) {
	l.Marks = true
	for _, r := range results {
		if v := value(r); v != nil {
			l.Add(*r.Radius, *v)
		}
	}
	return l
}

// examples returns text for a title or a legend. If the examples are the same at every radius, the text gives their
// number. Otherwise it is empty.
func examples(in Input) string {
	if r := in.Results[0]; r.SameExamples {
		return fmt.Sprintf(" (the same %d examples at every radius)", r.N)
	}
	return ""
}

// drawSolvers draws a panel for each input, with a line for each solver. All panels have the same axes.
func drawSolvers(format picture.Format, inputs []Input, size picture.Size) ([]byte, error) {
	const inRow = 2
	var panels []*plot.Plot
	var right, top float64
	for _, in := range inputs {
		p := picture.NewPlot(quote.Line(in.Name)+examples(in), radiusTitle(inputs), "calibration error under attack")
		p.Add(picture.Grid())
		var lines []picture.Line
		for k, s := range acce.Solvers {
			l := curveOf(in.Results, s.Value)
			l.Name, l.Style = solverName(s), k
			if len(l.X) > 0 {
				lines = append(lines, l)
			}
		}
		picture.AddLines(p, lines...)
		right, top = max(right, p.X.Max), max(top, p.Y.Max)
		panels = append(panels, p)
	}
	return picture.DrawPanels(format, size, "Calibration error under attack that each solver finds, against the radius: "+names(inputs)+".", picture.Rows(panels, inRow), right, top)
}

// solverName returns the name of a solver in a chart. The name says whether the solver's value is exact or an estimate
// from below.
func solverName(s acce.Solver) string {
	if s.Exact {
		return s.Column + ", exact"
	}
	return strings.TrimSuffix(s.Column, "*") + ", from below"
}

// drawCBS draws CBS against the radius, with a line for each input.
func drawCBS(format picture.Format, inputs []Input, size picture.Size) ([]byte, error) {
	title := "certified Brier score"
	if len(inputs) == 1 {
		title = quote.Line(inputs[0].Name) + ": " + title
	}
	p := picture.NewPlot(title, radiusTitle(inputs), "CBS")
	p.Add(picture.Grid())
	var lines []picture.Line
	for k, in := range inputs {
		l := curveOf(in.Results, func(r acce.Result) *float64 { return &r.CBS })
		l.Name, l.Style = quote.Line(in.Name)+examples(in), k
		lines = append(lines, l)
	}
	picture.AddLines(p, lines...)
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max *= 1.05
	p.Y.Max *= 1.08
	if size == (picture.Size{}) {
		size = picture.Size{Width: 15, Height: 10}
	}
	return picture.Draw(format, size, "Certified Brier score against the radius: "+names(inputs)+".", func(c draw.Canvas) {
		picture.Fit(p, 0.9*(c.Max.X-c.Min.X))
		p.Draw(c)
	})
}

func names(inputs []Input) string {
	var all []string
	for _, in := range inputs {
		all = append(all, quote.Line(in.Name))
	}
	return strings.Join(slices.Compact(all), ", ")
}
