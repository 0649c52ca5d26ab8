package gate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// source returns a run with n examples. The argument 'right' is the number of examples that are certified correctly at
// the radius. These examples come first, and the remaining examples are abstentions. Each certificate has α = 0.001 and
// 1,000 samples.
func source(name string, n, right int, radius float64) summary.Source {
	s := summary.Source{Path: name, Kind: summary.RunKind, Run: &runfolder.Run{Data: runfolder.Data{File: "d", SHA256: "d4f0", Selected: n}}}
	clean := 1
	for i := range n {
		c := certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Radius: radius, Method: "margin", MarginKind: certify.SecondMargin,
			Alpha: 0.001, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact}
		if i >= right {
			c.Prediction, c.Correct, c.Radius = certify.Abstained, false, 0
		}
		s.Certificates = append(s.Certificates, c)
		s.Votes = append(s.Votes, certify.Votes{Index: i, Label: 1, N: 10, Counts: []int64{1, 9}, Clean: &clean})
	}
	return s
}

func sum(t *testing.T, s summary.Source) summary.Summary {
	t.Helper()
	o := summary.Default()
	o.Radii = []float64{0, 0.5}
	out, err := summary.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(t *testing.T, text string) Requirement {
	t.Helper()
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// At radius 0.5, 59 of 100 examples are certified. With probability at least 0.95, at most 1 of the 100 certificates is
// wrong. Here each certificate has α = 0.001, and for Bin = Bin(100, 0.001), P(Bin > 0) = 0.095 and P(Bin > 1) =
// 0.0046.
func TestCheck(t *testing.T) {
	s := sum(t, source("run", 100, 59, 0.5))
	for _, test := range []struct {
		requirement string
		met         bool
		says        string
	}{
		{"certified-accuracy@0.5>=0.59", true, "0.59 (59 of 100)"},
		{"certified-accuracy@0.5>=0.590", true, "0.59 (59 of 100)"},
		{"certified-accuracy@0.5>=0.5900000000000000000001", false, "0.59 (59 of 100), 0.0000000000000000000001 too little"},
		{"certified-accuracy@0.5>=0.60", false, "0.59 (59 of 100), 0.01 too little"},
		{"certified-accuracy@0.5<=0.59", true, "0.59 (59 of 100)"},
		{"certified-accuracy@0.5<=0.58", false, "0.59 (59 of 100), 0.01 too much"},
		{"certified-accuracy@0.5001>=0.01", false, "0 (0 of 100), 0.01 too little"},
		{"certified:certified-accuracy@0.5>=0.58", true, "0.58 (59 of 100, 1 of which may be wrong)"},
		{"certified:certified-accuracy@0.5>=0.59", false, "0.58 (59 of 100, 1 of which may be wrong), 0.01 too little"},
		{"acr>=0.295", true, "0.295 (over 100 examples)"},
		{"acr>=0.2950000001", false, "0.295 (over 100 examples), 0.0000000001 too little"},
		{"certified:acr>=0.29", true, "0.29 (over 100 examples, 1 of which may be wrong)"},
		{"certified:acr>=0.295", false, "0.29 (over 100 examples, 1 of which may be wrong), 0.005 too little"},
		{" abstain-rate <= 0.41 ", true, "0.41 (41 of 100)"},
		{"abstain-rate<=0.4", false, "0.41 (41 of 100), 0.01 too much"},
		{"clean-accuracy>=1", true, "1 (100 of 100)"},
		{"smoothed-accuracy>=1.0", true, "1 (100 of 100)"},
	} {
		out, err := Check([]Requirement{parse(t, test.requirement)}, s)
		if err != nil || len(out) != 1 || out[0].Met != test.met || out[0].Says != test.says {
			t.Errorf("%s: %+v, %v; want met %v, %q", test.requirement, out, err, test.met, test.says)
		}
	}
}

// An infinite radius, which only an unsound method gives, makes the average radius infinite. The outcome prints ∞, and
// its value in JSON is finite.
func TestCheckInfiniteRadius(t *testing.T) {
	src := source("run", 100, 59, 0.5)
	c := &src.Certificates[0]
	c.Method, c.Sound, c.Radius, c.Margin, c.Unbounded = "moutaouakil", false, math.MaxFloat64, math.MaxFloat64, true
	for i := range src.Certificates {
		src.Certificates[i].Method, src.Certificates[i].Sound = "moutaouakil", false
	}
	s := sum(t, src)
	for requirement, met := range map[string]bool{"acr>=0.5": true, "acr<=0.5": false} {
		out, err := Check([]Requirement{parse(t, requirement)}, s)
		if err != nil || out[0].Met != met || out[0].Says != "∞ (over 100 examples)" || !(*out[0].Value >= 1e300 && *out[0].Value <= math.MaxFloat64) {
			t.Errorf("%s: %+v, %v", requirement, out, err)
		}
	}
}

// Each radius may have a different worst group. Of the 50 examples with label 2, 25 are certified. With probability at
// least 1 − δ/2, at most 1 of the 50 certificates of a group is wrong. For a binomial variable B with the law Bin(50,
// 0.001), P(B > 0) = 0.049 and P(B > 1) = 0.0012.
func TestWorstGroup(t *testing.T) {
	s := source("run", 100, 75, 0.5)
	for i := 50; i < 100; i++ {
		if c := &s.Certificates[i]; c.Prediction == 1 {
			c.Prediction = 2
		}
		s.Certificates[i].Label, s.Votes[i].Label = 2, 2
		s.Votes[i].Counts = []int64{1, 0, 9}
	}
	for i := range 50 {
		s.Votes[i].Counts = []int64{1, 9, 0}
	}
	o := summary.Default()
	o.Groups = &summary.Grouping{Columns: []string{"label"}}
	grouped, err := summary.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	cce, worst := 0.25, 0.375
	radius := 0.25
	grouped.Calibration = []summary.Calibration{{Radius: &radius, CBS: 0.1, CCE: 0.2, Certified: &summary.CertifiedCalibration{CBS: 0.15, CCE: 0.3},
		ByGroup: &acce.ByGroup{Of: 2, Worst: acce.WorstGroup{CBS: 0.125, CCE: &cce, Certified: &acce.WorstCertified{CBS: 0.1875, CCE: &worst}}}}}
	for _, test := range []struct {
		requirement string
		met         bool
		says        string
	}{
		{"worst-group-accuracy@0.5>=0.5", true, "0.5 (label = 2: 25 of 50)"},
		{"worst-group-accuracy@0.5>=0.51", false, "0.5 (label = 2: 25 of 50), 0.01 too little"},
		{"worst-group-accuracy@0.51>=0", true, "0 (label = 1: 0 of 50)"},
		{"certified:worst-group-accuracy@0.5>=0.48", true, "0.48 (label = 2: 25 of 50, 1 of which may be wrong)"},
		{"certified:worst-group-accuracy@0.5>=0.5", false, "0.48 (label = 2: 25 of 50, 1 of which may be wrong), 0.02 too little"},
		{"worst-group-cbs@0.25<=0.125", true, "0.125 (the worst of 2 groups)"},
		{"worst-group-cce@0.25<=0.2", false, "0.25 (the worst of 2 groups), 0.05 too much"},
		{"certified:worst-group-cbs@0.25<=0.1875", true, "0.1875 (the worst of 2 groups)"},
		{"certified:worst-group-cce@0.25<=0.375", true, "0.375 (the worst of 2 groups)"},
	} {
		out, err := Check([]Requirement{parse(t, test.requirement)}, grouped)
		if err != nil || len(out) != 1 || out[0].Met != test.met || out[0].Says != test.says {
			t.Errorf("%s: %+v, %v; want met %v, %q", test.requirement, out, err, test.met, test.says)
		}
	}
	grouped.Calibration[0].ByGroup.Without = []predictions.RowGroup{{Column: "sex", Value: table.Group{Text: "f"}}}
	var unknown *NotKnownError
	if _, err := Check([]Requirement{parse(t, "worst-group-cbs@0.25<=1")}, grouped); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "no example with sex = f is certified") {
		t.Errorf("a group without a certified class: %v", err)
	}
	plain := sum(t, s)
	plain.Calibration = []summary.Calibration{{Radius: &radius}}
	for _, text := range []string{"worst-group-accuracy@0.5>=0", "worst-group-cbs@0.25<=1", "worst-group-cce@0.25<=1"} {
		if _, err := Check([]Requirement{parse(t, text)}, plain); !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "group label") {
			t.Errorf("%s without groups: %v", text, err)
		}
		if r := parse(t, text); !r.Grouped() {
			t.Errorf("%s is not on groups", text)
		}
	}
	if _, err := Parse("certified:worst-group-accuracy@0.5<=0.5"); err == nil {
		t.Error("a certified accuracy from above")
	}
}

// A run certifies nothing if its certificates are unsound or idealised, or if they do not state their soundness and
// arithmetic.
func TestCertifiesNothing(t *testing.T) {
	for want, change := range map[string]func(*summary.Source){
		"not sound":               func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Sound = false }) },
		"arithmetic is idealised": func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Arithmetic = certify.Idealised }) },
		"not known":               func(s *summary.Source) { s.Kind, s.Run, s.Votes = summary.LogKind, nil, nil },
	} {
		s := source("run", 10, 10, 1)
		change(&s)
		for _, text := range []string{"certified:certified-accuracy@0>=0", "certified:acr>=0", "certified:cbs@1<=1", "certified:cce@1<=1", "certified:thresholded-error@1,0.5<=1"} {
			out, err := Check([]Requirement{parse(t, text)}, sum(t, s))
			if err != nil || out[0].Met || out[0].Value != nil || !strings.Contains(out[0].Says, want) {
				t.Errorf("%s: %+v, %v; want %q", text, out, err, want)
			}
		}
		if out, err := Check([]Requirement{parse(t, "certified-accuracy@0>=1")}, sum(t, s)); err != nil || !out[0].Met {
			t.Errorf("the point value: %+v, %v", out, err)
		}
	}
}

func each(s *summary.Source, change func(*certify.Certificate)) {
	for i := range s.Certificates {
		change(&s.Certificates[i])
	}
}

// Check must return an error if the run lacks the evidence for a requirement.
func TestNotKnown(t *testing.T) {
	bare := source("bare", 10, 10, 1)
	bare.Votes = nil
	unlabelled := source("unlabelled", 10, 0, 1)
	for i := range unlabelled.Certificates {
		unlabelled.Certificates[i].Label, unlabelled.Votes[i].Label = -1, -1
	}
	for text, s := range map[string]summary.Source{
		"clean-accuracy>=0": bare, "smoothed-accuracy>=0": bare, "cbs@1<=1": bare, "cce@1<=1": bare, "thresholded-error@1,0<=1": bare,
		"certified-accuracy@0>=0": unlabelled, "acr>=0": unlabelled, "certified:cbs@1<=1": bare,
	} {
		var unknown *NotKnownError
		if _, err := Check([]Requirement{parse(t, text)}, sum(t, s)); !errors.As(err, &unknown) {
			t.Errorf("%s: %v", text, err)
		}
	}
	half := source("half", 10, 10, 1)
	half.Run.Data.Selected = 20
	var unfinished *UnfinishedError
	if _, err := Check([]Requirement{parse(t, "acr>=0")}, sum(t, half)); !errors.As(err, &unfinished) {
		t.Errorf("unfinished: %v", err)
	}
}

// Check must compare a calibration value in the summary with the bound, and the comparison must be exact: 0.05 does not
// meet <=0.0499999.
func TestCheckCalibration(t *testing.T) {
	s := sum(t, source("run", 100, 90, 0.5))
	radius, certified := 0.25, 0.07
	s.Calibration = []summary.Calibration{{Radius: &radius, N: 90, CBS: 0.05, CCE: 0.1,
		Certified:   &summary.CertifiedCalibration{Statement: summary.Statement{Failures: 2}, CBS: 0.072, CCE: 0.14},
		Thresholded: []summary.Thresholded{{Tau: 0.9, Wrong: 10, Right: 40, Failures: 2, Certified: &certified}}}}
	for text, met := range map[string]bool{
		"cbs@0.25<=0.05": true, "cbs@0.25<=0.0499999": false, "cce@0.250<=0.10": true, "cce@0.25<=0.09": false,
		"certified:cbs@0.25<=0.072": true, "certified:cbs@0.25<=0.071": false, "certified:cce@0.25<=0.14": true, "certified:cce@0.25<=0.13": false,
		"thresholded-error@0.25,0.9<=0.2": true, "thresholded-error@0.25,0.9<=0.19": false,
		"certified:thresholded-error@0.25,0.9<=0.24": true, "certified:thresholded-error@0.25,0.9<=0.23": false,
	} {
		out, err := Check([]Requirement{parse(t, text)}, s)
		if err != nil || out[0].Met != met {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
	// Check must refuse requirements on values that the summary lacks. At the threshold 0.95 there are no answers, so
	// there is no share of wrong answers.
	s.Calibration[0].Thresholded = append(s.Calibration[0].Thresholded, summary.Thresholded{Tau: 0.95, Certified: &certified})
	for _, text := range []string{"cbs@0.5<=1", "thresholded-error@0.25,0.8<=1", "thresholded-error@0.25,0.95<=1", "certified:thresholded-error@0.25,0.95<=1"} {
		if _, err := Check([]Requirement{parse(t, text)}, s); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	s.Calibration[0].Certified = nil
	if out, err := Check([]Requirement{parse(t, "certified:cbs@0.25<=1")}, s); err != nil || out[0].Met {
		t.Errorf("without alpha: %+v, %v", out, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "want [best:][certified:]NAME",
		"acr":                             "want [best:][certified:]NAME",
		"acr>0.5":                         "want [best:][certified:]NAME",
		"acr=>0.5":                        "want [best:][certified:]NAME",
		"accuracy>=0.5":                   "unknown name \"accuracy\"",
		"acr>=":                           "want a number",
		"acr>=-1":                         "want a number",
		"acr>=1e9":                        "want a number",
		"acr>=.5":                         "want a number",
		"acr>=0.5>=0.4":                   "want a number",
		"acr>=NaN":                        "want a number",
		"acr>=0x1":                        "want a number",
		"acr>=1/2":                        "want a number",
		"acr@0.5>=0.5":                    "acr has no radius",
		"certified-accuracy>=0.5":         "needs a radius, as in certified-accuracy@0.5>=0.60",
		"certified-accuracy@>=0.5":        "want a number",
		"certified-accuracy@0.5,0.9>=0.5": "want certified-accuracy@0.5>=0.60",
		"thresholded-error@0.5<=0.5":      "want thresholded-error@0.25,0.9<=0.05",
		"thresholded-error@0.5,1.5<=0.5":  "a confidence is from 0 to 1",
		"certified-accuracy@0.5>=60":      "60 % is 0.60",
		"certified-accuracy@0.10000000000000000000001>=0.6": "more digits than are kept",
		"certified:clean-accuracy>=0.5":                     "nothing is certified of clean-accuracy",
		"certified:abstain-rate<=0.5":                       "nothing is certified of abstain-rate",
		"certified:certified-accuracy@0.5<=0.5":             "a bound from below: want >=",
		"certified:acr<=0.5":                                "a bound from below: want >=",
		"certified:cbs@0.5>=0.5":                            "a bound from above: want <=",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Parse must accept every example in the help. String must return the text that Parse read.
func TestExamplesParse(t *testing.T) {
	for _, m := range metrics {
		if r := parse(t, m.example); r.String() != m.example || r.metric.name != m.name || !strings.Contains(Help(), m.example) {
			t.Errorf("%s: %v", m.example, r)
		}
		if m.certifiable {
			parse(t, "certified:"+m.example)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range metrics {
		f.Add(m.example)
		f.Add("certified:" + m.example)
	}
	f.Add("thresholded-error@1,2,3<=")
	f.Add("acr>=99999999999999999999.9")
	s, err := summary.New(source("run", 10, 5, 0.5), summary.Default())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		again, err := Parse(r.String())
		if err != nil || again.String() != r.String() || again.bound.Cmp(r.bound) != 0 || again.certified != r.certified ||
			again.atMost != r.atMost || again.metric != r.metric {
			t.Fatalf("%q: read back as %v, %v", text, again, err)
		}
		out, err := Check([]Requirement{r}, s)
		if err != nil || out[0].Value == nil {
			return
		}
		// A difference above 1e-9 between the value and the bound is not a rounding error of float64. For such a
		// difference, comparing the float64 numbers gives the right decision.
		bound, _ := r.bound.Float64()
		if gap := *out[0].Value - bound; math.Abs(gap) > 1e-9 && out[0].Met != (gap > 0 != r.atMost) {
			t.Errorf("%q: value %v, met %v", text, *out[0].Value, out[0].Met)
		}
	})
}

func TestJUnit(t *testing.T) {
	half, one := 0.5, 1.0
	doc, err := JUnit([]Outcome{
		{Requirement: "acr>=0.6", Run: "a&b", Value: &half, Says: "0.5 <too> little"},
		{Requirement: "acr>=0.6", Run: "c", Met: true, Value: &one, Says: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="rscert" tests="2" failures="1" errors="0">
  <testcase classname="a&amp;b" name="acr&gt;=0.6">
    <failure message="0.5 &lt;too&gt; little">not met a&amp;b: acr&gt;=0.6: 0.5 &lt;too&gt; little</failure>
    <system-out>0.5 &lt;too&gt; little</system-out>
  </testcase>
  <testcase classname="c" name="acr&gt;=0.6">
    <system-out>1</system-out>
  </testcase>
</testsuite>
`
	if string(doc) != want {
		t.Errorf("got\n%s", doc)
	}
	doc, err = JUnitError([]string{"acr>=0.6"}, errors.New("no\nsuch file"))
	var read junitSuite
	if err := errors.Join(err, xml.Unmarshal(doc, &read)); err != nil || read.Errors != 1 || read.Failures != 0 || read.Cases[0].Error == nil || read.Cases[0].Failure != nil {
		t.Errorf("%v\n%s", err, doc)
	}
}

func TestGitHub(t *testing.T) {
	got := GitHubCommand("error", "a: b, c%", "100 % of\r\nit: x,y")
	if want := "::error title=a%3A b%2C c%25::100 %25 of%0D%0Ait: x,y"; got != want {
		t.Errorf("got %s", got)
	}
	if o := (Outcome{Requirement: "acr>=1", Run: "r", Says: "0.5"}).GitHub(); o != "::error title=rscert%3A requirement not met::r: acr>=1: 0.5" {
		t.Error(o)
	}
	if o := (Outcome{Requirement: "acr>=1", Run: "r", Says: "1", Met: true}).GitHub(); !strings.HasPrefix(o, "::notice title=") {
		t.Error(o)
	}
}

// TestCompare compares two small runs with counts computed by hand. At radius 0.5, one of 4 examples is lost and two
// are gained.
func TestCompare(t *testing.T) {
	base, this := source("base", 4, 4, 0.5), source("this", 4, 4, 0.75)
	base.Certificates[1].Radius, base.Certificates[2].Radius = 0.25, 0.25
	this.Certificates[0].Radius = 0.25
	// The baseline lists the examples 0 and 3 in the opposite order.
	base.Certificates[3].Index, base.Votes[3].Index, base.Certificates[0].Index, base.Votes[0].Index = 0, 0, 3, 3
	this.Certificates[3].Radius, this.Certificates[0].Radius = 0.25, 0.75
	c, err := Compare(sum(t, base), sum(t, this))
	if err != nil {
		t.Fatal(err)
	}
	a := c.Accuracy[1]
	if a.Radius != 0.5 || a.Lost != 1 || a.Gained != 2 || a.Baseline != 0.5 || a.This != 0.75 || a.Change != 0.25 || a.P != 1 || !c.ByHash {
		t.Errorf("%+v", a)
	}
	// The radii of the four examples change by 0.25, 0.5, 0.5 and −0.25. The mean change is 0.25.
	if r := c.Radius; r.Change != 0.25 || r.Low == nil || *r.Low > 0.25 || *r.High < 0.25 || *r.P != 1 && *r.P < 0.05 {
		t.Errorf("%+v", r)
	}
	for text, met := range map[string]bool{"0": true, "0.01": true} {
		var d Drop
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for _, o := range d.Check(c) {
			if o.Met != met {
				t.Errorf("drop %s: %+v", text, o)
			}
		}
	}
	c, err = Compare(sum(t, this), sum(t, base)) // with the runs swapped, the accuracy falls by a quarter
	if err != nil {
		t.Fatal(err)
	}
	for text, met := range map[string]bool{"0.25": true, "0.2499": false} {
		var d Drop
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if o := d.Check(c)[1]; o.Met != met || !strings.Contains(o.Says, "0.25 (2 lost, 1 gained of 4, McNemar's p = 1)") {
			t.Errorf("drop %s: %+v", text, o)
		}
	}
	var d Drop
	for _, text := range []string{"", "-1", "2", "x"} {
		if err := d.UnmarshalText([]byte(text)); err == nil || d.Given() {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestIncomparable(t *testing.T) {
	for want, change := range map[string]func(*summary.Source){
		"data: d (SHA-256 d4f0…) there, d (0000…) here": func(s *summary.Source) { s.Run.Data.SHA256 = "0000" },
		"sigma: 0.5 there, 1 here":                      func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Sigma = 1 }) },
		"alpha: 0.001 there, 0.01 here":                 func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Alpha = 0.01 }) },
		"method: margin there, bonferroni here":         func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Method = "bonferroni" }) },
		"sound: true there, false here":                 func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Sound = false }) },
		"arithmetic: exact there, idealised here":       func(s *summary.Source) { each(s, func(c *certify.Certificate) { c.Arithmetic = certify.Idealised }) },
		"n: 0 there, 5 here":                            func(s *summary.Source) { s.Run.Parameters.N = 5 },
		"class: nothing there, label here":              func(s *summary.Source) { s.Run.Parameters.Class = certify.Label },
		"mean: [] there, [0.5] here":                    func(s *summary.Source) { s.Run.Parameters.Mean = []float64{0.5} },
		"std: [] there, [0.25] here":                    func(s *summary.Source) { s.Run.Parameters.Std = []float64{0.25} },
		"precision: f32 there, bf16 here":               func(s *summary.Source) { s.Run.Parameters.Precision = onnx.BF16 },
		"temperature: 0 there, 2 here":                  func(s *summary.Source) { s.Run.Parameters.Temperature = 2 },
		"confidence-radii: [] there, [0.5] here":        func(s *summary.Source) { s.Run.Parameters.ConfidenceRadii = []float64{0.5} },
		"how the data are read":                         func(s *summary.Source) { s.Run.Data.Options = dataset.Options{FirstLabel: 1} },
		"examples: 3 is there and not here":             func(s *summary.Source) { s.Certificates[3].Index, s.Votes[3].Index = 9, 9 },
		"labels: example 2 has 1 there and 0 here": func(s *summary.Source) {
			s.Certificates[2].Label, s.Votes[2].Label, s.Certificates[2].Correct = 0, 0, false
		},
		"examples: 4 there, 3 here": func(s *summary.Source) {
			s.Certificates, s.Votes, s.Run.Data.Selected = s.Certificates[:3], s.Votes[:3], 3
		},
	} {
		this := source("this", 4, 4, 0.5)
		change(&this)
		var not *IncomparableError
		_, err := Compare(sum(t, source("base", 4, 4, 0.5)), sum(t, this))
		if !errors.As(err, &not) || !strings.Contains(err.Error(), want) || len(not.Differences) != 1 {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	this := source("this", 4, 4, 0.5)
	// A run and its baseline may differ in the following conditions.
	this.Run.Model.SHA256, this.Run.Parameters.Seed = "another", 7
	this.Run.Parameters.Outputs, this.Run.Parameters.SaveScores = graph.Probabilities, true
	this.Run.Parameters.DenoiserKind, this.Run.Parameters.Mean = graph.DenoisedImage, []float64{}
	if _, err := Compare(sum(t, source("base", 4, 4, 0.5)), sum(t, this)); err != nil {
		t.Error(err)
	}
}

// mayDiffer must name only parameters of run.json. An entry with an outdated name would have no effect, and Compare
// would refuse runs that it should accept.
func TestMayDifferAreParameters(t *testing.T) {
	known := map[param.Name]bool{}
	parameters := reflect.TypeFor[runfolder.Parameters]()
	for _, field := range reflect.VisibleFields(parameters) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[param.Name(name)] = true
	}
	for name := range mayDiffer {
		if !known[name] {
			t.Errorf("run.json has no parameter %s", name)
		}
	}
}

// The paired interval must cover the mean difference with the stated probability, for any dependence between the two
// runs. If the mean is 0, an interval that excludes 0 counts as a rejection. The probability of a rejection must be at
// most α. The mean in each case is computed by hand.
func TestPairedIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, law := range map[string]struct {
		draw func() (before, after float64)
		mean float64
	}{
		"no change":     {func() (float64, float64) { x := rng.Float64(); return x, x }, 0},
		"same law":      {func() (float64, float64) { return rng.Float64(), rng.Float64() }, 0},
		"rare large":    {func() (float64, float64) { return 0.5, 0.5 + 0.5*indicator(rng.Float64() < 0.02) }, 0.01},
		"abstentions":   {func() (float64, float64) { return indicator(rng.Float64() < 0.6), 0.7 * indicator(rng.Float64() < 0.8) }, -0.04},
		"shared, worse": {func() (float64, float64) { x := rng.Float64(); return x, 0.9 * x }, -0.05},
	} {
		for _, n := range []int{30, 300} {
			const trials, alpha = 100, 0.1
			misses, rejected, width := 0, 0, 0.0
			for range trials {
				changes := make([]float64, n)
				for i := range changes {
					before, after := law.draw()
					changes[i] = after - before
				}
				low, high := meanChange(changes, 1, 1, alpha)
				width += (high - low) / trials
				if law.mean < low || law.mean > high {
					misses++
				}
				if low > 0 || high < 0 {
					rejected++
				}
			}
			// Each checked count is stochastically at most Bin(100, 0.1), which exceeds 20 with probability 0.001.
			if misses > 20 || law.mean == 0 && rejected > 20 {
				t.Errorf("%s, n = %d: %d misses, %d rejected", name, n, misses, rejected)
			}
			if n == 300 && width > 0.35 {
				t.Errorf("%s: width %v tells nothing", name, width)
			}
			t.Logf("%s, n = %d: %d misses, %d rejected, width %.3f", name, n, misses, rejected, width)
		}
	}
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// drop must return the exact fraction: the difference of the counts, divided by the number of examples.
func TestDropIsExact(t *testing.T) {
	a := AccuracyChange{Lost: 7, Gained: 4}
	if a.drop(300).Cmp(big.NewRat(1, 100)) != 0 {
		t.Error(fmt.Sprint(a.drop(300)))
	}
}

// The interval of the mean change must contain the mean, even if the possible changes are not symmetric about 0. If the
// second run loses 100 of 400 correctly certified examples and gains none, the accuracy and the average radius fall. So
// the intervals for both changes must lie below 0.
func TestMeanChangeSides(t *testing.T) {
	changes := make([]float64, 2000)
	for i := range changes {
		changes[i] = -0.3
	}
	if low, high := meanChange(changes, 1, 2, 0.05); low > -0.3 || high < -0.3 || high-low > 0.1 {
		t.Errorf("[%v, %v]", low, high)
	}
	c, err := Compare(sum(t, source("base", 400, 400, 0.5)), sum(t, source("this", 400, 300, 0.5)))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range c.Accuracy {
		if a.Lost != 100 || a.Gained != 0 || a.Change != -0.25 || a.High >= 0 || a.Low > -0.25 || a.P > 1e-20 {
			t.Errorf("%+v", a)
		}
	}
	if r := c.Radius; *r.High >= 0 || *r.Low > r.Change || *r.High < r.Change || *r.P > 1e-3 {
		t.Errorf("%+v", r)
	}
}
