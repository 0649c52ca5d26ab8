package reliability

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/table"
)

func TestDrawn(t *testing.T) {
	for n, want := range map[int][]int{0: nil, 1: {0}, 5: {0, 1, 2, 3, 4}, 6: {0, 1, 2, 3, 5}, 9: {0, 2, 4, 6, 8}} {
		if got := drawn(n); !reflect.DeepEqual(got, want) {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}

func TestMeasures(t *testing.T) {
	half, cce := 0.5, 0.25
	results := []acce.Result{
		{CBS: 0.125},
		{Radius: &half, CBS: 0.375, CCE: &cce, Certified: &acce.Certified{Delta: 0.05, CBS: 0.75}},
	}
	want := []Measure{
		{Name: "CCE", Radius: []float64{0.5}, Value: []float64{0.25}},
		{Name: "CBS", Brier: true, Radius: []float64{0, 0.5}, Value: []float64{0.125, 0.375}},
		{Name: "CBS", Brier: true, ForAll: true, Radius: []float64{0.5}, Value: []float64{0.75}},
	}
	if got := measures(results); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	results[0].Certified = &acce.Certified{Delta: 0.05, CBS: 0.5}
	if got := measures(results); got[2].Name != "CBS, for all at 95 %" {
		t.Errorf("name %q", got[2].Name)
	}
}

// Each diagram must have the bins at its radius, and a title with the radius and the number of certified examples.
func TestOfStudy(t *testing.T) {
	text := "index,radius,lower,upper,correct,confidence\n0,0,.8,.9,1,.85\n1,0,.1,.3,0,.2\n0,.5,.6,.95,1,.85\n"
	options := acce.Columns()
	options.Input = strings.NewReader(text)
	rows, err := table.Read(t.Context(), table.Stdin, options)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := acce.SolverChoices().Parse("exact")
	if err != nil {
		t.Fatal(err)
	}
	study, err := acce.NewStudy(rows, acce.Options{Bins: 3, Solvers: []acce.Solver{exact}, Attack: true})
	if err != nil {
		t.Fatal(err)
	}
	results, err := study.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, err := OfStudy(study, results)
	if err != nil {
		t.Fatal(err)
	}
	for k, title := range []string{"radius 0: 2 certified", "radius 0.5: 1 certified"} {
		clean, attacked, err := study.Bins(k)
		if err != nil {
			t.Fatal(err)
		}
		if want := (AttackDiagram{title, clean, attacked}); len(a.Diagrams) != 2 || !reflect.DeepEqual(a.Diagrams[k], want) {
			t.Errorf("diagram %d: %+v, want %+v", k, a.Diagrams, want)
		}
	}
	if len(a.Measures) != 2 || !reflect.DeepEqual(a.Measures[0].Radius, []float64{0, 0.5}) {
		t.Errorf("measures %+v", a.Measures)
	}
}
