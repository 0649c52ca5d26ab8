package curves

import (
	"errors"
	"math"
	"strings"

	"gonum.org/v1/plot"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/history"
)

// errNoHistory means that there is nothing to draw.
var errNoHistory = errors.New("the history has no values")

// drawHistory draws the values of requirements by commit. A pale line shows the bound of each requirement.
func drawHistory(format picture.Format, entries []history.Entry, o Options) ([]byte, error) {
	var bounds, values []picture.Line
	last := float64(len(entries) - 1)
	runs := map[string]bool{}
	all := history.All(entries)
	for _, s := range all {
		runs[s.Run] = true
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for k, s := range all {
		if len(s.Values) == 0 {
			continue
		}
		name := s.Quantity
		if len(runs) > 1 {
			name += " of " + s.Run
		}
		l := picture.Line{Name: quote.Line(name), Style: k, Marks: true}
		for i, v := range s.Values {
			l.Add(float64(s.At[i]), v)
			lowest, highest = min(lowest, v), max(highest, v)
		}
		pale := picture.Palette[k%len(picture.Palette)]
		pale.A = 0x60
		bounds = append(bounds, picture.Line{X: []float64{0, max(1, last)}, Y: []float64{s.Bound, s.Bound}, Color: &pale, Solid: true})
		lowest, highest = min(lowest, s.Bound), max(highest, s.Bound)
		values = append(values, l)
	}
	if len(values) == 0 {
		return nil, errNoHistory
	}
	p := picture.NewPlot(o.title("requirements by commit, with their bounds"), "commit", "value")
	p.Add(picture.Grid())
	picture.AddLines(p, append(bounds, values...)...)
	p.X.Tick.Marker = commitTicks(entries)
	p.X.Min, p.X.Max = 0, max(1, last)
	margin := max(0.05*(highest-lowest), 0.01)
	p.Y.Min, p.Y.Max = lowest-margin, highest+margin
	var named []string
	for _, l := range values {
		named = append(named, l.Name)
	}
	return drawPlot(format, p, o, "Values of requirements by commit: "+strings.Join(named, ", ")+".")
}

// mostCommits is the largest number of commits with a label on the axis.
const mostCommits = 10

// commitTicks labels the axis with short names of commits.
func commitTicks(entries []history.Entry) plot.ConstantTicks {
	const short = 7
	step := (len(entries) + mostCommits - 1) / mostCommits
	var ticks plot.ConstantTicks
	for k := 0; k < len(entries); k += step {
		name := entries[k].Commit
		ticks = append(ticks, plot.Tick{Value: float64(k), Label: name[:min(short, len(name))]})
	}
	return ticks
}
