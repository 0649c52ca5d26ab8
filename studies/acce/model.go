package main

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/tabular"
)

// model computes every value at every radius of bounds files, each named by the
// σ of its run, and draws them by radius in the style of the paper's Figure 3.
func model(args []string, file string) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return fmt.Errorf("want pairs of a bounds.csv and its σ")
	}
	var panels []*plot.Plot
	fmt.Println("| σ | radius | certified | clean | Brier | dECE | ADMM, best of grid | exact CCE | CBS | seconds: dECE | grid | exact |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for ; len(args) > 0; args = args[2:] {
		t, err := tabular.Read(context.Background(), args[0], tabular.Options{Required: []string{"lower", "upper", "correct", "confidence", "radius"}})
		if err != nil {
			return err
		}
		column := func(name string) []float64 { c, _ := t.Column(name); return c }
		lower, upper, correct, confidence, radius := column("lower"), column("upper"), column("correct"), column("confidence"), column("radius")
		radii := slices.Compact(slices.Sorted(slices.Values(radius)))
		names := []string{"exact", "ADMM, best of 16", "dECE", "Brier confidences", "no attack"}
		lines := make([]plotter.XYs, len(names))
		for _, r := range radii {
			var intervals []calib.Bounded
			var clean []float64
			for i := range radius {
				if radius[i] == r {
					intervals = append(intervals, calib.Bounded{Lower: lower[i], Upper: upper[i], Correct: correct[i] == 1})
					clean = append(clean, confidence[i])
				}
			}
			f, err := solve(intervals, clean, false, true)
			if err != nil {
				return err
			}
			cbs, err := calib.CBS(intervals)
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %g | %d | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %.2g | %.2g | %.2g |\n", args[1], r, len(intervals),
				f.clean, f.brier, f.dece, f.grid, f.exact, cbs, f.deceTime, f.gridTime, f.exactSeconds)
			for k, y := range []float64{f.exact, f.grid, f.dece, f.brier, f.clean} {
				lines[k] = append(lines[k], plotter.XY{X: r, Y: y})
			}
		}
		p := newPlot("σ = "+args[1], "certified radius", "calibration error")
		for k, name := range names {
			if err := addLine(p, name, lines[k], k, true); err != nil {
				return err
			}
		}
		p.Legend.Left = true
		p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1
		panels = append(panels, p)
	}
	return save([][]*plot.Plot{panels}, vg.Length(len(panels))*10*vg.Centimeter, 9*vg.Centimeter, file)
}
