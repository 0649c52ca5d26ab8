package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/spec"
)

// Compare must reject radii in units of the columns' σ, except if each column is known to have the same σ in both runs.
func TestScalesOfBaseline(t *testing.T) {
	scaled := func(name string, sigma float64) summary.Summary {
		src := source(name, 10, 10, 1)
		for i := range src.Certificates {
			src.Certificates[i].Scaled, src.Certificates[i].Sigma = true, 1
		}
		if sigma == 0 {
			src.Run = nil
		} else {
			src.Run.Parameters.Sigma, src.Run.Parameters.SigmaColumns = 1, []spec.SigmaColumn{{Name: "age", Sigma: sigma}}
		}
		return sum(t, src)
	}
	for name, c := range map[string]struct {
		a, b summary.Summary
		want string // text that must be in the list of differences; empty: the list must be empty
	}{
		"same runs":    {scaled("a", 2), scaled("b", 2), ""},
		"other scales": {scaled("a", 2), scaled("b", 3), "sigma-columns"},
		"files":        {scaled("a", 0), scaled("b", 0), "the σ of each column"},
		"run and file": {scaled("a", 2), scaled("b", 0), "the σ of each column"},
		"same file":    {scaled("a", 0), scaled("a", 0), ""},
	} {
		text := ""
		for _, d := range differences(c.a, c.b) {
			text += fmt.Sprintln(d)
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: differences %q, want %q", name, text, c.want)
		}
	}
}
