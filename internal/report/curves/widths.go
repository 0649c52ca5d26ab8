package curves

import (
	"strings"

	"gonum.org/v1/plot"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/quote"
)

// WidthPanel holds the mean widths of the confidence intervals of one run.
type WidthPanel struct {
	Name    string
	Norm    string // norm of the radii, as the axis names it
	Methods []WidthLine
}

// WidthLine holds the mean widths of one method at ascending radii.
type WidthLine struct {
	Method        string
	Radii, Widths []float64
}

// DrawWidths draws the mean width of the confidence intervals against the radius of the attack (Emde et al. 2025, figure
// 8). Each run has a panel with a line for each method, and all panels have the same axes.
func DrawWidths(format picture.Format, runs []WidthPanel, size picture.Size) ([]byte, error) {
	const inRow = 2
	var panels []*plot.Plot
	right, top := 1e-9, 1e-9 // above 0 even if no class is certified at any radius
	var quoted []string
	for _, run := range runs {
		quoted = append(quoted, quote.Line(run.Name))
		p := picture.NewPlot(quote.Line(run.Name), run.Norm+" radius of the attack", "mean width of the interval")
		p.Add(picture.Grid())
		var lines []picture.Line
		for style, m := range run.Methods {
			if len(m.Radii) > 0 {
				lines = append(lines, picture.Line{Name: m.Method, X: m.Radii, Y: m.Widths, Style: style, Marks: true})
			}
		}
		if len(lines) > 0 {
			picture.AddLines(p, lines...)
			right, top = max(right, p.X.Max), max(top, p.Y.Max)
		}
		panels = append(panels, p)
	}
	return picture.DrawPanels(format, size, "Mean width of the intervals of the confidence under attack, by method and radius: "+strings.Join(quoted, ", ")+".", picture.Rows(panels, inRow), right, top)
}
