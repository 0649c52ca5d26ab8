package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

// residuals draws, for one instance of 2,000 predictions (as the paper's Figures
// 9 and 10), the mean deviation from each constraint by step, for the
// one-size-fits-all setting and for one of the grid.
func residuals(file string) error {
	const n, every = 2000, 25
	r := rand.New(rand.NewPCG(2025, 0))
	intervals, clean := instance(r, n, 0.5)
	b, err := calib.NewBins(bins)
	if err != nil {
		return err
	}
	p, err := admm.NewProblem(intervals, clean, b)
	if err != nil {
		return err
	}
	worst, err := calib.CCE(intervals, b)
	if err != nil {
		return err
	}
	settings := []struct {
		name string
		par  admm.Params
	}{
		{"both rates 0.001, ρ × 1.004 (appendix G.3)", oneSetting()[0]},
		{"rates 0.001 and 0.1, ρ × 1.01 (of the grid, I.1)", admm.Params{Start: admm.FromClean, RateZ: 0.001, RateA: 0.1, Growth: 1.01, Steps: admm.Steps}},
	}
	var panels [][]*plot.Plot
	deviations, values := []*plot.Plot{}, []*plot.Plot{}
	fmt.Printf("exact %.4f, Brier confidences %.4f\n\n", worst.Value, p.Brier().ECE)
	fmt.Println("| setting | step | relaxed ECE | projected ECE | binary | one bin | bins in reach | confidence |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range settings {
		names := []string{"binary assignment", "one bin for each sample", "bins within reach", "confidence in its interval"}
		lines := make([]plotter.XYs, len(names))
		var soft, projected plotter.XYs
		p.ADMM(context.Background(), s.par, every, func(r admm.Residuals) {
			if r.Step%every != 0 {
				return
			}
			means := []float64{r.Binary.Sum / (n * bins), r.Unique.Sum / n, r.Valid.Sum / n, r.Confidence.Sum / (n * bins)}
			for k, x := range means {
				lines[k] = append(lines[k], plotter.XY{X: float64(r.Step), Y: max(x, 1e-7)})
			}
			soft = append(soft, plotter.XY{X: float64(r.Step), Y: r.SoftECE})
			projected = append(projected, plotter.XY{X: float64(r.Step), Y: r.ProjectedECE})
			if r.Step%750 == 0 {
				fmt.Printf("| %s | %d | %.4f | %.4f | %.2g | %.2g | %.2g | %.2g |\n", s.name, r.Step, r.SoftECE, r.ProjectedECE,
					means[0], means[1], means[2], means[3])
			}
		})
		d := newPlot(s.name, "step", "mean deviation")
		d.Y.Scale, d.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 1}
		for k, name := range names {
			if err := addLine(d, name, lines[k], k, false); err != nil {
				return err
			}
		}
		d.Y.Min, d.Y.Max = 1e-5, 1000
		v := newPlot("", "step", "calibration error")
		flat := plotter.XYs{{X: 0, Y: worst.Value}, {X: admm.Steps, Y: worst.Value}}
		for k, l := range []struct {
			name string
			xy   plotter.XYs
		}{{"relaxed", soft}, {"projected", projected}, {"exact", flat}} {
			if err := addLine(v, l.name, l.xy, k, false); err != nil {
				return err
			}
		}
		v.Y.Min, v.Y.Max = 0, 1
		deviations, values = append(deviations, d), append(values, v)
	}
	panels = append(panels, deviations, values)
	return save(panels, 24*vg.Centimeter, 15*vg.Centimeter, file)
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	return p
}

// addLine adds a line in the k-th colour, with marks where there are few points.
func addLine(p *plot.Plot, name string, xy plotter.XYs, k int, marks bool) error {
	l, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	l.Color, l.Width = plotutil.Color(k), vg.Points(1.5)
	p.Add(l)
	if !marks {
		p.Legend.Add(name, l)
		return nil
	}
	s, err := plotter.NewScatter(xy)
	if err != nil {
		return err
	}
	s.Color, s.Shape, s.Radius = plotutil.Color(k), plotutil.Shape(k), vg.Points(3)
	p.Add(s)
	p.Legend.Add(name, l, s)
	return nil
}

// save writes rows of plots as one SVG.
func save(panels [][]*plot.Plot, width, height vg.Length, file string) error {
	c := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: len(panels), Cols: len(panels[0]), PadX: vg.Points(14), PadY: vg.Points(10),
		PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(8)}
	for j, row := range plot.Align(panels, tiles, draw.New(c)) {
		for i, part := range row {
			if panels[j][i] != nil {
				panels[j][i].Draw(part)
			}
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
