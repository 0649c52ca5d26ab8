package acceplot

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/picture"
)

func pointer[T any](x T) *T { return &x }

// input returns results at the radii 0.25 and 0.5 in the L2 norm.
func input(name string, cbs float64) Input {
	at := func(radius, cce float64) acce.Result {
		return acce.Result{Radius: &radius, Norm: pointer(law.L2), N: 7, CBS: cbs, CCE: &cce, DECE: pointer(cce / 2)}
	}
	return Input{Name: name, Results: []acce.Result{at(0.25, 0.1), at(0.5, 0.2)}}
}

func text(t *testing.T, svg []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// The chart of solvers must name each solver that ran, and no other solver. An estimate must be marked.
func TestSolvers(t *testing.T) {
	svg, err := Solvers.ByRadius(picture.SVG, []Input{input("σ = 0.25", 0.1), input("σ = 0.5", 0.1)}, picture.Size{})
	drawn := text(t, svg, err)
	for word, times := range map[string]int{"σ = 0.25": 1, "σ = 0.5": 1, "CCE, exact": 2, "dECE, from below": 2, "ADMM, from below": 0, "L2 radius": 2} {
		if n := strings.Count(drawn, "\n"+word+"\n"); n != times {
			t.Errorf("%q is drawn %d times, want %d", word, n, times)
		}
	}
}

// The chart of CBS must name each input. If an input has the same examples at all radii, the chart must say so.
func TestCBS(t *testing.T) {
	a, b := input("a", 0.1), input("b", 0.2)
	b.Results[0].SameExamples = true
	svg, err := CBS.ByRadius(picture.SVG, []Input{a, b}, picture.Size{})
	drawn := text(t, svg, err)
	for _, word := range []string{"a", "b (the same 7 examples at every radius)", "CBS"} {
		if !strings.Contains(drawn, "\n"+word+"\n") {
			t.Errorf("%q is not drawn", word)
		}
	}
}

// An input without radii has no curve. If the radii of the inputs are in different norms, the axis names no norm.
func TestRadii(t *testing.T) {
	a, b := input("a", 0.1), input("b", 0.1)
	for k := range b.Results {
		b.Results[k].Norm = pointer(law.L1)
	}
	if title := radiusTitle([]Input{a, b}); title != "radius" {
		t.Errorf("title %q", title)
	}
	b.Results[0].Radius = nil
	if err := CheckRadii([]Input{a, b}); err == nil || !strings.Contains(err.Error(), "b: the bounds have no radii") {
		t.Errorf("error %v", err)
	}
}

func searchRun() acce.SearchRun {
	run := acce.SearchRun{Radius: pointer(0.5), N: 2, Bins: 4, Start: "clean", RateZ: 0.001, RateA: 0.01, Growth: 1.004, Exact: pointer(0.3)}
	for _, step := range []int{10, 20, 30, 40, 50, 60} {
		run.Steps = append(run.Steps, admm.Residuals{Step: step, SoftECE: 1 / float64(step), ProjectedECE: 0.2,
			Lagrangian: admm.Lagrangian{Objective: -1, Box: 2, Sphere: 4, Unique: 8, Valid: 16, Confidence: 32}, Assignment: make([]float64, 8)})
	}
	return run
}

// Each chart of ADMM's steps must show its panels. Its title must show the settings of the run. The chart of
// assignments must have three panels: at step 0, after a sixth of the steps, and at the last step.
func TestSteps(t *testing.T) {
	for curve, words := range map[Curve][]string{
		Lagrangian:  {"Lagrangian", "ECE", "box", "sphere", "confidence", "one bin", "in reach", "relaxed ECE", "projected ECE", "CCE, exact"},
		Constraints: {"confidence, sum", "confidence, max", "binary, sum", "binary, max", "one bin, sum", "one bin, max", "in reach, sum", "in reach, max"},
		Assignment:  {"a at step 0", "a at step 10", "a at step 60", "element of a: 4 bins of each prediction"},
	} {
		svg, err := curve.Steps(picture.SVG, searchRun(), picture.Size{})
		drawn := text(t, svg, err)
		for _, word := range append(words, "radius 0.5, start clean, rates 0.001, 0.01, ρ × 1.004") {
			if !strings.Contains(drawn, "\n"+word+"\n") {
				t.Errorf("%s: %q is not drawn", curve, word)
			}
		}
		if curve.OfSeveral() || !curve.OfSteps() {
			t.Errorf("%s is not about the steps of one input", curve)
		}
	}
}

// The line of the Lagrangian must have a point for each step. The height of each point must be the sum of the
// Lagrangian's terms at this step.
func TestLagrangianLines(t *testing.T) {
	run := searchRun()
	l := byStep(run, "", 0, func(r admm.Residuals) float64 { return r.Lagrangian.Value() })
	for k, y := range l.Y {
		if want := -1.0 + 2 + 4 + 8 + 16 + 32; y != want || l.X[k] != float64(run.Steps[k].Step) {
			t.Errorf("step %v: %v, want %v", l.X[k], y, want)
		}
	}
}
