package main

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// sizesOptions are the flags of ce about bounds from subsamples.
type sizesOptions struct {
	sizes   []int
	repeats int
	out     string
}

// check refuses impossible values. The argument 'all' holds the other flags of ce.
func (o sizesOptions) check(all *ceOptions) error {
	switch {
	case len(o.sizes) == 0 && o.out != "":
		return badInputf("--out needs --sizes")
	case len(o.sizes) == 0:
		return nil
	case o.repeats < 1 || o.repeats > 100_000:
		return badInputf("--repeats %d: want 1 to 100000", o.repeats)
	case all.gate.given() || all.curve != "" || all.fits != "" || all.groups.given() || all.classes || all.planGap != 0 || all.norms.given():
		return badInputf("--sizes cannot be combined with --require, --curve, --fits, --group, --classes, --plan-gap, --norms and " +
			"--score-margin")
	}
	return nil
}

// ceSizes is what ce --sizes --json prints.
type ceSizes struct {
	N          int                `json:"n"`
	Delta      float64            `json:"delta"`
	Joint      bool               `json:"joint"`
	Folds      int                `json:"folds"`
	Seed       uint64             `json:"seed"`
	Repeats    int                `json:"repeats"`
	Assumption string             `json:"assumption"`
	Cluster    *rowClusters       `json:"cluster,omitempty"`
	Proxy      float64            `json:"proxy"` // binned estimate, in place of the unknown error
	LowerBy    calib.LowerMethod  `json:"lower_method"`
	Sizes      []calib.SizeBounds `json:"sizes"`
	// by method: slope of log(gap) against log(n), where the gap is the distance between Proxy and the mean bound
	Slopes map[string]report.Number `json:"slopes"`

	methods []calib.BoundMethod
}

// boundSizes computes the bounds of subsamples and prints how they depend on the number of rows.
func boundSizes(ctx context.Context, s streams, path string, o ceOptions) error {
	formats, err := pictureFormats(o.plots, path)
	if err != nil {
		return err
	}
	r := ceReport{Variation: &o.Variation, Perturbed: o.perturb}
	sample, err := r.readSample(ctx, s, path, &o)
	if err != nil {
		return err
	}
	if r.Weights != nil {
		return hint.Add(badInputf("%s: --sizes counts every row once, and the rows have weights (column weight)", displayPath(path)), alikeHint)
	}
	methods, err := o.supported(path)
	if err != nil {
		return err
	}
	if err := r.checkSample(sample, methods, path, o); err != nil {
		return err
	}
	r.Bandwidth = o.Bandwidth
	plan := calib.BoundPlan{Methods: methods, Lower: o.lower, Joint: o.joint, Params: o.BoundParams}
	bar := progress.Start(s.progress(o.quiet), "sizes", int64(len(o.subsamples.sizes)), 0)
	defer bar.Finish()
	plan.Done = func(size string) { bar.Add(1, size) }
	study, err := plan.BySize(ctx, sample, o.subsamples.sizes, o.subsamples.repeats)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return badInput(fmt.Errorf("%s: --sizes: %w", displayPath(path), err))
	}
	found := ceSizes{N: r.N, Delta: o.Delta, Joint: o.joint, Folds: o.Folds, Seed: o.Seed, Repeats: o.subsamples.repeats,
		Assumption: r.describeAssumptions(methods), Cluster: r.Cluster, Proxy: study.Proxy, LowerBy: o.lower, Sizes: study.Sizes,
		Slopes: map[string]report.Number{o.lower.String(): report.Number(study.LowerSlope)}, methods: methods}
	for name, slope := range study.UpperSlope {
		found.Slopes[name] = report.Number(slope)
	}
	return found.write(s, o, formats)
}

// write writes the files and prints the results.
func (c *ceSizes) write(s streams, o ceOptions, formats []picture.Format) error {
	if o.subsamples.out != "" {
		text, err := c.csv()
		if err == nil {
			err = durable.WriteFile(o.subsamples.out, text)
		}
		if err != nil {
			return err
		}
		s.wrote(o.subsamples.out)
	}
	if err := writePictures(o.plots, formats, c.draw); err != nil {
		return err
	}
	s.wrote(o.plots...)
	if o.json {
		return report.WriteJSON(s.out, "ce-sizes", c)
	}
	return c.print(s)
}

// rows calls the function 'visit' for each bound at each size. The argument 'gap' of 'visit' is the distance from the
// proxy to the mean of the bounds.
func (c *ceSizes) rows(visit func(method, kind string, n int, s calib.Spread, gap float64)) {
	for _, m := range c.methods {
		for _, at := range c.Sizes {
			visit(m.Name, "upper", at.N, at.Upper[m.Name], at.Upper[m.Name].Mean-c.Proxy)
		}
	}
	for _, at := range c.Sizes {
		visit(c.LowerBy.String(), "lower", at.N, at.Lower, c.Proxy-at.Lower.Mean)
	}
}

// csv returns the table as CSV.
func (c *ceSizes) csv() ([]byte, error) {
	var b bytes.Buffer
	w := table.NewWriter(&b)
	w.Header("method", "kind", "n", "mean", "sd", "trivial", "proxy", "gap")
	c.rows(func(method, kind string, n int, s calib.Spread, gap float64) {
		w.Text(method)
		w.Text(kind)
		w.Int(n)
		w.Float(s.Mean)
		w.Float(s.SD)
		w.Int(s.Trivial)
		w.Float(c.Proxy)
		w.Float(gap)
		w.EndRow()
	})
	err := w.Flush()
	return b.Bytes(), err
}

func (c *ceSizes) print(s streams) error {
	fmt.Fprintf(s.out, "calibration error E|s − P(y=1|s)| by number of rows, %s\n", c.Assumption)
	c.Cluster.print(s.out, "The bounds")
	fmt.Fprintf(s.out, "%d subsamples of each size, from %d rows (seed %d)\n\n", c.Repeats, c.N, c.Seed)
	t := report.Table{Columns: []report.Column{report.TextColumn("bound"), report.TextColumn("method"),
		report.ExactColumn("n"), report.RoundedColumn("mean", report.Nearest, 4),
		report.RoundedColumn("sd", report.Nearest, 4), {Name: "gap", Align: report.Right, Decimals: 4, Sign: true}}}
	c.rows(func(method, kind string, n int, s calib.Spread, gap float64) {
		what := map[string]string{"upper": "at most", "lower": "at least"}[kind]
		t.AddRow(report.Text(what), report.Text(nameMethod(method, c.sound(method))), report.Count(n),
			report.Number(s.Mean), report.Number(s.SD), report.Number(gap))
	})
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	slopes := report.Table{Columns: []report.Column{report.TextColumn("method"),
		{Name: "slope of log gap", Align: report.Right, Decimals: 3, Sign: true}}}
	for _, m := range c.methods {
		slopes.AddRow(report.Text(m.Name), c.Slopes[m.Name])
	}
	slopes.AddRow(report.Text(c.LowerBy.String()), c.Slopes[c.LowerBy.String()])
	if err := slopes.WriteText(s.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "\nThe gap is the distance from %s, a proxy for the unknown error: the binned estimate\n"+
		"from all rows, without a guarantee. The subsamples share rows, so they are not independent:\n"+
		"the table makes no joint statement, and independent data would spread more.\n",
		report.Round(c.Proxy, report.Nearest, 0, 4))
	return err
}

// sound reports whether the method with this name is sound. The names of lower bounds are not in c.methods, and every
// lower bound is sound.
func (c *ceSizes) sound(name string) bool {
	for _, m := range c.methods {
		if m.Name == name {
			return m.Sound
		}
	}
	return true
}

// draw draws two panels in the style of Ciosek et al. 2025: the bounds, as in Figure 4, and their distances from the
// proxy, as in Figure 3.
func (c *ceSizes) draw(format picture.Format) ([]byte, error) {
	bounds := picture.NewPlot("bounds, mean ± sd", "rows", "calibration error")
	gaps := picture.NewPlot("distance from the proxy", "rows", "gap")
	bounds.Y.Min, bounds.Y.Max = 0, 1
	var upper, gap []picture.Line
	var last string
	c.rows(func(method, _ string, n int, s calib.Spread, g float64) {
		if last != method {
			line := picture.Line{Name: method, Style: len(upper), Marks: true}
			upper, gap, last = append(upper, line), append(gap, line), method
		}
		b := &upper[len(upper)-1]
		b.Add(float64(n), s.Mean)
		b.Low, b.High = append(b.Low, max(0, s.Mean-s.SD)), append(b.High, min(1, s.Mean+s.SD))
		if g > 0 {
			gap[len(gap)-1].Add(float64(n), g)
		}
	})
	first, end := float64(c.Sizes[0].N), float64(c.Sizes[len(c.Sizes)-1].N)
	upper = append(upper, picture.Line{Name: "proxy", X: []float64{first, end}, Y: []float64{c.Proxy, c.Proxy}, Color: &picture.Halo})
	for _, p := range []*plot.Plot{bounds, gaps} {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, picture.Decades{}
		p.X.Min, p.X.Max = first, max(end, 2*first) // the two ends of an axis must differ
		p.Add(picture.Grid())
	}
	picture.AddLines(bounds, upper...)
	c.addGaps(gaps, gap)
	return picture.Draw(format, picture.Size{Width: 20, Height: 9},
		"Bounds on the calibration error by the number of rows, and their distance from the binned estimate",
		func(dc draw.Canvas) { picture.Panels(dc, [][]*plot.Plot{{bounds, gaps}}) })
}

// addGaps adds the lines of the gaps. The axis of the gaps is logarithmic, so the lines hold only positive gaps.
func (c *ceSizes) addGaps(p *plot.Plot, lines []picture.Line) {
	low, high := math.Inf(1), math.Inf(-1)
	var shown []picture.Line
	for _, l := range lines {
		for _, y := range l.Y {
			low, high = min(low, y), max(high, y)
		}
		if len(l.Y) > 0 {
			shown = append(shown, l)
		}
	}
	if len(shown) == 0 {
		p.Y.Min, p.Y.Max = 0, 1
		return
	}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, picture.Decades{}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)+1e-9))
	picture.AddLines(p, shown...)
}
