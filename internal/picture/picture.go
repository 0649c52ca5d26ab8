// Package picture draws charts as SVG, PNG or PDF. The charts look the same on every machine, because text is drawn as
// outlines of the package's own font. Colour-blind readers can tell the colours apart. Dashes distinguish the lines in
// print, and labels stand beside the lines.
//
// NewPlot makes a plot with a Grid and Ticks, AddLines adds labelled Lines, Panels arranges plots, and Draw renders a
// picture of a Size in a Format.
package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Format is a picture's file format.
type Format int

// These are the supported formats.
const (
	SVG Format = iota
	PNG
	PDF
)

// FormatOf returns the format for the name of a file.
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

// Size is the size of a picture in centimetres. Its text is, for example, "11x14".
type Size struct{ Width, Height float64 }

// String returns the size in the form that UnmarshalText accepts.
func (s Size) String() string { return fmt.Sprintf("%gx%g", s.Width, s.Height) }

// MarshalText implements encoding.TextMarshaler. The text of the zero Size is empty.
func (s Size) MarshalText() ([]byte, error) {
	if s == (Size{}) {
		return nil, nil
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	w, h, ok := strings.Cut(string(text), "x")
	width, err := strconv.ParseFloat(w, 64)
	height, err2 := strconv.ParseFloat(h, 64)
	if !ok || err != nil || err2 != nil || !(width >= 6 && width <= 100 && height >= 6 && height <= 100) {
		return fmt.Errorf("want WIDTHxHEIGHT in centimetres, each 6 to 100, such as 14x9, not %q", text)
	}
	*s = Size{width, height}
	return nil
}

// A canvas is a picture to draw on. Its method WriteTo writes the finished file.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// Margin is the free space at the edges of a picture.
const Margin = 3 * vg.Millimeter

// Draw makes a picture. The function 'paint' draws on the canvas within the margin. The text 'alt' describes the
// picture in words, for readers who cannot see it. The same input gives the same bytes.
func Draw(format Format, size Size, alt string, paint func(draw.Canvas)) ([]byte, error) {
	width, height := vg.Length(size.Width)*vg.Centimeter, vg.Length(size.Height)*vg.Centimeter
	var c canvas
	switch format {
	case PNG:
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(200))}
	case PDF:
		c = vgpdf.New(width, height)
	default:
		c = vgsvg.New(width, height)
	}
	var texts []string
	whole := draw.NewCanvas(outlines{c, &texts}, width, height)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	paint(draw.Crop(whole, Margin, -Margin, Margin, -Margin))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	switch format {
	case SVG:
		return describe(out.Bytes(), alt, texts), nil
	case PDF:
		return pdfDate.ReplaceAll(out.Bytes(), []byte("(D:20000101000000)")), nil // this date has the same length as the real date
	}
	return out.Bytes(), nil
}

var pdfDate = regexp.MustCompile(`\(D:\d{14}\)`)

// svgRoot matches the start tag of the root element.
var svgRoot = regexp.MustCompile(`(?s)<svg [^>]*>`)

// describe adds a title and a description in words to an SVG of this package, because such an SVG contains letters only
// as outlines. The title is 'alt'. In the description, each element of 'texts' is a line.
func describe(svg []byte, alt string, texts []string) []byte {
	at := svgRoot.FindIndex(svg)
	if at == nil {
		return svg
	}
	var words bytes.Buffer
	words.WriteString(` role="img">` + "\n<title>")
	_ = xml.EscapeText(&words, []byte(alt)) // writing to a Buffer cannot fail
	words.WriteString("</title>\n<desc>")
	for _, text := range texts {
		words.WriteByte('\n')
		_ = xml.EscapeText(&words, []byte(text))
	}
	words.WriteString("\n</desc>")
	return slices.Concat(svg[:at[1]-1], words.Bytes(), svg[at[1]:])
}

// NewPlot returns a plot with a sans-serif font.
func NewPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, s := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		s.Font.Variant = "Sans"
		s.Font.Size = vg.Points(9)
	}
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.Title.Padding = vg.Points(4)
	p.X.Tick.Marker, p.Y.Tick.Marker = Ticks(7), Ticks(7)
	return p
}

// Rows arranges panels in rows. The argument 'columns' is the largest number of panels in a row. In the last row, nil
// stands for each missing panel.
func Rows(panels []*plot.Plot, columns int) [][]*plot.Plot {
	columns = min(len(panels), columns)
	rows := make([][]*plot.Plot, (len(panels)+columns-1)/columns)
	for i := range rows {
		rows[i] = make([]*plot.Plot, columns)
		copy(rows[i], panels[i*columns:min(len(panels), (i+1)*columns)])
	}
	return rows
}

// Panels draws plots of equal size in rows, with aligned axes. A nil plot leaves its panel empty.
func Panels(c draw.Canvas, rows [][]*plot.Plot) {
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: vg.Points(14), PadY: vg.Points(8)}
	for j, row := range plot.Align(rows, tiles, c) {
		for i, part := range row {
			if p := rows[j][i]; p != nil {
				Fit(p, 0.9*(part.Max.X-part.Min.X))
				p.Draw(part)
			}
		}
	}
}

// Ticks places labelled ticks at round numbers. Its value is the largest allowed number of steps on the axis. A step is
// the distance between two neighbouring ticks.
type Ticks int

// Ticks implements plot.Ticker.
func (most Ticks) Ticks(low, high float64) []plot.Tick {
	if !(high > low) {
		return nil
	}
	decade := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	step := 10 * decade
	for _, f := range []float64{1, 2, 2.5, 5} {
		if (high-low)/(f*decade) <= float64(most) {
			step = f * decade
			break
		}
	}
	decimals := 0
	for step*math.Pow(10, float64(decimals)) < 0.999 || math.Abs(math.Remainder(step*math.Pow(10, float64(decimals)), 1)) > 1e-6 {
		decimals++
	}
	var out []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9*step; k++ {
		out = append(out, plot.Tick{Value: k * step, Label: strings.Replace(strconv.FormatFloat(k*step+0, 'f', decimals, 64), "-", "−", 1)})
	}
	return out
}

// Fit shortens a plot's title so that it fits a width.
func Fit(p *plot.Plot, width vg.Length) {
	p.Title.Text = Shorten(p.Title.Text, func(s string) bool { return p.Title.TextStyle.Width(s) <= width })
}

// Shorten removes the middle of s until s fits.
func Shorten(s string, fits func(string) bool) string {
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

// Decades is a plot.Ticker that places ticks at the powers of ten. If there are few powers, it also places ticks at 2
// and 5 times a power.
type Decades struct{}

// Ticks implements plot.Ticker.
func (Decades) Ticks(low, high float64) (ticks []plot.Tick) {
	factors := []float64{1}
	if high/low < 100 {
		factors = []float64{1, 2, 5}
	}
	for k := math.Floor(math.Log10(low)); math.Pow(10, k) <= high; k++ {
		for _, f := range factors {
			if x := f * math.Pow(10, k); x >= low*(1-1e-9) && x <= high*(1+1e-9) {
				ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
			}
		}
	}
	return ticks
}

// DrawPanels makes a picture of plots in rows. All plots have the same axes, which begin at 0. The horizontal axis ends
// a little beyond 'right', and the vertical axis a little beyond 'top'. If the argument 'size' is zero, the number of
// plots determines the size.
func DrawPanels(format Format, size Size, alt string, rows [][]*plot.Plot, right, top float64) ([]byte, error) {
	for _, p := range slices.Concat(rows...) {
		if p != nil {
			p.X.Min, p.Y.Min, p.X.Max, p.Y.Max = 0, 0, 1.05*right, 1.08*top
		}
	}
	if size == (Size{}) {
		size = Size{Width: 2 + 9*float64(len(rows[0])), Height: min(100, 8*float64(len(rows)))}
	}
	return Draw(format, size, alt, func(c draw.Canvas) { Panels(c, rows) })
}
