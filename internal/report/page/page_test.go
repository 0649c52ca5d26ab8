package page

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"io"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// TestHostile checks that markup in names does not reach the page, and that the page loads no other file. TestBrowser
// checks that such names appear as text.
func TestHostile(t *testing.T) {
	p := manyExamples(t, 40)
	var first, second bytes.Buffer
	if err := errors.Join(p.Write(t.Context(), &first), p.Write(t.Context(), &second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same page has other bytes")
	}
	text := first.String()
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
	for _, markup := range []string{"<img", "src=x>", "alert(1)</script>", "\u202e"} {
		if strings.Contains(text, markup) {
			t.Errorf("the page has %q", markup)
		}
	}
	for _, address := range []string{`href="http`, `src="`, "url(h", "@import"} {
		if strings.Contains(text, address) {
			t.Errorf("the page asks for something: %q", address)
		}
	}
}

// TestParts checks that every part of the page is present with its numbers and its explanations.
func TestParts(t *testing.T) {
	p := manyExamples(t, 40)
	p.ClassNames = nil
	file := summary.File{File: "cnn.onnx", SHA256: strings.Repeat("ab", 32)}
	p.Runs[1].Conditions.Model = &file
	p.Runs[1].Calibration = []summary.Calibration{{Radius: new(float64), N: 7, Bins: 15, CBS: 0.0123, CCE: 0.0456,
		Certified:   &summary.CertifiedCalibration{Statement: summary.Statement{Delta: 0.05}, CBS: 0.1234, CCE: 0.2345},
		Thresholded: []summary.Thresholded{{Tau: 0.8, Wrong: 1, Right: 1, Error: 0.4321}}}}
	var page bytes.Buffer
	if err := p.Write(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(page.String(), "\u00a0", " ")
	for _, want := range []string{
		"<th scope=\"row\">L2 radius 0.5</th>", "stays so under every perturbation", "95 % confidence interval",
		"<strong>0.0456</strong><small>≤ 0.2345, 7 examples</small>", "<strong>0.0123</strong><small>≤ 0.1234, 7 examples</small>",
		"<strong>43.3 %</strong>", "<strong>cnn.onnx (SHA-256 abababababababab…)</strong>",
		"<strong>sound</strong>", "<strong>exact</strong>", "for the noise that was drawn", "<summary>σ = 0.5: 10 classes</summary>",
		"For σ = 0.5: with probability 1 − 0.05, at most", "<h3>Certified accuracy by radius</h3>", "<h3>Certified radii</h3>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestGate checks that the page shows the requirements and the comparison even if names contain markup.
func TestGate(t *testing.T) {
	p := manyExamples(t, 40)
	p.Requirements = []gate.Outcome{{Requirement: "acr>=1", Run: "<i>", Says: "0.5, 0.5 too little"}, {Requirement: "acr>=0", Run: "<i>", Met: true, Says: "0.5"}}
	p.Comparisons = []gate.Comparison{{Run: "<i>", Baseline: "old", RadiusTitle: "L2 radius", Examples: 40, Level: 0.95, Accuracy: []gate.AccuracyChange{
		{Radius: 0.5, Baseline: 0.75, This: 0.7, Lost: 3, Gained: 1, Change: -0.05, Low: -0.1, High: 0.02, P: 0.62501}}}}
	var page bytes.Buffer
	if err := p.Write(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<p>1 of 2 requirements are not met.", "✗ not met</td><th scope=\"row\"><code>acr&gt;=1</code><small>&lt;i&gt;</small></th><td>0.5, 0.5 too little</td>",
		"✓ met</td><th scope=\"row\"><code>acr&gt;=0</code>", "&lt;i&gt; beside the baseline old",
		"<th scope=\"row\">0.5</th><td>75.0</td><td>70.0</td><td>-5.0</td><td>[-10.0, 2.0]</td><td>3</td><td>1</td><td>0.6251</td>",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	p.Requirements = p.Requirements[1:]
	if r := p.requirements(); r.Lead != "The requirement is met." {
		t.Error(r.Lead)
	}
}

// TestAccuracyChart checks three things against values from the summaries: the runs' curves, the bands of these curves,
// and the curve that shows the best run at each radius.
func TestAccuracyChart(t *testing.T) {
	p := manyExamples(t, 500)
	c := p.accuracyChart()
	if len(c.Series) != 3 || len(c.X) < 100 || c.X[0] != 0 || c.X[len(c.X)-1] < 1.998 {
		t.Fatalf("%d series over %d radii up to %v", len(c.Series), len(c.X), c.X[len(c.X)-1])
	}
	below := 0
	for i, x := range c.X {
		best := number(0)
		for k, r := range p.Runs {
			at := r.At(float64(x))
			if got := c.Series[k].Values[i]; got != number(at.Accuracy.Value) {
				t.Errorf("run %d: %v at %v, want %v", k, got, x, at.Accuracy.Value)
			}
			if got := c.Series[k].Low[i]; got-number(*at.Certified) > 1e-12 || number(*at.Certified)-got > 1e-12 {
				t.Errorf("run %d: the band begins at %v at %v, want %v", k, got, x, *at.Certified)
			}
			if c.Series[k].Low[i] < c.Series[k].Values[i] {
				below++
			}
			best = max(best, number(at.Accuracy.Value))
		}
		if c.Series[2].Values[i] != best {
			t.Errorf("the best of the runs is %v at %v, want %v", c.Series[2].Values[i], x, best)
		}
	}
	if below == 0 {
		t.Error("the band has no width")
	}
	h := p.radiusChart()
	for k := range p.Runs {
		sum, right := number(0), 0
		for _, v := range h.Series[k].Values {
			sum += v
		}
		for _, r := range p.Runs[k].Rows {
			if r.Correct {
				right++
			}
		}
		if want := number(right) / number(p.Runs[k].Examples); sum-want > 1e-9 || want-sum > 1e-9 {
			t.Errorf("run %d: the bins of radii hold %v of the examples, want %v", k, sum, want)
		}
	}
}

func TestRoundStep(t *testing.T) {
	for x, want := range map[float64]float64{0.011: 0.02, 0.02: 0.02, 0.021: 0.05, 0.3: 0.5, 0.6: 1, 3: 5, 70: 100} {
		if got := roundStep(x); got < want*(1-1e-12) || got > want*(1+1e-12) {
			t.Errorf("the round step from %v is %v, want %v", x, got, want)
		}
	}
}

// TestSheets checks that every picture is at the position where the script looks for it.
func TestSheets(t *testing.T) {
	p := manyExamples(t, 400)
	r := p.Runs[0]
	r.Draw = func(index int) (input, noisy image.Image, err error) {
		fill := func(c color.Color) image.Image {
			picture := image.NewRGBA(image.Rect(0, 0, 20, 40))
			for y := range 40 {
				for x := range 20 {
					picture.Set(x, y, c)
				}
			}
			return picture
		}
		return fill(color.Gray{uint8(index / 6)}), fill(color.RGBA{200, uint8(index / 6), 0, 255}), nil
	}
	r.Pictures = 250
	e, err := r.examples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.Drawn != 250 || len(e.Sheets) != 2 || e.Width != 20 || e.Height != 40 || e.Scale != 1 || e.Pitch != [2]int{32, 48} {
		t.Fatalf("%d of %d×%d by %d, every %v, on %d sheets", e.Drawn, e.Width, e.Height, e.Scale, e.Pitch, len(e.Sheets))
	}
	each := e.Columns * e.Rows
	for i := range e.Drawn {
		sheet, _, err := image.Decode(bytes.NewReader(e.Sheets[i/each]))
		if err != nil {
			t.Fatal(err)
		}
		place := i % each
		for right, want := range []color.RGBA{{uint8(i / 2), uint8(i / 2), uint8(i / 2), 255}, {200, uint8(i / 2), 0, 255}} {
			x, y := (2*(place%e.Columns)+right)*e.Pitch[0], place/e.Columns*e.Pitch[1]
			for _, corner := range []image.Point{{x, y}, {x + 19, y + 39}} {
				got := color.RGBAModel.Convert(sheet.At(corner.X, corner.Y)).(color.RGBA)
				if far(got.R, want.R) || far(got.G, want.G) || far(got.B, want.B) {
					t.Fatalf("example %d, picture %d: %v, want %v", i, right, got, want)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.examples(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("broken")
	r.Draw = func(int) (a, b image.Image, err error) { return nil, nil, broken }
	if err := (Page{Runs: []Run{r}}).Write(t.Context(), io.Discard); !errors.Is(err, broken) {
		t.Errorf("a picture that cannot be drawn: %v", err)
	}
}

// far reports whether two values differ by more than JPEG compression can change them.
func far(a, b uint8) bool { return a > b && a-b > 12 || b > a && b-a > 12 }

// TestShrink checks that shrink averages the pixels in square blocks.
func TestShrink(t *testing.T) {
	large := image.NewGray(image.Rect(5, 5, 5+130, 5+100))
	for y := range 100 {
		for x := range 130 {
			large.SetGray(5+x, 5+y, color.Gray{uint8(90 * (x%3 + y%3))})
		}
	}
	small := shrink(large)
	if b := small.Bounds(); b.Dx() != 43 || b.Dy() != 33 {
		t.Fatalf("130×100 becomes %v", b)
	}
	// A square of 3×3 pixels has the values 0, 90, 180, 270 and 360, modulo 256. So 270 becomes 14 and 360 becomes 104.
	// Their mean is (0 + 2·90 + 3·180 + 2·14 + 104)/9.
	if got := small.At(20, 20).(color.RGBA); got.R != 94 || got.G != 94 || got.A != 255 {
		t.Errorf("the mean is %v", got)
	}
	if same := image.NewGray(image.Rect(0, 0, 64, 64)); shrink(same) != image.Image(same) {
		t.Error("a small picture is made smaller")
	}
}

// TestCautions checks the warnings about the limits of a run.
func TestCautions(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		s    summary.Summary
		want string
	}{
		{summary.Summary{Conditions: summary.Conditions{Sound: &yes, Arithmetic: certify.Exact}}, ""},
		{summary.Summary{Conditions: summary.Conditions{Sound: &yes, Arithmetic: certify.Idealised}}, "the arithmetic is idealised"},
		{summary.Summary{Conditions: summary.Conditions{Sound: &no, Arithmetic: certify.Exact}}, "the method is not sound: nothing is certified"},
		{summary.Summary{Conditions: summary.Conditions{Arithmetic: certify.Exact}}, "it is not known whether the method is sound"},
		{summary.Summary{Kind: summary.LogKind}, "nothing here is certified by rscert"},
		{summary.Summary{Examples: 3, Selected: 5, Conditions: summary.Conditions{Sound: &yes, Arithmetic: certify.Exact}}, "not finished: 3 of 5"},
	} {
		got := strings.Join(Page{Runs: []Run{{Summary: tt.s}}}.cautions(), "\n")
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("cautions %q, want %q", got, tt.want)
		}
	}
}

// A run can have further radii in other norms (Summary.Norms). For each of these norms, the page must have a group with
// the radii in the norm. The group must also show the radii of a run whose noise has the norm of the group.
func TestNorms(t *testing.T) {
	var p Page
	for k, norm := range []law.Norm{law.L2, law.L1} {
		s := summary.Source{Path: norm.String(), Kind: summary.RunKind, Run: &runfolder.Run{
			Data: runfolder.Data{Shape: []int{4}, Selected: 1}, Noise: runfolder.Noise{Inputs: "values are bytes k/255"}}}
		s.Certificates = []certify.Certificate{{Label: 1, Prediction: 1, Correct: true, Radius: 0.3125 + 0.25*float64(k), Norm: norm, Method: "margin",
			MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 1, N: 1000, Sound: true, Arithmetic: certify.Exact}}
		if norm == law.L1 {
			s.Certificates[0].Law = law.Of(law.Uniform)
		}
		s.Votes = []certify.Votes{{Label: 1, N: 10, Counts: []int64{0, 10}}}
		o := summary.Default()
		o.Norms, o.Radii = []law.Norm{law.L1}, []float64{0, 0.5}
		sum, err := summary.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		p.Runs = append(p.Runs, Run{Summary: sum})
	}
	groups := p.measures()
	if len(groups) != 2 || groups[1].Caption != "Certified accuracy by the L1 radius that follows from the certified radius" {
		t.Fatalf("%+v", groups)
	}
	at, average := groups[1].Rows[0].Lines[1], groups[1].Rows[1].Lines[0]
	if at.Name != "L1 radius 0.5" || at.Cells[0].Value != "0.0\u00a0%" || at.Cells[1].Value != "100.0\u00a0%" ||
		!strings.HasPrefix(average.Cells[0].Value, "0.312") || !strings.HasPrefix(average.Cells[1].Value, "0.562") {
		t.Errorf("%+v, %+v", at, average)
	}
	var page bytes.Buffer
	if err := p.Write(t.Context(), &page); err != nil || !strings.Contains(page.String(), "L1 radius 0.5") {
		t.Errorf("the page lacks the L1 radius: %v", err)
	}
}

// The page must say that deterministic certificates hold with certainty, not with probability 1 − α.
func TestDeterministic(t *testing.T) {
	p := manyExamples(t, 40)
	for k, want := range []string{"With probability at least 1 − α over the noise drawn, no", "(with certainty for " + p.Runs[0].Name + ")"} {
		p.Runs[0].Conditions.Deterministic = k == 1
		if got := p.assumptions()[1].Answer; !strings.HasPrefix(got, "With probability") || !strings.Contains(got, want) {
			t.Error(got)
		}
	}
	for k := range p.Runs {
		p.Runs[k].Conditions.Deterministic = true
	}
	if got := p.assumptions()[1].Answer + p.failures(); !strings.HasPrefix(got, "The certificates hold with certainty: no perturbation") || strings.Contains(got, "α") {
		t.Error(got)
	}
}

// The page shows the numbers of the groups as the text report does: the accuracy, both lower bounds and the worst group.
func TestGroups(t *testing.T) {
	p := manyExamples(t, 40)
	if p.groupTables() != nil {
		t.Error("tables without groups")
	}
	points := func(values ...float64) (curve []summary.GroupPoint) {
		for range p.Runs[0].Curve {
			curve = append(curve, summary.GroupPoint{Accuracy: summary.Share{Value: values[0]}, Certified: &values[1], Population: &values[2]})
		}
		return curve
	}
	group := predictions.RowGroup{Column: "<i>sex"}
	p.Runs[0].ByGroup = &summary.ByGroup{Delta: 0.05, Groups: []summary.Group{
		{RowGroup: group, Examples: 30, Curve: points(0.9, 0.8, 0.7)}, {RowGroup: group, Examples: 10, Curve: points(0.6, 0.5, 0.41)}},
		Worst: points(0.6, 0.5, 0.41)}
	tables := p.groupTables()
	if len(tables) != 1 || tables[0].Groups != 2 || len(tables[0].Tables) != 3 {
		t.Fatalf("%+v", tables)
	}
	for k, want := range [][]string{{"90.0\u00a0%", "60.0\u00a0%"}, {"80.0\u00a0%", "50.0\u00a0%"}, {"70.0\u00a0%", "41.0\u00a0%"}} {
		rows := tables[0].Tables[k].Rows
		if len(rows) != 3 || rows[0].Cells[0] != want[0] || rows[1].Cells[0] != want[1] || rows[2].Cells[0] != want[1] ||
			rows[0].Examples != "30" || rows[2].Name != "worst group" || len(rows[2].Cells) != len(p.Runs[0].Curve) {
			t.Errorf("table %d: %+v", k, rows)
		}
	}
	var page bytes.Buffer
	if err := p.Write(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<h2 id="h-groups">By group</h2>`, "&lt;i&gt;sex = ", "with probability 1 − 0.05 for all 2 groups together",
		"Every mixture of the groups has at least the accuracy of the worst group."} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
