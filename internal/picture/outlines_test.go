package picture

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Text must be drawn as filled outlines. The place of each letter must follow from the widths of the letters before it.
// The test draws the letter 'l', which is a thin rectangle on the base line.
func TestOutlines(t *testing.T) {
	var r recorder.Canvas
	face := plot.DefaultFont
	face.Variant, face.Size = "Sans", 100
	got := font.DefaultCache.Lookup(face, 100)
	outlines{&r, nil}.FillString(got, vg.Point{X: 10, Y: 20}, "l")
	outlines{&r, nil}.FillString(got, vg.Point{X: 10, Y: 20}, "σ ≥ l")
	if len(r.Actions) != 2 {
		t.Fatalf("%d actions", len(r.Actions))
	}
	var boxes [2]vg.Rectangle
	for k, a := range r.Actions {
		fill, ok := a.(*recorder.Fill)
		if !ok {
			t.Fatalf("%T", a)
		}
		boxes[k] = bounds(fill.Path)
	}
	one := boxes[0]
	if w, h := one.Max.X-one.Min.X, one.Max.Y-one.Min.Y; w > 15 || h < 65 || h > 80 || math.Abs(float64(one.Min.Y-20)) > 0.5 || one.Min.X < 10 || one.Min.X > 20 {
		t.Errorf("the box of l is %v", one)
	}
	width := got.Width("σ ≥ ")
	if off := boxes[1].Max.X - one.Max.X - width; math.Abs(float64(off)) > 0.5 {
		t.Errorf("the last letter is %v off", off)
	}
}

func bounds(path vg.Path) vg.Rectangle {
	r := vg.Rectangle{Min: vg.Point{X: 1e9, Y: 1e9}, Max: vg.Point{X: -1e9, Y: -1e9}}
	for _, c := range path {
		if c.Type != vg.CloseComp {
			r.Min.X, r.Min.Y = min(r.Min.X, c.Pos.X), min(r.Min.Y, c.Pos.Y)
			r.Max.X, r.Max.Y = max(r.Max.X, c.Pos.X), max(r.Max.Y, c.Pos.Y)
		}
	}
	return r
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		most      Ticks
		want      string
	}{
		{0, 1, 7, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 1.73, 7, "0.00 0.25 0.50 0.75 1.00 1.25 1.50"},
		{0, 0.16, 7, "0.000 0.025 0.050 0.075 0.100 0.125 0.150"},
		{0, 130, 4, "0 50 100"},
		{-0.3, 0.3, 7, "−0.3 −0.2 −0.1 0.0 0.1 0.2 0.3"},
		{0, 10000, 7, "0 2000 4000 6000 8000 10000"},
		{2, 2, 7, ""},
	} {
		var labels []string
		for _, tick := range test.most.Ticks(test.low, test.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%v to %v: %s", test.low, test.high, got)
		}
	}
}

// Labels stay in the chart, cover no line and no other label, and stand next to the line that they name.
func TestPlace(t *testing.T) {
	room := vg.Rectangle{Max: vg.Point{X: 400, Y: 250}}
	r := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		var paths [][]vg.Point
		for range 4 {
			a, b, bend := 250*r.Float64(), 250*r.Float64(), 60*(r.Float64()-0.5)
			var path []vg.Point
			for x := 0.0; x <= 400; x += 3 {
				u := x / 400
				path = append(path, vg.Point{X: vg.Length(x), Y: vg.Length(a*(1-u) + b*u + bend*math.Sin(6*u))})
			}
			paths = append(paths, path)
		}
		var taken []vg.Rectangle
		for k := range paths {
			best := placeLabel(vg.Point{X: 70, Y: 9}, k, paths, taken, room)
			if best.rect.Min.X < 0 || best.rect.Min.Y < 0 || best.rect.Max.X > 400 || best.rect.Max.Y > 250 {
				t.Errorf("label at %v is out of the chart", best.rect)
			}
			for _, other := range taken {
				if overlap(best.rect, other) {
					t.Errorf("labels at %v and %v overlap", best.rect, other)
				}
			}
			for _, path := range paths {
				for _, p := range path {
					if contains(best.rect, p) {
						t.Errorf("the label at %v covers a line at %v", best.rect, p)
						break
					}
				}
			}
			if d := distance(best.rect, best.anchor); d > 7 && !best.leader {
				t.Errorf("the label is %v away from its line", d)
			}
			taken = append(taken, best.rect)
		}
	}
}

// The test checks that the same picture has the same bytes each time, and that an SVG has a title in words and no text
// elements.
func TestDraw(t *testing.T) {
	p := NewPlot("σ & <co>", "x", "y")
	AddLines(p, Line{Name: "one", X: []float64{0, 1}, Y: []float64{0, 1}, Low: []float64{0, 0.5}, High: []float64{0.5, 1}, Marks: true},
		Line{Name: "two", X: []float64{0, 1}, Y: []float64{1, 0}, Style: 1})
	for format, begins := range map[Format]string{SVG: "<?xml", PNG: "\x89PNG", PDF: "%PDF-"} {
		paint := func(c draw.Canvas) { Panels(c, [][]*plot.Plot{{p, nil}}) }
		one, err := Draw(format, Size{12, 8}, "a < b", paint)
		again, err2 := Draw(format, Size{12, 8}, "a < b", paint)
		if err != nil || err2 != nil || !bytes.Equal(one, again) || !bytes.HasPrefix(one, []byte(begins)) {
			t.Errorf("format %d: %v, %v, %.20q", format, err, err2, one)
		}
		if format == SVG && (!bytes.Contains(one, []byte("<title>a &lt; b</title>")) || !bytes.Contains(one, []byte(`role="img"`)) || !bytes.Contains(one, []byte("\nσ &amp; &lt;co&gt;\n")) || bytes.Contains(one, []byte("<text"))) {
			t.Errorf("%.600s", one)
		}
	}
}
