package projection

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// run returns the summary of a run with 4 examples. The argument 'right' is the number of examples with the certified
// radius 1. The other examples are abstentions.
func run(t *testing.T, name, model, sha string, sigma float64, right int) summary.Summary {
	t.Helper()
	r := &runfolder.Run{Data: runfolder.Data{File: "d", SHA256: "d", Selected: 4}}
	r.Model.File, r.Model.SHA256, r.Parameters.Sigma, r.Parameters.N = model, sha, sigma, 100
	s := summary.Source{Path: name, Kind: summary.RunKind, Run: r}
	for i := range 4 {
		c := certify.Certificate{Index: i, Label: 1, Prediction: 1, Correct: true, Radius: 1, Method: "margin", Alpha: 0.001, Sigma: sigma, N: 100, Sound: true, Arithmetic: certify.Exact}
		if i >= right {
			c.Prediction, c.Correct, c.Radius = certify.Abstained, false, 0
		}
		s.Certificates = append(s.Certificates, c)
		s.Votes = append(s.Votes, certify.Votes{Index: i, Label: 1, N: 10, Counts: []int64{1, 9}})
	}
	out, err := summary.New(s, summary.Default())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func quantity(t *testing.T, text string) gate.Requirement {
	t.Helper()
	q, err := gate.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestNew(t *testing.T) {
	runs := []summary.Summary{run(t, "p", "x/b.onnx", "b", 1, 1), run(t, "q", "a.onnx", "a", 0.25, 2), run(t, "r", "a.onnx", "a", 1, 3), run(t, "s", "b.onnx", "b", 0.5, 4)}
	p, err := New(runs, []string{"model"}, []string{"sigma"}, quantity(t, "certified-accuracy@0.5"))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, c := range p.Cells {
		got = append(got, append(append([]string{c.Run}, c.Row...), c.Col...))
	}
	if want := [][]string{{"p", "b.onnx", "1"}, {"q", "a.onnx", "0.25"}, {"r", "a.onnx", "1"}, {"s", "b.onnx", "0.5"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for k, want := range []float64{0.25, 0.5, 0.75, 1} {
		if *p.Cells[k].Value != want {
			t.Errorf("cell %d: %v, want %v", k, *p.Cells[k].Value, want)
		}
	}
	if got := Keys(p.Cells, func(c Cell) []string { return c.Row }); !reflect.DeepEqual(got, [][]string{{"b.onnx"}, {"a.onnx"}}) {
		t.Errorf("names keep the order of the runs: %v", got)
	}
	if got := Keys(p.Cells, func(c Cell) []string { return c.Col }); !reflect.DeepEqual(got, [][]string{{"0.25"}, {"0.5"}, {"1"}}) {
		t.Errorf("numbers ascend: %v", got)
	}
	if got := Keys(p.Cells, func(c Cell) []string { return append(c.Row, c.Col...) }); !reflect.DeepEqual(got, [][]string{{"b.onnx", "0.5"}, {"b.onnx", "1"}, {"a.onnx", "0.25"}, {"a.onnx", "1"}}) {
		t.Errorf("the first parameter decides: %v", got)
	}
}

// Two different models with the same file name must get two rows.
func TestSameName(t *testing.T) {
	p, err := New([]summary.Summary{run(t, "p", "m.onnx", "11111111aa", 1, 1), run(t, "q", "m.onnx", "22222222aa", 1, 2)}, []string{"model"}, nil, quantity(t, "acr"))
	if err != nil || p.Cells[0].Row[0] != "m.onnx (11111111)" || p.Cells[1].Row[0] != "m.onnx (22222222)" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestRefuses(t *testing.T) {
	p, q := run(t, "p", "a.onnx", "a", 0.5, 1), run(t, "q", "a.onnx", "a", 1, 2)
	_, err := New([]summary.Summary{p, q}, []string{"model"}, []string{"n"}, quantity(t, "acr"))
	if h, _ := hint.Of(err); err == nil || err.Error() != "p and q belong in the same cell of the table" || !strings.HasSuffix(h, "rows or columns: sigma or run") {
		t.Errorf("two runs in one cell: %v, %q", err, h)
	}
	_, err = New([]summary.Summary{p}, []string{"modle"}, nil, quantity(t, "acr"))
	if h, _ := hint.Of(err); err == nil || !strings.Contains(err.Error(), `states no parameter "modle"`) || !strings.Contains(h, "model") {
		t.Errorf("an unknown parameter: %v, %q", err, h)
	}
	if _, err = New([]summary.Summary{p}, []string{"model"}, nil, quantity(t, "cbs@0.5")); err == nil {
		t.Error("a value that is not known is accepted")
	}
	for i := range p.Rows {
		p.Rows[i].Correct = false
	}
	sound := false
	p.Conditions.Sound = &sound
	table, err := New([]summary.Summary{p}, []string{"run"}, nil, quantity(t, "certified:acr"))
	if err != nil || table.Cells[0].Value != nil || !strings.Contains(table.Cells[0].Nothing, "not sound") {
		t.Errorf("an unsound run: %+v, %v", table, err)
	}
}
