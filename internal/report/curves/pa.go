package curves

import (
	"errors"
	"math"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/summary"
)

// paLine returns the share of examples that are right and whose bound on p_A is at least x, as a step function of x.
// The function begins at x = left.
func paLine(s summary.Summary, style int, left float64) picture.Line {
	l := picture.Line{Name: quote.Line(s.Name), Style: style}
	share := func(x float64) float64 { return float64(s.PA.Reach(x)) / float64(s.Examples) }
	l.Add(left, share(left))
	for _, x := range s.PA.Steps() {
		l.Add(x, share(x))
		l.Add(x, share(math.Nextafter(x, 1)))
	}
	return l
}

// drawPA draws how the bounds on p_A are distributed: the share of examples that reach each bound.
func drawPA(format picture.Format, runs []summary.Summary, o Options) ([]byte, error) {
	left := 0.5
	for _, s := range runs {
		if s.PA == nil {
			return nil, errors.New(s.Path + ": the distribution of the bounds on p_A was not computed")
		}
		if steps := s.PA.Steps(); len(steps) > 0 {
			left = min(left, steps[0])
		}
	}
	var lines []picture.Line
	for k, s := range runs {
		lines = append(lines, paLine(s, k, left))
	}
	p := picture.NewPlot(o.title(examples(runs)+"right class"), "lower bound on the probability of the class", "share of examples that reach it")
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = left, 1, 0, 1
	return drawPlot(format, p, o, "Share of examples by the certified lower bound on the probability of their class: "+names(runs)+".")
}
