package page

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// chart holds the data from which the script draws a chart. All series of a chart have the same abscissae.
type chart struct {
	Title   string   `json:"title"`
	Meaning string   `json:"-"`
	XLabel  string   `json:"xLabel"`
	YLabel  string   `json:"yLabel"`
	Percent bool     `json:"percent"`
	X       []number `json:"x"`
	Series  []series `json:"series"`
}

// series holds the values of one line, with null for gaps.
type series struct {
	Name  string `json:"name"`
	Color int    `json:"color"` // number of the run's colour; −1: the colour of the text
	Dash  int    `json:"dash"`  // number of the quantity's dash pattern
	// Shape is "step", "bins", "line", "points" or "dots". With the shape "step", the line has each value from the
	// previous abscissa up to the abscissa of this value. With "bins", the line has each value from the abscissa of
	// this value up to the next abscissa. The shape "points" is a line with marks, and "dots" is marks alone.
	Shape  string   `json:"shape"`
	Values []number `json:"values"`
	// Low and High are the ends of a band. Each has one value for each value of the line. Low and High are absent if
	// there is no band.
	Low  []number `json:"low,omitempty"`
	High []number `json:"high,omitempty"`
	// Text has a description of each value. Text is set if the number alone is not enough.
	Text []string `json:"text,omitempty"`
}

type number = report.Number

func (p Page) charts() []chart {
	var all []chart
	for _, c := range []chart{p.accuracyChart(), p.calibrationChart(), p.reliabilityChart(), p.radiusChart()} {
		if len(c.Series) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// gridSteps is the approximate number of radii at which a curve is drawn.
const gridSteps = 160

// grid returns round radii from 0 to beyond the largest radius.
func (p Page) grid(steps int) []number {
	largest := 0.0
	for _, r := range p.Runs {
		for _, row := range r.Rows {
			if !row.Unbounded {
				largest = max(largest, row.CertifiedRadius())
			}
		}
		if r.Audit == nil {
			continue
		}
		for _, d := range r.Audit.Broken {
			if !math.IsInf(d, 1) {
				largest = max(largest, d)
			}
		}
	}
	step := 1.0 / 64
	if largest > 0 {
		step = roundStep(largest / float64(steps))
	}
	grid := []number{0}
	for k := 1; float64(k-1)*step <= largest && len(grid) < 4*steps; k++ {
		x := float64(k) * step
		if scale := math.Round(1 / step); step < 1 {
			x = float64(k) / scale // this division gives the float64 nearest to the decimal; k·step may differ from it
		}
		grid = append(grid, number(x))
	}
	return grid
}

// roundStep returns the smallest number that is at least x and equals 1, 2 or 5 times a power of ten.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x {
			return m * power
		}
	}
	return 10 * power
}

// countAt returns a function of a radius. The function counts the correct examples whose certified radius is at least
// the given radius.
func countAt(s summary.Summary) func(radius float64) int {
	var radii []float64
	for _, row := range s.Rows {
		switch {
		case row.Correct && row.Unbounded:
			radii = append(radii, math.Inf(1))
		case row.Correct:
			radii = append(radii, row.Radius)
		}
	}
	slices.Sort(radii)
	return func(radius float64) int { return len(radii) - sort.SearchFloat64s(radii, radius) }
}

func (p Page) accuracyChart() chart {
	what := summary.Accuracy(p.summaries())
	c := chart{Title: report.Capitalise(what) + " by radius", XLabel: "radius (" + summary.Norms(p.summaries()) + ")", YLabel: what, Percent: true, X: p.grid(gridSteps),
		Meaning: "The share of the examples that are certified to be classified correctly under every perturbation " +
			"up to the radius. The lower end of the band holds for these examples at all radii at once, with the " +
			"stated probability over the noise." + p.claims()}
	best := series{Name: "best of the runs", Color: -1, Dash: 2, Shape: "step", Values: make([]number, len(c.X))}
	for k, r := range p.Runs {
		count := countAt(r.Summary)
		line := series{Name: r.RunName(p.summaries()), Color: k, Shape: "step"}
		for i, x := range c.X {
			n := count(float64(x))
			value := number(float64(n) / float64(r.Examples))
			line.Values = append(line.Values, value)
			best.Values[i] = max(best.Values[i], value)
			text := percent(float64(value), report.Down)
			if d := r.Dataset; d != nil {
				least := number(math.Max(0, float64(int64(n)-d.Failures)/float64(r.Examples)))
				line.Low, line.High = append(line.Low, least), append(line.High, value)
				text += fmt.Sprintf(", at least %s with probability %s", percent(float64(least), report.Down), complement(d.Delta))
			}
			line.Text = append(line.Text, text)
		}
		c.Series = append(c.Series, line)
	}
	for k, r := range p.Runs {
		if r.Audit != nil && r.Audit.Examples > 0 {
			c.Series = append(c.Series, auditSeries(r, k, c.X))
		}
	}
	if len(c.Series) > len(p.Runs) {
		c.Meaning += " The line under attack is the share of the audited examples for which 'rscert audit' found no change of the " +
			"answer within the radius: an upper bound, so the truth lies between the two lines."
	}
	if len(p.Runs) > 1 && summary.Comparable(p.summaries()) {
		for _, value := range best.Values {
			best.Text = append(best.Text, percent(float64(value), report.Down))
		}
		c.Series = append(c.Series, best)
		c.Meaning += " The best of the runs at each radius is no curve of one classifier: it is chosen after the fact."
	}
	return c
}

// auditSeries returns, at each radius, the share of a run's audited examples that the attack did not break.
func auditSeries(r Run, k int, radii []number) series {
	line := series{Name: fmt.Sprintf("%s under attack (%d audited)", r.Name, r.Audit.Examples), Color: k, Dash: 1, Shape: "step"}
	for _, x := range radii {
		n := r.Audit.Unbroken(float64(x))
		share := float64(n) / float64(r.Audit.Examples)
		line.Values = append(line.Values, number(share))
		line.Text = append(line.Text, fmt.Sprintf("at most %s: %d of %d audited", percent(share, report.Up), n, r.Audit.Examples))
	}
	return line
}

// calibrationChart shows bounds on the calibration. If α is known, it shows the bounds that hold with the stated
// probability. If α is unknown, it shows bounds that are valid if every bound on a confidence holds.
func (p Page) calibrationChart() chart {
	c := chart{Title: "Calibration under attack by radius", XLabel: "radius (" + summary.Norms(p.summaries()) + ")", YLabel: "at most",
		Meaning: "The largest calibration error (CCE) and the largest Brier score (CBS) that an attack within the radius can " +
			"cause, over the examples whose class is certified at this radius. At larger radii there are fewer such " +
			"examples, so the lines may fall. Only the points are computed; the lines only connect them."}
	at := map[number]bool{}
	p.bounds(func(_ int, radius number, _ summary.Calibration) { at[radius] = true })
	c.X = slices.Sorted(maps.Keys(at))
	if len(c.X) < 2 {
		return chart{}
	}
	lines := map[[2]int]*series{}
	p.bounds(func(k int, radius number, b summary.Calibration) {
		cce, cbs, how := b.CCE, b.CBS, "if every bound holds"
		if b.Certified != nil {
			cce, cbs, how = b.Certified.CCE, b.Certified.CBS, "with probability "+complement(b.Certified.Delta)
		}
		for what, value := range []float64{cce, cbs} {
			line := lines[[2]int{k, what}]
			if line == nil {
				line = &series{Name: p.named(k, []string{"calibration error", "Brier score"}[what]), Color: k, Dash: what, Shape: "points",
					Values: missing(len(c.X)), Text: make([]string, len(c.X))}
				lines[[2]int{k, what}] = line
			}
			i, _ := slices.BinarySearch(c.X, radius)
			line.Values[i] = number(value)
			line.Text[i] = fmt.Sprintf("at most %s %s, %s", report.Round(value, report.Up, 0, 4), how, counted(b.N))
		}
	})
	for k := range p.Runs {
		for what := range 2 {
			if line := lines[[2]int{k, what}]; line != nil {
				c.Series = append(c.Series, *line)
			}
		}
	}
	return c
}

// bounds calls the function 'visit' once for each run and each radius at which the run has bounds.
func (p Page) bounds(visit func(run int, radius number, c summary.Calibration)) {
	for k, r := range p.Runs {
		for _, c := range r.Calibration {
			if c.Radius != nil {
				visit(k, number(*c.Radius), c)
			}
		}
	}
}

// named returns the name of a line. If there are several runs, the name includes the run's name.
func (p Page) named(run int, what string) string {
	if len(p.Runs) == 1 {
		return what
	}
	return p.Runs[run].Name + ": " + what
}

func missing(n int) []number {
	values := make([]number, n)
	for i := range values {
		values[i] = number(math.NaN())
	}
	return values
}

func (p Page) reliabilityChart() chart {
	c := chart{Title: "Reliability of the votes", XLabel: "share of the votes", YLabel: "accuracy", Percent: true,
		Meaning: "The share of right answers among the examples whose share of the votes lies in a bin. On the diagonal, " +
			"the accuracy equals the share of the votes. The examples are not attacked. Each bin has its own " +
			"confidence interval, which the bar shows."}
	at := map[number]bool{0: true, 1: true}
	for _, r := range p.Runs {
		if r.Reliability == nil {
			continue
		}
		for _, b := range r.Reliability.Bins {
			if b.N > 0 {
				at[number(b.Confidence)] = true
			}
		}
	}
	c.X = slices.Sorted(maps.Keys(at))
	for k, r := range p.Runs {
		if r.Reliability == nil {
			continue
		}
		n := len(c.X)
		line := series{Name: r.Name, Color: k, Shape: "dots", Values: missing(n), Low: missing(n), High: missing(n), Text: make([]string, n)}
		for j, b := range r.Reliability.Bins {
			if b.N == 0 {
				continue
			}
			i, _ := slices.BinarySearch(c.X, number(b.Confidence))
			line.Values[i] = number(b.Accuracy)
			line.Text[i] = fmt.Sprintf("%s right of %s", percent(b.Accuracy, report.Nearest), counted(b.N))
			if j < len(r.Reliability.Bands) {
				line.Low[i], line.High[i] = number(r.Reliability.Bands[j][0]), number(r.Reliability.Bands[j][1])
			}
		}
		c.Series = append(c.Series, line)
	}
	if len(c.Series) > 0 {
		c.Series = append(c.Series, series{Name: "calibrated", Color: -1, Dash: 2, Shape: "line", Values: c.X})
	}
	return c
}

// histogramBins is the approximate number of bins of radii.
const histogramBins = 24

func (p Page) radiusChart() chart {
	c := chart{Title: "Certified radii", XLabel: "radius (" + summary.Norms(p.summaries()) + ")", YLabel: "share of the examples", Percent: true, X: p.grid(histogramBins),
		Meaning: "How the radii of the correctly certified examples are distributed: the share of all examples " +
			"with a radius from one abscissa up to the next. Wrong and abstained examples are in no bin."}
	for k, r := range p.Runs {
		count := countAt(r.Summary)
		line := series{Name: r.Name, Color: k, Shape: "bins"}
		for i, x := range c.X {
			n := count(float64(x))
			if i+1 < len(c.X) {
				n -= count(float64(c.X[i+1]))
			}
			line.Values = append(line.Values, number(float64(n)/float64(r.Examples)))
			line.Text = append(line.Text, counted(n))
		}
		c.Series = append(c.Series, line)
	}
	return c
}

// counted returns a number of examples as text, such as "12 examples".
func counted(n int) string {
	if n == 1 {
		return "1 example"
	}
	return fmt.Sprintf("%d examples", n)
}
