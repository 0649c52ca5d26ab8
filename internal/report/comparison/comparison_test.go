package comparison

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/picture"
)

// certificates returns a certificate for each radius, with twice the radius as the margin. A radius of −1 stands for an
// abstention, and +∞ for an unbounded radius.
func certificates(method string, radii ...float64) []certify.Certificate {
	var certs []certify.Certificate
	for i, r := range radii {
		c := certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Radius: r, Margin: 2 * r, Method: method,
			MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 1, N: 100, Sound: method != "moutaouakil", Arithmetic: certify.Exact}
		switch {
		case r < 0:
			c.Prediction, c.Correct, c.Radius, c.Margin = certify.Abstained, false, 0, 0
		case math.IsInf(r, 1):
			c.Radius, c.Margin, c.Unbounded = math.MaxFloat64, math.MaxFloat64, true
		}
		certs = append(certs, c)
	}
	return certs
}

func row(setting Setting, sets ...[]certify.Certificate) *Row {
	r := &Row{Setting: setting}
	for _, certs := range sets {
		r.Add(certs, len(certs))
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 || a == b }

// The row has two subsamples of four examples. The accuracies at radius 0.5 are 3/4 and 1/4, and the average radii are
// 0.5 and 0.25.
func TestSummarize(t *testing.T) {
	r := row(Setting{Size: 100}, certificates("margin", 0.5, 0.5, 1, -1), certificates("margin", 0.25, 0.25, 0.5, -1))
	r.Summarize([]float64{0, 0.5}, true)
	if r.Certified[1].Accuracy != 0.75 || r.AverageRadius != 0.5 || r.Abstained != 1 || len(r.Classes) != 1 {
		t.Errorf("summary %+v, want the first subsample", r.Summary)
	}
	v := r.Values()
	sd := math.Sqrt(0.125) // standard deviation of 3/4 and 1/4
	if v.Count != 2 || !near(float64(v.Certified[1].Mean), 0.5) || !near(float64(v.Certified[1].SD), sd) ||
		!near(float64(v.Average.Mean), 0.375) || !near(float64(v.Average.SD), sd/2) || v.Abstained.Mean != 1 || v.Abstained.SD != 0 {
		t.Errorf("values %+v", v)
	}
	if r.Repeats.Count != 2 || r.Repeats.Certified[1].Spread != v.Certified[1] || r.Repeats.AverageRadius != v.Average {
		t.Errorf("repeats %+v", r.Repeats)
	}
	r.SummarizeMargins([]float64{1, 2})
	if m := r.Values(); !slices.Equal(m.At, []float64{1, 2}) || !near(float64(m.Certified[0].Mean), 0.5) || !near(float64(m.Certified[1].Mean), 0.125) ||
		!near(float64(m.Average.Mean), 0.75) {
		t.Errorf("by margin %+v", m)
	}
	single := row(Setting{}, certificates("margin", 0.5))
	single.Summarize([]float64{0.5}, false)
	if v := single.Values(); single.Repeats != nil || v.Count != 1 || v.Average.SD != 0 || v.Average.Mean != 0.5 {
		t.Errorf("one subsample: %+v", v)
	}
}

// If only the baseline is 0, the ratio to the baseline is infinite. If both values are 0, there is no ratio. An
// infinite radius makes the gain infinite. In JSON, an infinite gain is null.
func TestGains(t *testing.T) {
	base := row(Setting{Size: 100}, certificates("bonferroni", 0.5, 0.5, 0.25, -1))
	better := row(Setting{Size: 100}, certificates("margin", 1, 0.5, 0.5, -1))
	infinite := row(Setting{Size: 100}, certificates("moutaouakil", math.Inf(1), 0.5, 0.5, -1))
	other := row(Setting{Size: 300}, certificates("margin", 1, 1, 1, 1))
	rows := []*Row{base, better, infinite, other}
	for _, r := range rows {
		r.Summarize([]float64{0.5, 1, 2}, false)
	}
	if err := AddGains(rows, "bonferroni"); err != nil {
		t.Fatal(err)
	}
	if base.Gain != nil || other.Gain != nil {
		t.Error("a gain of the baseline, or of a row with another size")
	}
	g := better.Gain
	if g.Over != "bonferroni" || !near(float64(g.Certified[0].Difference), 0.25) || !near(float64(g.Certified[0].Ratio), 1.5) ||
		!near(float64(g.Certified[1].Difference), 0.25) || !math.IsInf(float64(g.Certified[1].Ratio), 1) ||
		g.Certified[2].Difference != 0 || !math.IsNaN(float64(g.Certified[2].Ratio)) || *g.Certified[0].Radius != 0.5 ||
		!near(float64(g.Average().Difference), 0.1875) || !near(float64(g.Average().Ratio), 1.6) || g.AverageMargin != nil {
		t.Errorf("gain %+v", g)
	}
	if a := infinite.Gain.Average(); !math.IsInf(float64(a.Difference), 1) || !math.IsInf(float64(a.Ratio), 1) {
		t.Errorf("infinite average: %+v", a)
	}
	text, err := json.Marshal(infinite.Gain)
	if err != nil || !strings.HasSuffix(string(text), `"average_certified_radius":{"difference":null,"ratio":null}}`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, r := range rows {
		r.SummarizeMargins([]float64{2})
	}
	if err := AddGains(rows, "bonferroni"); err != nil || *better.Gain.Certified[0].Margin != 2 || better.Gain.Certified[0].Radius != nil ||
		!near(float64(better.Gain.Certified[0].Difference), 0.25) || !near(float64(better.Gain.AverageMargin.Difference), 0.375) {
		t.Errorf("by margin: %+v, %v", better.Gain, err)
	}
	if err := AddGains(rows, "betting+directed"); err == nil || !strings.Contains(err.Error(), "its methods are bonferroni, margin, moutaouakil") {
		t.Errorf("unknown baseline: %v", err)
	}
}

// A method for votes has no temperature. It is compared with methods for scores at every temperature. Methods for
// scores are compared with each other only at equal temperatures.
func TestSameSetting(t *testing.T) {
	hot, cold, votes := Setting{Temperature: 2}, Setting{Temperature: 1}, Setting{}
	if sameSetting(hot, cold) || !sameSetting(hot, hot) || !sameSetting(hot, votes) || !sameSetting(votes, cold) || sameSetting(votes, Setting{Size: 1}) {
		t.Error("settings")
	}
}

// The grid has a row of panels for each kind of margin, and a column for each size and temperature. A method for votes
// appears in the columns of all temperatures.
func TestPanels(t *testing.T) {
	add := func(rows []*Row, kind certify.MarginKind, size int64, temperature float64, method string) []*Row {
		r := row(Setting{MarginKind: kind, Size: size, Temperature: temperature}, certificates(method, 0.5, 1))
		r.Summarize([]float64{0}, false)
		return append(rows, r)
	}
	var rows []*Row
	for _, kind := range []certify.MarginKind{certify.FirstMargin, certify.SecondMargin} {
		for _, size := range []int64{100, 300} {
			rows = add(rows, kind, size, 0, "margin")
			rows = add(rows, kind, size, 0.1, "betting+directed")
			rows = add(rows, kind, size, 1, "betting+directed")
		}
	}
	describe := func(c Curve) string {
		var lines []string
		for _, line := range c.panels(rows) {
			var parts []string
			for _, p := range line {
				part := string(p.kind) + " " + p.column + ":"
				for _, r := range p.rows {
					part += " " + r.Method
				}
				parts = append(parts, part)
			}
			lines = append(lines, strings.Join(parts, " | "))
		}
		return strings.Join(lines, "\n")
	}
	const each = " n = 100, T = 0.1: margin betting+directed | KIND n = 100, T = 1: margin betting+directed" +
		" | KIND n = 300, T = 0.1: margin betting+directed | KIND n = 300, T = 1: margin betting+directed"
	want := "first" + strings.ReplaceAll(each, "KIND", "first") + "\nsecond" + strings.ReplaceAll(each, "KIND", "second")
	if got := describe(MarginCurve); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	const sizes = " T = 0.1: margin betting+directed margin betting+directed | KIND T = 1: margin betting+directed margin betting+directed"
	want = "first" + strings.ReplaceAll(sizes, "KIND", "first") + "\nsecond" + strings.ReplaceAll(sizes, "KIND", "second")
	if got := describe(SizeCurve); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if s := MarginCurve.DefaultSize(rows); s != (picture.Size{Width: 44, Height: 16}) {
		t.Errorf("size %v", s)
	}
	for _, c := range Curves.Values() {
		svg, err := c.Draw(picture.SVG, rows, c.DefaultSize(rows))
		if err != nil || strings.Contains(string(svg), "NaN") || !strings.Contains(string(svg), "betting+directed") {
			t.Errorf("%s: %v", c, err)
		}
	}
	if _, err := SizeCurve.Draw(picture.SVG, rows[:3], picture.Size{Width: 10, Height: 10}); err == nil {
		t.Error("the curve size of one size: no error")
	}
}

// The curve must fall just after each finite value, but not for an infinite value. It must count the examples of all
// subsamples.
func TestReach(t *testing.T) {
	r := row(Setting{}, certificates("moutaouakil", 0.5, math.Inf(1), -1, 1), certificates("moutaouakil", 0.5, 0.75, -1, -1))
	r.Summarize([]float64{0}, false)
	x, share := r.reach(r.radii, 2)
	if !slices.Equal(x, []float64{0, 0.5, 0.5, 0.75, 0.75, 1, 1, 2}) || !slices.Equal(share, []float64{5. / 8, 5. / 8, 3. / 8, 3. / 8, 2. / 8, 2. / 8, 1. / 8, 1. / 8}) {
		t.Errorf("%v %v", x, share)
	}
	if end := RadiusCurve.end([]*Row{r}); !near(end, 1.1) {
		t.Errorf("the axis ends at %v", end)
	}
}
