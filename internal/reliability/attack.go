package reliability

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// Attack is a picture of calibration under attack. It has one of two forms. The first form shows the bins at some
// radii: the bins without an attack, and the bins under the worst attack. It also shows measures of calibration by
// radius. The second form shows the bins without an attack and the bins under attacks that were carried out. It shows
// no measures.
type Attack struct {
	Title    string // shortened to fit; may be empty
	Diagrams []AttackDiagram
	Measures []Measure    // nil in the second form, which shows attacks that were carried out
	Size     picture.Size // if zero, the number of diagrams determines the size
}

// AttackDiagram is the reliability diagram of one radius, or of one attack that was carried out.
type AttackDiagram struct {
	Title           string
	Clean, Attacked []calib.Bin // without empty bins
}

// Measure holds the values of one measure of calibration at ascending radii.
type Measure struct {
	Name          string
	Radius, Value []float64
	Brier         bool // a Brier score, not a calibration error
	ForAll        bool // true: the values hold with a stated probability; false: they hold if every bound holds
}

// panelSize is the size of one panel in centimetres. Three panels fit side by side.
var panelSize = picture.Size{Width: 7, Height: 7}

const panelsInRow = 3

// Draw returns the picture as a file of the given format.
func (a Attack) Draw(format picture.Format) ([]byte, error) {
	var panels []*plot.Plot
	for _, d := range a.Diagrams {
		panels = append(panels, d.plot())
	}
	attacked := "under the attack"
	alt := "Calibration under attack. " + a.Title + ". Reliability diagrams without attack and under each attack."
	if a.Measures != nil {
		panels = append(panels, a.byRadius())
		attacked = "under the worst attack"
		alt = "Calibration under attack. " + a.Title + ". Reliability diagrams without attack and under the worst one, and CBS and CCE by radius."
	}
	columns := min(len(panels), panelsInRow)
	if len(panels) == 4 { // two rows of two panels
		columns = 2
	}
	rows := (len(panels) + columns - 1) / columns
	size := a.Size
	if size == (picture.Size{}) {
		size = picture.Size{Width: float64(columns) * panelSize.Width, Height: float64(rows)*panelSize.Height + 1.5}
	}
	grid := make([][]*plot.Plot, rows)
	for i := range rows * columns {
		var p *plot.Plot
		if i < len(panels) {
			p = panels[i]
		}
		grid[i/columns] = append(grid[i/columns], p)
	}
	return picture.Draw(format, size, alt, func(dc draw.Canvas) {
		style := panels[0].Title.TextStyle
		style.Font.Size = vg.Points(10)
		title := picture.Shorten(a.Title, func(s string) bool { return style.Width(s) <= 0.9*(dc.Max.X-dc.Min.X) })
		style.XAlign, style.YAlign = draw.XCenter, draw.YTop
		dc.FillText(style, vg.Point{X: dc.Center().X, Y: dc.Max.Y}, title)
		dc.Max.Y -= vg.Points(18)
		drawLegend(dc, panels[0].Legend.TextStyle, attacked)
		dc.Max.Y -= vg.Points(18)
		tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(10), PadY: vg.Points(10)}
		for i, row := range plot.Align(grid, tiles, dc) {
			for k, c := range row {
				if grid[i][k] != nil {
					grid[i][k].Draw(c)
				}
			}
		}
	})
}

// These are the styles of the bins without attack, of the bins under attack, and of the diagonal.
var (
	cleanGaps    = gaps{color: blue, shape: draw.CircleGlyph{}}
	attackedGaps = gaps{color: red, shape: draw.BoxGlyph{}}
	diagonalLine = draw.LineStyle{Color: grey, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
)

// drawLegend draws the common legend of all diagrams in one line at the top of dc.
func drawLegend(dc draw.Canvas, style draw.TextStyle, attacked string) {
	const glyph, space = 18, 14 // in points
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	entries := []struct {
		name string
		draw plot.Thumbnailer
	}{
		{"bins without attack", cleanGaps}, {attacked, attackedGaps}, {"calibrated", &plotter.Line{LineStyle: diagonalLine}},
	}
	var width vg.Length
	for _, e := range entries {
		width += vg.Points(glyph+space) + style.Width(e.name)
	}
	at := dc.Center().X - width/2
	for _, e := range entries {
		box := dc
		box.Min, box.Max = vg.Point{X: at, Y: dc.Max.Y - vg.Points(10)}, vg.Point{X: at + vg.Points(glyph-4), Y: dc.Max.Y}
		e.draw.Thumbnail(&box)
		dc.FillText(style, vg.Point{X: at + vg.Points(glyph), Y: dc.Max.Y - vg.Points(5)}, e.name)
		at += vg.Points(glyph+space) + style.Width(e.name)
	}
}

// plot returns the plot of a diagram.
func (d AttackDiagram) plot() *plot.Plot {
	p := picture.NewPlot(d.Title, "confidence", "accuracy")
	p.Title.TextStyle.Font.Size = vg.Points(9)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	diagonal := plotter.NewFunction(func(x float64) float64 { return x })
	diagonal.Samples = 2
	diagonal.LineStyle = diagonalLine
	clean, attacked := cleanGaps, attackedGaps
	clean.bins, attacked.bins = d.Clean, d.Attacked
	p.Add(diagonal, attacked, clean)
	return p
}

// byRadius returns the plot of the measures.
func (a Attack) byRadius() *plot.Plot {
	p := picture.NewPlot("by radius", "radius", "at most")
	p.Title.TextStyle.Font.Size = vg.Points(9)
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), vg.Points(-4)
	p.Legend.Padding = vg.Points(2)
	top := 0.0
	for _, m := range a.Measures {
		xy := make(plotter.XYs, len(m.Value))
		for i := range xy {
			xy[i] = plotter.XY{X: m.Radius[i], Y: m.Value[i]}
			top = max(top, m.Value[i])
		}
		style := draw.LineStyle{Color: red, Width: vg.Points(1.2)}
		glyph := draw.GlyphStyle{Color: red, Radius: vg.Points(2.5), Shape: draw.BoxGlyph{}}
		if m.Brier {
			style.Color, glyph.Color, glyph.Shape = blue, blue, draw.CircleGlyph{}
		}
		if m.ForAll {
			style.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			glyph.Shape = hollow(m.Brier)
		}
		line := &plotter.Line{XYs: xy, LineStyle: style}
		points := &plotter.Scatter{XYs: xy, GlyphStyle: glyph}
		p.Add(line, points)
		p.Legend.Add(m.Name, line, points)
	}
	p.X.Max *= 1.05
	p.Y.Max = math.Max(1.45*top, 0.01) // room for the legend
	return p
}

// The function 'hollow' returns the unfilled glyph for a Brier score or for a calibration error.
func hollow(brier bool) draw.GlyphDrawer {
	if brier {
		return draw.RingGlyph{}
	}
	return draw.SquareGlyph{}
}

// gaps is a plotter that draws each bin as a glyph at its confidence and accuracy. A bin with more examples has a
// larger glyph. A line shows the gap between the bin and the diagonal.
type gaps struct {
	bins  []calib.Bin
	color color.Color
	shape draw.GlyphDrawer
}

// Plot implements plot.Plotter.
func (g gaps) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, b := range g.bins {
		if b.N == 0 {
			continue
		}
		at := x(b.Confidence)
		c.StrokeLines(draw.LineStyle{Color: g.color, Width: vg.Points(1)},
			[]vg.Point{{X: at, Y: y(b.Confidence)}, {X: at, Y: y(b.Accuracy)}})
		g.draw(c, vg.Point{X: at, Y: y(b.Accuracy)}, b.Weight)
	}
}

// Thumbnail implements plot.Thumbnailer.
func (g gaps) Thumbnail(c *draw.Canvas) { g.draw(*c, c.Center(), 0.2) }

func (g gaps) draw(c draw.Canvas, at vg.Point, weight float64) {
	radius := vg.Points(1.5 + 3*math.Sqrt(weight))
	c.DrawGlyph(draw.GlyphStyle{Color: g.color, Radius: radius, Shape: g.shape}, at)
}
