// Scores compares methods on a run of the bundled model: certification from scores, certification from votes, and
// bounds on the confidence. On synthetic data it compares bounds on means. It writes docs/scores-tables.md and
// docs/img/confidence-widths.svg. The numbers in docs/scores.md and docs/confidence.md come from the program's tables.
// The commands are:
//
//	rscert certify --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 \
//	    --n 1000 --save-scores --out RUN
//	go run ./studies/scores RUN docs [figure]
//
// With the argument 'figure' it makes only the figure.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scores:", err)
		os.Exit(1)
	}
}

const (
	alpha = 0.001
	sigma = 0.5
)

func run(args []string) error {
	figureOnly := len(args) == 3 && args[2] == "figure"
	if len(args) != 2 && !figureOnly {
		return errors.New("usage: scores RUN DOCS [figure]")
	}
	r, err := runfolder.Read(args[0])
	if err != nil {
		return err
	}
	if r.Parameters.Sigma != sigma {
		return fmt.Errorf("%s: σ = %v, want %v", args[0], r.Parameters.Sigma, sigma)
	}
	examples, err := readScores(filepath.Join(args[0], runfolder.ScoresFile))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	s := study{&b, examples}
	figure := filepath.Join(args[1], "img", "confidence-widths.svg")
	if figureOnly {
		widths, err := s.confidenceWidths(1000)
		if err != nil {
			return err
		}
		return drawWidths(figure, widths)
	}
	fmt.Fprint(&b, introduction)
	fmt.Fprint(&b, "<!-- made: scores-tables -->\n\n")
	fmt.Fprintf(&b, "%d examples, σ = %g, α = %g, n0 = %d\n", len(examples), sigma, alpha, len(examples[0].selection)/examples[0].classes)
	if err := s.meanWidths(); err != nil {
		return err
	}
	radii := map[certify.MarginKind][]float64{
		certify.SecondMargin: {0.25, 0.5, 0.75, 1, 1.25},
		certify.FirstMargin:  {0.1, 0.2, 0.3, 0.4, 0.5},
	}
	for _, kind := range []certify.MarginKind{certify.SecondMargin, certify.FirstMargin} {
		for _, n := range []int{100, 300, 500, 1000} {
			fmt.Fprintf(&b, "\n## %s margin, temperature 1, n = %d\n\n", kind, n)
			if err := s.certifiedAccuracy(kind, n, 1, meanBounds(), radii[kind]); err != nil {
				return err
			}
		}
		for _, temperature := range []float64{0.1, 0.5, 2, 4} {
			for _, n := range []int{100, 1000} {
				fmt.Fprintf(&b, "\n## %s margin, temperature %g, n = %d\n\n", kind, temperature, n)
				if err := s.certifiedAccuracy(kind, n, temperature, []certify.MeanBound{certify.Betting}, radii[kind]); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range []int{100, 300, 500, 1000} {
		fmt.Fprintf(&b, "\n## width of the confidence interval, n = %d\n\n", n)
		before := b.Len()
		widths, err := s.confidenceWidths(n)
		if err != nil {
			return err
		}
		switch table := string(b.Bytes()[before:]); n {
		case 100:
			printMarked("widths-100", table)
		case 1000:
			printMarked("widths-1000", table)
			if err := drawWidths(figure, widths); err != nil {
				return err
			}
		}
	}
	var split strings.Builder
	split.WriteString(splitHeader())
	for _, n := range []int{30, 100, 300, 1000} {
		fmt.Fprintf(&b, "\n## width of the label's confidence interval without selection samples, n = %d\n\n", n)
		widths, err := s.tangentWidths(n)
		if err != nil {
			return err
		}
		split.WriteString(splitRow(n, widths))
	}
	printMarked("split", split.String())
	fmt.Fprint(&b, "\n<!-- end: scores-tables -->\n")
	return os.WriteFile(filepath.Join(args[1], "scores-tables.md"), b.Bytes(), 0o644)
}

// introduction is the text above the tables.
const introduction = "# Certificates from scores: tables\n" +
	"\n" +
	"`go run ./studies/scores RUN docs` makes these tables, where RUN is the run `scores` of `scripts/studies.sh`.\n" +
	"[scores.md](scores.md#bounds-on-a-mean---method) explains the first table. A table for the first or the second margin\n" +
	"([scores.md](scores.md#from-means-to-a-margin---combine)) gives the certified accuracy in % at each radius R, and the\n" +
	"average radius. Its rows name the methods for scores: for example, `betting+directed` means\n" +
	"`--method betting --combine directed`. The row `votes, margin` is for the certificates that `--method margin` computes\n" +
	"from votes. A table of widths gives the mean width of the intervals for the confidence under attack\n" +
	"([confidence.md](confidence.md)). The mean is over the examples whose class is certified at the radius R of the attack.\n" +
	"The last row gives the number of these examples; where this number is 0, the width is printed as 0.0000. In some tables\n" +
	"of widths, a column k gives the number of samples that the method `tangent` uses for its guess of the distribution of\n" +
	"the score.\n" +
	"\n"

// study holds the input and the output of the tables.
type study struct {
	*bytes.Buffer
	examples []example
}

// example holds one example of the run, with all its scores at temperature 1.
type example struct {
	index, label, classes int
	selection, estimation []float32
}

func readScores(path string) (examples []example, err error) {
	r, err := scorefile.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		index, label, err := r.Next()
		if errors.Is(err, io.EOF) {
			return examples, nil
		}
		if err != nil {
			return nil, err
		}
		e := example{index: index, label: label, classes: r.Classes}
		err = errors.Join(
			r.Selection(func(p []float32) error { e.selection = append(e.selection, p...); return nil }),
			r.Estimation(func(p []float32) error { e.estimation = append(e.estimation, p...); return nil }),
		)
		if err != nil {
			return nil, err
		}
		examples = append(examples, e)
	}
}

// tempered returns the example with its scores at another temperature. It keeps all selection samples, and only the
// first n of the other samples.
func (e example) tempered(n int, temperature float64) example {
	e.selection = append([]float32(nil), e.selection...)
	e.estimation = append([]float32(nil), e.estimation[:n*e.classes]...)
	certify.Retemper(e.selection, e.classes, temperature)
	certify.Retemper(e.estimation, e.classes, temperature)
	return e
}

func temperedAll(examples []example, n int, temperature float64) []example {
	all := make([]example, len(examples))
	for i, e := range examples {
		all[i] = e.tempered(n, temperature)
	}
	return all
}

func (e example) certify(c *certify.ScoreCertifier) (certify.Certificate, []certify.ConfidenceBound, error) {
	m := e.classes
	a, err := c.Start(certify.ScoreExample{
		Index: e.index, Label: e.label, Classes: m, N0: int64(len(e.selection) / m), N: int64(len(e.estimation) / m),
	})
	if err != nil {
		return certify.Certificate{}, nil, err
	}
	if err := errors.Join(a.Selection(e.selection), a.Estimation(e.estimation)); err != nil {
		return certify.Certificate{}, nil, err
	}
	cert, err := a.Certificate()
	return cert, certified(a.Confidence(cert)), err
}

// The function 'certified' returns the bounds that hold for the certified class. These are the bounds at radii up to
// the certified radius.
func certified(bounds []certify.ConfidenceBound) []certify.ConfidenceBound {
	return slices.DeleteFunc(bounds, func(b certify.ConfidenceBound) bool { return !b.Certified })
}

// votes returns the example's samples as votes: each sample votes for the class of its largest score.
func (e example) votes() certify.Votes {
	count := func(rows []float32) []int64 {
		counts := make([]int64, e.classes)
		for ; len(rows) > 0; rows = rows[e.classes:] {
			best := 0
			for k, p := range rows[:e.classes] {
				if p > rows[best] {
					best = k
				}
			}
			counts[best]++
		}
		return counts
	}
	return certify.Votes{
		Index: e.index, Label: e.label,
		N0: int64(len(e.selection) / e.classes), Counts0: count(e.selection),
		N: int64(len(e.estimation) / e.classes), Counts: count(e.estimation),
	}
}

// certifiedAccuracy prints a table in the form of Moutaouakil 2024, Tables 2–3. It shows the certified accuracy in % by
// radius, with one row per method.
func (s study) certifiedAccuracy(kind certify.MarginKind, n int, temperature float64, bounds []certify.MeanBound, radii []float64) error {
	header := "| method | R = 0 |"
	for _, r := range radii {
		header += fmt.Sprintf(" %g |", r)
	}
	fmt.Fprintln(s, header+" average radius |")
	fmt.Fprintln(s, "| --- |"+strings.Repeat(" ---: |", len(radii)+2))
	all := temperedAll(s.examples, n, temperature)
	radii = append([]float64{0}, radii...)
	print := func(certs []certify.Certificate) {
		var t certify.Tally
		t.Add(certs...)
		summary := t.Summary(radii)
		line := "| " + summary.Method
		if !summary.Sound {
			line += " (not sound)"
		}
		for _, c := range summary.Certified {
			line += fmt.Sprintf(" | %.1f", 100*c.Accuracy)
		}
		fmt.Fprintf(s, "%s | %.4f |\n", line, summary.AverageRadius)
	}
	byVotes, err := certify.NewVoteCertifier(certify.VoteParams{Target: certify.Target{Margin: kind, Alpha: alpha, Sigma: sigma}, Method: certify.ExactMargin})
	if err != nil {
		return err
	}
	var certs []certify.Certificate
	for _, e := range all {
		cert, err := byVotes.Certify(e.votes())
		if err != nil {
			return err
		}
		cert.Method = "votes, margin"
		certs = append(certs, cert)
	}
	print(certs)
	combines := []certify.Combine{certify.Directed, certify.Projected, certify.BonferroniScores, certify.Taylor}
	for _, bound := range bounds {
		for _, combine := range combines {
			if kind == certify.FirstMargin && (combine == certify.Directed || combine == certify.Taylor) {
				continue // for the first margin, 'directed' equals 'projected', and 'taylor' is not defined
			}
			if combine == certify.Taylor && bound != certify.Betting {
				continue
			}
			c, err := certify.NewScoreCertifier(certify.ScoreParams{Target: certify.Target{Margin: kind, Alpha: alpha, Sigma: sigma}, Bound: bound, Combine: combine})
			if err != nil {
				return err
			}
			certs = certs[:0]
			for _, e := range all {
				cert, _, err := e.certify(c)
				if err != nil {
					return err
				}
				certs = append(certs, cert)
			}
			print(certs)
		}
	}
	return nil
}

// confidenceWidths prints the mean width of the confidence intervals by radius, as in Emde et al. 2025, Figure 8. The
// mean is over the same examples for every method: the examples whose class the method 'betting+directed' certifies
// at the radius.
func (s study) confidenceWidths(n int) (map[string][]float64, error) {
	drawn := map[string][]float64{}
	radii := widthRadii
	methods := []certify.ConfidenceParams{
		{Method: certify.ConfidenceStandard, Bound: certify.Hoeffding},
		{Method: certify.ConfidenceStandard, Bound: certify.Bernstein},
		{Method: certify.ConfidenceStandard, Bound: certify.Betting},
		{Method: certify.ConfidenceCDF, Band: certify.BandDKW},
		{Method: certify.ConfidenceCDF, Band: certify.BandBinomial},
		{Method: certify.ConfidenceTangent, Bound: certify.Hoeffding},
		{Method: certify.ConfidenceTangent, Bound: certify.Betting},
	}
	header := "| method |"
	for _, r := range radii {
		header += fmt.Sprintf(" R = %g |", r)
	}
	fmt.Fprintln(s, header)
	fmt.Fprintln(s, "| --- |"+strings.Repeat(" ---: |", len(radii)))
	all := temperedAll(s.examples, n, 1)
	var counts []int
	for _, method := range methods {
		method.Radii = radii
		c, err := certify.NewScoreCertifier(certify.ScoreParams{Target: certify.Target{Alpha: alpha, Sigma: sigma}, Confidence: method})
		if err != nil {
			return nil, err
		}
		widths := make([]float64, len(radii))
		counts = make([]int, len(radii))
		for _, e := range all {
			_, bounds, err := e.certify(c)
			if err != nil {
				return nil, err
			}
			for i, b := range bounds { // all methods have the same certificate, and differ only in the bounds
				if b.Certified {
					widths[i] += b.Upper - b.Lower
					counts[i]++
				}
			}
		}
		line := "| " + method.String()
		for i := range widths {
			widths[i] /= math.Max(1, float64(counts[i]))
			line += fmt.Sprintf(" | %.4f", widths[i])
		}
		fmt.Fprintln(s, line+" |")
		drawn[method.String()] = widths
	}
	line := "| examples"
	for _, k := range counts {
		line += fmt.Sprintf(" | %d", k)
	}
	fmt.Fprintln(s, line+" |")
	return drawn, nil
}

// widthRadii holds the radii of the confidence intervals.
var widthRadii = []float64{0, 0.1, 0.25, 0.5, 0.75}

// drawWidths draws the widths by radius, with one line per method.
func drawWidths(path string, widths map[string][]float64) error {
	p := picture.NewPlot("confidence under attack, n = 1,000", "radius R", "mean width of the interval")
	p.Y.Min = 0
	var lines []picture.Line
	for i, name := range []string{"standard+hoeffding", "cdf+dkw", "standard+betting", "cdf+binomial", "tangent+betting"} {
		line := picture.Line{Name: name, Style: i}
		for j, w := range widths[name] {
			line.Add(widthRadii[j], w)
		}
		lines = append(lines, line)
	}
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	svg, err := picture.Draw(picture.SVG, picture.Size{Width: 15, Height: 10},
		"The mean width of the interval of the confidence by the radius of the attack, for five methods", p.Draw)
	if err != nil {
		return err
	}
	return os.WriteFile(path, svg, 0o644)
}

// meanWidths prints by how much each lower bound at α = 0.001 is below the true mean. Each number is an average over
// repetitions. The data are synthetic, and nearly all of them are close to 1.
func (s study) meanWidths() error {
	fmt.Fprint(s, "\n## mean − bound, α = 0.001\n\n")
	fmt.Fprint(s, "| data | n |")
	for _, b := range meanBounds() {
		fmt.Fprintf(s, " %s |", b)
	}
	fmt.Fprintln(s, "\n| --- | ---: |"+strings.Repeat(" ---: |", len(meanBounds())))
	for _, d := range []struct {
		name string
		mean float64
		draw func(r *rand.Rand) float64
	}{
		{"0 or 1, mean 0.999", 0.999, func(r *rand.Rand) float64 { return indicator(r.Float64() < 0.999) }},
		{"0 or 1, mean 0.99", 0.99, func(r *rand.Rand) float64 { return indicator(r.Float64() < 0.99) }},
		{"Beta(99,1), mean 0.99", 0.99, func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 1.0/99) }},
		{"99 % near 1, else uniform", 0.99*(1-1.0/1000) + 0.01*0.5, func(r *rand.Rand) float64 {
			if r.Float64() < 0.99 {
				return math.Pow(r.Float64(), 1.0/999)
			}
			return r.Float64()
		}},
	} {
		for _, n := range []int{100, 1000, 10000, 100000} {
			fmt.Fprintf(s, "| %s | %d |", d.name, n)
			repetitions := min(200, 1000000/n)
			for _, b := range meanBounds() {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				samples := make([]float32, n)
				var width float64
				for range repetitions {
					for i := range samples {
						samples[i] = float32(d.draw(r))
					}
					lower, err := lowerMean(b, samples)
					if err != nil {
						return err
					}
					width += (d.mean - lower) / float64(repetitions)
				}
				fmt.Fprintf(s, " %.3g |", width)
			}
			fmt.Fprintln(s)
		}
	}
	return nil
}

// lowerMean returns a lower bound, at level 1 − alpha, on the mean of the distribution of the samples. It passes the
// samples to a certifier as the scores of the first of two classes. To certify the first margin, the certifier computes
// exactly this lower bound.
func lowerMean(b certify.MeanBound, samples []float32) (float64, error) {
	c, err := certify.NewScoreCertifier(certify.ScoreParams{
		Target: certify.Target{Alpha: alpha, Sigma: sigma, Class: certify.Label, Margin: certify.FirstMargin}, Bound: b,
	})
	if err != nil {
		return 0, err
	}
	a, err := c.Start(certify.ScoreExample{Label: 0, Classes: 2, N: int64(len(samples))})
	if err != nil {
		return 0, err
	}
	for _, x := range samples {
		if err := a.Estimation([]float32{x, 1 - x}); err != nil {
			return 0, err
		}
	}
	cert, err := a.Certificate()
	return cert.Bounds["weighted_mean"], err
}

// meanBounds returns the names of all sound bounds on means, except the confidence sequence. At a fixed n, the
// confidence sequence is looser than the bound 'prpl-eb', so users would not choose it.
func meanBounds() (names []certify.MeanBound) {
	for _, row := range certify.MeanBounds() {
		if row.Sound && row.Name != certify.PrPlSequence {
			names = append(names, row.Name)
		}
	}
	return names
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
