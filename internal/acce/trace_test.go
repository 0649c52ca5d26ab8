package acce

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

const traced = "index,radius,lower,upper,confidence,correct\n" +
	"0,0.5,0.1,0.6,0.23,1\n1,0.5,0.5,0.9,0.78,0\n2,0.5,0.3,0.8,0.5,1\n1,1,0.4,0.95,0.78,0\n2,1,0.2,0.9,0.5,1\n"

// Each row of a study's trace must hold the residuals that the same solver reports if the test calls it directly with
// the same settings.
func TestTrace(t *testing.T) {
	o := Options{
		Bins: 4, Solvers: solvers(t, "dece", "admm"), TraceEvery: 3,
		ADMM: admm.ParamGrid{Starts: []admm.Start{admm.FromBrier}, RatesZ: []float64{0.02}, Steps: 8, Rho: 0.1, MaxRho: 0.11},
		DECE: admm.DECEParams{Starts: []admm.Start{admm.FromClean}, Random: 1, Seed: 3, Rate: 0.05, Steps: 7},
	}
	study, results := solve(t, traced, o)
	var b bytes.Buffer
	if err := study.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	bins, _ := calib.NewBins(4)
	var want []string
	for j, g := range study.groups {
		p, err := admm.NewProblem(g.Intervals, g.Confidence, bins)
		if err != nil {
			t.Fatal(err)
		}
		dece := make([][]string, 2)
		e, err := p.DECE(t.Context(), o.DECE, admm.Watch{Every: 3, Trace: func(run int, r admm.Residuals) {
			dece[run] = append(dece[run], fmt.Sprintf("%v,dece,%d,%s,0.05,,,%d,,%v,%v,,,,,,,,,,,,,,,,,", *g.radius, run, []string{"clean", "random 0"}[run], r.Step, r.SoftECE, r.ProjectedECE))
		}})
		if err != nil || e.ECE != *results[j].DECE {
			t.Errorf("dECE %v, the study's %v (%v)", e.ECE, *results[j].DECE, err)
		}
		want = append(want, slices.Concat(dece...)...)
		best := 0.0
		for run, par := range o.ADMM.Runs(true) {
			e := p.ADMM(t.Context(), par, 3, func(r admm.Residuals) {
				if r.Step%3 != 0 {
					return
				}
				row := fmt.Sprintf("%v,admm,%d,brier,0.02,%v,%v,%d,%v,%v,%v", *g.radius, run, par.RateA, par.Growth, r.Step, r.Rho, r.SoftECE, r.ProjectedECE)
				for _, n := range []admm.Norms{r.Confidence, r.Binary, r.Unique, r.Valid, r.Box} {
					row += fmt.Sprintf(",%v,%v", n.Sum, n.Max)
				}
				l := r.Lagrangian
				want = append(want, row+fmt.Sprintf(",%v,%v,%v,%v,%v,%v,%v", r.Sphere, l.Objective+l.Box+l.Sphere+l.Unique+l.Valid+l.Confidence,
					l.Box, l.Sphere, l.Confidence, l.Unique, l.Valid))
			})
			best = max(best, e.ECE)
		}
		if best != *results[j].ACCE.ADMM {
			t.Errorf("ADMM %v, the study's %v", best, *results[j].ACCE.ADMM)
		}
	}
	if len(rows) != 1+len(want) || len(want) != 2*(2*2+4*2) {
		t.Fatalf("%d rows, want %d", len(rows)-1, len(want))
	}
	for i, row := range rows[1:] {
		if got := strings.Join(row, ","); got != want[i] {
			t.Errorf("row %d: %s\nwant %s", i+1, got, want[i])
		}
	}
	header := "radius,solver,run,start,learning_rate_z,learning_rate_a,rho_growth,step,rho,relaxed_ece,projected_ece," +
		"confidence_sum,confidence_max,binary_sum,binary_max,one_bin_sum,one_bin_max,in_reach_sum,in_reach_max,box_sum,box_max,sphere," +
		"lagrangian,box_term,sphere_term,confidence_term,one_bin_term,in_reach_term"
	if got := strings.Join(rows[0], ","); got != header {
		t.Errorf("header %s", got)
	}
}

// LargestRun returns the run that reaches the largest calibration error in its traced steps. The result holds the
// settings of this run.
func TestLargestRun(t *testing.T) {
	o := Options{Bins: 4, Solvers: solvers(t, "exact", "admm"), TraceEvery: 1, Radii: []float64{0.5},
		ADMM: admm.ParamGrid{RatesZ: []float64{1e-9, 0.02}, RatesA: []float64{1e-9, 0.3}, Growths: []float64{1.1}, Steps: 12, Rho: 0.1, MaxRho: 5}}
	study, results := solve(t, traced, o)
	got, err := study.LargestRun()
	if err != nil {
		t.Fatal(err)
	}
	largestOf := func(steps []admm.Residuals) (most float64) {
		for _, r := range steps {
			most = max(most, r.ProjectedECE)
		}
		return most
	}
	errors := map[float64]bool{}
	for _, steps := range study.traces[0].steps {
		errors[largestOf(steps)] = true
		if largestOf(steps) > largestOf(got.Steps) {
			t.Errorf("a run has %v, and the returned run %v", largestOf(steps), largestOf(got.Steps))
		}
	}
	if len(errors) < 2 {
		t.Error("all runs have the same error, so the test tests nothing")
	}
	if *got.Radius != 0.5 || got.N != 3 || got.Bins != 4 || got.Growth != 1.1 || len(got.Steps) != 12 || *got.Exact != *results[0].CCE {
		t.Errorf("%+v", got)
	}
	for want, o := range map[string]Options{
		"there are 2 radii":           {Bins: 4, Solvers: solvers(t, "admm"), TraceEvery: 1, ADMM: admm.ParamGrid{Steps: 2}},
		"the solver admm did not run": {Bins: 4, Solvers: solvers(t, "dece"), TraceEvery: 1, Radii: []float64{1}},
		"ADMM has no traced step":     {Bins: 4, Solvers: solvers(t, "admm"), TraceEvery: 9, Radii: []float64{1}, ADMM: admm.ParamGrid{Steps: 2}},
	} {
		study, _ := solve(t, traced, o)
		if _, err := study.LargestRun(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Without radii in the table, the trace has no column for radii. Without tracing, the trace is empty.
func TestTraceWithoutRadii(t *testing.T) {
	study, _ := solve(t, example, Options{Bins: 3, Solvers: solvers(t, "dece"), TraceEvery: 1000, DECE: admm.DECEParams{Starts: []admm.Start{admm.FromBrier}}})
	var b bytes.Buffer
	if err := study.WriteTrace(&b); err != nil || !strings.Contains(b.String(), "\ndece,0,brier,0.01,,,1000,,") || !strings.HasPrefix(b.String(), "solver,") {
		t.Errorf("%v\n%s", err, &b)
	}
	study, _ = solve(t, example, Options{Bins: 3, Solvers: solvers(t, "brier", "dece")})
	b.Reset()
	if err := study.WriteTrace(&b); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%v\n%s", err, &b)
	}
}

func TestStartsNeedConfidences(t *testing.T) {
	const unknown = "lower,upper,correct\n0.1,0.6,1\n"
	clean := []admm.Start{admm.FromClean}
	for _, o := range []Options{
		{Solvers: solvers(t, "admm"), ADMM: admm.ParamGrid{Starts: clean}},
		{Solvers: solvers(t, "dece"), DECE: admm.DECEParams{Starts: clean}},
	} {
		o.Bins = 2
		_, err := NewStudy(readText(t, unknown), o)
		if want := "stdin: no column confidence for --" + o.Solvers[0].Name + "-starts clean"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if _, err := NewStudy(readText(t, example), o); err != nil {
			t.Error(err)
		}
		o.Solvers = solvers(t, "exact")
		if _, err := NewStudy(readText(t, unknown), o); err != nil {
			t.Error(err)
		}
	}
	o := Options{Bins: 2, Solvers: solvers(t, "dece"), DECE: admm.DECEParams{Starts: clean, Random: 1}}
	if _, err := NewStudy(readText(t, unknown), o); err != nil {
		t.Error(err)
	}
}

// With SameExamples, the study keeps only the examples that have a row at every radius. The results equal the results
// for a table that holds only the rows of these examples.
func TestSameExamples(t *testing.T) {
	all := Options{Bins: 4, Solvers: solvers(t, "exact"), Dataset: &Dataset{Delta: 0.05, Alpha: 0.002, Examples: 50}, Attack: true}
	same := all
	same.SameExamples = true
	without := strings.Replace(traced, "0,0.5,0.1,0.6,0.23,1\n", "", 1)
	kept, got := solve(t, traced, same)
	cut, want := solve(t, without, all)
	for j := range want {
		g, w := got[j], want[j]
		if !g.SameExamples || w.SameExamples || g.N != 2 || g.CBS != w.CBS || *g.CCE != *w.CCE || *g.ECE != *w.ECE || *g.Certified.CCE != *w.Certified.CCE ||
			g.Certified.Failures != 1 {
			t.Errorf("%+v, without the other rows %+v", g, w)
		}
	}
	var a, b bytes.Buffer
	if err := kept.WriteAttack(&a); err != nil {
		t.Fatal(err)
	}
	if err := cut.WriteAttack(&b); err != nil || a.String() != b.String() {
		t.Errorf("attack\n%s, without the other rows\n%s", &a, &b)
	}
	// The study keeps an example that has a row at every requested radius. The example needs no row at the radii that
	// were not requested.
	same.Radii = []float64{0.5}
	if _, got := solve(t, traced, same); got[0].N != 3 {
		t.Errorf("%+v", got[0])
	}
	for text, want := range map[string]string{
		example: "stdin: no column index",
		"index,radius,lower,upper,correct\n0,1,0,1,1\n1,2,0,1,1\n":            "stdin: no example has a row at every radius",
		"index,radius,lower,upper,correct\n0,1,0,1,1\n0,2,0,1,1\n0,2,0,1,1\n": "stdin:4: its example has two rows at one radius",
	} {
		_, err := NewStudy(readText(t, text), Options{Bins: 2, SameExamples: true})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
