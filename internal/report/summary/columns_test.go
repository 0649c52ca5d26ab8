package summary

import (
	"math"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/spec"
)

// The wanted values follow from the scales: the semi-axis of a column is r·scale, the inscribed ball has the radius
// r·min(scale), and the proxy radius is r times the geometric mean of the scales.
func TestColumns(t *testing.T) {
	c := NewColumns(1.5, []spec.SigmaColumn{{Name: "a", Sigma: .5}, {Name: "f"}, {Name: "b", Sigma: 12}, {Name: "c", Sigma: .02}})
	var lengths []float64
	for _, a := range c.SemiAxes {
		lengths = append(lengths, a.Length)
	}
	want := []float64{.75, 18, .03}
	for i, l := range lengths {
		if l > want[i] || l < want[i]*(1-1e-8) {
			t.Errorf("semi-axes %v, want %v", lengths, want)
		}
	}
	if len(lengths) != 3 || c.Inscribed > .03 || c.Inscribed < .03*(1-1e-8) || math.Abs(c.Proxy-.739863) > 1e-6 || !slices.Equal(c.Frozen, []string{"f"}) {
		t.Errorf("%+v: want the ball .03, the proxy .739863 and one frozen column", c)
	}
}
