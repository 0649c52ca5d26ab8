package curves

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

// paretoColumns is the largest number of panels side by side.
const paretoColumns = 2

// drawPareto draws one panel for each radius. In a panel, each model is a point that shows its CCE against its
// certified accuracy. A line joins the models on the Pareto front. Models of one family have the same colour and mark.
// If a model has no family, all runs of this model have the same colour and mark.
func drawPareto(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	if o.Models == nil {
		return nil, errors.New("the models were not compared")
	}
	var panels []*plot.Plot
	for _, at := range o.Models.Radii {
		points := withCCE(at.Rows)
		if len(points) == 0 {
			continue
		}
		title := o.title(fmt.Sprintf("%s radius %v", summary.Norms(runs), at.Radius))
		panels = append(panels, paretoPanel(points, title, summary.Accuracy(runs), summary.ScaleSymbol(runs)))
	}
	if len(panels) == 0 {
		return nil, ErrNoBounds
	}
	rows := picture.Rows(panels, paretoColumns)
	if o.Size == (picture.Size{}) {
		o.Size = picture.Size{Width: 10 * float64(len(rows[0])), Height: min(100, 7.5*float64(len(rows)))}
	}
	return picture.Draw(format, o.Size, "Certified calibration error against certified accuracy, one point for each model, with the Pareto front: "+names(runs)+".",
		func(c draw.Canvas) { picture.Panels(c, rows) })
}

// withCCE returns the rows that have a CCE.
func withCCE(rows []selection.Row) []selection.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row selection.Row) bool { return row.Calibration == nil })
}

func paretoPanel(rows []selection.Row, title, accuracy, scale string) *plot.Plot {
	lines := []picture.Line{frontLine(rows)}
	styles, named := map[string]int{}, map[string]bool{}
	kindOf := func(row selection.Row) string { return cmp.Or(row.Family, row.Model) }
	isNamed := func(row selection.Row) bool { return row.Front || len(row.ChosenBy) > 0 }
	for _, row := range rows {
		named[kindOf(row)] = named[kindOf(row)] || isNamed(row)
	}
	for _, row := range rows {
		kind := kindOf(row)
		if _, seen := styles[kind]; !seen {
			styles[kind] = len(styles)
		}
		l := picture.Line{Style: styles[kind], Marks: true}
		switch {
		case isNamed(row):
			l.Name = pointName(row, scale)
		case !named[kind]: // one label for each family or model, to explain its colour
			l.Name, named[kind] = quote.Line(kind), true
		}
		l.Add(row.Accuracy.Accuracy.Value, row.Calibration.CCE)
		lines = append(lines, l)
	}
	p := picture.NewPlot(title, accuracy, "CCE")
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	widen(&p.X, 0.15)
	widen(&p.Y, 0.12)
	return p
}

// widen makes room for labels at both ends of an axis.
func widen(a *plot.Axis, share float64) {
	room := share * (a.Max - a.Min)
	if room == 0 {
		room = 0.05
	}
	a.Min, a.Max = a.Min-room, a.Max+room
}

// pointName returns the label of a point: the model, σ, and the measures by which the model was chosen.
func pointName(row selection.Row, scale string) string {
	name := quote.Line(row.Model)
	if row.Sigma != nil {
		name += fmt.Sprintf(", %s = %g", scale, *row.Sigma)
	}
	for _, by := range row.ChosenBy {
		name += ", smallest " + by.Title()
	}
	return name
}

// frontLine returns the edge of the region that the models on the front dominate. A model dominates all points whose
// accuracy is at most the model's accuracy and whose CCE is at least the model's CCE.
func frontLine(rows []selection.Row) picture.Line {
	grey := picture.Halo
	l := picture.Line{Color: &grey, Solid: true, Width: vg.Points(3)}
	front := slices.DeleteFunc(slices.Clone(rows), func(row selection.Row) bool { return !row.Front })
	slices.SortFunc(front, func(a, b selection.Row) int { return a.Accuracy.Accuracy.Rat().Cmp(b.Accuracy.Accuracy.Rat()) })
	if len(front) > 1 {
		l.Name = "Pareto front"
	}
	for k, row := range front {
		if k > 0 {
			l.Add(front[k-1].Accuracy.Accuracy.Value, row.Calibration.CCE)
		}
		l.Add(row.Accuracy.Accuracy.Value, row.Calibration.CCE)
	}
	return l
}
