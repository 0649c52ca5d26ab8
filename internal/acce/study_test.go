package acce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/table"
)

// readText parses a table of bounds from text, as if it were the file stdin.
func readText(t *testing.T, text string) *table.Table {
	t.Helper()
	opt := Columns()
	opt.Input = strings.NewReader(text)
	table, err := table.Read(t.Context(), table.Stdin, opt)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func solvers(t *testing.T, names ...string) []Solver {
	t.Helper()
	out := make([]Solver, len(names))
	for k, name := range names {
		var err error
		if out[k], err = SolverChoices().Parse(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func solve(t *testing.T, text string, o Options) (*Study, []Result) {
	t.Helper()
	study, err := NewStudy(readText(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	results, err := study.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != study.Radii() {
		t.Fatalf("%d results, %d radii", len(results), study.Radii())
	}
	return study, results
}

func close9(x *float64, want float64) bool { return x != nil && math.Abs(*x-want) < 1e-9 }

// The table holds the two predictions of Emde et al. 2025, appendix E.2. In 3 bins the CCE is (0.9 + 0.9)/2, the CBS is
// (0.81 + 0.81)/2, and the error without attack is (0.77 + 0.78)/2. With one bin, the CCE is (0.6 + 0.9 − 1)/2: in the
// worst case both confidences are at the upper ends of their intervals. The Brier confidences are the confidences with
// the largest Brier score, here 0.1 and 0.9. With one bin, the gaps of the two predictions cancel at these confidences.
const example = "lower,upper,confidence,correct\n0.1,0.6,0.23,1\n0.5,0.9,0.78,0\n"

func TestSolve(t *testing.T) {
	_, results := solve(t, example, Options{Bins: 3, Solvers: solvers(t, "exact"), Adaptive: true})
	r := results[0]
	if r.N != 2 || r.Bins != 3 || !close9(r.ECE, 0.775) || !close9(&r.CBS, 0.81) || !close9(r.CCE, 0.9) {
		t.Errorf("result %+v", r)
	}
	for _, s := range Solvers[1:] {
		if s.Value(r) != nil {
			t.Errorf("%s: a value nobody asked for", s.Name)
		}
	}
	if r.Radius != nil || r.Estimates != nil || r.Certified != nil || r.Interrupted {
		t.Errorf("values nobody asked for: %+v", r)
	}
	// Each bin holds one sample, and both gaps are 0.9.
	if a := r.Adaptive; a == nil || !close9(&a.Upper, 0.9) || a.Lower > a.Upper || !close9(&a.Lower, 0.9) {
		t.Errorf("adaptive %+v", r.Adaptive)
	}
}

// With one bin, the values of admm and dece come close to the exact solver's value and do not exceed it. The
// calibration error of the Brier confidences is 0.
func TestSolveEstimates(t *testing.T) {
	_, results := solve(t, example, Options{Bins: 1, Solvers: Solvers})
	r := results[0]
	if !close9(r.CCE, 0.25) || !close9(r.BrierECE, 0) || *r.ACCE.ADMM > *r.CCE || *r.DECE > *r.CCE || *r.ACCE.ADMM < 0.2 || *r.DECE < 0.2 {
		t.Errorf("one bin: %+v", r)
	}
	if want := []string{"acce.admm", "dece", "brier_ece"}; !slices.Equal(r.Estimates, want) {
		t.Errorf("estimates %v, want %v", r.Estimates, want)
	}
	for _, name := range []string{"cbs", "exact", "admm", "dece", "brier"} {
		if _, ok := r.Seconds[name]; !ok {
			t.Errorf("no time of %s: %v", name, r.Seconds)
		}
	}
	_, results = solve(t, "lower,upper,correct\n0.1,0.6,1\n", Options{Bins: 1, Solvers: solvers(t, "brier")})
	if r := results[0]; r.ECE != nil || r.CCE != nil || !close9(r.BrierECE, 0.9) {
		t.Errorf("no confidences, no exact: %+v", r)
	}
}

// Solver.Value must return the number that stands under Solver.Key in the JSON of the result.
func TestSolverKeys(t *testing.T) {
	_, results := solve(t, example, Options{Bins: 1, Solvers: Solvers})
	text, err := json.Marshal(results[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Solvers {
		var at any
		if err := json.Unmarshal(text, &at); err != nil {
			t.Fatal(err)
		}
		for _, key := range strings.Split(s.Key, ".") {
			at = at.(map[string]any)[key]
		}
		if x := s.Value(results[0]); x == nil || at != *x {
			t.Errorf("%s: value %v, %s is %v", s.Name, x, s.Key, at)
		}
		if s.Value(Result{}) != nil {
			t.Errorf("%s: a value of an empty result", s.Name)
		}
		if s.String() != s.Name || s.What == "" || SolverChoices().What(s) != s.What || s.Column == "" {
			t.Errorf("row %+v", s)
		}
	}
	if _, err := SolverChoices().Parse("best"); err == nil || err.Error() != `"best": want exact, admm, dece or brier` {
		t.Errorf("error %v", err)
	}
	if _, results = solve(t, example, Options{Bins: 1, Solvers: solvers(t, "exact")}); results[0].ACCE.ADMM != nil {
		t.Error("acce without admm")
	} else if text, _ := json.Marshal(results[0]); bytes.Contains(text, []byte(`"acce"`)) {
		t.Errorf("acce without admm: %s", text)
	}
}

// The study keeps the attack of the exact solver, wherever this solver is in the list. Without the exact solver, it
// keeps the best attack of the other solvers.
func TestAttack(t *testing.T) {
	const bounds = "index,radius,lower,upper,correct\n4,0.5,0.1,0.6,1\n4,0.25,0.2,0.6,1\n7,0.5,0.5,0.9,0\n"
	const want = "index,radius,lower,upper,correct,confidence,bin\n4,0.25,0.2,0.6,1,0.2,0\n4,0.5,0.1,0.6,1,0.1,0\n7,0.5,0.5,0.9,0,0.9,2\n"
	for _, names := range [][]string{{"exact"}, {"exact", "brier"}, {"brier", "exact"}, {"brier"}} {
		study, _ := solve(t, bounds, Options{Bins: 3, Solvers: solvers(t, names...), Attack: true})
		var b bytes.Buffer
		if err := study.WriteAttack(&b); err != nil || b.String() != want {
			t.Errorf("%v: attack\n%swant\n%serror %v", names, &b, want, err)
		}
	}
	// With one bin, the exact solver's attack (the confidences 0.6 and 0.9) differs from the Brier attack (0.1 and
	// 0.9).
	for _, names := range [][]string{{"exact", "brier"}, {"brier", "exact"}, {"brier", "admm"}, {"admm", "brier"}} {
		study, _ := solve(t, example, Options{Bins: 1, Solvers: solvers(t, names...), Attack: true})
		var b bytes.Buffer
		if err := study.WriteAttack(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "1,0.1,0\n") {
			t.Errorf("%v: the attack is the worse one:\n%s", names, &b)
		}
		if _, err := NewStudy(readText(t, b.String()), Options{Bins: 1}); err != nil {
			t.Errorf("the attack does not read back as bounds: %v", err)
		}
	}
}

func TestRadii(t *testing.T) {
	const bounds = "radius,lower,upper,correct,confidence\n1,0,0.8,1,0.75\n0.5,0.1,0.6,1,0.23\n0.5,0.5,0.9,0,0.78\n"
	_, results := solve(t, bounds, Options{Bins: 3, Solvers: solvers(t, "exact")})
	if len(results) != 2 || *results[0].Radius != 0.5 || results[0].N != 2 || !close9(results[0].CCE, 0.9) || !close9(results[0].ECE, 0.775) ||
		*results[1].Radius != 1 || !close9(results[1].ECE, 0.25) || results[1].N != 1 || !close9(results[1].CCE, 1) {
		t.Errorf("results %+v", results)
	}
	_, results = solve(t, bounds, Options{Bins: 3, Solvers: solvers(t, "exact"), Radii: []float64{1}})
	if len(results) != 1 || *results[0].Radius != 1 {
		t.Errorf("results %+v", results)
	}
}

// If a search is interrupted, the study ends at the radius of this search.
func TestInterrupted(t *testing.T) {
	const bounds = "radius,lower,upper,correct\n0,0.1,0.6,1\n0,0.5,0.9,0\n1,0,1,1\n"
	var searches []string
	study, err := NewStudy(readText(t, bounds), Options{Bins: 3, Solvers: solvers(t, "exact", "admm"),
		Progress: func(radius *float64, solver string, steps int) (Progress, func()) {
			searches = append(searches, solver)
			return func(int, float64) {}, func() { searches = append(searches, "done") }
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results, err := study.Solve(ctx)
	if err != nil || len(results) != 1 || !results[0].Interrupted || !close9(results[0].CCE, 0.9) || *results[0].ACCE.ADMM > *results[0].CCE {
		t.Errorf("results %+v, error %v", results, err)
	}
	if !slices.Equal(searches, []string{"ADMM", "done"}) {
		t.Errorf("searches %v", searches)
	}
}

// Long searches announce their number of steps, and then take exactly this number of steps.
func TestProgress(t *testing.T) {
	for _, text := range []string{example, "lower,upper,correct\n0.1,0.6,1\n"} {
		var announced, done atomic.Int64
		solve(t, text, Options{Bins: 3, Solvers: solvers(t, "admm", "dece"),
			Progress: func(_ *float64, _ string, steps int) (Progress, func()) {
				announced.Add(int64(steps))
				return func(steps int, _ float64) { done.Add(int64(steps)) }, func() {}
			}})
		if announced.Load() != done.Load() || done.Load() == 0 {
			t.Errorf("%d steps announced, %d done", announced.Load(), done.Load())
		}
	}
}

// TestDataset has two bounds with alpha 0.01. P(any fails) = 0.0199 ≤ 0.02, so Certified.Failures is 0. In
// TestDatasetOfFewFailures, 50 examples were sampled, so there are 50 bounds, with alpha 0.002: P(Bin > 1) = 0.0045 ≤
// 0.05 < P(Bin > 0) = 0.0953. So Certified.Failures is 1 in this test. One failure among the 4 rows adds 1/4 to the
// Brier score; it would add 2·1/4 to a calibration error.
func TestDataset(t *testing.T) {
	_, results := solve(t, example, Options{Bins: 3, Solvers: solvers(t, "exact"), Adaptive: true, Dataset: &Dataset{Delta: 0.02, Alpha: 0.01}})
	c := results[0].Certified
	if c == nil || c.Failures != 0 || c.Examples != 2 || !c.ExamplesAssumed || !close9(&c.CBS, 0.81) || !close9(c.CCE, 0.9) || !close9(c.Adaptive, 0.9) {
		t.Errorf("no failures: %+v", c)
	}
	if c.CBS < results[0].CBS || *c.CCE < *results[0].CCE {
		t.Errorf("certified below what holds if every bound does: %+v", c)
	}
}

func TestDatasetOfFewFailures(t *testing.T) {
	const low = "lower,upper,correct\n0.9,1,1\n0,0.1,0\n0,0,0\n0,0,0\n"
	_, results := solve(t, low, Options{Bins: 3, Dataset: &Dataset{Delta: 0.05, Alpha: 0.002, Examples: 50}})
	c := results[0].Certified
	// The CBS is (0.01 + 0.01)/4, and one of four bounds may fail.
	if c.Failures != 1 || c.Examples != 50 || c.ExamplesAssumed || !close9(&c.CBS, 0.005+0.25) || c.CCE != nil || c.Adaptive != nil {
		t.Errorf("one failure: %+v", c)
	}
	// The upper bound 0.9 holds for every choice of bins. With one bin, the attack attains less than 0.9. Only the
	// upper bound is certified.
	_, results = solve(t, example, Options{Bins: 1, Adaptive: true, Dataset: &Dataset{Delta: 0.02, Alpha: 0.01}})
	if r := results[0]; r.Adaptive.Lower > 0.5 || !close9(r.Certified.Adaptive, 0.9) {
		t.Errorf("one bin: %+v, certified %+v", r.Adaptive, r.Certified)
	}
	// Certified.Failures never exceeds the number of rows in the table.
	_, results = solve(t, example, Options{Bins: 3, Solvers: solvers(t, "exact"), Dataset: &Dataset{Delta: 0.02, Alpha: 0.01, Examples: 1000}})
	if c := results[0].Certified; c.Failures != 2 || c.CBS != 1 || *c.CCE != 1 {
		t.Errorf("all fail: %+v", c)
	}
}

// A statement about the dataset is possible only if the rows contain all sampled examples, or if the number of sampled
// examples is known.
func TestCountSampled(t *testing.T) {
	const leavesOut = "stdin: delta needs examples: " +
		"the file leaves examples out (gaps in index, or fewer rows at some radii)"
	const changes = "want the same positive whole number in every row"
	for _, test := range []struct {
		name, columns string // names of the columns to the left of "lower,upper,correct"
		rows          []string
		given         int
		want          calib.Sampled
		err           string
	}{
		{"no index", "", []string{"", ""}, 0, calib.Sampled{Examples: 2, Assumed: true}, ""},
		{"indices in any order", "index,", []string{"1,", "0,"}, 0, calib.Sampled{Examples: 2, Assumed: true}, ""},
		{"given", "", []string{"", ""}, 5, calib.Sampled{Examples: 5, Assumed: false}, ""},
		{"given as many", "index,", []string{"0,", "2,"}, 2, calib.Sampled{Examples: 2, Assumed: false}, ""},
		{"given too few", "", []string{"", ""}, 1, calib.Sampled{}, "stdin: 1 examples were sampled, but the file has 2"},
		{"column", "examples,", []string{"7,", "7,"}, 0, calib.Sampled{Examples: 7, Assumed: false}, ""},
		{"given beside the column", "examples,", []string{"7,", "7,"}, 9, calib.Sampled{Examples: 9, Assumed: false}, ""},
		{"column that changes", "examples,", []string{"7,", "8,"}, 0, calib.Sampled{}, "stdin:3: examples 8: " + changes},
		{"column of a fraction", "examples,", []string{"2.5,"}, 0, calib.Sampled{}, "stdin:2: examples 2.5: " + changes},
		{"column of 0", "examples,", []string{"0,"}, 0, calib.Sampled{}, "stdin:2: examples 0: " + changes},
		{"column too few", "examples,", []string{"1,", "1,"}, 0, calib.Sampled{}, "stdin: 1 examples were sampled, but the file has 2"},
		{"gap", "index,", []string{"0,", "2,"}, 0, calib.Sampled{}, leavesOut},
		{"gap at the start", "index,", []string{"1,"}, 0, calib.Sampled{}, leavesOut},
		{"gap, given", "index,", []string{"0,", "2,"}, 3, calib.Sampled{Examples: 3, Assumed: false}, ""},
		{"fewer at a radius", "radius,", []string{"1,", "1,", "2,"}, 0, calib.Sampled{}, leavesOut},
		{"as many at each radius", "radius,", []string{"1,", "2,"}, 0, calib.Sampled{Examples: 1, Assumed: true}, ""},
		{"others at each radius", "index,radius,", []string{"0,1,", "1,2,"}, 0, calib.Sampled{}, leavesOut},
		{"others at each radius, too few given", "index,radius,", []string{"0,1,", "1,2,"}, 1, calib.Sampled{}, "stdin: 1 examples were sampled, but the file has 2"},
		{"twice", "index,", []string{"0,", "1,", "0,"}, 9, calib.Sampled{}, "stdin:4: index 0 appears twice at one radius: a statement for all needs independent bounds"},
		{"twice, at two radii", "index,radius,", []string{"0,1,", "0,2,"}, 0, calib.Sampled{Examples: 1, Assumed: true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := test.columns + "lower,upper,correct\n"
			for _, row := range test.rows {
				text += row + "0.5,0.5,1\n"
			}
			table := readText(t, text)
			got, err := countSampled(table, readRows(table), test.given)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v, error %v, want %+v", got, err, test.want)
			}
		})
	}
	table := readText(t, "index,lower,upper,correct\n1,0,1,1\n")
	_, err := countSampled(table, readRows(table), 0)
	var uncounted *UncountedError
	if !errors.As(err, &uncounted) || uncounted.Hint() == "" {
		t.Errorf("error %v has no hint", err)
	}
}

func TestBadRows(t *testing.T) {
	for text, want := range map[string]string{
		"lower,upper,correct\n0.1,0.6,1\n0.7,0.6,1\n":   "stdin:3: lower 0.7 is above upper 0.6",
		"lower,upper,correct\n0.1,0.5,0.5\n":            "stdin:2: correct 0.5 is not 0 or 1",
		"lower,upper,correct,confidence\n0.1,0.5,1,2\n": "stdin:2: confidence 2 is outside [0, 1]",
		"lower,upper,correct,radius\n0.1,0.5,1,-1\n":    "stdin:2: radius -1 is below 0",
	} {
		if _, err := NewStudy(readText(t, text), Options{Bins: 1}); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
	if _, err := NewStudy(readText(t, example), Options{Bins: MaxBins + 1}); err == nil {
		t.Error("too many bins, no error")
	}
}

// The table has the columns 'certified', 'alpha' and 'examples'. The column 'certified' says which examples have a
// certified class. The column 'alpha' holds the failure probability of each bound. The column 'examples' holds the
// number of sampled examples.
func TestTableSaysTheDataset(t *testing.T) {
	const head = "lower,upper,correct,confidence,certified,alpha,examples\n"
	rows := head + "0.6,0.9,1,0.75,1,0.1,6\n0.2,0.7,0,0.5,1,0.1,6\n0.4,0.8,1,0.5,0,0.1,6\n0.9,1,0,0.25,0,0.1,6\n"
	_, results := solve(t, rows, Options{
		Bins: 1, Solvers: solvers(t, "exact"), Quantity: "mean-scores", Thresholds: []float64{0.55, 0.65}, Dataset: &Dataset{Delta: 0.5, Optional: true},
	})
	r := results[0]
	if r.N != 2 || r.Examples != 6 || r.LeftOut == nil || *r.LeftOut != 4 || r.Quantity != "mean-scores" {
		t.Errorf("%+v", r)
	}
	// With one bin, the calibration error without attack is (0.25 − 0.5 + 0.5 − 0.25)/4 = 0.
	if r.Clean == nil || r.Clean.N != 4 || !close9(&r.Clean.ECE, 0) || !close9(r.ECE, 0.125) {
		t.Errorf("clean %+v, ECE %v", r.Clean, r.ECE)
	}
	// Certified.Failures is 0, because P(Bin(6, 0.1) > 0) = 0.47 ≤ δ = 0.5.
	if c := r.Certified; c == nil || c.Alpha != 0.1 || c.Examples != 6 || c.Failures != 0 {
		t.Errorf("certified %+v", r.Certified)
	}
	// Two examples have no row, so they may be wrong. At τ = 0.55 the second example may be wrong as well, because its
	// upper bound 0.7 is at least 0.55. The third example may also be wrong at this τ, because another class may have a
	// score up to 1 − 0.4 ≥ 0.55.
	for i, want := range []ThresholdedError{{Wrong: 4, Right: 1, Error: 0.8}, {Wrong: 3, Right: 0, Error: 1}} {
		got := r.Thresholded[i]
		if got.Wrong != want.Wrong || got.Right != want.Right || !close9(&got.Error, want.Error) || !close9(got.Certified, want.Error) {
			t.Errorf("τ = %v: %+v, want %+v", got.Tau, got, want)
		}
	}
	// At α = 0.2 and δ = 0.5, Certified.Failures is 1, because P(Bin(6, 0.2) > 1) = 0.34 ≤ δ < P(Bin(6, 0.2) > 0) =
	// 0.74. So the error is (4 + 1)/5.
	_, results = solve(t, rows, Options{Bins: 1, Solvers: solvers(t, "exact"), Thresholds: []float64{0.55}, Dataset: &Dataset{Delta: 0.5, Alpha: 0.2}})
	if c := results[0].Certified; c.Failures != 1 || c.Alpha != 0.2 || !close9(results[0].Thresholded[0].Certified, 1) {
		t.Errorf("%+v, %+v", results[0].Certified, results[0].Thresholded)
	}
	// If alpha is unknown and Optional is set, the study makes no statement about the dataset. The result also omits
	// all values that need columns that the table lacks.
	_, results = solve(t, example, Options{Bins: 1, Dataset: &Dataset{Delta: 0.5, Optional: true}})
	if r := results[0]; r.Certified != nil || r.Examples != 0 || r.LeftOut != nil || r.Clean != nil || r.Thresholded != nil {
		t.Errorf("%+v", r)
	}
	for want, o := range map[string]Options{
		"delta needs alpha":       {Bins: 1, Dataset: &Dataset{Delta: 0.5}},
		"tau NaN: want":           {Bins: 1, Thresholds: []float64{math.NaN()}},
		"cannot be combined with": {Bins: 1, Thresholds: []float64{0.5}, SameExamples: true},
	} {
		text := example
		if o.SameExamples {
			text = "index," + strings.ReplaceAll(strings.ReplaceAll(example, "\n0.", "\n1,0."), "1,0.5", "2,0.5")
		}
		if _, err := NewStudy(readText(t, text), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := NewStudy(readText(t, rows), Options{Bins: 1, Dataset: &Dataset{Delta: 0.5, Alpha: 0.05}}); err == nil ||
		err.Error() != "alpha 0.05: the bounds of stdin fail with probability up to 0.1" {
		t.Errorf("an alpha below the table's: %v", err)
	}
}

// Bins must return the bins of the confidences without attack, and the bins of the confidences under the attack that
// attains the CCE.
func TestBins(t *testing.T) {
	study, results := solve(t, example, Options{Bins: 3, Solvers: solvers(t, "exact"), Attack: true})
	clean, attacked, err := study.Bins(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		bins []calib.Bin
		ece  float64
		n    []int
	}{{clean, *results[0].ECE, []int{1, 0, 1}}, {attacked, *results[0].CCE, []int{1, 0, 1}}} {
		ece := calib.ECE(tt.bins)
		for k, b := range tt.bins {
			if b.N != tt.n[k] {
				t.Errorf("bin %d has %d, want %d", k, b.N, tt.n[k])
			}
		}
		if !close9(&ece, tt.ece) {
			t.Errorf("ECE %v of the bins, want %v", ece, tt.ece)
		}
	}
	study, _ = solve(t, "lower,upper,correct\n0.1,0.6,1\n", Options{Bins: 3, Solvers: solvers(t, "exact"), Attack: true})
	if clean, attacked, err := study.Bins(0); err != nil || clean != nil || attacked == nil {
		t.Errorf("no confidences: %v, %v (%v)", clean, attacked, err)
	}
}
