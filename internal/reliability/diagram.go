// Package reliability draws reliability diagrams. A Diagram shows accuracy against confidence in bins, with an interval
// for each accuracy. Below it is a histogram of the confidence. An Attack shows the bins with and without an attack. It
// has a diagram for each of several radii, or for each of several attacks. A picture of several radii also shows
// measures of calibration by radius.
package reliability

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// DefaultSize is the default size of a diagram. It fits one column of a page.
var DefaultSize = picture.Size{Width: 11, Height: 14}

// Curve is a line in the diagram. It gives the accuracy at ascending confidences.
type Curve struct {
	Name                 string
	Confidence, Accuracy []float64
}

// Diagram is a reliability diagram.
type Diagram struct {
	Title      string // shortened to fit; may be empty
	Confidence string // label of the horizontal axis
	Accuracy   string // label of the vertical axis
	Level      float64
	Bins       []calib.Bin // of equal width, covering [0, 1]; empty bins are not drawn
	Bands      [][2]float64
	// If Joint is true, the probability that all intervals in Bands hold is at least Level (calib.JointBands).
	Joint bool
	// Consistency holds the consistency band of each bin (calib.ConsistencyBands). It is nil if the diagram has no
	// consistency bands.
	Consistency [][2]float64
	Curve       *Curve // nil if there is no curve
	Size        picture.Size
}

var (
	blue  = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	light = color.RGBA{R: 0xc6, G: 0xda, B: 0xee, A: 0xff}
	grey  = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	red   = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
)

// Draw returns the diagram as a file of the given format.
func (d Diagram) Draw(format picture.Format) ([]byte, error) {
	alt := fmt.Sprintf("Reliability diagram. %s. %s against %s, and how the %s is distributed.", d.Title, d.Accuracy, d.Confidence, d.Confidence)
	if d.Curve != nil {
		alt += " The line is: " + d.Curve.Name + "."
	}
	return picture.Draw(format, d.Size, alt, d.paint)
}

// paint draws the accuracies in the upper part of the picture, and the histogram of the confidence in the lower part.
func (d Diagram) paint(dc draw.Canvas) {
	top, bottom := d.accuracyPlot(), d.histogram()
	picture.Fit(top, 0.8*(dc.Max.X-dc.Min.X))
	split := dc.Min.Y + 0.3*(dc.Max.Y-dc.Min.Y)
	upper, lower := dc, dc
	upper.Min.Y, lower.Max.Y = split, split
	// The next lines align the left edges of the two data areas.
	left := max(top.DataCanvas(upper).Min.X, bottom.DataCanvas(lower).Min.X)
	upper.Min.X += left - top.DataCanvas(upper).Min.X
	lower.Min.X += left - bottom.DataCanvas(lower).Min.X
	top.Draw(upper)
	bottom.Draw(lower)
}

func (d Diagram) accuracyPlot() *plot.Plot {
	p := picture.NewPlot(d.Title, "", d.Accuracy)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	drawn := bars{d.Bins, d.Bands}
	p.Add(drawn)
	diagonal := plotter.NewFunction(func(x float64) float64 { return x })
	diagonal.Samples = 2
	diagonal.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	diagonal.Color = grey
	p.Add(diagonal)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), vg.Points(-4)
	p.Legend.Padding = vg.Points(2)
	interval := fmt.Sprintf("bin, %g %% interval", 100*d.Level)
	if d.Joint {
		interval = fmt.Sprintf("bin: %g %% for all bins", 100*d.Level)
	}
	p.Legend.Add(interval, drawn)
	if d.Consistency != nil {
		around := brackets{d.Bins, d.Consistency}
		p.Add(around)
		p.Legend.Add(fmt.Sprintf("calibrated: %g %% for all bins", 100*d.Level), around)
	}
	if d.Curve != nil {
		xy := make(plotter.XYs, len(d.Curve.Confidence))
		for k := range xy {
			xy[k] = plotter.XY{X: d.Curve.Confidence[k], Y: d.Curve.Accuracy[k]}
		}
		line := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: red, Width: vg.Points(1.2)}}
		p.Add(line)
		p.Legend.Add(d.Curve.Name, line)
	}
	p.Legend.Add("calibrated", diagonal)
	return p
}

func (d Diagram) histogram() *plot.Plot {
	p := picture.NewPlot("", d.Confidence, "share")
	p.X.Min, p.X.Max = 0, 1
	counts := &plotter.Histogram{FillColor: light, LineStyle: plotter.DefaultLineStyle}
	counts.LineStyle.Color = blue
	for _, b := range d.Bins {
		counts.Bins = append(counts.Bins, plotter.HistogramBin{Min: b.Lower, Max: b.Upper, Weight: b.Weight})
	}
	p.Add(counts)
	p.Y.Min = 0
	return p
}

// bars is a plotter that draws each bin's interval as a box, and its accuracy as a line across the box.
type bars struct {
	bins  []calib.Bin
	bands [][2]float64
}

// Plot implements plot.Plotter.
func (d bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for k, b := range d.bins {
		if b.N == 0 || math.IsNaN(b.Accuracy) {
			continue
		}
		drawBar(c, x(b.Lower), x(b.Upper), y(d.bands[k][0]), y(d.bands[k][1]), x(b.Confidence), y(b.Accuracy))
	}
}

// Thumbnail implements plot.Thumbnailer.
func (d bars) Thumbnail(c *draw.Canvas) {
	drawBar(*c, c.Min.X, c.Max.X, c.Min.Y, c.Max.Y, c.Center().X, c.Center().Y)
}

// brackets is a plotter that draws each bin's consistency band as a grey bracket around the diagonal: a vertical line
// between two horizontal lines.
type brackets struct {
	bins  []calib.Bin
	bands [][2]float64
}

// Plot implements plot.Plotter.
func (d brackets) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for k, b := range d.bins {
		if b.N > 0 {
			drawBracket(c, x(b.Lower), x(b.Upper), y(d.bands[k][0]), y(d.bands[k][1]))
		}
	}
}

// Thumbnail implements plot.Thumbnailer.
func (d brackets) Thumbnail(c *draw.Canvas) {
	drawBracket(*c, c.Min.X, c.Max.X, c.Min.Y, c.Max.Y)
}

func drawBracket(c draw.Canvas, left, right, low, high vg.Length) {
	style := draw.LineStyle{Color: grey, Width: vg.Points(0.8)}
	for _, y := range []vg.Length{low, high} {
		c.StrokeLines(style, []vg.Point{{X: left, Y: y}, {X: right, Y: y}})
	}
	middle := (left + right) / 2
	c.StrokeLines(style, []vg.Point{{X: middle, Y: low}, {X: middle, Y: high}})
}

func drawBar(c draw.Canvas, left, right, low, high, confidence, accuracy vg.Length) {
	c.FillPolygon(light, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
	c.StrokeLines(draw.LineStyle{Color: blue, Width: vg.Points(2)}, []vg.Point{{X: left, Y: accuracy}, {X: right, Y: accuracy}})
	c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}},
		vg.Point{X: confidence, Y: accuracy})
}
