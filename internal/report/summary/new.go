package summary

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/table"
)

// Source is the evidence to summarise.
type Source struct {
	Path   string
	Kind   Kind
	Run    *runfolder.Run // not nil if Kind is RunKind
	Bounds *Bounds        // bounds on the confidence under attack; nil if there are none
	// Certificates and Votes hold one entry for each example, in the same order. Votes is nil without a run. Read
	// leaves Certificates and Votes empty, because Read gathers the examples one by one.
	Certificates []certify.Certificate
	Votes        []certify.Votes
	gathered     *gathered

	// If Selection is not nil, the summary has the error among the answered inputs (ReadSelection).
	Selection *Selection
}

// Bounds is a table of bounds (acce.Columns) with the conditions of its run.
type Bounds struct {
	Table *table.Table
	runfolder.Bounds
}

// Options are the settings of a summary.
type Options struct {
	Name  string    // name of the summary; empty: the last part of the path
	Radii []float64 // radii of the curve; empty: round numbers that cover the certified radii
	// The field Round holds common radii for the curves of several runs. It applies if Radii is empty. If Round is also
	// empty, the program chooses round numbers as the radii of each run.
	Round []float64
	// Norms lists further norms. The summary also has the certified accuracy in each of these norms. If Radii is empty,
	// the radii are round numbers, which are chosen for each norm separately.
	Norms []law.Norm
	PA    bool // the summary has the distribution of the bounds on p_A
	// AxesRadius is the radius of Summary.Columns. If AxesRadius is 0, Columns has the median radius of the correct
	// examples.
	AxesRadius float64
	Level      float64 // confidence level of the intervals
	Delta      float64 // allowed failure probability of a statement about the dataset
	// Choices is the number of runs from which the best one is chosen. The summary of each run uses Delta/Choices in
	// place of Delta. So the statements about all these runs hold at once with probability 1 − Delta. 0 means that no
	// run is chosen.
	Choices int
	Bins    int       // number of bins for the calibration error
	Taus    []float64 // thresholds of the confidence-thresholded error
	Groups  *Grouping // groups of examples; nil: none
}

// These are the defaults of Options.
const (
	DefaultLevel = 0.95
	DefaultDelta = 0.05
	DefaultBins  = 15
)

// Default returns the commands' default options.
func Default() Options {
	return Options{Level: DefaultLevel, Delta: DefaultDelta, Bins: DefaultBins, Taus: []float64{0.5, 0.8, 0.9}}
}

// EachDelta returns delta/k, rounded down. If each of k statements fails with probability at most delta/k, then, with
// probability at least 1 − delta, all k statements hold at once. Then the statement about the chosen run holds too,
// whatever rule chooses from the k runs.
func EachDelta(delta float64, k int) float64 {
	return decimal.Down(new(big.Rat).Quo(decimal.Of(delta), big.NewRat(int64(k), 1)))
}

// check rejects meaningless options.
func (o Options) check() error {
	switch {
	case !(o.Level > 0 && o.Level < 1):
		return fmt.Errorf("level %v: want a number between 0 and 1", o.Level)
	case !(o.Delta > 0 && o.Delta < 1):
		return fmt.Errorf("delta %v: want a number between 0 and 1", o.Delta)
	}
	for _, r := range o.Radii {
		if !(r >= 0) || math.IsInf(r, 1) {
			return fmt.Errorf("radius %v: want a number from 0", r)
		}
	}
	for _, tau := range o.Taus {
		if !(tau >= 0 && tau <= 1) {
			return fmt.Errorf("threshold %v: want a number from 0 to 1", tau)
		}
	}
	return nil
}

// New summarises the evidence. Its errors name the path of the evidence.
func New(s Source, o Options) (Summary, error) {
	if err := o.check(); err != nil {
		return Summary{}, err
	}
	if o.Choices > 1 {
		o.Delta = EachDelta(o.Delta, o.Choices)
	}
	g, err := s.gather()
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	out := Summary{
		Name: cmp.Or(o.Name, filepath.Base(s.Path)), Path: s.Path, Kind: s.Kind, Conditions: s.conditions(g),
		Examples: len(g.rows), Selected: len(g.rows), Level: o.Level, Rows: g.rows, Run: s.Run, Choices: o.Choices, delta: o.Delta, RoundRadii: len(o.Radii) == 0,
	}
	if s.Run != nil {
		out.Selected = s.Run.Sampled(out.Examples)
	} else if sampled := g.first.Sampled; sampled > 0 {
		out.Selected = sampled
	} else {
		out.NotCounted = true
	}
	for _, r := range out.Rows {
		if r.Label != certify.UnknownLabel {
			out.Labelled++
		}
	}
	if out.grouped, err = o.Groups.group(s.Path, out.Rows, o.Delta); err != nil {
		return Summary{}, err
	}
	out.Dataset, err = out.Conditions.statement(out.Selected, o.Delta)
	if err == nil {
		out.Reliability, err = g.reliability(o)
	}
	if err == nil {
		out.Calibration, err = s.calibration(o, out.grouped, out.Rows, out.Selected-out.Examples)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	out.Clean, out.Smoothed = accuracies(out.all(), o.Level)
	out.Abstained = newShare(countRows(out.all(), abstained), out.Examples, o.Level)
	radii := o.Radii
	if len(radii) == 0 {
		radii = o.Round
	}
	if err := out.describe(radii, out.largestRadius()); err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	out.Cautions = out.cautions(o.Radii)
	out.Columns = out.columns(o.AxesRadius)
	if err := out.describeSelection(s.Selection); err != nil {
		return Summary{}, err
	}
	if err := out.describeNorms(o); err != nil {
		return Summary{}, err
	}
	if o.PA {
		if out.PA, err = out.describePA(); err != nil {
			return Summary{}, err
		}
	}
	return out, nil
}

// statement returns an upper bound on the number of wrong certificates of all sampled examples. The result is nil if
// the certificates are not sound or do not state their alpha.
func (c Conditions) statement(sampled int, delta float64) (*Statement, error) {
	switch {
	case c.Sound == nil || !*c.Sound || c.Alpha == nil:
		return nil, nil
	case c.Deterministic:
		return &Statement{Examples: sampled}, nil
	}
	return newStatement(sampled, *c.Alpha, delta)
}

// checkCertificate returns an error unless c is consistent and has the same conditions as the first certificate.
func checkCertificate(first, c certify.Certificate) error {
	if !(c.Radius >= 0) || math.IsInf(c.Radius, 1) {
		return fmt.Errorf("example %d has radius %v", c.Index, c.Radius)
	}
	if c.Correct != (c.Prediction == c.Label && c.Prediction != certify.Abstained) {
		return fmt.Errorf("example %d has label %d, prediction %d and correct %v", c.Index, c.Label, c.Prediction, c.Correct)
	}
	if norm := c.Law.Law().Norm(); c.Norm != norm {
		return fmt.Errorf("example %d has a radius in the %s norm, and %s noise certifies in the %s norm", c.Index, c.Norm, c.Law, norm)
	}
	if c.Deterministic && (c.Alpha != 0 || !c.Law.Deterministic()) {
		return fmt.Errorf("example %d is deterministic, with alpha %v and %s noise", c.Index, c.Alpha, c.Law)
	}
	for _, d := range []struct {
		what      string
		one, this any
	}{
		{"method", first.Method, c.Method}, {"margin_kind", first.MarginKind, c.MarginKind}, {"alpha", first.Alpha, c.Alpha},
		{"lipschitz", first.Lipschitz, c.Lipschitz},
		{"law", first.Law, c.Law}, {"norm", first.Norm, c.Norm}, {"scaled", first.Scaled, c.Scaled}, {"sigma", first.Sigma, c.Sigma}, {"sound", first.Sound, c.Sound},
		{"top_k", first.TopK, c.TopK}, {"none_mode", first.None, c.None}, {"reject_below", first.RejectBelow, c.RejectBelow},
		{"deterministic", first.Deterministic, c.Deterministic},
		{"arithmetic", first.Arithmetic, c.Arithmetic}, {"precision", first.Precision, c.Precision}, {"sampled", first.Sampled, c.Sampled},
		{"composition", first.Composition, c.Composition},
	} {
		if d.one != d.this {
			return fmt.Errorf("%s is %v of example %d, and %v of example %d: one summary is of one kind of certificate",
				d.what, d.one, first.Index, d.this, c.Index)
		}
	}
	return nil
}

// conditions returns the conditions of the certificates, and of the run if there is one.
func (s Source) conditions(g *gathered) Conditions {
	first := g.first
	c := Conditions{Method: first.Method, Law: first.Law, Norm: first.Norm, Scaled: first.Scaled, Precision: first.Precision,
		Deterministic: first.Deterministic, N: g.n, Samples: g.samples, Quantisation: g.quantisation, Stop: g.stop, Claim: first.Claim}
	if s.Kind != LogKind {
		c.MarginKind = fmt.Sprint(first.MarginKind)
		c.Sound, c.Arithmetic, c.Lipschitz = &first.Sound, first.Arithmetic, first.Lipschitz
		c.Alpha, c.Sigma, c.Composition = &first.Alpha, &first.Sigma, first.Composition
		if first.Composition != "" && first.Sigma == 0 { // the composed runs have different σ
			c.Sigma = nil
		}
	}
	if r := s.Run; r != nil {
		c.describeRun(r)
	}
	return c
}

// describeRun adds the conditions in run.json.
func (c *Conditions) describeRun(r *runfolder.Run) {
	p := r.Parameters
	c.Class, c.N, c.N0, c.Noise, c.Seed = fmt.Sprint(p.Class), max(c.N, p.N), p.N0, p.Noise.String(), &p.Seed
	if p.Shard != spec.Whole && p.Shard.K > 0 {
		c.Shard = p.Shard.String()
	}
	if len(r.Data.Shards) > 0 { // a merged run that lacks some shards
		c.Shard = strings.Join(strings.Fields(strings.Trim(fmt.Sprint(r.Data.Shards), "[]")), ", ")
	}
	if p.Only.Given() {
		c.Only = p.Only.Says()
	}
	c.Model, c.Data = &File{r.Model.File, r.Model.SHA256}, &File{r.Data.File, r.Data.SHA256}
	c.Denoiser, c.Average, c.Members = r.Model.Denoiser, r.Parameters.Average, r.Model.Members
	c.Provider, c.Device, c.Version = r.Runtime.Provider, r.Runtime.Device, r.Version
}

// newStatement returns a Statement about the given number of certificates.
func newStatement(examples int, alpha, delta float64) (*Statement, error) {
	k, err := binomial.FailureQuantile(int64(examples), alpha, delta)
	return &Statement{Delta: delta, Alpha: alpha, Examples: examples, Failures: min(k, int64(examples))}, err
}

func abstained(r Row) bool { return r.Prediction == certify.Abstained }

func countRows(rows iter.Seq[Row], is func(Row) bool) (n int) {
	for r := range rows {
		if is(r) {
			n++
		}
	}
	return n
}

// accuracies returns the accuracy without noise and the accuracy of the class with the most votes. certify.Accuracy
// defines the two accuracies. A value is nil if it is unknown.
func accuracies(rows iter.Seq[Row], level float64) (clean, smoothed *Share) {
	share := func(class func(Row) int) *Share {
		known := func(r Row) bool { return r.Label != certify.UnknownLabel && class(r) != Unknown }
		right := func(r Row) bool { return known(r) && class(r) == r.Label }
		return optionalShare(countRows(rows, right), countRows(rows, known), level)
	}
	return share(func(r Row) int { return r.Clean }), share(func(r Row) int { return r.Smoothed })
}

// CertifiedAt counts the examples whose certified class is the label and whose radius is at least r. It compares r with
// the decimal number that JSON holds for each radius, not with its binary value.
func (s Summary) CertifiedAt(r *big.Rat) int {
	return certifiedAt(s.all(), r)
}

func certifiedAt(rows iter.Seq[Row], r *big.Rat) int {
	near, _ := r.Float64()
	tie := decimal.Of(near).Cmp(r) >= 0
	return countRows(rows, func(row Row) bool {
		return row.Correct && (row.Radius > near || row.Radius == near && tie)
	})
}

// The method 'all' returns the rows in order.
func (s Summary) all() iter.Seq[Row] { return slices.Values(s.Rows) }

// At returns the point of the certified accuracy curve at a radius.
func (s Summary) At(radius float64) CurvePoint {
	n := s.CertifiedAt(decimal.Of(radius))
	p := CurvePoint{Radius: radius, Accuracy: newShare(n, s.Examples, s.Level)}
	if s.Dataset != nil {
		certified := shareLess(n, s.Dataset.Failures, s.Examples)
		p.Certified = &certified
	}
	return p
}

// Steps returns the radii at which the certified accuracy falls, in ascending order. The accuracy just above such a
// radius is lower than at the radius itself.
func (s Summary) Steps() []float64 {
	var radii []float64
	for _, r := range s.Rows {
		if r.Correct && !r.Unbounded {
			radii = append(radii, r.Radius)
		}
	}
	slices.Sort(radii)
	return slices.Compact(radii)
}

// SumOfRadii adds the radii of the correct examples, except the largest ones. The argument 'omit' is the number of
// radii that SumOfRadii leaves out. The sum is exact: each radius counts as the decimal that JSON holds.
func (s Summary) SumOfRadii(omit int64) *big.Rat {
	radii := correctRadii(s.all())
	slices.Sort(radii)
	return decimal.Sum(radii[:max(0, len(radii)-int(omit))])
}

// correctRadii returns the radii of the correct rows.
func correctRadii(rows iter.Seq[Row]) []float64 {
	var radii []float64
	for r := range rows {
		if r.Correct {
			radii = append(radii, r.Radius)
		}
	}
	return radii
}

// betsSeed fixes the random order of the examples in a betting interval. Any seed that is independent of the examples
// is valid.
const betsSeed = 1

// averageRadius returns the average radius. The argument 'largest' is the largest possible radius, or nil if it is
// unknown.
func (s Summary) averageRadius(largest *float64) Average {
	a := Average{Value: decimal.MeanDown(s.SumOfRadii(0), s.Examples), Largest: largest}
	if s.Dataset != nil {
		certified := decimal.MeanDown(s.SumOfRadii(s.Dataset.Failures), s.Examples)
		a.Certified = &certified
	}
	if most := a.Largest; most != nil {
		low, high := calib.MeanInterval(s.Examples, func(i int) float64 { return s.Rows[i].CertifiedRadius() / *most }, 1-s.Level, betsSeed)
		low, high = low**most, high**most
		a.Low, a.High = &low, &high
	}
	return a
}

// classes returns the results for each true class.
func (s Summary) classes() []Class {
	byLabel := map[int][]int32{} // positions of the rows
	for i, r := range s.Rows {
		if r.Label != certify.UnknownLabel {
			byLabel[r.Label] = append(byLabel[r.Label], int32(i))
		}
	}
	var classes []Class
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		at := byLabel[label]
		rows := func(yield func(Row) bool) {
			for _, i := range at {
				if !yield(s.Rows[i]) {
					return
				}
			}
		}
		c := Class{Label: label, Examples: len(at), AverageRadius: decimal.MeanDown(decimal.Sum(correctRadii(rows)), len(at))}
		c.Clean, c.Smoothed = accuracies(rows, s.Level)
		c.Abstained = newShare(countRows(rows, abstained), len(at), s.Level)
		for _, p := range s.Curve {
			c.Certified = append(c.Certified, newShare(certifiedAt(rows, decimal.Of(p.Radius)), len(at), s.Level))
		}
		classes = append(classes, c)
	}
	return classes
}
