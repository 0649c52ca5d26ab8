package picture

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Palette holds colours that readers with any kind of colour blindness can tell apart (Okabe & Ito 2008). It omits
// yellow, which is hard to see on white. Most of the colours are darker here than in the original palette, so that text
// in these colours is readable.
var Palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xc7, 0x52, 0x00, 0xff}, // vermilion
	{0x00, 0x86, 0x62, 0xff}, // bluish green
	{0xa8, 0x4d, 0x86, 0xff}, // reddish purple
	{0x9a, 0x6a, 0x00, 0xff}, // orange
	{0x2b, 0x83, 0xb8, 0xff}, // sky blue
	{0x3c, 0x3c, 0x3c, 0xff},
}

// dashes holds the dash patterns that distinguish the lines in print without colour.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 2, 2, 2}, {10, 4}, {4, 2, 1, 2}, {1, 3}}

// Halo is a pale grey for lines in the background of a chart, such as an upper envelope. The label of such a line is a
// darker grey.
var Halo = color.NRGBA{0xb4, 0xb4, 0xb4, 0xff}

// labelColor returns the colour of a line's name.
func (l Line) labelColor() color.NRGBA {
	if l.Color != nil && *l.Color == Halo {
		return color.NRGBA{0x50, 0x50, 0x50, 0xff}
	}
	return l.color()
}

// Line is a curve of a chart. The chart shows the name beside the line.
type Line struct {
	Name string
	X, Y []float64
	// Low and High are the edges of a band around the line. Low and High are nil if there is no band.
	Low, High []float64
	Style     int // index into Palette and dashes, modulo their lengths
	Color     *color.NRGBA
	Marks     bool      // draw a mark at each point
	Width     vg.Length // 0: the usual width
	// If Solid is true, the line has no dashes.
	Solid bool
	// If Hidden is true, the line is not drawn. Labels still avoid its place.
	Hidden bool
}

// Add adds a point.
func (l *Line) Add(x, y float64) { l.X, l.Y = append(l.X, x), append(l.Y, y) }

func (l Line) color() color.NRGBA {
	if l.Color != nil {
		return *l.Color
	}
	return Palette[l.Style%len(Palette)]
}

func (l Line) lineStyle() draw.LineStyle {
	width := l.Width
	if width == 0 {
		width = vg.Points(1.5)
	}
	style := draw.LineStyle{Color: l.color(), Width: width}
	if !l.Solid {
		style.Dashes = dashes[l.Style%len(dashes)]
	}
	return style
}

var marks = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.BoxGlyph{}, draw.RingGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}}

// AddLines adds lines to a plot. It draws the bands first, then the lines and marks, and then the labels.
func AddLines(p *plot.Plot, lines ...Line) {
	for _, l := range lines {
		if l.Low != nil {
			p.Add(band{l})
		}
	}
	for _, l := range lines {
		if l.Hidden {
			continue
		}
		xy := make(plotter.XYs, len(l.X))
		for k := range xy {
			xy[k] = plotter.XY{X: l.X[k], Y: l.Y[k]}
		}
		p.Add(&plotter.Line{XYs: xy, LineStyle: l.lineStyle()})
		if l.Marks {
			p.Add(&plotter.Scatter{XYs: xy, GlyphStyle: draw.GlyphStyle{Color: l.color(), Radius: vg.Points(2.5), Shape: marks[l.Style%len(marks)]}})
		}
	}
	p.Add(labels{lines})
}

// Grid returns thin lines behind a chart.
func Grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = color.Gray{0xe6}, color.Gray{0xe6}
	g.Vertical.Width, g.Horizontal.Width = vg.Points(0.5), vg.Points(0.5)
	return g
}

// band fills the area between the edges.
type band struct{ Line }

// Plot implements plot.Plotter.
func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var edge []vg.Point
	for k := range b.X {
		edge = append(edge, vg.Point{X: x(b.X[k]), Y: y(b.High[k])})
	}
	for k := len(b.X) - 1; k >= 0; k-- {
		edge = append(edge, vg.Point{X: x(b.X[k]), Y: y(b.Low[k])})
	}
	tint := b.color()
	tint.A = 0x28
	c.FillPolygon(tint, c.ClipPolygonXY(edge))
}

// DataRange implements plot.DataRanger.
func (b band) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for k := range b.X {
		xmin, xmax = min(xmin, b.X[k]), max(xmax, b.X[k])
		ymin, ymax = min(ymin, b.Low[k]), max(ymax, b.High[k])
	}
	return xmin, xmax, ymin, ymax
}
