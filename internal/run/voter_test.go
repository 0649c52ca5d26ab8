package run

import (
	"math"
	"testing"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/runfolder"
)

// A sample must vote only if its confidence is at least the threshold. If the outputs are logits, the confidence
// depends on the temperature.
func TestVoter(t *testing.T) {
	nan := float32(math.NaN())
	ln3 := float32(math.Log(3)) // the softmax of the logits (0, ln 3) gives ¾, and at temperature ½ it gives 9/10
	for _, c := range []struct {
		reject, temperature float64
		outputs             graph.OutputKind
		row                 []float32
		want                int
	}{
		{.74, 1, graph.Logits, []float32{0, ln3}, 1},
		{.76, 1, graph.Logits, []float32{0, ln3}, -1},
		{.89, .5, graph.Logits, []float32{0, ln3}, 1},
		{.91, .5, graph.Logits, []float32{0, ln3}, -1},
		{.5, 1, graph.Logits, []float32{0, 0}, 0},
		{.1, 1, graph.Logits, []float32{nan, 9}, -1},
		{.75, 1, graph.Probabilities, []float32{.75, .25}, 0},
		{.76, 1, graph.Probabilities, []float32{.75, .25}, -1},
	} {
		vote := voter(runfolder.Certification{RejectBelow: c.reject, Temperature: c.temperature}, c.outputs)
		if got := vote(c.row); got != c.want {
			t.Errorf("%+v: vote %d", c, got)
		}
	}
	if voter(runfolder.Certification{}, graph.Logits) != nil {
		t.Error("without a threshold, samples are rejected")
	}
}
