package selection

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// Tied values share the mean of their ranks. The oracle is SciPy 1.17.1 (spearmanr, kendalltau).
func TestRankCorrelationTies(t *testing.T) {
	for _, test := range []struct {
		x, y              []float64
		spearman, kendall float64
	}{
		{[]float64{1, 2, 2, 3, 3, 3}, []float64{2, 1, 1, 3, 2, 5}, 0.635641726163728, 0.501745206004255},
		{[]float64{1, 1, 2, 2}, []float64{1, 2, 1, 2}, 0, 0},
		{[]float64{0.1, 0.1, 0.1, 0.4}, []float64{4, 4, 1, 0}, -0.816496580927726, -0.774596669241483},
	} {
		rho, ok := spearman(test.x, test.y)
		tau, also := kendall(test.x, test.y)
		if !ok || !also || !near(rho, test.spearman) || !near(tau, test.kendall) {
			t.Errorf("%v, %v: %v and %v, want %v and %v", test.x, test.y, rho, tau, test.spearman, test.kendall)
		}
	}
	x := []float64{3, 1, 2, 2}
	for sign, y := range map[float64][]float64{1: {30, 10, 20, 20}, -1: {-30, -10, -20, -20}} {
		rho, _ := spearman(x, y)
		tau, _ := kendall(x, y)
		if rho != sign || tau != sign {
			t.Errorf("%v, %v: %v and %v, want exactly %v", x, y, rho, tau, sign)
		}
	}
	if _, ok := spearman([]float64{1, 1, 1}, []float64{1, 2, 3}); ok {
		t.Error("a constant has a rank correlation")
	}
	if _, ok := kendall([]float64{1, 2, 3}, []float64{1, 1, 1}); ok {
		t.Error("a constant has a rank correlation")
	}
}

// run returns the summary of a run with 100 examples. The argument 'right' is the number of examples with the right
// class and the radius 0.5. The other examples are abstentions.
func run(name string, sigma float64, right int, cce, cbs float64) summary.Summary {
	radius := 0.25
	s := summary.Summary{Name: name, Path: name, Examples: 100, Labelled: 100, Rows: make([]summary.Row, 100), Level: 0.95}
	s.Conditions.Sigma = &sigma
	for i := range s.Rows {
		s.Rows[i].Index = i
		if i < right {
			s.Rows[i].Correct, s.Rows[i].Radius = true, 0.5
		}
	}
	s.Calibration = []summary.Calibration{{Radius: &radius, N: right, CCE: cce, CBS: cbs}}
	return s
}

// A model is a candidate even if its accuracy is below the best accuracy by exactly the tolerance. The comparison uses
// exact decimals. 0.9 − 0.03 is 0.87, so an accuracy of 87 of 100 is within the tolerance. The float64 nearest to 0.03
// is slightly smaller than 0.03, so 0.9 minus this float64 is above 0.87. If two candidates are equal in the measure,
// the rule chooses the candidate with the larger accuracy. If their accuracies are equal, too, it chooses the first
// row.
func TestTolerance(t *testing.T) {
	within := 0.03
	for name, test := range map[string]struct {
		right [3]int
		cce   [3]float64
		want  string
	}{
		"at the end":               {[3]int{90, 87, 86}, [3]float64{0.3, 0.2, 0.1}, "b"},
		"equal values":             {[3]int{88, 90, 90}, [3]float64{0.1, 0.1, 0.1}, "b"},
		"equal values, accuracies": {[3]int{90, 90, 87}, [3]float64{0.2, 0.2, 0.3}, "a"},
		"the best is the only one": {[3]int{90, 86, 80}, [3]float64{0.9, 0.1, 0.1}, "a"},
	} {
		var runs []summary.Summary
		for k, letter := range []string{"a", "b", "c"} {
			runs = append(runs, run(letter, 0.5, test.right[k], test.cce[k], 1-test.cce[k]))
		}
		c, err := Compare(runs, Options{Within: &within, Delta: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		if choice := c.Radii[0].Choices[0]; choice.By != CCE || choice.Model != test.want {
			t.Errorf("%s: %+v, want %s", name, choice, test.want)
		}
	}
}

// If two models are equal in one measure, the model with the better value in the other measure dominates. Two equal
// models are both on the front.
func TestFrontTies(t *testing.T) {
	for name, test := range map[string]struct {
		right [2]int
		cce   [2]float64
		want  [2]bool
	}{
		"equal accuracy": {[2]int{90, 90}, [2]float64{0.2, 0.1}, [2]bool{false, true}},
		"equal CCE":      {[2]int{90, 80}, [2]float64{0.1, 0.1}, [2]bool{true, false}},
		"equal":          {[2]int{90, 90}, [2]float64{0.1, 0.1}, [2]bool{true, true}},
	} {
		c, err := Compare([]summary.Summary{run("a", 0.5, test.right[0], test.cce[0], 0), run("b", 0.5, test.right[1], test.cce[1], 0)}, Options{Delta: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		if rows := c.Radii[0].Rows; rows[0].Front != test.want[0] || rows[1].Front != test.want[1] {
			t.Errorf("%s: %v and %v, want %v", name, rows[0].Front, rows[1].Front, test.want)
		}
		if r := c.Radii[0].Correlations; r != nil {
			t.Errorf("two models have rank correlations: %+v", r)
		}
	}
}

// Rows must be grouped by model, and the models must be in the order of their first runs. Within a model, the rows must
// be in ascending order of σ. For each model, BestScale keeps the run with the largest accuracy. With BestScale, too,
// the probability of failure must be divided by the number of all runs.
func TestBestScale(t *testing.T) {
	runs := []summary.Summary{run("a1", 1, 50, 0.1, 0.1), run("b", 0.5, 70, 0.3, 0.3), run("a0", 0.25, 60, 0.4, 0.4), run("a2", 0.5, 60, 0.2, 0.2)}
	names := []string{"a", "b", "a", "a"}
	rowsOf := func(o Options) (rows []string) {
		o.Names, o.Delta = names, 0.05
		c, err := Compare(runs, o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Selection.Runs != 4 || c.Selection.DeltaEach != 0.0125 {
			t.Errorf("%+v", c.Selection)
		}
		for _, row := range c.Radii[0].Rows {
			rows = append(rows, row.Model+" "+row.Run)
		}
		return rows
	}
	if got, want := rowsOf(Options{}), []string{"a a0", "a a2", "a a1", "b b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := rowsOf(Options{BestScale: true}), []string{"a a2", "b b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// If Options.Names is nil, the content of the file identifies a model. If files with the same name have different
// content, their models must get different names. The same file with and without a denoiser counts as two different
// models.
func TestModelNames(t *testing.T) {
	file := func(name, hash string, d *runfolder.Denoiser) summary.Summary {
		s := run("run", 0.5, 1, 0, 0)
		s.Conditions.Model, s.Conditions.Denoiser = &summary.File{File: name, SHA256: hash}, d
		return s
	}
	denoiser := &runfolder.Denoiser{}
	denoiser.File, denoiser.SHA256 = "d.onnx", "dddddddddddd"
	got := modelNames([]summary.Summary{file("x/m.onnx", "aaaaaaaaaaaa", nil), file("y/m.onnx", "bbbbbbbbbbbb", nil), file("x/n.onnx", "cccccccccccc", nil),
		file("z/n.onnx", "cccccccccccc", nil), file("x/n.onnx", "cccccccccccc", denoiser), run("log.tsv", 1, 1, 0, 0)})
	want := []string{"m.onnx aaaaaaaa", "m.onnx bbbbbbbb", "n.onnx", "n.onnx", "n.onnx behind d.onnx", "log.tsv"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// certificates returns a source with 1,000 right certificates. Each certificate has the failure probability 0.01.
func certificates(name string) summary.Source {
	s := summary.Source{Path: name, Kind: summary.CertificatesKind}
	for i := range 1000 {
		s.Certificates = append(s.Certificates, certify.Certificate{Index: i, Radius: 0.5, Correct: true, Method: "margin", MarginKind: certify.SecondMargin,
			Alpha: 0.01, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact})
	}
	return s
}

// All certificates are right, so the lower bound on the certified accuracy of each run must be 1 − q/1000. Here q is
// the smallest number with P(Bin(1000, 0.01) > q) ≤ delta/runs, where runs is the number of runs.
func TestSelectionPays(t *testing.T) {
	for k := range 5 {
		var runs []summary.Summary
		o := summary.Default()
		o.Delta = summary.EachDelta(o.Delta, k+1)
		for range k + 1 {
			s, err := summary.New(certificates("run"), o)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, s)
		}
		c, err := Compare(runs, Options{Radii: []float64{0.25}, Delta: summary.DefaultDelta})
		if err != nil {
			t.Fatal(err)
		}
		failures, err := binomial.FailureQuantile(1000, 0.01, 0.05/float64(k+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range c.Radii[0].Rows {
			if want := float64(1000-failures) / 1000; *row.Accuracy.Certified != want {
				t.Errorf("%d runs: %v, want %v", k+1, *row.Accuracy.Certified, want)
			}
		}
	}
}

// Compare must refuse runs whose results cannot be compared. It must not refuse a run without bounds on the confidence
// if another run has such bounds. The row of the run without these bounds has no CBS and no CCE.
func TestRefusals(t *testing.T) {
	a, b := run("a", 0.5, 90, 0.1, 0.1), run("b", 0.5, 95, 0.1, 0.1)
	l1, unlabelled, claim, bare := b, b, b, b
	l1.Conditions.Norm, unlabelled.Labelled, claim.Conditions.TopK, bare.Calibration = law.L1, 0, 5, nil
	within := 0.03
	for want, test := range map[string]struct {
		runs   []summary.Summary
		within *float64
	}{
		"in different norms or units":         {[]summary.Summary{a, l1}, nil},
		"make different claims":               {[]summary.Summary{a, claim}, nil},
		"b: the examples have no labels":      {[]summary.Summary{a, unlabelled}, nil},
		"no run has bounds on the confidence": {[]summary.Summary{bare, bare}, &within},
	} {
		if _, err := Compare(test.runs, Options{Within: test.within, Delta: 0.05}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c, err := Compare([]summary.Summary{a, bare}, Options{Within: &within, Delta: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	rows := c.Radii[0].Rows
	if rows[1].Calibration != nil || rows[1].Front || !rows[1].Within || rows[0].Within || len(c.Radii[0].Choices) != 0 {
		t.Errorf("%+v", rows)
	}
}
