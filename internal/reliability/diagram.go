// Package reliability draws reliability diagrams: accuracy against confidence
// in bins, with the interval of each accuracy, over a histogram of the
// confidence.
package reliability

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rscert/rscert/internal/calib"
)

// Format is a picture's file format.
type Format int

const (
	SVG Format = iota
	PNG
)

// FormatOf tells the format from a file's name.
func FormatOf(path string) (Format, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".svg":
		return SVG, nil
	case ".png":
		return PNG, nil
	default:
		return 0, fmt.Errorf("%s: pictures are .svg or .png, not %q", path, ext)
	}
}

var (
	blue  = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	light = color.RGBA{R: 0xc6, G: 0xda, B: 0xee, A: 0xff}
	grey  = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
)

// Draw draws equal-width bins that cover [0, 1] and an interval [low, high]
// for the accuracy of each; empty bins are left out.
func Draw(bins []calib.Bin, bands [][2]float64, title string, format Format) ([]byte, error) {
	top := plot.New()
	top.Title.Text = title
	top.Y.Label.Text = "accuracy"
	top.X.Min, top.X.Max, top.Y.Min, top.Y.Max = 0, 1, 0, 1
	top.Add(bars{bins, bands})
	diagonal := plotter.NewFunction(func(x float64) float64 { return x })
	diagonal.Samples = 2
	diagonal.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	diagonal.Color = grey
	top.Add(diagonal)

	bottom := plot.New()
	bottom.X.Label.Text = "confidence"
	bottom.Y.Label.Text = "share"
	bottom.X.Min, bottom.X.Max = 0, 1
	counts := &plotter.Histogram{FillColor: light, LineStyle: plotter.DefaultLineStyle}
	counts.LineStyle.Color = blue
	for _, b := range bins {
		counts.Bins = append(counts.Bins, plotter.HistogramBin{Min: b.Lower, Max: b.Upper, Weight: b.Weight})
	}
	bottom.Add(counts)
	bottom.Y.Min = 0

	const width, height = 11 * vg.Centimeter, 14 * vg.Centimeter
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == PNG {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(150))}
	} else {
		canvas = vgsvg.New(width, height)
	}
	dc := draw.New(canvas)
	split := dc.Min.Y + 0.3*(dc.Max.Y-dc.Min.Y)
	upper, lower := dc, dc
	upper.Min.Y, lower.Max.Y = split, split
	// The left edges of the data line up.
	left := max(top.DataCanvas(upper).Min.X, bottom.DataCanvas(lower).Min.X)
	upper.Min.X += left - top.DataCanvas(upper).Min.X
	lower.Min.X += left - bottom.DataCanvas(lower).Min.X
	top.Draw(upper)
	bottom.Draw(lower)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// bars draws each bin's interval as a box and its accuracy as a line across.
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
		l, r := x(b.Lower), x(b.Upper)
		box := []vg.Point{{X: l, Y: y(d.bands[k][0])}, {X: r, Y: y(d.bands[k][0])}, {X: r, Y: y(d.bands[k][1])}, {X: l, Y: y(d.bands[k][1])}}
		c.FillPolygon(light, box)
		c.StrokeLines(draw.LineStyle{Color: blue, Width: vg.Points(2)}, []vg.Point{{X: l, Y: y(b.Accuracy)}, {X: r, Y: y(b.Accuracy)}})
		c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}, vg.Point{X: x(b.Confidence), Y: y(b.Accuracy)})
	}
}
