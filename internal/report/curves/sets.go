package curves

import (
	"cmp"
	"slices"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
)

// SetCurve is the name of a chart of prediction sets.
type SetCurve string

// These are the charts of prediction sets, with the default first.
const (
	SetSize     SetCurve = "size"
	SetCoverage SetCurve = "coverage"
)

// SetCurves lists the charts of prediction sets.
var SetCurves = choice.Of("curve", SetSize, SetCoverage).Describe(func(c SetCurve) string {
	return map[SetCurve]string{SetSize: "mean size against the radius", SetCoverage: "coverage against the radius"}[c]
})

func (c SetCurve) String() string { return string(c) }

// SetPoint holds the size, the coverage and the radius of the prediction sets in one file.
type SetPoint struct {
	Name         string // points with the same name are joined by a line
	Norm         string
	Radius       float64
	Size         float64
	Coverage     float64
	Lower, Upper float64 // confidence interval of the coverage
	Wanted       float64 // promised coverage: 1 − the parameter 'miss'
}

// Draw draws a chart of the points.
func (c SetCurve) Draw(format picture.Format, points []SetPoint, o Options) ([]byte, error) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b SetPoint) int { return cmp.Compare(a.Radius, b.Radius) })
	var lines []picture.Line
	var names []string
	highest := 0.
	for _, p := range points {
		k := slices.Index(names, p.Name)
		if k < 0 {
			k = len(names)
			names = append(names, p.Name)
			lines = append(lines, picture.Line{Name: quote.Line(p.Name), Style: k, Marks: true})
		}
		l := &lines[k]
		if c == SetSize {
			l.Add(p.Radius, p.Size)
			highest = max(highest, p.Size)
			continue
		}
		l.Add(p.Radius, p.Coverage)
		l.Low, l.High = append(l.Low, p.Lower), append(l.High, p.Upper)
	}
	axis := "mean size of a set"
	if c == SetCoverage {
		axis, highest = "coverage", 1
		lines = append(lines, wantedLines(points)...)
	}
	p := picture.NewPlot(o.title(""), points[0].Norm+" radius", axis)
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	if c == SetSize {
		p.Y.Min, p.Y.Max = 0, 1.08*highest
	}
	p.X.Min = 0
	return drawPlot(format, p, o, report.Capitalise(axis)+" against the radius.")
}

// wantedLines returns one horizontal line for each different value of SetPoint.Wanted.
func wantedLines(points []SetPoint) (lines []picture.Line) {
	var wanted []float64
	for _, p := range points {
		if !slices.Contains(wanted, p.Wanted) {
			wanted = append(wanted, p.Wanted)
		}
	}
	last := points[len(points)-1].Radius
	grey := picture.Halo
	for _, w := range wanted {
		l := picture.Line{Name: "1 - miss", Color: &grey, Style: 1}
		l.Add(0, w)
		l.Add(max(last, 1e-9), w)
		lines = append(lines, l)
	}
	return lines
}
