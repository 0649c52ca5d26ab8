// Package curves draws charts. From summaries of runs, it draws certified accuracy and calibration against the radius,
// histograms of radii, bounds on the probability of the class, and reliability diagrams. It also draws the values of
// requirements by commit, the Pareto front of models, the size and coverage of prediction sets, and the widths of
// confidence intervals.
package curves

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/history"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

// Curve is the name of a chart.
type Curve string

// These are the charts, with the default first.
const (
	Accuracy    Curve = "certified-accuracy"
	Calibration Curve = "calibration"
	Reliability Curve = "reliability"
	Radii       Curve = "radii"
	PA          Curve = "pa"
	History     Curve = "history"
	Pareto      Curve = "pareto"
)

// Curves lists the names of all charts.
var Curves = choice.Of("curve", Accuracy, Calibration, Reliability, Radii, PA, History, Pareto).Describe(func(c Curve) string {
	return map[Curve]string{
		Accuracy:    "certified accuracy against the radius",
		Calibration: "CCE and CBS against the radius",
		Reliability: "accuracy against the vote share, without attack, for a single run",
		Radii:       "distribution of the radii of right and of wrong predictions",
		PA:          "share of the examples that meet two conditions, against a threshold p: the example is right, and the lower bound on the probability of the class is at least p",
		History:     "values of the requirements for each commit, from the history file",
		Pareto:      "CCE against certified accuracy, with the Pareto front",
	}[c]
})

func (c Curve) String() string { return string(c) }

// DefaultSize returns the size in centimetres of a chart of the runs.
func (c Curve) DefaultSize(runs []summary.Summary) picture.Size {
	switch c {
	case Reliability:
		return reliability.DefaultSize
	case Radii:
		return stacked(len(runs))
	case Pareto: // drawPareto derives the size from the number of radii
		return picture.Size{}
	case Accuracy:
		if norms := summary.FurtherNorms(runs); len(norms) > 0 {
			return stacked(1 + len(norms))
		}
	}
	return picture.Size{Width: 15, Height: 10}
}

// The function 'stacked' returns the size of a chart whose panels lie one above another.
func stacked(panels int) picture.Size {
	return picture.Size{Width: 15, Height: min(100, 2+5*float64(max(1, panels)))}
}

// Options control the look of a chart.
type Options struct {
	Title *string // nil: a title is generated
	Size  picture.Size
	// If Envelope is true, the chart Accuracy also shows the upper envelope of several runs.
	Envelope bool
	// The field History holds the values that the chart History draws.
	History []history.Entry
	// The field Models holds a comparison of the runs' models. The chart Pareto draws this comparison.
	Models *selection.Comparison
}

// title returns the given title, or the generated one.
func (o Options) title(made string) string {
	if o.Title != nil {
		return *o.Title
	}
	return made
}

// Draw draws a chart of the runs.
func (c Curve) Draw(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	switch c {
	case Calibration:
		return drawCalibration(format, runs, o)
	case Reliability:
		return drawReliability(format, runs, o)
	case Radii:
		return drawRadii(format, runs, o)
	case PA:
		return drawPA(format, runs, o)
	case History:
		return drawHistory(format, o.History, o)
	case Pareto:
		return drawPareto(format, runs, o)
	}
	return drawAccuracy(format, runs, o)
}

// The function 'names' returns a list of the names of the runs.
func names(runs []summary.Summary) string {
	var all []string
	for _, s := range runs {
		all = append(all, quote.Line(s.Name))
	}
	return strings.Join(all, ", ")
}

// The function 'examples' returns a text with the number of examples, or "" if the runs have different numbers.
func examples(runs []summary.Summary) string {
	for _, s := range runs {
		if s.Examples != runs[0].Examples {
			return ""
		}
	}
	return fmt.Sprintf("%d examples, ", runs[0].Examples)
}

// maxSteps is the largest number of radii that a chart uses to draw a curve exactly. These radii are 0 and the radii
// above 0 at which the curve has a step. A curve with more radii is drawn at maxSteps + 1 equally spaced radii.
const maxSteps = 300

// grid returns the radii at which the chart draws the curves. These radii are 0 and the curve's steps. If there are
// more than maxSteps such radii, grid returns equally spaced radii from 0 to 'until' instead.
func grid(s summary.Summary, until float64) []float64 {
	radii := append([]float64{0}, s.Steps()...)
	radii = slices.Compact(radii)
	if len(radii) <= maxSteps {
		return radii
	}
	radii = radii[:0]
	for k := range maxSteps + 1 {
		radii = append(radii, until*float64(k)/maxSteps)
	}
	return radii
}

// accuracyLine returns a run's certified accuracy with its intervals, as a step function with the given name.
func accuracyLine(s summary.Summary, name string, style int) picture.Line {
	l := picture.Line{Name: quote.Line(name), Style: style}
	add := func(r float64, a summary.Share) {
		l.X, l.Y = append(l.X, r), append(l.Y, a.Value)
		l.Low, l.High = append(l.Low, a.Low), append(l.High, a.High)
	}
	steps := s.Steps()
	largest := 0.0
	if len(steps) > 0 {
		largest = steps[len(steps)-1]
	}
	for _, r := range grid(s, largest) {
		at := s.At(r).Accuracy
		if len(l.X) > 0 {
			add(r, at) // end of the previous step
		}
		add(r, s.At(math.Nextafter(r, math.Inf(1))).Accuracy)
		if len(l.X) == 1 {
			l.Y[0], l.Low[0], l.High[0] = at.Value, at.Low, at.High
			add(r, s.At(math.Nextafter(r, math.Inf(1))).Accuracy)
		}
	}
	return l
}

// auditLine returns the share of the audited examples that the attack did not break, as a step function.
func auditLine(s summary.Summary, style int) picture.Line {
	color := picture.Palette[style%len(picture.Palette)]
	l := picture.Line{Name: fmt.Sprintf("%s under attack (%d audited)", quote.Line(s.Name), s.Audit.Examples), Color: &color, Style: 2}
	share := func(radius float64) float64 { return float64(s.Audit.Unbroken(radius)) / float64(s.Audit.Examples) }
	l.Add(0, share(0))
	for _, d := range s.Audit.Broken {
		if d > 0 && !math.IsInf(d, 1) {
			l.Add(d, share(math.Nextafter(d, 0)))
			l.Add(d, share(d))
		}
	}
	return l
}

// envelopeLine returns the upper envelope of the lines.
func envelopeLine(lines []picture.Line, runs []summary.Summary) picture.Line {
	var radii []float64
	for _, l := range lines {
		radii = append(radii, l.X...)
	}
	grey := picture.Halo
	e := picture.Line{Name: "upper envelope", Color: &grey, Solid: true, Width: vg.Points(6)}
	for _, r := range slices.Compact(slices.Sorted(slices.Values(radii))) {
		for _, x := range []float64{r, math.Nextafter(r, math.Inf(1))} {
			e.X, e.Y = append(e.X, r), append(e.Y, summary.EnvelopeAt(runs, x).Accuracy.Value)
		}
	}
	return e
}

func drawAccuracy(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	var lines []picture.Line
	var attacked []picture.Line
	for k, s := range runs {
		if s.Labelled == 0 {
			return nil, fmt.Errorf("%s: the examples have no labels", s.Path)
		}
		lines = append(lines, accuracyLine(s, s.RunName(runs), k))
		if s.Audit != nil && s.Audit.Examples > 0 {
			attacked = append(attacked, auditLine(s, k))
		}
	}
	if len(summary.FurtherNorms(runs)) > 0 {
		return drawNorms(format, runs, o)
	}
	drawn := slices.Concat(lines, attacked)
	if o.Envelope && len(runs) > 1 {
		drawn = append([]picture.Line{envelopeLine(lines, runs)}, drawn...)
	}
	axis := summary.Accuracy(runs)
	if len(attacked) > 0 {
		axis = "accuracy: certified, under attack"
	}
	p := picture.NewPlot(o.title(fmt.Sprintf("%s%g %% intervals", examples(runs), 100*runs[0].Level)), summary.Norms(runs)+" radius", axis)
	p.Add(picture.Grid())
	picture.AddLines(p, drawn...)
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1
	return drawPlot(format, p, o, report.Capitalise(summary.Accuracy(runs))+" against the "+summary.Norms(runs)+" radius, with intervals: "+names(runs)+".")
}

// drawNorms draws the certified accuracy of the runs by radius, with one panel per norm.
func drawNorms(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	panels := [][]summary.Summary{runs} // the first panel has the radii in the norm of each run's noise
	for _, norm := range summary.FurtherNorms(runs) {
		panels = append(panels, summary.AllIn(norm, runs))
	}
	var rows [][]*plot.Plot
	for _, in := range panels {
		var lines []picture.Line
		for i, s := range in {
			lines = append(lines, accuracyLine(s, s.RunName(runs), i))
		}
		p := picture.NewPlot(o.title(fmt.Sprintf("%s%g %% intervals", examples(in), 100*in[0].Level)), summary.Norms(in)+" radius", summary.Accuracy(in))
		p.Add(picture.Grid())
		picture.AddLines(p, lines...)
		p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1
		rows = append(rows, []*plot.Plot{p})
	}
	return picture.Draw(format, o.Size, report.Capitalise(summary.Accuracy(runs))+" against the radius in several norms: "+names(runs)+".",
		func(c draw.Canvas) { picture.Panels(c, rows) })
}

// drawPlot renders one plot in the given format.
func drawPlot(format picture.Format, p *plot.Plot, o Options, alt string) ([]byte, error) {
	return picture.Draw(format, o.Size, alt, func(c draw.Canvas) {
		picture.Fit(p, 0.9*(c.Max.X-c.Min.X))
		p.Draw(c)
	})
}

// ErrNoBounds means that no run has bounds on the confidence.
var ErrNoBounds = errors.New("no run has bounds on the confidence under attack")

func drawCalibration(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	var lines []picture.Line
	single := len(runs) == 1
	for k, s := range runs {
		lines = append(lines, calibrationLines(s, k, single)...)
	}
	if len(lines) == 0 {
		return nil, ErrNoBounds
	}
	made := "calibration under attack"
	if !single {
		made += ", if every bound holds"
	}
	p := picture.NewPlot(o.title(made), summary.Norms(runs)+" radius", "CCE, CBS")
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max *= 1.08
	p.X.Max *= 1.03
	return drawPlot(format, p, o, "Certified calibration error and certified Brier score against the "+summary.Norms(runs)+" radius: "+names(runs)+".")
}

// calibrationLines returns two lines of the k-th run: CCE (certified calibration error) and CBS (certified Brier
// score). The values of these lines hold if every bound on a confidence holds. For a single run, calibrationLines may
// also return two lines with values that hold with a stated probability.
func calibrationLines(s summary.Summary, k int, single bool) (lines []picture.Line) {
	var x, cce, cbs, cceAll, cbsAll []float64
	for _, c := range s.Calibration {
		if c.Radius == nil {
			continue
		}
		x, cce, cbs = append(x, *c.Radius), append(cce, c.CCE), append(cbs, c.CBS)
		if c.Certified != nil {
			cceAll, cbsAll = append(cceAll, c.Certified.CCE), append(cbsAll, c.Certified.CBS)
		}
	}
	if len(x) == 0 {
		return nil
	}
	add := func(name string, y []float64, style, dash int) {
		color := picture.Palette[style%len(picture.Palette)]
		lines = append(lines, picture.Line{Name: name, X: x, Y: y, Color: &color, Style: dash, Marks: true})
	}
	if !single {
		add(quote.Line(s.Name)+": CCE", cce, k, 0)
		add(quote.Line(s.Name)+": CBS", cbs, k, 1)
		return lines
	}
	const held = " if every bound holds"
	add("CCE"+held, cce, 0, 0)
	add("CBS"+held, cbs, 1, 1)
	if len(cceAll) == len(x) {
		chance := fmt.Sprintf(" with probability %g", 1-s.Calibration[0].Certified.Delta)
		add("CCE"+chance, cceAll, 0, 2)
		add("CBS"+chance, cbsAll, 1, 3)
	}
	return lines
}

func drawReliability(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	if len(runs) != 1 {
		return nil, fmt.Errorf("a reliability diagram is of one run, not of %d", len(runs))
	}
	s := runs[0]
	if s.Reliability == nil {
		return nil, fmt.Errorf("%s: has no votes of labelled examples", s.Path)
	}
	r := s.Reliability
	return reliability.Diagram{
		Title: o.title(fmt.Sprintf("%s: %d examples, ECE %.4f", quote.Line(s.Name), s.Examples, r.ECE)), Confidence: "share of the votes", Accuracy: "accuracy",
		Level: r.Level, Bins: r.Bins, Bands: r.Bands, Size: o.Size,
	}.Draw(format)
}

// bars is the number of bars of a histogram of radii.
const bars = 30

// drawRadii draws a histogram of the radii of each run. The histograms are one above another and share an axis.
func drawRadii(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	largest := 0.0
	for _, s := range runs {
		for _, r := range s.Rows {
			if !r.Unbounded {
				largest = max(largest, r.Radius)
			}
		}
	}
	if largest == 0 {
		return nil, errors.New("no example has a radius")
	}
	var panels []*plot.Plot
	for k, s := range runs {
		x := ""
		if k == len(runs)-1 {
			x = summary.Norms(runs) + " radius"
		}
		panels = append(panels, radiusPanel(s, largest, x, o.title(quote.Line(s.Name))))
	}
	alt := "How the certified radii of right and of wrong predictions are distributed: " + names(runs) + "."
	var rows [][]*plot.Plot
	for _, p := range panels {
		rows = append(rows, []*plot.Plot{p})
	}
	return picture.Draw(format, o.Size, alt, func(c draw.Canvas) { picture.Panels(c, rows) })
}

// radiusPanel returns the histogram of one run: correct predictions, with wrong predictions stacked on top.
func radiusPanel(s summary.Summary, largest float64, x, title string) *plot.Plot {
	var right, wrong [bars]float64
	abstentions, wrongs := 0, 0
	for _, r := range s.Rows {
		bar := int(min(r.Radius/largest*bars, bars-1))
		switch {
		case r.Correct:
			right[bar]++
		case r.Prediction < 0:
			abstentions++
		default:
			wrong[bar]++
			wrongs++
		}
	}
	p := picture.NewPlot(fmt.Sprintf("%s: %d examples, %d wrong, %d abstained", title, s.Examples, wrongs, abstentions), x, "examples")
	p.Add(picture.Grid())
	width := largest / bars
	var named [2]picture.Line // lines with the labels "right" and "wrong", each at the top of a bar
	filled := picture.Line{Hidden: true}
	highest := 0.0
	for k := range right {
		left, end, top := float64(k)*width, float64(k+1)*width, right[k]+wrong[k]
		p.Add(bar(left, end, 0, right[k], 0), bar(left, end, right[k], top, 1))
		filled.X = append(filled.X, left, left, (left+end)/2, (left+end)/2, end, end)
		filled.Y = append(filled.Y, 0, top, top, 0, 0, top)
		highest = max(highest, top)
		if right[k] > 0 && (named[0].Y == nil || right[k] > named[0].Y[0]) {
			named[0] = picture.Line{Name: "right", X: []float64{left, end}, Y: []float64{right[k], right[k]}, Width: vg.Points(0.8), Solid: true}
		}
		if wrong[k] > 0 && (named[1].Y == nil || top > named[1].Y[0]) {
			named[1] = picture.Line{Name: "wrong", Style: 1, X: []float64{left, end}, Y: []float64{top, top}, Width: vg.Points(0.8), Solid: true}
		}
	}
	picture.AddLines(p, named[0], named[1], filled)
	p.X.Min, p.X.Max, p.Y.Min = 0, largest, 0
	p.Y.Tick.Marker = picture.Ticks(4)
	p.Y.Max = max(1, highest*1.25)
	return p
}

// bar returns a box in the k-th colour.
func bar(left, right, low, high float64, k int) *plotter.Polygon {
	if high == low {
		right = left // so that a box without a height is invisible
	}
	tint := picture.Palette[k]
	line := draw.LineStyle{Color: tint, Width: vg.Points(0.8)}
	tint.A = map[int]uint8{0: 0x50, 1: 0xd0}[k]
	return &plotter.Polygon{XYs: []plotter.XYs{{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}}}, Color: tint, LineStyle: line}
}
