// Package comparison compares certificates from the same saved votes or scores: by method, by number of samples, by
// temperature and by kind of margin.
//
// A Row collects the certificates of one method at one setting (Add). Summarize summarises one row at given radii. Give
// it the same radii for every row. Then AddGains compares each row with the row of a baseline method.
package comparison

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/report"
)

// ChooseSetting continues the warning certify.ChooseFirst. It says that the warning also applies to rows with different
// settings.
const ChooseSetting = "The same is true of sizes, temperatures and margins"

// Setting says how the certificates of a row were made. The Summary of the row holds the rest, such as the method.
type Setting struct {
	// File is the path of the run or file that holds the row's votes or scores. It is empty if all rows come from one
	// file.
	File string `json:"file,omitempty"`
	// MarginKind is the kind of the row's margins. It is empty if all rows have the same kind.
	MarginKind certify.MarginKind `json:"margin_kind,omitempty"`
	// Size is the number of estimation samples used for each example. 0 stands for all samples.
	Size int64 `json:"size,omitempty"`
	// Temperature is the additional temperature of the scores. 0 means that the row is from votes, or that no
	// temperature was given.
	Temperature float64 `json:"temperature,omitempty"`
}

// Row holds the results of one method at one setting. The Summary describes the certificates of the first subsample. It
// holds no averages over subsamples. Repeats describes all subsamples.
type Row struct {
	Setting
	certify.Summary
	Repeats  *Repeats  `json:"repeats,omitempty"`
	ByMargin *ByMargin `json:"by_margin,omitempty"` // set by SummarizeMargins
	Gain     *Gain     `json:"gain,omitempty"`

	turns          []*certify.Tally // one for each subsample
	marginTurns    []*certify.Tally // the same certificates, with the margin in place of the radius
	sampled        int
	kind           certify.MarginKind
	radii, margins []float64 // of the correct certificates of all subsamples; +∞ if unbounded
}

// Repeats describes how the results vary over several subsamples of the same votes. The subsamples share votes, so the
// standard deviations understate how much the results of independent samples vary.
type Repeats struct {
	Count         int              `json:"count"`
	Certified     []AccuracySpread `json:"certified_accuracy"`
	AverageRadius Spread           `json:"average_certified_radius"`
	Abstained     Spread           `json:"abstained"`
}

// AccuracySpread is the spread of the certified accuracy at a radius.
type AccuracySpread struct {
	Radius float64 `json:"radius"`
	Spread
}

// ByMargin holds the mean and the standard deviation over all subsamples of two kinds of figures: the certified
// accuracy at each margin, and the average margin.
type ByMargin struct {
	Certified []MarginSpread `json:"certified_accuracy"`
	// Average is the average margin. An example without a correct certificate counts with a margin of 0.
	Average Spread `json:"average_margin"`
}

// MarginSpread is the spread of a certified accuracy. This accuracy is the share of examples with a correct certificate
// whose margin is at least Margin.
type MarginSpread struct {
	Margin float64 `json:"margin"`
	Spread
}

// Spread holds a mean and a standard deviation. A number that is not finite becomes null in JSON.
type Spread struct {
	Mean report.Number `json:"mean"`
	SD   report.Number `json:"sd"` // square root of the unbiased variance; 0 for a single subsample
}

func newSpread(x []float64) Spread {
	if len(x) == 1 {
		return Spread{Mean: report.Number(x[0])}
	}
	mean, sd := stat.MeanStdDev(x, nil)
	return Spread{report.Number(mean), report.Number(sd)}
}

// Add adds the certificates of all examples from one subsample of their votes or scores. The argument 'sampled' is the
// number of sampled examples (certify.Summary.Among).
func (r *Row) Add(certs []certify.Certificate, sampled int) {
	r.sampled = sampled
	radii, margins := new(certify.Tally), new(certify.Tally)
	for _, c := range certs {
		r.kind = c.MarginKind
		switch {
		case c.Correct && c.Unbounded:
			r.radii, r.margins = append(r.radii, math.Inf(1)), append(r.margins, math.Inf(1))
		case c.Correct:
			r.radii, r.margins = append(r.radii, c.Radius), append(r.margins, c.Margin)
		}
		radii.Add(c)
		c.Radius = c.Margin
		margins.Add(c)
	}
	r.turns, r.marginTurns = append(r.turns, radii), append(r.marginTurns, margins)
}

// Radii returns 0 and a few multiples of a round number, none of them above the largest radius of all rows.
func Radii(rows []*Row) []float64 {
	return points(rows, func(r *Row) []*certify.Tally { return r.turns })
}

// Margins returns 0 and a few multiples of a round number, none of them above the largest margin of all rows.
func Margins(rows []*Row) []float64 {
	return points(rows, func(r *Row) []*certify.Tally { return r.marginTurns })
}

func points(rows []*Row, turns func(*Row) []*certify.Tally) []float64 {
	var largest float64
	for _, r := range rows {
		for _, t := range turns(r) {
			largest = max(largest, t.Largest())
		}
	}
	return certify.RadiiUpTo(largest)
}

// Summarize sets the field Summary of a row, which holds results at the given radii. If there are several subsamples,
// it also sets the row's field Repeats. If perClass is set, the Summary also describes each class.
func (r *Row) Summarize(radii []float64, perClass bool) {
	first := r.turns[0]
	r.Summary = first.Summary(radii).Among(r.sampled)
	if perClass {
		r.Classes = first.Classes(radii)
	}
	if len(r.turns) > 1 {
		all := repeats(r.turns, radii)
		r.Repeats = &all
	}
}

// SummarizeMargins sets the certified accuracy of a row at the given margins.
func (r *Row) SummarizeMargins(margins []float64) {
	all := repeats(r.marginTurns, margins)
	r.ByMargin = &ByMargin{Average: all.AverageRadius}
	for _, c := range all.Certified {
		r.ByMargin.Certified = append(r.ByMargin.Certified, MarginSpread{c.Radius, c.Spread})
	}
}

// The function 'repeats' summarises subsamples at the given radii.
func repeats(turns []*certify.Tally, radii []float64) Repeats {
	all := make([]certify.Summary, len(turns))
	for k, t := range turns {
		all[k] = t.Summary(radii)
	}
	over := func(value func(certify.Summary) float64) Spread {
		x := make([]float64, len(all))
		for k, s := range all {
			x[k] = value(s)
		}
		return newSpread(x)
	}
	r := Repeats{
		Count:         len(all),
		AverageRadius: over(func(s certify.Summary) float64 { return float64(report.RadiusNumber(s.AverageRadius)) }),
		Abstained:     over(func(s certify.Summary) float64 { return float64(s.Abstained) }),
	}
	for k, radius := range radii {
		accuracy := over(func(s certify.Summary) float64 { return s.Certified[k].Accuracy })
		r.Certified = append(r.Certified, AccuracySpread{radius, accuracy})
	}
	return r
}

// Values holds the numbers of a row in a table, as means and standard deviations over the subsamples.
type Values struct {
	Count     int       // number of subsamples
	At        []float64 // radii or margins
	Certified []Spread  // certified accuracy at each radius or margin in At
	Average   Spread    // average radius or average margin
	Abstained Spread
}

// Values returns the numbers by margin if SummarizeMargins was called, and the numbers by radius otherwise.
func (r *Row) Values() Values {
	var radii []float64
	for _, c := range r.Certified {
		radii = append(radii, c.Radius)
	}
	all := repeats(r.turns, radii)
	v := Values{Count: all.Count, Average: all.AverageRadius, Abstained: all.Abstained}
	if r.ByMargin != nil {
		v.Average = r.ByMargin.Average
		for _, c := range r.ByMargin.Certified {
			v.At, v.Certified = append(v.At, c.Margin), append(v.Certified, c.Spread)
		}
		return v
	}
	for _, c := range all.Certified {
		v.At, v.Certified = append(v.At, c.Radius), append(v.Certified, c.Spread)
	}
	return v
}

// Gain compares the numbers of a row with the numbers of the baseline method at the same setting. With several
// subsamples, it compares the means.
type Gain struct {
	Over      string         `json:"over"`
	Certified []AccuracyGain `json:"certified_accuracy"`
	// One of the next two fields is set: AverageMargin if the row has ByMargin, and otherwise AverageRadius.
	AverageRadius *Change `json:"average_certified_radius,omitempty"`
	AverageMargin *Change `json:"average_margin,omitempty"`
}

// AccuracyGain compares the certified accuracies at a radius or at a margin.
type AccuracyGain struct {
	Radius *float64 `json:"radius,omitempty"`
	Margin *float64 `json:"margin,omitempty"`
	Change
}

// Change compares a value with the value of the baseline. A number that is not finite becomes null in JSON.
type Change struct {
	// Difference is +∞ if only the value is infinite, −∞ if only the baseline is, and NaN if both are.
	Difference report.Number `json:"difference"`
	// Ratio is value/baseline. It is +∞ if only the baseline is 0, or if only the value is infinite. It is NaN if both
	// are 0, or if both are infinite.
	Ratio report.Number `json:"ratio"`
}

// Average returns the change of the average radius or of the average margin.
func (g *Gain) Average() Change {
	if g.AverageMargin != nil {
		return *g.AverageMargin
	}
	return *g.AverageRadius
}

// newChange compares two numbers that are not negative and may be infinite.
func newChange(value, baseline Spread) Change {
	return Change{value.Mean - baseline.Mean, value.Mean / baseline.Mean}
}

// AddGains sets the Gain of each row: a comparison with the row of the baseline method that has the same setting. Rows
// of the baseline method get no Gain. A row also gets no Gain if the baseline method has no row with the same setting.
// AddGains returns an error if no row belongs to the baseline method.
func AddGains(rows []*Row, baseline string) error {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.Method) {
			names = append(names, r.Method)
		}
	}
	if !slices.Contains(names, baseline) {
		return fmt.Errorf("%s: no row of the table is by this method; its methods are %s", baseline, strings.Join(names, ", "))
	}
	for _, r := range rows {
		if r.Method == baseline {
			continue
		}
		for _, base := range rows {
			if base.Method == baseline && sameSetting(base.Setting, r.Setting) {
				r.Gain = newGain(r, base)
				break
			}
		}
	}
	return nil
}

// sameSetting reports whether rows with the settings a and b can be compared: the settings are equal, or differ only by
// a missing temperature. A method for votes has no temperature, so it is compared with scores at every temperature.
func sameSetting(a, b Setting) bool {
	if a.Temperature == 0 || b.Temperature == 0 {
		a.Temperature, b.Temperature = 0, 0
	}
	return a == b
}

func newGain(r, base *Row) *Gain {
	mine, other := r.Values(), base.Values()
	g := &Gain{Over: base.Method}
	average := newChange(mine.Average, other.Average)
	if r.ByMargin != nil {
		g.AverageMargin = &average
	} else {
		g.AverageRadius = &average
	}
	for k, at := range mine.At {
		c := AccuracyGain{Change: newChange(mine.Certified[k], other.Certified[k])}
		if r.ByMargin != nil {
			c.Margin = &at
		} else {
			c.Radius = &at
		}
		g.Certified = append(g.Certified, c)
	}
	return g
}

// Describe returns the file, the size and the temperature of a setting as text, for example "n = 100, T = 0.5".
func (s Setting) Describe() string {
	var parts []string
	if s.File != "" {
		parts = append(parts, s.File)
	}
	if s.Size > 0 {
		parts = append(parts, fmt.Sprintf("n = %d", s.Size))
	}
	if s.Temperature > 0 {
		parts = append(parts, fmt.Sprintf("T = %g", s.Temperature))
	}
	return strings.Join(parts, ", ")
}

// The method 'reach' returns the points of a curve. The curve shows, for each x, the share of examples with a value of
// at least x. It counts the examples of all subsamples. The curve begins at x = 0 and falls just after each finite
// value. If there are infinite values, the curve continues to x = end.
func (r *Row) reach(values []float64, end float64) (x, share []float64) {
	values = slices.Clone(values)
	slices.Sort(values)
	total := float64(r.Examples * len(r.turns))
	add := func(at float64, left int) { x, share = append(x, at), append(share, float64(left)/total) }
	add(0, len(values))
	for k := 0; k < len(values) && !math.IsInf(values[k], 1); {
		next := k
		for next < len(values) && values[next] == values[k] {
			next++
		}
		add(values[k], len(values)-k)
		add(values[k], len(values)-next)
		k = next
	}
	if left := len(values) - finite(values); left > 0 {
		add(end, left)
	}
	return x, share
}

// finite returns the number of finite values in a sorted slice.
func finite(values []float64) int {
	k, _ := slices.BinarySearch(values, math.Inf(1))
	return k
}
