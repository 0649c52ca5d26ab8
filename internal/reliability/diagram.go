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
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rscert/rscert/internal/calib"
)

// Format is a picture's file format.
type Format int

const (
	SVG Format = iota // with fonts by generic name: the viewer's own
	PNG
	PDF // with its fonts
)

// FormatOf tells the format from a file's name.
func FormatOf(path string) (Format, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".svg":
		return SVG, nil
	case ".png":
		return PNG, nil
	case ".pdf":
		return PDF, nil
	default:
		return 0, fmt.Errorf("%s: pictures are .svg, .png or .pdf, not %q", path, ext)
	}
}

// Size is the size of a picture in centimetres, written "11x14".
type Size struct{ Width, Height float64 }

// DefaultSize fits one column of a page.
var DefaultSize = Size{11, 14}

// String is the size as UnmarshalText reads it.
func (s Size) String() string { return fmt.Sprintf("%gx%g", s.Width, s.Height) }

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	w, h, ok := strings.Cut(string(text), "x")
	width, err := strconv.ParseFloat(w, 64)
	height, err2 := strconv.ParseFloat(h, 64)
	if !ok || err != nil || err2 != nil || !(width >= 6 && width <= 100 && height >= 6 && height <= 100) {
		return fmt.Errorf("want WIDTHxHEIGHT in centimetres, each 6 to 100, such as %v, not %q", DefaultSize, text)
	}
	*s = Size{width, height}
	return nil
}

// Curve is a line through the diagram: the accuracy at ascending confidences.
type Curve struct {
	Name                 string
	Confidence, Accuracy []float64
}

// Diagram is what is drawn.
type Diagram struct {
	Title      string // shortened to fit; may be empty
	Confidence string // what the horizontal axis shows
	Accuracy   string // what the vertical axis shows
	Level      float64
	Bins       []calib.Bin // of equal width, covering [0, 1]; empty ones are left out
	Bands      [][2]float64
	Curve      *Curve // nil: none
	Size       Size
}

var (
	blue  = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	light = color.RGBA{R: 0xc6, G: 0xda, B: 0xee, A: 0xff}
	grey  = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	red   = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
)

// canvas is a picture in the making.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

func newCanvas(format Format, width, height vg.Length) canvas {
	switch format {
	case PNG:
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(200))}
	case PDF:
		c := vgpdf.New(width, height)
		c.EmbedFonts(true)
		return c
	default:
		return vgsvg.New(width, height)
	}
}

// Draw draws the diagram.
func (d Diagram) Draw(format Format) ([]byte, error) {
	return render(d.Size, format, func(dc draw.Canvas, width vg.Length) {
		top, bottom := d.accuracyPlot(width), d.histogram()
		if format == PDF {
			top.Title.Text = singleBytes(top.Title.Text)
		}
		split := dc.Min.Y + 0.3*(dc.Max.Y-dc.Min.Y)
		upper, lower := dc, dc
		upper.Min.Y, lower.Max.Y = split, split
		// The left edges of the data line up.
		left := max(top.DataCanvas(upper).Min.X, bottom.DataCanvas(lower).Min.X)
		upper.Min.X += left - top.DataCanvas(upper).Min.X
		lower.Min.X += left - bottom.DataCanvas(lower).Min.X
		top.Draw(upper)
		bottom.Draw(lower)
	})
}

// render makes a file of what paint draws on a canvas of the picture's width.
func render(size Size, format Format, paint func(dc draw.Canvas, width vg.Length)) ([]byte, error) {
	width, height := vg.Length(size.Width)*vg.Centimeter, vg.Length(size.Height)*vg.Centimeter
	c := newCanvas(format, width, height)
	// Room at the edges: text may be wider in another font than in the one that it is measured with.
	const margin = 3 * vg.Millimeter
	paint(draw.Crop(draw.New(c), margin, -2*margin, margin, -margin), width)
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	switch format {
	case SVG:
		return genericFonts(out.Bytes()), nil
	case PDF:
		return undated(out.Bytes()), nil
	}
	return out.Bytes(), nil
}

// newPlot is a plot in a font without serifs.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, s := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		s.Font.Variant = "Sans"
		s.Font.Size = vg.Points(9)
	}
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.Title.Padding = vg.Points(4)
	return p
}

func (d Diagram) accuracyPlot(width vg.Length) *plot.Plot {
	p := newPlot()
	p.Title.Text = shorten(d.Title, func(s string) bool { return p.Title.TextStyle.Width(s) <= 0.8*width })
	p.Y.Label.Text = d.Accuracy
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
	p.Legend.Add(fmt.Sprintf("bin, %g %% interval", 100*d.Level), drawn)
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
	p := newPlot()
	p.X.Label.Text = d.Confidence
	p.Y.Label.Text = "share"
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

// shorten leaves out the middle of s until it fits.
func shorten(s string, fits func(string) bool) string {
	runes := []rune(s)
	for n := len(runes); n > 0; n-- {
		if n < len(runes) {
			s = string(runes[:(n+1)/2]) + "..." + string(runes[len(runes)-n/2:])
		}
		if fits(s) {
			return s
		}
	}
	return ""
}

// singleBytes is s in Windows-1252, the encoding of the PDF's fonts; what it lacks becomes "?".
func singleBytes(s string) string {
	encoder := encoding.ReplaceUnsupported(charmap.Windows1252.NewEncoder())
	out, err := encoder.String(s)
	if err != nil {
		return strings.Map(func(r rune) rune {
			if r >= 0x80 {
				return '?'
			}
			return r
		}, s)
	}
	return strings.ReplaceAll(out, "\x1a", "?") // what the encoder puts for a rune it lacks
}

var svgFont = regexp.MustCompile(`font-family:[^;"]*`)

// genericFonts names the fonts of an SVG by family, so that a viewer without Liberation Sans takes one of its size.
func genericFonts(svg []byte) []byte {
	return svgFont.ReplaceAll(svg, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

var pdfDate = regexp.MustCompile(`\(D:\d{14}\)`)

// undated sets the times in a PDF to one of the same length: the same input gives the same file.
func undated(pdf []byte) []byte { return pdfDate.ReplaceAll(pdf, []byte("(D:20000101000000)")) }

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
		drawBar(c, x(b.Lower), x(b.Upper), y(d.bands[k][0]), y(d.bands[k][1]), x(b.Confidence), y(b.Accuracy))
	}
}

// Thumbnail implements plot.Thumbnailer.
func (d bars) Thumbnail(c *draw.Canvas) {
	drawBar(*c, c.Min.X, c.Max.X, c.Min.Y, c.Max.Y, c.Center().X, c.Center().Y)
}

func drawBar(c draw.Canvas, left, right, low, high, confidence, accuracy vg.Length) {
	c.FillPolygon(light, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
	c.StrokeLines(draw.LineStyle{Color: blue, Width: vg.Points(2)}, []vg.Point{{X: left, Y: accuracy}, {X: right, Y: accuracy}})
	c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}},
		vg.Point{X: confidence, Y: accuracy})
}
