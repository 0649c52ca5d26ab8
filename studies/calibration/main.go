// Calibration makes the tables and the figure of docs/calibration-error.md. They show two things. The first is the gap
// between each bound and the true calibration error, for simulated classifiers whose calibration error is known (Ciosek
// et al. 2025, Figure 3 and Table 1). Some of these classifiers are calibrated. The second is how the bounds and the
// AUROC depend on the bandwidth h, for real data.
//
//	go run ./studies/calibration                  tables on stdout, marked for studies/page (hours)
//	go run ./studies/calibration -max 5           only samples up to 10⁵
//	go run ./studies/calibration -parts near      one of the parts real, gaps and near
//	go run ./studies/calibration -parts figure    the figure, from the table of gaps in the page
//
// The paper shows its four calibration functions only in the headings of a figure. This program uses four functions of
// the kinds that the paper describes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

const (
	delta     = 0.05
	bandwidth = 1.0 / 64 // h = 2⁻⁶, the largest h that hardly lowers the AUROC of the paper's classifiers
	folds     = 5
	eceBins   = 15
)

// A function is a calibration function η(s) for uniform scores s. Every function in the list 'functions' satisfies |η′|
// ≤ tanh(1/h)/(2h) = 32 and |η″| ≤ tanh²(1/h)/(2h²) = 2048, where h is the constant 'bandwidth'. If calib.Sech with the
// bandwidth h perturbs the scores, it ensures these bounds.
type function struct {
	name string
	eta  func(s float64) float64
}

var functions = []function{
	{"s²", func(s float64) float64 { return s * s }},
	{"(2s−1)²", func(s float64) float64 { return (2*s - 1) * (2*s - 1) }},
	{"1/(1+exp(5−10s))", func(s float64) float64 { return 1 / (1 + math.Exp(5-10*s)) }},
	// Each of 15 bins contains two periods of the sine, so the sine cancels in the mean over a bin.
	{"s + 0.2s(1−s)sin(60πs)", func(s float64) float64 { return s + 0.2*s*(1-s)*math.Sin(60*math.Pi*s) }},
}

// truth returns the calibration error and the total variation, which it computes on a grid of 10⁶ points.
func (f function) truth() (ce, variation float64) {
	const steps = 1_000_000
	for i := range steps {
		a := float64(i) / steps
		s := (float64(i) + 0.5) / steps
		ce += math.Abs(s-f.eta(s)) / steps
		variation += math.Abs(f.eta(a+1.0/steps) - f.eta(a))
	}
	return ce, variation
}

func (f function) draw(n int, rng *rand.Rand) (score, label []float64) {
	score, label = make([]float64, n), make([]float64, n)
	for i := range score {
		score[i] = rng.Float64()
		if rng.Float64() < f.eta(score[i]) {
			label[i] = 1
		}
	}
	return score, label
}

var methods = []string{"binned-tv", "binned-lipschitz", "lower", "nw", "nw-second-order", "ciosek-nw", "tv", "lipschitz", "ECE"}

// gaps computes the bound of each method on one sample, and returns the distances of the bounds from the truth. The
// distance is negative if the bound is on the wrong side of the truth. For the ECE, which is not a bound, the distance
// is |ECE − truth|.
func gaps(score, label []float64, ce, variation float64, seed uint64) ([]float64, error) {
	sample, err := calib.NewSample(score, label)
	if err != nil {
		return nil, err
	}
	params := calib.BoundParams{CrossFit: calib.CrossFit{Delta: delta, Folds: folds, Seed: seed},
		Variation: variation, Bandwidth: bandwidth}
	gap := map[string]float64{}
	for _, m := range calib.BoundMethods {
		b, err := m.Compute(sample, params)
		if err != nil {
			return nil, err
		}
		gap[m.Name] = b.Sum() - ce
	}
	lower, err := calib.BettingLower(sample, delta, seed)
	if err != nil {
		return nil, err
	}
	gap["lower"] = ce - lower.Value
	p := &calib.Predictions{Confidence: score, Correct: make([]bool, len(label))}
	for i, y := range label {
		p.Correct[i] = y == 1
	}
	bins, err := calib.EqualWidth(p, eceBins, calib.UpperClosed)
	if err != nil {
		return nil, err
	}
	gap["ECE"] = math.Abs(calib.ECE(bins) - ce)
	out := make([]float64, len(methods))
	for k, name := range methods {
		out[k] = gap[name]
	}
	return out, nil
}

func repeats(n int) int {
	switch {
	case n >= 10_000_000:
		return 1
	case n >= 1_000_000:
		return 4
	}
	return 16
}

// A curve holds the mean gaps of one method on one function, by sample size.
type curve struct{ n, gap []float64 }

// rate returns the slope of log gap against log n.
func (c curve) rate() float64 {
	x, y := make([]float64, len(c.n)), make([]float64, len(c.n))
	for i := range x {
		x[i], y[i] = math.Log(c.n[i]), math.Log(c.gap[i])
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return slope
}

func figure3(maxPower int) ([][]curve, error) {
	curves := make([][]curve, len(functions))
	fmt.Println("<!-- made: gaps -->")
	for k, f := range functions {
		ce, variation := f.truth()
		curves[k] = make([]curve, len(methods))
		fmt.Printf("\n%s\n\n| n |", f.heading(ce, variation))
		for _, m := range methods {
			fmt.Printf(" %s |", m)
		}
		fmt.Printf("\n| --- |%s\n", repeat(" --- |", len(methods)))
		for power := 3; power <= maxPower; power++ {
			n := int(math.Pow10(power))
			mean := make([]float64, len(methods))
			for r := range repeats(n) {
				seed := uint64(1000*power + r)
				score, label := f.draw(n, rand.New(rand.NewPCG(seed, uint64(k))))
				g, err := gaps(score, label, ce, variation, seed)
				if err != nil {
					return nil, err
				}
				for m := range mean {
					mean[m] += g[m] / float64(repeats(n))
				}
			}
			fmt.Printf("| 10^%d |", power)
			for m, g := range mean {
				fmt.Printf(" %s |", report.Round(g, report.Up, 0, 4))
				curves[k][m].n = append(curves[k][m].n, float64(n))
				curves[k][m].gap = append(curves[k][m].gap, g)
			}
			fmt.Println()
		}
	}
	fmt.Print("\n<!-- end: gaps -->\n\n")
	return curves, nil
}

func repeat(s string, n int) string {
	out := ""
	for range n {
		out += s
	}
	return out
}

func table1(curves [][]curve) {
	paper := map[string]string{"ciosek-nw": "[−0.406, −0.213]", "tv": "[−0.423, −0.164]", "lipschitz": "[−0.574, −0.346]"}
	fmt.Printf("<!-- made: rates -->\n\n| method | rate | in the paper |\n| --- | --- | --- |\n")
	for m, name := range methods {
		lo, hi := math.Inf(1), math.Inf(-1)
		for k := range functions {
			r := curves[k][m].rate()
			lo, hi = min(lo, r), max(hi, r)
		}
		fmt.Printf("| %s | [%.3f, %.3f] | %s |\n", name, lo, hi, paper[name])
	}
	fmt.Print("\n<!-- end: rates -->\n\n")
}

// decades is a plot.Ticker that places ticks at the powers of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for k := math.Ceil(math.Log10(lo) - 1e-9); k <= math.Log10(hi)+1e-9; k++ {
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, k), Label: fmt.Sprintf("1e%g", k)})
	}
	return ticks
}

// The list drawnMethods holds the methods of the figure: the recommended methods, and the paper's best method of each
// kind.
var drawnMethods = []string{"binned-tv", "binned-lipschitz", "lower", "nw-second-order", "tv", "lipschitz"}

// drawCurves draws a figure of four panels, in the style of Figure 3 of Ciosek et al. 2025.
func drawCurves(curves [][]curve, path string) error {
	panels := [][]*plot.Plot{make([]*plot.Plot, 2), make([]*plot.Plot, 2)}
	for k, f := range functions {
		p := picture.NewPlot("η(s) = "+f.name, "n", "gap")
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{}
		p.Y.Min, p.Y.Max = 1e-4, 10 // the same limits in all panels
		var lines []picture.Line
		for m, name := range drawnMethods {
			c := curves[k][slices.Index(methods, name)]
			lines = append(lines, picture.Line{Name: name, X: c.n, Y: c.gap, Style: m})
		}
		p.Add(picture.Grid())
		picture.AddLines(p, lines...)
		panels[k/2][k%2] = p
	}
	figure, err := picture.Draw(picture.SVG, picture.Size{Width: 20, Height: 18},
		"The gap of each bound on the calibration error by the number of samples, for four functions",
		func(c draw.Canvas) { picture.Panels(c, panels) })
	if err != nil {
		return err
	}
	return os.WriteFile(path, figure, 0o644)
}

// realData prints the AUROC and bounds on the calibration error for the saved scores of a real classifier, as functions
// of the bandwidth h of the perturbation.
func realData(path string) error {
	t, err := table.Read(context.Background(), path, table.Options{Required: []string{"score", "label"}})
	if err != nil {
		return err
	}
	score, _ := t.Column("score")
	label, _ := t.Column("label")
	original, err := calib.NewSample(score, label)
	if err != nil {
		return err
	}
	before, err := original.AUROC()
	if err != nil {
		return err
	}
	params := calib.BoundParams{CrossFit: calib.CrossFit{Delta: delta, Folds: folds, Seed: 1}, Variation: 1}
	fmt.Printf("<!-- made: real -->\n\nThe file has %d scores. Each bound holds separately, with δ = %v. "+
		"The scores before perturbation have the following AUROC and bounds (for total variation at most V = 1): AUROC %.4f", t.N, delta, before)
	var smooth []calib.BoundMethod
	for _, m := range calib.BoundMethods {
		if m.Assumption == calib.PerturbedScores {
			smooth = append(smooth, m)
			continue
		}
		b, err := m.Compute(original, params)
		if err != nil {
			return err
		}
		fmt.Printf(", `%s` %s", m.Name, report.Round(b.Value, report.Up, 0, 4))
	}
	lower, err := calib.BettingLower(original, delta, 1)
	if err != nil {
		return err
	}
	fmt.Printf(", lower bound %s.\n\n| h | AUROC |", report.Round(lower.Value, report.Down, 0, 4))
	for _, m := range smooth {
		fmt.Printf(" %s |", m.Name)
	}
	fmt.Printf(" lower |\n| --- | --- |%s\n", repeat(" --- |", len(smooth)+1))
	for power := -2; power >= -8; power-- {
		params.Bandwidth = math.Ldexp(1, power)
		perturbed := make([]float64, t.N)
		kernel := calib.Sech{Bandwidth: params.Bandwidth, Seed: 1}
		for i, s := range score {
			perturbed[i] = kernel.Perturb(s, i)
		}
		sample, err := calib.NewSample(perturbed, label)
		if err != nil {
			return err
		}
		auroc, err := sample.AUROC()
		if err != nil {
			return err
		}
		fmt.Printf("| 2^%d | %.4f |", power, auroc)
		for _, m := range smooth {
			b, err := m.Compute(sample, params)
			if err != nil {
				return err
			}
			fmt.Printf(" %s |", report.Round(b.Value, report.Up, 0, 4))
		}
		lower, err := calib.BettingLower(sample, delta, 1)
		if err != nil {
			return err
		}
		fmt.Printf(" %s |\n", report.Round(lower.Value, report.Down, 0, 4))
	}
	fmt.Print("\n<!-- end: real -->\n\n")
	return nil
}

func main() {
	log.SetFlags(0)
	maxPower := flag.Int("max", 7, "the largest sample size is 10 to this power; at least 4")
	minPower := flag.Int("min", 3, "the smallest sample size is 10 to this power, for -parts near")
	figure := flag.String("figure", "docs/img/ce-gap.svg", "figure to write")
	scores := flag.String("scores", "testdata/calibration/scores.csv.gz", "scores of the real classifier")
	page := flag.String("page", "docs/calibration-error.md", "page with the table of gaps, for -parts figure")
	parts := flag.String("parts", "real,gaps,near", "what to make")
	flag.Parse()
	programs := map[string]func() error{
		"real": func() error { return realData(*scores) },
		"gaps": func() error { return measureGaps(max(4, *maxPower)) },
		"near": func() error { return nearCalibration(*minPower, *maxPower) },
		"figure": func() error {
			curves, err := readGaps(*page)
			if err != nil {
				return err
			}
			return drawCurves(curves, *figure)
		},
	}
	for part := range strings.SplitSeq(*parts, ",") {
		if programs[part] == nil {
			log.Fatalf("-parts %s: want real, gaps, near or figure", part)
		}
		if err := programs[part](); err != nil {
			log.Fatal(err)
		}
	}
}

// measureGaps prints the tables of gaps and rates.
func measureGaps(maxPower int) error {
	curves, err := figure3(maxPower)
	if err != nil {
		return err
	}
	table1(curves)
	return nil
}
