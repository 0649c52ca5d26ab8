package main

import (
	"bytes"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/table"
)

// curveFit stands in the column 'method' of the file of --fits. It marks the rows of the calibration curve. Only these
// rows have confidence limits, in the columns 'lower' and 'upper'.
const curveFit = "curve"

// ceFit holds a method's estimate of P(y=1|s).
type ceFit struct {
	method string
	points []calib.FitPoint
}

// fitAll returns the estimates of all methods.
func fitAll(sample *calib.Sample, methods []calib.BoundMethod, o ceOptions, found calib.ErrorBounds) (fits []ceFit) {
	for _, m := range methods {
		fits = append(fits, ceFit{m.Name, m.Fit(sample, o.BoundParams, found.Upper[m.Name])})
	}
	return fits
}

// writeFits writes the estimates and the curve as CSV. Only the rows of the curve have confidence limits.
func writeFits(path string, fits []ceFit, curve []calib.CurvePoint) error {
	var b bytes.Buffer
	w := table.NewWriter(&b)
	w.Header("score", "method", "eta_hat", "lower", "upper")
	for _, f := range fits {
		for _, p := range f.points {
			w.Float(p.Score)
			w.Text(f.method)
			w.Float(p.Eta)
			w.Empty()
			w.Empty()
			w.EndRow()
		}
	}
	line := curveLine(curve)
	for k := range line.X {
		w.Float(line.X[k])
		w.Text(curveFit)
		w.Float(line.Y[k])
		w.Float(line.Low[k])
		w.Float(line.High[k])
		w.EndRow()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}

// curveLine returns the curve as steps, with a point at each end of a bin.
func curveLine(curve []calib.CurvePoint) (l picture.Line) {
	for _, p := range curve {
		for _, x := range ends(p) {
			l.Add(x, p.Eta)
			l.Low, l.High = append(l.Low, p.Lower), append(l.High, p.Upper)
		}
	}
	return l
}

// ends returns the smallest and the largest score of a bin, or its only score.
func ends(p calib.CurvePoint) []float64 {
	if p.From == p.To {
		return []float64{p.From}
	}
	return []float64{p.From, p.To}
}

// drawFits draws one panel for each estimate. Each panel also shows the curve's limits: for each bin, a lower and an
// upper limit on the mean of P(y=1|s) over the scores of the bin. The style is that of Figure 5 of Ciosek et al. 2025.
func drawFits(o ceOptions, formats []picture.Format, fits []ceFit, curve []calib.CurvePoint) error {
	const inRow = 3
	columns := min(len(fits), inRow)
	rows := make([][]*plot.Plot, (len(fits)+columns-1)/columns)
	for i := range rows {
		rows[i] = make([]*plot.Plot, columns)
	}
	for k, f := range fits {
		rows[k/columns][k%columns] = f.plot(curve, k)
	}
	return writePictures(o.plots, formats, func(format picture.Format) ([]byte, error) {
		return picture.Draw(format, picture.Size{Width: 1 + 7*float64(columns), Height: 1 + 7*float64(len(rows))},
			"Estimates of P(y=1|s) by each method, and limits that hold for the bins of the curve together",
			func(c draw.Canvas) { picture.Panels(c, rows) })
	})
}

// plot returns the panel of an estimate. The argument 'style' is the index of the line's colour.
func (f ceFit) plot(curve []calib.CurvePoint, style int) *plot.Plot {
	p := picture.NewPlot(f.method, "score", "P(y=1|s)")
	band := curveLine(curve)
	band.Color, band.Hidden = &picture.Halo, true
	fit := picture.Line{Style: style, Solid: true}
	for _, at := range f.points {
		fit.Add(at.Score, at.Eta)
	}
	p.Add(picture.Grid())
	picture.AddLines(p, band, picture.Line{X: []float64{0, 1}, Y: []float64{0, 1}, Color: &picture.Halo, Solid: true}, fit)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	return p
}
