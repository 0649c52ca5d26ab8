package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// powers is the value of a flag that takes a list of numbers. The user writes each number as a decimal or as a power,
// such as 2^-6.
type powers []float64

// String implements pflag.Value.
func (p *powers) String() string { return "" }

// Type implements pflag.Value.
func (p *powers) Type() string { return "float64Slice" }

// Set parses numbers that are separated by commas, and appends them to the list.
func (p *powers) Set(text string) error {
	for field := range strings.SplitSeq(text, ",") {
		base, exponent, power := strings.Cut(strings.TrimSpace(field), "^")
		x, err := strconv.ParseFloat(base, 64)
		if err == nil && power {
			var e float64
			if e, err = strconv.ParseFloat(exponent, 64); err == nil {
				x = math.Pow(x, e)
			}
		}
		if err != nil {
			return fmt.Errorf("%q is not a number or a power such as 2^-6", field)
		}
		*p = append(*p, x)
	}
	return nil
}

// aurocReport is what 'rscert perturb --auroc --json' prints.
type aurocReport struct {
	N          int                    `json:"n"`
	Seed       uint64                 `json:"seed"`
	Repeats    int                    `json:"repeats"`
	Delta      float64                `json:"delta"`
	Before     float64                `json:"before"`
	Bandwidths []calib.PerturbedAUROC `json:"bandwidths"`
}

func reportAUROC(ctx context.Context, s streams, t *table.Table, path string, o perturbOptions) error {
	formats, err := pictureFormats(o.plots, path)
	if err != nil {
		return err
	}
	scores, err := predictions.Scores(t)
	if err != nil {
		return badInput(err)
	}
	score, label := scores.Score, scores.Label
	r := aurocReport{N: len(score), Seed: o.seed, Repeats: o.repeats, Delta: o.delta}
	if r.Before, err = auroc(t, score, label); err != nil {
		return err
	}
	if err := warnOfScores(s, path, t, scores); err != nil {
		return err
	}
	for _, h := range o.auroc {
		if err := ctx.Err(); err != nil {
			return err
		}
		after, err := calib.AUROCAfter(score, label, calib.Sech{Bandwidth: h, Seed: o.seed}, o.firstRow, o.repeats, o.delta)
		if err != nil {
			return badInput(predictions.LocateRow(t, err))
		}
		r.Bandwidths = append(r.Bandwidths, after)
	}
	err = writePictures(o.plots, formats, func(format picture.Format) ([]byte, error) { return r.draw(format, path) })
	if err != nil {
		return err
	}
	s.wrote(o.plots...)
	if o.json {
		return report.WriteJSON(s.out, "perturb", r)
	}
	return r.print(s.out)
}

// auroc returns the area under the ROC curve of the scores. There is one score and one label for each row of t.
func auroc(t *table.Table, score, label []float64) (float64, error) {
	sample, err := calib.NewSample(score, label)
	if err != nil {
		return 0, badInput(predictions.LocateRow(t, err))
	}
	a, err := sample.AUROC()
	if err != nil {
		return 0, badInput(predictions.LocateRow(t, err))
	}
	return a, nil
}

func (r aurocReport) print(w io.Writer) error {
	fmt.Fprintf(w, "AUROC of %d scores before perturbation: %.6f\n\n", r.N, r.Before)
	t := report.Table{Columns: []report.Column{
		report.ExactColumn("h"), report.RoundedColumn("AUROC", report.Nearest, 6), report.RoundedColumn("sd", report.Nearest, 6),
		{Name: "change", Align: report.Right, Decimals: 6, Sign: true},
		{Name: fmt.Sprintf("%g %% interval of the change", 100*(1-r.Delta)), Decimals: 4},
	}}
	for _, b := range r.Bandwidths {
		sd := report.Number(math.NaN())
		if r.Repeats > 1 {
			sd = report.Number(b.SD)
		}
		t.AddRow(report.Number(b.Bandwidth), report.Number(b.After), sd, report.Number(b.After-r.Before),
			report.Interval{Low: b.Low, High: b.High})
	}
	return t.WriteText(w)
}

// draw draws the AUROC by bandwidth, in the style of Figure 2 of Ciosek et al. 2025. The band comes from the interval
// for the change of the AUROC. Each edge is the AUROC of the unperturbed scores plus one end of this interval. The
// lower edge is at least 0, and the upper edge is at most 1.
func (r aurocReport) draw(format picture.Format, path string) ([]byte, error) {
	p := picture.NewPlot(filepath.Base(displayPath(path))+": AUROC after perturbation", "bandwidth h", "AUROC")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, twos{}
	sorted := slices.Clone(r.Bandwidths)
	slices.SortFunc(sorted, func(a, b calib.PerturbedAUROC) int { return int(math.Copysign(1, a.Bandwidth-b.Bandwidth)) })
	after := picture.Line{Name: fmt.Sprintf("mean, interval %g %%", 100*(1-r.Delta)), Marks: true}
	for _, b := range sorted {
		after.Add(b.Bandwidth, b.After)
		after.Low = append(after.Low, max(0, r.Before+b.Low))
		after.High = append(after.High, min(1, r.Before+b.High))
	}
	first, last := sorted[0].Bandwidth, sorted[len(sorted)-1].Bandwidth
	if first == last { // a scale needs two ends
		first, last = first/2, last*2
	}
	before := picture.Line{Name: "before", X: []float64{first, last}, Y: []float64{r.Before, r.Before}, Color: &picture.Halo}
	p.Add(picture.Grid())
	picture.AddLines(p, before, after)
	return picture.Draw(format, picture.Size{Width: 12, Height: 9},
		"Area under the ROC curve of perturbed scores by bandwidth, and the area before the perturbation",
		func(c draw.Canvas) { picture.Panels(c, [][]*plot.Plot{{p}}) })
}

// twos is a plot.Ticker that places ticks at powers of two. It skips some powers if the axis has more than ten.
type twos struct{}

// Ticks implements plot.Ticker.
func (twos) Ticks(low, high float64) (ticks []plot.Tick) {
	first, last := int(math.Ceil(math.Log2(low)-1e-9)), int(math.Floor(math.Log2(high)+1e-9))
	step := 1 + (last-first)/10
	for k := first; k <= last; k += step {
		ticks = append(ticks, plot.Tick{Value: math.Exp2(float64(k)), Label: strings.Replace(fmt.Sprintf("2^%d", k), "-", "−", 1)})
	}
	return ticks
}
