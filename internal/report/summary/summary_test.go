package summary

import (
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/table"
)

// cert returns a certificate from n = 1,000 samples at α = 0.01 and σ = 0.5.
func cert(index, label, prediction int, radius float64) certify.Certificate {
	return certify.Certificate{Index: index, Label: label, Prediction: prediction, Correct: label == prediction && prediction >= 0,
		Radius: radius, Method: "margin", MarginKind: certify.SecondMargin, Alpha: 0.01, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact}
}

// small returns ten examples. Six are correct and have the radii 0.1, 0.25, 0.25, 0.5, 0.75 and 1. Two are wrong, and
// two are abstentions.
func small() Source {
	clean, other := 1, 0
	s := Source{Path: "dir/small", Kind: RunKind, Certificates: []certify.Certificate{
		cert(0, 1, 1, 0.1), cert(1, 1, 1, 0.25), cert(2, 1, 0, 0.9), cert(3, 1, -1, 0), cert(4, 1, 1, 0.5),
		cert(5, 0, 0, 0.25), cert(6, 0, 0, 0.75), cert(7, 0, 0, 1), cert(8, 0, 1, 0.3), cert(9, 0, -1, 0),
	}}
	for _, c := range s.Certificates {
		v := certify.Votes{Index: c.Index, Label: c.Label, N: 1000, Counts: []int64{400, 600}, Clean: &clean}
		if c.Prediction == 0 {
			v.Counts, v.Clean = []int64{800, 200}, &other
		}
		s.Votes = append(s.Votes, v)
	}
	return s
}

func mustNew(t *testing.T, s Source, o Options) Summary {
	t.Helper()
	sum, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestNew compares counts, shares and averages with values computed by hand from the examples of the function 'small'.
func TestNew(t *testing.T) {
	o := Default()
	o.Radii = []float64{1, 0, 0.25, 0.5, 0.25}
	s := mustNew(t, small(), o)
	if s.Name != "small" || s.Examples != 10 || s.Selected != 10 || s.Labelled != 10 {
		t.Errorf("%+v", s)
	}
	var radii []float64
	var counts []int
	for _, p := range s.Curve {
		radii, counts = append(radii, p.Radius), append(counts, p.Accuracy.Count)
	}
	if !slices.Equal(radii, []float64{0, 0.25, 0.5, 1}) || !slices.Equal(counts, []int{6, 5, 3, 1}) {
		t.Errorf("curve %v %v", radii, counts)
	}
	// P(Bin(10, 0.01) > 0) = 0.0956 > 0.05 and P(Bin(10, 0.01) > 1) = 0.0043, so one certificate may be wrong.
	if d := s.Dataset; d == nil || d.Failures != 1 || d.Examples != 10 || d.Alpha != 0.01 || d.Delta != 0.05 {
		t.Errorf("dataset %+v", d)
	}
	if c := s.Curve[1].Certified; c == nil || *c != 0.4 {
		t.Errorf("certified at 0.25: %v", c)
	}
	if c := s.Curve[3].Certified; c == nil || *c != 0 {
		t.Errorf("certified at 1: %v", c)
	}
	// 0.1 + 0.25 + 0.25 + 0.5 + 0.75 + 1 = 2.85; without the largest radius the sum is 1.85.
	if a := s.AverageRadius; a.Value != 0.285 || a.Certified == nil || *a.Certified != 0.185 {
		t.Errorf("average %+v", a)
	}
	// In class 1 (examples 0–4), the class with the most votes is right for all examples except example 2. In class 0
	// (examples 5–9), it is right for the examples 5, 6 and 7.
	if s.Clean.Count != 7 || s.Clean.Of != 10 || s.Smoothed.Count != 7 || s.Abstained.Count != 2 {
		t.Errorf("clean %+v smoothed %+v", s.Clean, s.Smoothed)
	}
	if len(s.Classes) != 2 || s.Classes[0].Label != 0 || s.Classes[0].Certified[2].Count != 2 || s.Classes[1].Certified[2].Count != 1 ||
		s.Classes[0].AverageRadius != 0.4 || s.Classes[1].AverageRadius != 0.17 || s.Classes[1].Clean.Count != 4 || s.Classes[0].Abstained.Count != 1 {
		t.Errorf("classes %+v", s.Classes)
	}
	if !s.Conditions.Certifies() || *s.Conditions.Sigma != 0.5 || s.Conditions.Samples != 10000 {
		t.Errorf("conditions %+v", s.Conditions)
	}
	if !slices.Equal(s.Steps(), []float64{0.1, 0.25, 0.5, 0.75, 1}) {
		t.Errorf("steps %v", s.Steps())
	}
	if s.Rows[0].Confidence != 0.6 || s.Rows[5].Confidence != 0.8 || s.Rows[5].Smoothed != 0 || s.Rows[5].Clean != 0 {
		t.Errorf("rows %+v", s.Rows[0])
	}
}

// The interval of a share is [BetaInv(a/2; x, n−x+1), BetaInv(1−a/2; x+1, n−x)] (Clopper & Pearson 1934).
func TestShareFormula(t *testing.T) {
	for _, test := range []struct {
		count, of int
		level     float64
	}{{0, 10, 0.95}, {10, 10, 0.95}, {3, 10, 0.95}, {59, 100, 0.99}, {941, 1000, 0.9}} {
		s := newShare(test.count, test.of, test.level)
		a, x, n := (1-test.level)/2, float64(test.count), float64(test.of)
		low, high := 0.0, 1.0
		if test.count > 0 {
			low = mathext.InvRegIncBeta(x, n-x+1, a)
		}
		if test.count < test.of {
			high = mathext.InvRegIncBeta(x+1, n-x, 1-a)
		}
		if math.Abs(s.Low-low) > 1e-8 || math.Abs(s.High-high) > 1e-8 || s.Low > low+1e-12 || s.High < high-1e-12 {
			t.Errorf("%+v: [%v, %v], want [%v, %v]", test, s.Low, s.High, low, high)
		}
		if s.Value != x/n {
			t.Errorf("%+v: value %v", test, s.Value)
		}
	}
}

// CertifiedAt must compare its argument with the exact decimal of each radius in the file, not with the radius as a
// float64.
func TestCertifiedAtBoundary(t *testing.T) {
	s := mustNew(t, Source{Path: "x", Kind: CertificatesKind, Certificates: []certify.Certificate{cert(0, 1, 1, 0.1), cert(1, 1, 1, 0.3)}}, Default())
	for text, want := range map[string]int{"0.1": 2, "0.10": 2, "0.1000000000000000000001": 1, "0.09999999999999999999": 2, "0.3": 1, "0.30000000000000000001": 0, "0": 2} {
		r, _ := new(big.Rat).SetString(text)
		if got := s.CertifiedAt(r); got != want {
			t.Errorf("at %s: %d, want %d", text, got, want)
		}
	}
}

func TestUnsoundStatesNothing(t *testing.T) {
	source := small()
	for i := range source.Certificates {
		source.Certificates[i].Sound = false
	}
	s := mustNew(t, source, Default())
	if s.Dataset != nil || s.Curve[0].Certified != nil || s.AverageRadius.Certified != nil || s.AverageRadius.Largest != nil || s.Conditions.Certifies() {
		t.Errorf("%+v", s)
	}
	source = small()
	for i := range source.Certificates {
		source.Certificates[i].Arithmetic = certify.Idealised
	}
	if s := mustNew(t, source, Default()); s.Conditions.Certifies() || s.Dataset == nil {
		t.Errorf("%+v", s)
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Source){
		"index 0 appears twice":             func(s *Source) { s.Certificates[1].Index = 0 },
		"sigma is 0.5 of example 0, and 1 ": func(s *Source) { s.Certificates[3].Sigma = 1 },
		"sound is true":                     func(s *Source) { s.Certificates[9].Sound = false },
		"arithmetic is exact":               func(s *Source) { s.Certificates[9].Arithmetic = certify.Idealised },
		"alpha is 0.01":                     func(s *Source) { s.Certificates[9].Alpha = 0.1 },
		"method is margin":                  func(s *Source) { s.Certificates[9].Method = "betting" },
		"lipschitz is 0 of example 0, and":  func(s *Source) { s.Certificates[9].Lipschitz = 2 },
		"example 9 has a radius in the l1 norm, and gaussian noise": func(s *Source) { s.Certificates[9].Norm = law.L1 },
		"example 0 has a radius in the l1 norm, and gaussian noise": func(s *Source) {
			for i := range s.Certificates {
				s.Certificates[i].Norm = law.L1
			}
		},
		"example 0 has a radius in the l2 norm, and laplace noise": func(s *Source) {
			for i := range s.Certificates {
				s.Certificates[i].Law = law.Of(law.Laplace)
			}
		},
		"example 0 is deterministic, with alpha 0.01 and gaussian": func(s *Source) {
			for i := range s.Certificates {
				s.Certificates[i].Deterministic = true
			}
		},
		"example 0 is deterministic, with alpha 0 and gaussian": func(s *Source) {
			for i := range s.Certificates {
				s.Certificates[i].Deterministic, s.Certificates[i].Alpha = true, 0
			}
		},
		"example 0 is deterministic, with alpha 0.01 and splitting": func(s *Source) {
			for i := range s.Certificates {
				c := &s.Certificates[i]
				c.Deterministic, c.Law, c.Norm = true, law.Of(law.Splitting), law.L1
			}
		},
		"correct true":        func(s *Source) { s.Certificates[3].Correct = true },
		"correct false":       func(s *Source) { s.Certificates[0].Correct = false },
		"radius NaN":          func(s *Source) { s.Certificates[0].Radius = math.NaN() },
		"no certificates":     func(s *Source) { s.Certificates = nil },
		"votes of example 4":  func(s *Source) { s.Votes[3].Index = 4 },
		"votes of 9 examples": func(s *Source) { s.Votes = s.Votes[:9] },
	} {
		s := small()
		change(&s)
		if _, err := New(s, Default()); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "dir/small: ") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, o := range []Options{{Level: 1, Delta: 0.1}, {Level: 0.9}, {Level: 0.9, Delta: 0.1, Radii: []float64{-1}}, {Level: 0.9, Delta: 0.1, Taus: []float64{2}}} {
		if _, err := New(small(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// The Statement must count all 100 examples that the run selected, although the test has results for only 10 of them.
// For α = 0.01, δ = 0.05 and 100 examples, 3 certificates may be wrong, because P(Bin(100, 0.01) > 2) = 0.079 is above
// δ, and P(Bin(100, 0.01) > 3) = 0.018 is below δ. For the 10 examples of this test alone, only 1 certificate may be
// wrong.
func TestStatementOfWholeRun(t *testing.T) {
	for name, shards := range map[string][]spec.Shard{"unfinished": nil, "merged with gaps": {{I: 0, K: 10}}} {
		s := small()
		s.Run = &runfolder.Run{Data: runfolder.Data{Selected: 100, Shards: shards}}
		sum := mustNew(t, s, Default())
		if d := sum.Dataset; d == nil || d.Examples != 100 || d.Failures != 3 {
			t.Errorf("%s: %+v", name, sum.Dataset)
		}
	}
}

// No sound method may give a radius above AverageRadius.Largest. If all votes agree, the method clopper-pearson must
// give AverageRadius.Largest, up to rounding.
func TestLargestRadius(t *testing.T) {
	for _, margin := range []certify.MarginKind{certify.SecondMargin, certify.FirstMargin} {
		for _, m := range certify.VoteMethods() {
			if !m.Sound {
				continue
			}
			target := certify.Target{Margin: margin, Class: certify.Label, Alpha: 0.001, Sigma: 0.5}
			certifier, err := certify.NewVoteCertifier(certify.VoteParams{Target: target, Method: m.Name})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int64{10, 100, 10000} {
				c, err := certifier.Certify(certify.Votes{Label: 1, N: n, Counts: []int64{0, n, 0}})
				if err != nil {
					t.Fatal(err)
				}
				s := mustNew(t, Source{Path: "x", Certificates: []certify.Certificate{c}}, Default())
				most := s.AverageRadius.Largest
				if most == nil {
					if c.Radius > 0 {
						t.Errorf("%s %s n = %d: radius %v, no largest", margin, m.Name, n, c.Radius)
					}
					continue
				}
				if c.Radius > *most {
					t.Errorf("%s %s n = %d: radius %v above %v", margin, m.Name, n, c.Radius, *most)
				}
				if m.Name == certify.ClopperPearson && c.Radius < 0.999999*(*most) {
					t.Errorf("%s n = %d: radius %v far below %v", margin, n, c.Radius, *most)
				}
			}
		}
	}
	s := small()
	s.Certificates[7].Radius = 2 // too large: the votes allow at most σΦ⁻¹(α^{1/n}) = 0.5·2.6
	if a := mustNew(t, s, Default()).AverageRadius; a.Largest != nil || a.Low != nil {
		t.Errorf("%+v", a)
	}
}

func bounds(t *testing.T, csv string, b runfolder.Bounds) *Bounds {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bounds.csv")
	if err := os.WriteFile(path, []byte(csv), 0o644); err != nil {
		t.Fatal(err)
	}
	table, err := table.Read(t.Context(), path, table.Options{Required: []string{"lower", "upper", "correct"}, Optional: []string{"index", "radius", "confidence", "examples"}})
	if err != nil {
		t.Fatal(err)
	}
	return &Bounds{table, b}
}

// TestCalibration compares CBS with its closed form. It compares the numbers Wrong and Right with numbers counted by
// hand. Of 10 sampled examples, three have bounds at the radius 0.5.
func TestCalibration(t *testing.T) {
	s := small()
	s.Bounds = bounds(t, "index,radius,lower,upper,correct,confidence,examples\n"+
		"4,0.5,0.8,0.9,1,0.85,10\n6,0.5,0.4,0.95,1,0.6,10\n2,0.5,0.3,0.7,0,0.5,10\n", runfolder.Bounds{Alpha: 0.01, Examples: 10})
	o := Default()
	o.Taus = []float64{0.8, 0.4, 0.75}
	sum := mustNew(t, s, o)
	if len(sum.Calibration) != 1 {
		t.Fatalf("%+v", sum.Calibration)
	}
	c := sum.Calibration[0]
	if want := (0.2*0.2 + 0.6*0.6 + 0.7*0.7) / 3; math.Abs(c.CBS-want) > 1e-12 || c.N != 3 || *c.Radius != 0.5 {
		t.Errorf("%+v, want CBS %v", c, want)
	}
	if c.Certified == nil || c.Certified.Failures != 1 || math.Abs(c.Certified.CBS-c.CBS-1.0/3) > 1e-12 || c.Certified.Examples != 10 {
		t.Errorf("certified %+v", c.Certified)
	}
	for k, want := range []Thresholded{
		{Tau: 0.4, Wrong: 8, Right: 2}, // 7 examples without bounds and one with the upper bound 0.7 may be wrong
		{Tau: 0.75, Wrong: 7, Right: 1},
		{Tau: 0.8, Wrong: 7, Right: 1},
	} {
		got := c.Thresholded[k]
		if got.Tau != want.Tau || got.Wrong != want.Wrong || got.Right != want.Right {
			t.Errorf("%+v, want %+v", got, want)
		}
		if e := float64(want.Wrong) / float64(want.Wrong+want.Right); math.Abs(got.Error-e) > 1e-15 || math.Abs(*got.Certified-min(1, e+1/float64(want.Wrong+want.Right))) > 1e-15 {
			t.Errorf("%+v", got)
		}
	}
}

func TestThresholdedOfNobody(t *testing.T) {
	if r := (Thresholded{}).Rat(0); r.Sign() != 0 {
		t.Errorf("nobody is answered, all bounds hold: %v", r)
	}
	if r := (Thresholded{}).Rat(1); r.Cmp(big.NewRat(1, 1)) != 0 {
		t.Errorf("nobody is answered, one may be: %v", r)
	}
}

// At every radius, the envelope must name the run with the maximum accuracy, and the first such run if there are
// several.
func TestEnvelope(t *testing.T) {
	a := mustNew(t, Source{Path: "a", Certificates: []certify.Certificate{cert(0, 1, 1, 0.2), cert(1, 1, 1, 0.3)}}, Options{Level: 0.9, Delta: 0.1, Bins: 5, Radii: []float64{0, 0.25}})
	b := mustNew(t, Source{Path: "b", Certificates: []certify.Certificate{cert(0, 1, 1, 0.8), cert(1, 1, 0, 0.3)}}, Options{Level: 0.9, Delta: 0.1, Bins: 5, Radii: []float64{0.25, 0.5}})
	var got []string
	points, err := Envelope([]Summary{a, b}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		got = append(got, p.Run)
		if p.Accuracy.Value != map[float64]float64{0: 1, 0.25: 0.5, 0.5: 0.5}[p.Radius] {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(got, []string{"a", "a", "b"}) {
		t.Errorf("%v", got)
	}
}

// The lower bound of the envelope allows for the choice of the best run. Each of the 2 runs has 100 certificates with α
// = 0.001. At δ = 0.1, the bound on the number of wrong certificates is 0, because P(Bin(100, 0.001) > 0) = 0.095. At
// δ/2 = 0.05, the bound is 1, because P(Bin(100, 0.001) > 1) = 0.0046. An unsound run has no bound, but it counts as
// one of the runs. For a choice among 50 runs, δ/50 = 0.002. The bound is then 2, because P(Bin(100, 0.001) > 1) =
// 0.0046 is above 0.002, and P(Bin(100, 0.001) > 2) = 0.00015 is below it.
func TestEnvelopePays(t *testing.T) {
	run := func(name string, right int, sound bool) Summary {
		s := Source{Path: name}
		for i := range 100 {
			c := cert(i, 1, 1, 0.5)
			c.Alpha, c.Sound, c.Sampled = 0.001, sound, 100
			if i >= right {
				c.Prediction, c.Correct, c.Radius = certify.Abstained, false, 0
			}
			s.Certificates = append(s.Certificates, c)
		}
		return mustNew(t, s, Options{Level: 0.9, Delta: 0.1, Bins: 5, Radii: []float64{0.5}})
	}
	a, b, unsound := run("a", 60, true), run("b", 61, true), run("u", 90, false)
	if c := *b.At(0.5).Certified; c != 0.61 {
		t.Fatalf("one run by itself: %v", c)
	}
	for _, test := range []struct {
		runs []Summary
		k    int
		want *float64
	}{
		{[]Summary{a, b}, 2, ptr(0.6)},
		{[]Summary{b, a}, 2, ptr(0.6)},
		{[]Summary{b, unsound}, 2, ptr(0.6)},
		{[]Summary{unsound, unsound}, 2, nil},
		{[]Summary{a, b}, 50, ptr(0.59)},
	} {
		points, err := Envelope(test.runs, test.k)
		if err != nil {
			t.Fatal(err)
		}
		if got := points[0].Certified; (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%v: %v, want %v", test.runs[0].Name, got, test.want)
		}
	}
}

func ptr(x float64) *float64 { return &x }

// SameExamples must be true if the runs have the same indices and labels, unless both runs name their data and the data
// differ.
func TestSameExamples(t *testing.T) {
	of := func(sum string, certificates ...certify.Certificate) Summary {
		s := mustNew(t, Source{Path: "a", Certificates: certificates}, Options{Level: 0.9, Delta: 0.1, Bins: 5, Radii: []float64{0}})
		if sum != "" {
			s.Conditions.Data = &File{SHA256: sum}
		}
		return s
	}
	first := of("x", cert(0, 1, 1, 0.2), cert(1, 1, 1, 0.3))
	for name, c := range map[string]struct {
		other Summary
		same  bool
	}{
		"other radii":    {of("x", cert(0, 1, 1, 0.9), cert(1, 1, 0, 0.3)), true},
		"data unknown":   {of("", cert(0, 1, 1, 0.9), cert(1, 1, 1, 0.3)), true},
		"other data":     {of("y", cert(0, 1, 1, 0.2), cert(1, 1, 1, 0.3)), false},
		"fewer examples": {of("x", cert(0, 1, 1, 0.2)), false},
		"other indices":  {of("x", cert(0, 1, 1, 0.2), cert(2, 1, 1, 0.3)), false},
		"other labels":   {of("x", cert(0, 1, 1, 0.2), cert(1, 0, 1, 0.3)), false},
	} {
		if runs := []Summary{first, c.other}; SameExamples(runs) != c.same || Comparable(runs) != c.same {
			t.Errorf("%s: want %v", name, c.same)
		}
	}
}

func TestReadLog(t *testing.T) {
	read := func(text string) (Source, error) {
		path := filepath.Join(t.TempDir(), "log.tsv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return Read(t.Context(), path)
	}
	const header = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
	s, err := read(header + "0\t3\t-1\t0.0\t0\t0:00:13.7\n20\t7\t7\t0.0734\t1\t15.4\n40\t1\t2\t0.5\t0\t1\n")
	if err != nil {
		t.Fatal(err)
	}
	sum := mustNew(t, s, Default())
	if sum.Kind != LogKind || sum.Examples != 3 || sum.Curve[0].Accuracy.Count != 1 || sum.Abstained.Count != 1 ||
		sum.Dataset != nil || sum.Conditions.Sound != nil || sum.Conditions.Alpha != nil || sum.Conditions.Certifies() {
		t.Errorf("%+v", sum)
	}
	for text, want := range map[string]string{
		header + "0\t3\t3\t0.1\t0\t1\n":  ":2: correct is 0 of label 3 and prediction 3",
		header + "0\t3\t-1\t0.1\t0\t1\n": ":2: radius 0.1 without a prediction",
		header + "0.5\t3\t-1\t0\t0\t1\n": ":2: idx 0.5 is not a whole number",
		header + "0\t3\t3\t-0.1\t1\t1\n": ":2: radius -0.1 is below 0",
		header + "0\t3\t3\t0.1\t2\t1\n":  ":2: correct is 2",
		header:                           "no rows",
		"idx\tlabel\n0\t1\n":             "no column \"predict\"",
		header + "-1\t3\t3\t0.1\t1\t1\n": ":2: idx -1",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// If a deterministic run stopped early, it must have no smoothed accuracy, because its evaluations are not a random
// sample. Any other deterministic run must have a smoothed accuracy. If a class and "no class" have equally many votes,
// the class must win.
func TestDeterministicVotes(t *testing.T) {
	stop, err := certify.ParseStop("radius>=0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := small()
	for i := range s.Votes {
		s.Certificates[i].Deterministic, s.Certificates[i].Alpha = true, 0
		s.Certificates[i].Law, s.Certificates[i].Norm = law.Of(law.Splitting), law.L1
		s.Votes[i].Counts, s.Votes[i].None = []int64{0, 500}, 500
	}
	if got := mustNew(t, s, Default()); got.Smoothed == nil || got.Smoothed.Count != 5 {
		t.Errorf("ties: smoothed accuracy %+v", got.Smoothed)
	}
	for i := range s.Votes {
		s.Votes[i].Counts, s.Votes[i].None, s.Votes[i].Stop, s.Votes[i].AlphaShare = []int64{0, 1000}, 0, stop, 1
		s.Certificates[i].Stop = stop
	}
	if got := mustNew(t, s, Default()); got.Smoothed != nil || got.Reliability != nil || got.Clean == nil {
		t.Errorf("stopped: smoothed accuracy %+v, reliability %+v, clean accuracy %+v", got.Smoothed, got.Reliability, got.Clean)
	}
}

// In exact decimal arithmetic, k times EachDelta(delta, k) must not exceed delta. EachDelta must be close to delta/k.
func TestEachDelta(t *testing.T) {
	for _, delta := range []float64{0.05, 0.1, 0.001, 1e-9} {
		for k := 1; k <= 40; k++ {
			each := decimal.Of(EachDelta(delta, k))
			sum := decimal.Of(0)
			for range k {
				sum.Add(sum, each)
			}
			if short := decimal.Of(delta); sum.Cmp(short) > 0 || EachDelta(delta, k) < delta/float64(k)*(1-1e-15) {
				t.Errorf("delta %v, k = %d: %v", delta, k, each)
			}
		}
	}
}
