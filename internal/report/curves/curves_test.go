package curves

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// run returns a summary of a run. The run has one correct example for each given radius. The argument 'wrong' is the
// number of further, wrong examples.
func run(t *testing.T, name string, wrong int, radii ...float64) summary.Summary {
	t.Helper()
	s := summary.Source{Path: name, Kind: summary.CertificatesKind}
	for i := range len(radii) + wrong {
		c := certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Method: "margin", MarginKind: certify.SecondMargin,
			Alpha: 0.01, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact}
		if i < len(radii) {
			c.Radius = radii[i]
		} else {
			c.Prediction, c.Correct, c.Radius = 0, false, 0.2
		}
		s.Certificates = append(s.Certificates, c)
	}
	out, err := summary.New(s, summary.Default())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// At each step, the line must fall from the accuracy at the radius to the accuracy just above the radius.
func TestAccuracyLine(t *testing.T) {
	l := accuracyLine(run(t, "a", 1, 0.25, 0.5, 0.5), "run", 0)
	var points [][2]float64
	for k := range l.X {
		if p := [2]float64{l.X[k], l.Y[k]}; k == 0 || p != points[len(points)-1] {
			points = append(points, p)
		}
		if l.Low[k] > l.Y[k] || l.High[k] < l.Y[k] {
			t.Errorf("the band [%v, %v] misses %v", l.Low[k], l.High[k], l.Y[k])
		}
	}
	want := [][2]float64{{0, 0.75}, {0.25, 0.75}, {0.25, 0.5}, {0.5, 0.5}, {0.5, 0}}
	if !slices.Equal(points, want) {
		t.Errorf("got %v, want %v", points, want)
	}
	if l := accuracyLine(run(t, "none", 2), "run", 0); len(l.X) == 0 || l.Y[0] != 0 {
		t.Errorf("nothing is right: %v", l)
	}
	zero := accuracyLine(run(t, "zero", 1, 0), "run", 0) // one correct example, with radius 0
	if zero.Y[0] != 0.5 || zero.Y[len(zero.Y)-1] != 0 {
		t.Errorf("right at 0 alone: %v", zero)
	}
}

// A curve with many steps must be drawn on a grid of radii that ends at the last step.
func TestGridOfManySteps(t *testing.T) {
	var radii []float64
	for k := range 2000 {
		radii = append(radii, float64(k)/1000)
	}
	s := run(t, "many", 0, radii...)
	g := grid(s, 1.999)
	if len(g) != maxSteps+1 || g[0] != 0 || g[maxSteps] != 1.999 {
		t.Errorf("%d radii from %v to %v", len(g), g[0], g[len(g)-1])
	}
	if l := accuracyLine(s, "run", 0); l.Y[0] != 1 || l.Y[len(l.Y)-1] != 0 {
		t.Errorf("from %v to %v", l.Y[0], l.Y[len(l.Y)-1])
	}
}

// At every point, the envelope must be at least as high as each line, and it must equal one of the lines.
func TestEnvelopeLine(t *testing.T) {
	runs := []summary.Summary{run(t, "a", 2, 0.1, 0.2, 0.9), run(t, "b", 1, 0.3, 0.3, 0.3, 0.35)}
	e := envelopeLine([]picture.Line{accuracyLine(runs[0], "run", 0), accuracyLine(runs[1], "run", 1)}, runs)
	for k, r := range e.X {
		best := max(runs[0].At(r).Accuracy.Value, runs[1].At(r).Accuracy.Value)
		if k%2 == 0 && e.Y[k] != best {
			t.Errorf("at %v: %v, want %v", r, e.Y[k], best)
		}
	}
	if e.Y[0] != 0.8 || e.X[len(e.X)-1] != 0.9 || e.Y[len(e.Y)-1] != 0 {
		t.Errorf("%v %v", e.X, e.Y)
	}
}

func TestDrawEveryCurve(t *testing.T) {
	radius, other := 0.25, 0.5
	one, two := run(t, "one", 3, 0.1, 0.3, 0.3, 0.7), run(t, "two", 1, 0.2)
	one.Calibration = []summary.Calibration{{Radius: &radius, CBS: 0.1, CCE: 0.2}, {Radius: &other, CBS: 0.2, CCE: 0.3}}
	size := picture.Size{Width: 12, Height: 8}
	for _, c := range []Curve{Accuracy, Calibration, Radii} {
		svg, err := c.Draw(picture.SVG, []summary.Summary{one, two}, Options{Size: size, Envelope: true})
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s is no XML: %v", c, err)
			}
		}
		if !strings.Contains(string(svg), "one") || strings.Contains(string(svg), "NaN") {
			t.Errorf("%s: %.300s", c, svg)
		}
	}
	for c, runs := range map[Curve][]summary.Summary{Reliability: {one}, Calibration: {two}, Radii: {run(t, "none", 0, 0)}} {
		if _, err := c.Draw(picture.SVG, runs, Options{Size: size}); err == nil {
			t.Errorf("%s of what is not there: no error", c)
		}
	}
	if _, err := Reliability.Draw(picture.SVG, []summary.Summary{one, two}, Options{Size: size}); err == nil {
		t.Error("a reliability diagram of two runs")
	}
}

// The bounds on p_A must give a step function that falls immediately after each bound. The chart must begin at ½, or at
// the smallest bound if this bound is below ½.
func TestDrawPA(t *testing.T) {
	s := summary.Source{Path: "bounds", Kind: summary.CertificatesKind}
	for i, p := range []float64{0.9, 0.4, 0.99, 0.99} {
		s.Certificates = append(s.Certificates, certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Radius: 0.1, Method: "margin",
			MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact, Bounds: map[string]float64{"p_a": p}})
	}
	o := summary.Default()
	o.PA = true
	sum, err := summary.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	l := paLine(sum, 0, 0.4)
	if !slices.Equal(l.X, []float64{0.4, 0.4, 0.4, 0.9, 0.9, 0.99, 0.99}) || !slices.Equal(l.Y, []float64{1, 1, 0.75, 0.75, 0.5, 0.5, 0}) {
		t.Errorf("%v %v", l.X, l.Y)
	}
	size := picture.Size{Width: 12, Height: 8}
	svg, err := PA.Draw(picture.SVG, []summary.Summary{sum}, Options{Size: size})
	// Both axes must have a tick at 0.4. The horizontal axis begins there, because the smallest bound is 0.4.
	if err != nil || !strings.Contains(string(svg), "lower bound on the probability of the class") || strings.Contains(string(svg), "NaN") ||
		strings.Count(string(svg), "\n0.4\n") != 2 {
		t.Errorf("%v, %.300s", err, svg)
	}
	if _, err := PA.Draw(picture.SVG, []summary.Summary{run(t, "none", 0, 1)}, Options{Size: size}); err == nil {
		t.Error("bounds that are not there: no error")
	}
}

// Each norm in Summary.Norms must have its own panel and line, below the panel for the norm of the noise.
func TestDrawNorms(t *testing.T) {
	s := summary.Source{Path: "bytes", Kind: summary.RunKind, Run: &runfolder.Run{
		Data: runfolder.Data{Shape: []int{4}, Selected: 2}, Noise: runfolder.Noise{Inputs: "values are bytes k/255"}}}
	for i := range 2 {
		s.Certificates = append(s.Certificates, certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Radius: 0.5 + float64(i), Method: "margin",
			MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 1, N: 1000, Sound: true, Arithmetic: certify.Exact})
		s.Votes = append(s.Votes, certify.Votes{Index: i, Label: 1, N: 10, Counts: []int64{0, 10}})
	}
	draw := func(norms ...law.Norm) string {
		o := summary.Default()
		o.Norms = norms
		sum, err := summary.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		runs := []summary.Summary{sum}
		svg, err := Accuracy.Draw(picture.SVG, runs, Options{Size: Accuracy.DefaultSize(runs)})
		if err != nil {
			t.Fatal(err)
		}
		return string(svg)
	}
	both := draw(law.L1, law.LInf)
	for _, want := range []string{"L2 radius", "L1 radius", "L∞ radius", "in several norms"} {
		if !strings.Contains(both, want) {
			t.Errorf("no %q in %.600s", want, both)
		}
	}
	if one := draw(); strings.Contains(one, "L1 radius") || strings.Contains(one, "several") {
		t.Errorf("without norms: %.600s", one)
	}
}
