package reliability

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// Rejection is a picture of the errors of a classifier against its confidence threshold.
type Rejection struct {
	Title  string // shortened to fit
	Curve  *calib.RejectionCurve
	Chosen []float64 // thresholds that the picture marks
	Size   picture.Size
}

// maxSteps is the largest number of thresholds that the picture draws exactly. If there are more thresholds, the
// picture draws the curve at maxSteps + 1 equally spaced thresholds. The distance between these thresholds is less than
// the width of a line.
const maxSteps = 2000

// Draw returns the picture as a file of the given format.
func (r Rejection) Draw(format picture.Format) ([]byte, error) {
	thresholds := r.Curve.Thresholds()
	if len(thresholds) > maxSteps {
		thresholds = thresholds[:0]
		for k := range maxSteps + 1 {
			thresholds = append(thresholds, float64(k)/maxSteps)
		}
	}
	lines := []picture.Line{{Name: "robust error", Style: 1}, {Name: "clean error"}, {Name: "TPR", Style: 2}, {Name: "FPR", Style: 3}}
	values := func(e calib.RejectionErrors) []float64 {
		return []float64{e.Robust, e.CleanError, e.TruePositives, e.FalsePositives}
	}
	left := 0.0
	for _, tau := range thresholds { // the errors are the same at all thresholds in (left, tau]
		for k, y := range values(r.Curve.At(tau)) {
			if !math.IsNaN(y) {
				lines[k].Add(left, y)
				lines[k].Add(tau, y)
			}
		}
		left = tau
	}
	var drawn []picture.Line
	for _, l := range lines {
		if len(l.X) > 0 {
			drawn = append(drawn, l)
		}
	}
	p := picture.NewPlot(r.Title, "confidence threshold τ", "share of examples")
	p.Add(picture.Grid())
	for _, tau := range r.Chosen {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: tau, Y: 0}, {X: tau, Y: 1}},
			LineStyle: draw.LineStyle{Color: grey, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}})
	}
	picture.AddLines(p, drawn...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	alt := fmt.Sprintf("Errors of a classifier against its confidence threshold, with %d marked thresholds. %s.", len(r.Chosen), r.Title)
	return picture.Draw(format, r.Size, alt, func(c draw.Canvas) {
		picture.Fit(p, 0.9*(c.Max.X-c.Min.X))
		p.Draw(c)
	})
}
