package curves

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/picture"
)

// Each run has a panel with its methods. A method without a certified example has no line, and a figure without any
// line must still be drawn.
func TestDrawWidths(t *testing.T) {
	lines := []WidthLine{{"cdf+dkw", []float64{0, 0.5}, []float64{0.1, 0.3}}, {"tangent+betting", []float64{0, 0.5}, []float64{0.05, 0.2}}}
	svg, err := DrawWidths(picture.SVG, []WidthPanel{{"σ = 0.25", "L2", lines[:1]}, {"σ = 0.5", "L2", append(lines, WidthLine{Method: "standard"})}}, picture.Size{})
	if err != nil {
		t.Fatal(err)
	}
	for word, times := range map[string]int{"σ = 0.25": 1, "σ = 0.5": 1, "cdf+dkw": 2, "tangent+betting": 1, "standard": 0, "L2 radius of the attack": 2} {
		if n := strings.Count(string(svg), "\n"+word+"\n"); n != times {
			t.Errorf("%q is drawn %d times, want %d", word, n, times)
		}
	}
	if _, err := DrawWidths(picture.PNG, []WidthPanel{{"a", "L2", []WidthLine{{Method: "cdf"}}}}, picture.Size{}); err != nil {
		t.Error(err)
	}
}
