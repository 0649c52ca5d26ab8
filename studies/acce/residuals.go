package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// residuals draws ADMM's mean deviation from each constraint at every 25th step, as in the paper's Figures 9 and 10.
// Below these panels, it draws ADMM's calibration error at the same steps. It uses one instance of 2,000 predictions.
// The left panels show the one-size-fits-all setting, and the right panels show a setting of the grid.
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
		{"rates 0.001 and 0.1, ρ × 1.01 (from the grid of appendix I.1)", admm.Params{Start: admm.FromClean, RateZ: 0.001, RateA: 0.1, Growth: 1.01, Steps: admm.Steps}},
	}
	var panels [][]*plot.Plot
	deviations, values := []*plot.Plot{}, []*plot.Plot{}
	fmt.Printf("exact %.4f, Brier confidences %.4f\n\n", worst.Value, p.Brier().ECE)
	end := marked("residuals", "")
	fmt.Println("| setting | step | relaxed ECE | projected ECE | binary | one bin | bins in reach | confidence |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range settings {
		names := []string{"binary assignment", "one bin for each sample", "bins within reach", "confidence in its interval"}
		lines := make([]picture.Line, len(names))
		for k, name := range names {
			lines[k] = picture.Line{Name: name, Style: k}
		}
		soft, projected := picture.Line{Name: "relaxed"}, picture.Line{Name: "projected", Style: 1}
		p.ADMM(context.Background(), s.par, every, func(r admm.Residuals) {
			if r.Step%every != 0 {
				return
			}
			means := []float64{r.Binary.Sum / (n * bins), r.Unique.Sum / n, r.Valid.Sum / n, r.Confidence.Sum / (n * bins)}
			for k, x := range means {
				lines[k].Add(float64(r.Step), max(x, 1e-7))
			}
			soft.Add(float64(r.Step), r.SoftECE)
			projected.Add(float64(r.Step), r.ProjectedECE)
			if r.Step%750 == 0 {
				fmt.Printf("| %s | %d | %.4f | %.4f | %.2g | %.2g | %.2g | %.2g |\n", s.name, r.Step, r.SoftECE, r.ProjectedECE,
					means[0], means[1], means[2], means[3])
			}
		})
		d := newPlot(s.name, "step", "mean deviation")
		d.Y.Scale, d.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 1}
		picture.AddLines(d, lines...)
		d.Y.Min, d.Y.Max = 1e-5, 30
		v := newPlot("", "step", "calibration error")
		exact := picture.Line{Name: "exact", Style: 2}
		exact.Add(0, worst.Value)
		exact.Add(admm.Steps, worst.Value)
		picture.AddLines(v, soft, projected, exact)
		v.Y.Min, v.Y.Max = 0, 1
		deviations, values = append(deviations, d), append(values, v)
	}
	end()
	panels = append(panels, deviations, values)
	return save(panels, picture.Size{Width: 24, Height: 15}, "Constraint residuals of ADMM and its calibration error by step, for two settings.", file)
}

// newPlot returns a panel of a figure.
func newPlot(title, x, y string) *plot.Plot {
	p := picture.NewPlot(title, x, y)
	p.Add(picture.Grid())
	return p
}

// save writes rows of plots as one SVG.
func save(panels [][]*plot.Plot, size picture.Size, alt, file string) error {
	svg, err := picture.Draw(picture.SVG, size, alt, func(c draw.Canvas) { picture.Panels(c, panels) })
	if err != nil {
		return err
	}
	return os.WriteFile(file, svg, 0o644)
}
