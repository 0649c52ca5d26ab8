package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/plot"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// A curve is one panel of the figure. It holds the results for each radius, from all solvers except 'ADMM, one
// setting'.
type curve struct {
	title string
	radii []float64
	found []found
}

// model runs all solvers except 'ADMM, one setting' at all radii, for bounds files and for a simulated classifier. The
// slice 'args' holds pairs: the name of a bounds file, and the σ of its run. The function draws the results by radius
// in the style of the paper's Figure 3.
func model(args []string, file string) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return fmt.Errorf("want pairs of a bounds.csv and its σ")
	}
	var curves []curve
	end := marked("model", "model")
	fmt.Println("| classifier | radius | certified | clean | Brier | dECE | ADMM, best of grid | exact CCE | CBS | seconds: dECE | grid | exact |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	add := func(c *curve, radius float64, intervals []calib.Bounded, clean []float64) error {
		f, err := solve(intervals, clean, false)
		if err != nil {
			return err
		}
		cbs, err := calib.CBS(intervals)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %g | %d | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %.2g | %.2g | %.2g |\n", c.title, radius, len(intervals),
			f.clean, f.brier, f.dece, f.grid, f.exact, cbs, f.deceTime, f.gridTime, f.exactSeconds)
		c.radii, c.found = append(c.radii, radius), append(c.found, f)
		return nil
	}
	for ; len(args) > 0; args = args[2:] {
		t, err := table.Read(context.Background(), args[0], table.Options{
			Required: []string{"lower", "upper", "correct", "confidence", "radius"}, Optional: []string{"certified"},
		})
		if err == nil {
			t, err = predictions.SelectCertified(t)
		}
		if err != nil {
			return err
		}
		column := func(name string) []float64 { c, _ := t.Column(name); return c }
		lower, upper, correct, confidence, radius := column("lower"), column("upper"), column("correct"), column("confidence"), column("radius")
		c := curve{title: "bundled model, σ = " + args[1]}
		for _, r := range slices.Compact(slices.Sorted(slices.Values(radius))) {
			var intervals []calib.Bounded
			var clean []float64
			for i := range radius {
				if radius[i] == r {
					intervals = append(intervals, calib.Bounded{Lower: lower[i], Upper: upper[i], Correct: correct[i] == 1})
					clean = append(clean, confidence[i])
				}
			}
			if err := add(&c, r, intervals, clean); err != nil {
				return err
			}
		}
		curves = append(curves, c)
	}
	simulated := curve{title: "simulated, radius in σ"}
	for _, ratio := range []float64{0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1} {
		// The same seed gives the same classifier at every radius.
		intervals, clean := instance(rand.New(rand.NewPCG(2025, 1000)), 2000, ratio)
		if err := add(&simulated, ratio, intervals, clean); err != nil {
			return err
		}
	}
	end()
	return drawCurves(append(curves, simulated), file)
}

// drawCurves makes a figure with one panel for each curve, and with two panels in each row.
func drawCurves(curves []curve, file string) error {
	var panels [][]*plot.Plot
	for i, c := range curves {
		p := newPlot(c.title, "certified radius", "calibration error")
		var lines []picture.Line
		for k, l := range []struct {
			name  string
			value func(found) float64
		}{
			{"exact", func(f found) float64 { return f.exact }},
			{"ADMM, best of 16", func(f found) float64 { return f.grid }},
			{"dECE", func(f found) float64 { return f.dece }},
			{"Brier confidences", func(f found) float64 { return f.brier }},
			{"no attack", func(f found) float64 { return f.clean }},
		} {
			line := picture.Line{Name: l.name, Style: k, Marks: true}
			for j, f := range c.found {
				line.Add(c.radii[j], l.value(f))
			}
			lines = append(lines, line)
		}
		picture.AddLines(p, lines...)
		p.X.Min, p.Y.Min = 0, 0
		if i%2 == 0 {
			panels = append(panels, nil)
		}
		panels[i/2] = append(panels[i/2], p)
	}
	if len(curves)%2 == 1 {
		panels[len(panels)-1] = append(panels[len(panels)-1], nil)
	}
	return save(panels, picture.Size{Width: 24, Height: 9 * float64(len(panels))},
		"Calibration error under attack by certified radius: exact, ADMM, dECE, Brier confidences and without attack.", file)
}
