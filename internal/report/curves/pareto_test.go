package curves

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

func paretoRow(model string, count int, cce float64, front bool) selection.Row {
	return selection.Row{Model: model, Front: front, Calibration: &selection.Calibration{CCE: cce},
		Accuracy: summary.CurvePoint{Accuracy: summary.Share{Count: count, Of: 10, Value: float64(count) / 10}}}
}

// The edge of the dominated region goes from the model with the smallest CCE to the model with the largest accuracy.
// Between two neighbours, the edge has a corner with the smaller of their accuracies and the larger of their CCEs. Both
// neighbours dominate this corner.
func TestFrontLine(t *testing.T) {
	l := frontLine([]selection.Row{paretoRow("b", 7, 0.3, true), paretoRow("worse", 5, 0.4, false), paretoRow("a", 4, 0.1, true), paretoRow("c", 9, 0.6, true)})
	x, y := []float64{0.4, 0.4, 0.7, 0.7, 0.9}, []float64{0.1, 0.3, 0.3, 0.6, 0.6}
	if !reflect.DeepEqual(l.X, x) || !reflect.DeepEqual(l.Y, y) || l.Name == "" {
		t.Errorf("%+v", l)
	}
	if one := frontLine([]selection.Row{paretoRow("a", 4, 0.1, true)}); one.Name != "" || len(one.X) != 1 {
		t.Errorf("a front of one model: %+v", one)
	}
}

// The chart names the models on the front, the chosen models, and each family at least once. A radius without a CCE has
// no panel.
func TestDrawPareto(t *testing.T) {
	chosen := paretoRow("chosen", 5, 0.2, false)
	chosen.ChosenBy, chosen.Family = []selection.Measure{selection.CBS}, "ACT"
	best, other := paretoRow("best", 9, 0.1, true), paretoRow("other", 3, 0.3, false)
	best.Family, other.Family = "AT", "third"
	bare := best
	bare.Calibration = nil
	c := selection.Comparison{Radii: []selection.AtRadius{{Radius: 0.25, Rows: []selection.Row{best, chosen, other}}, {Radius: 2, Rows: []selection.Row{bare}}}}
	runs := []summary.Summary{run(t, "run", 0, 0.5)}
	svg, err := Pareto.Draw(picture.SVG, runs, Options{Models: &c})
	if err != nil {
		t.Fatal(err)
	}
	for word, times := range map[string]int{"best": 1, "chosen, smallest CBS": 1, "third": 1, "other": 0, "L2 radius 0.25": 1, "L2 radius 2": 0} {
		if n := strings.Count(string(svg), "\n"+word+"\n"); n != times {
			t.Errorf("%q is drawn %d times, want %d", word, n, times)
		}
	}
	c.Radii = c.Radii[1:]
	if _, err := Pareto.Draw(picture.SVG, runs, Options{Models: &c}); err != ErrNoBounds {
		t.Errorf("error %v", err)
	}
	if _, err := Pareto.Draw(picture.SVG, runs, Options{}); err == nil {
		t.Error("a chart without a comparison")
	}
}
