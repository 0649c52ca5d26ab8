package tables

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

func source(name string, change func(i int, c *certify.Certificate)) summary.Source {
	s := summary.Source{Path: name, Kind: summary.CertificatesKind}
	for i := range 4 {
		c := certify.Certificate{Index: i, Label: i % 2, Prediction: i % 2, Correct: true, Radius: 0.25 * float64(i), Method: "margin",
			MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact}
		if change != nil {
			change(i, &c)
		}
		s.Certificates = append(s.Certificates, c)
	}
	return s
}

func sum(t *testing.T, s summary.Source) summary.Summary {
	t.Helper()
	out, err := summary.New(s, summary.Default())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, r Report, f Format) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A radius that stands for +∞ must be printed as ∞, and the JSON output must stay valid.
func TestUnbounded(t *testing.T) {
	s := sum(t, source("unsound", func(i int, c *certify.Certificate) {
		c.Sound, c.Method = false, "moutaouakil"
		if i > 1 {
			c.Radius, c.Unbounded = math.MaxFloat64, true
		}
	}))
	r := Report{Runs: []summary.Summary{s}, Classes: true}
	if text := write(t, r, Text); !strings.Contains(text, "∞") || strings.Contains(text, "000000000000") ||
		!strings.Contains(text, "unsound: the method is not sound: nothing is certified.") {
		t.Error(text)
	}
	for _, f := range []Format{JSON, CSV, LaTeX, Markdown} {
		if text := write(t, r, f); f == JSON && !json.Valid([]byte(text)) {
			t.Error(text)
		}
	}
}

// The output must state every condition that weakens a number, and no other condition.
func TestCaveats(t *testing.T) {
	plain := sum(t, source("run", nil))
	for want, change := range map[string]func(*summary.Summary){
		"": func(*summary.Summary) {},
		"the run is not finished: 4 of 9 examples": func(s *summary.Summary) { s.Selected = 9 },
		"a log from elsewhere":                     func(s *summary.Summary) { s.Kind = summary.LogKind },
		"the arithmetic is idealised":              func(s *summary.Summary) { s.Conditions.Arithmetic = certify.Idealised },
		"every radius is reduced by up to 0.0013":  func(s *summary.Summary) { s.Conditions.Quantisation = 0.00121 },
		"it is of shards alone: 1/7":               func(s *summary.Summary) { s.Conditions.Shard = "1/7" },
		"the label's class is certified":           func(s *summary.Summary) { s.Conditions.Class = "label" },
		"the model is computed in bf16":            func(s *summary.Summary) { s.Conditions.Precision = "bf16" },
		"the model stands behind the denoiser d.onnx at timestep 3 of 10, ᾱ = 0.8": func(s *summary.Summary) {
			s.Conditions.Denoiser = &runfolder.Denoiser{File: "d.onnx", Timestep: 3, Timesteps: 10, AlphaBar: 0.8}
		},
	} {
		s := plain
		change(&s)
		got := caveats(s)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "run: "+want)) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// If a classifier consists of a denoiser and a model in bfloat16, every format must say so.
func TestConditionsInEveryFormat(t *testing.T) {
	s := sum(t, source("run", func(_ int, c *certify.Certificate) { c.Precision = "bf16" }))
	s.Conditions.Denoiser = &runfolder.Denoiser{File: "denoiser.onnx"}
	for _, f := range Formats.Values() {
		text := write(t, Report{Runs: []summary.Summary{s}}, f)
		if !strings.Contains(text, "bf16") || !strings.Contains(text, "denoiser.onnx") {
			t.Errorf("%s does not say it:\n%s", f, text)
		}
	}
	lines := strings.Split(strings.TrimSpace(write(t, Report{Runs: []summary.Summary{s}}, CSV)), "\n")
	if !strings.HasSuffix(lines[0], ",sound,arithmetic,precision,denoiser,norm") {
		t.Error(lines[0])
	}
	for _, line := range lines[1:] {
		if !strings.HasSuffix(line, ",true,exact,bf16,denoiser.onnx,l2") {
			t.Error(line)
		}
	}
}

// Printed comparisons and calibrations must be rounded in the direction that keeps them true.
func TestRounding(t *testing.T) {
	radius, certified := 0.25, 0.07001
	s := sum(t, source("run", nil))
	s.Calibration = []summary.Calibration{{Radius: &radius, N: 4, Bins: 15, CBS: 0.05001, CCE: 0.06001,
		Certified:   &summary.CertifiedCalibration{Statement: summary.Statement{Delta: 0.05, Alpha: 0.01, Examples: 4}, CBS: 0.08001, CCE: 0.09001},
		Thresholded: []summary.Thresholded{{Tau: 0.9, Wrong: 1, Right: 9, Error: 0.10001, Certified: &certified}}}}
	base := sum(t, source("base", func(_ int, c *certify.Certificate) { c.Radius /= 2 }))
	c, err := gate.Compare(base, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Accuracy[0].P = 0.01001
	text := write(t, Report{Runs: []summary.Summary{s}, Comparisons: []gate.Comparison{c}}, Text)
	for _, want := range []string{"0.0501", "0.0601", "0.0801", "0.0901", "0.1001", "0.0101", "run beside the baseline base", "error at τ = 0.9"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestFormatText(t *testing.T) {
	for _, f := range Formats.Values() {
		if read, err := Formats.Parse(string(f)); err != nil || read != f {
			t.Errorf("%s: %v, %v", f, read, err)
		}
	}
	if _, err := Formats.Parse("html"); err == nil {
		t.Error("html was taken")
	}
}

// Text, Markdown and LaTeX must have a separate table for the radii in further norms. CSV must have rows with these
// norms, and JSON must have the member "norms". For inputs of four bytes, an L2 radius of 0.75 implies the L∞ radius
// 0.375.
func TestNormsInEveryFormat(t *testing.T) {
	src := source("run", func(_ int, c *certify.Certificate) { c.Bounds = map[string]float64{"p_a": 0.75} })
	src.Kind, src.Run = summary.RunKind, &runfolder.Run{Data: runfolder.Data{Shape: []int{4}, Selected: 4}, Noise: runfolder.Noise{Inputs: "values are bytes k/255"}}
	o := summary.Default()
	o.Norms, o.Radii, o.PA = []law.Norm{law.LInf}, []float64{0, 0.25}, true
	s, err := summary.New(src, o)
	if err != nil {
		t.Fatal(err)
	}
	r := Report{Runs: []summary.Summary{s}}
	for f, want := range map[Format][]string{
		Text:     {"by the L∞ radius that follows from the certified radius (4 examples)", "by the lower bound on p_A", "≥ 0.8"},
		Markdown: {"by the L∞ radius that follows", "by the lower bound on p\\_A"},
		LaTeX:    {"% certified accuracy in %, by the L∞ radius that follows", "% examples in %, by the lower bound on p_A"},
		JSON:     {`"norm": "linf"`, `"p_a": {`, `"at_least": 0.7`},
		CSV: {"run,certified-accuracy,0.25,,,3,4,0.75,", ",0.75,true,exact,,,l2\n", "run,certified-accuracy,0.25,,,1,4,0.25,", ",0.25,true,exact,,,linf\n",
			"run,pa,,0.7,,4,4,1,", "run,pa,,0.8,,0,4,0,"},
	} {
		text := write(t, r, f)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q:\n%s", f, w, text)
			}
		}
	}
	plain := write(t, Report{Runs: []summary.Summary{sum(t, source("run", nil))}}, Text)
	if strings.Contains(plain, "p_A") || strings.Contains(plain, "L∞") {
		t.Error(plain)
	}
}

// Report.selective returns the table of a run's error among the answered inputs. If the radii are scaled, the table's
// caption must say so.
func TestSelectiveCaption(t *testing.T) {
	s := summary.Summary{Dataset: &summary.Statement{Delta: 0.05}, Selective: []summary.Selective{{Radius: 0.5}}}
	s.Conditions.Scaled = true
	if got := (Report{Runs: []summary.Summary{s}}).selective(s).caption; !strings.Contains(got, "by scaled L2 radius") {
		t.Error(got)
	}
}

// An infinite average radius must be printed as ∞. Its difference from a finite radius must be printed as ∞ or −∞.
func TestComparisonOfInfiniteRadii(t *testing.T) {
	const largest = math.MaxFloat64
	for _, c := range []struct {
		radius gate.RadiusChange
		want   string
	}{
		{gate.RadiusChange{This: 0.5, Baseline: 0.25, Change: 0.25}, "Average certified L2 radius 0.5000 after 0.2500, a change of +0.2500."},
		{gate.RadiusChange{This: largest / 100, Baseline: 0.25, Change: largest / 100}, "Average certified L2 radius ∞ after 0.2500, a change of ∞."},
		{gate.RadiusChange{This: 0.25, Baseline: largest, Change: -largest}, "Average certified L2 radius 0.2500 after ∞, a change of −∞."},
	} {
		if _, _, notes := Comparison(gate.Comparison{RadiusTitle: "L2 radius", Radius: c.radius}); !slices.Contains(notes, c.want) {
			t.Errorf("%q, want %q", notes, c.want)
		}
	}
}
