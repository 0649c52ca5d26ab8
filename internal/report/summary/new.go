package summary

import (
	"cmp"
	"fmt"
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
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/table"
)

// Source is the evidence to summarise.
type Source struct {
	Path         string
	Kind         Kind
	Run          *runfolder.Run        // for RunKind
	Certificates []certify.Certificate // one per example
	Votes        []certify.Votes       // for a run: votes in the order of the certificates; otherwise nil
	Bounds       *Bounds               // on confidence under attack; nil if there are none
}

// Bounds is a table of bounds (acce.Columns) with the conditions of its run.
type Bounds struct {
	Table *table.Table
	runfolder.Bounds
}

// Options are the settings of a summary.
type Options struct {
	Name  string    // name of the summary; empty: the last part of the path
	Radii []float64 // radii of the curve; empty: round ones that cover all radii
	Level float64   // confidence level of the intervals
	Delta float64   // allowed failure probability of a statement about the dataset
	Bins  int       // of the calibration error
	Taus  []float64 // thresholds of the confidence-thresholded error
}

// Defaults of Options.
const (
	DefaultLevel = 0.95
	DefaultDelta = 0.05
	DefaultBins  = 15
)

// Default returns the commands' default options.
func Default() Options {
	return Options{Level: DefaultLevel, Delta: DefaultDelta, Bins: DefaultBins, Taus: []float64{0.5, 0.8, 0.9}}
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

// New summarises the evidence. Errors name its path.
func New(s Source, o Options) (Summary, error) {
	if err := o.check(); err != nil {
		return Summary{}, err
	}
	if err := s.check(); err != nil {
		return Summary{}, err
	}
	out := Summary{
		Name: cmp.Or(o.Name, filepath.Base(s.Path)), Path: s.Path, Kind: s.Kind, Conditions: s.conditions(),
		Examples: len(s.Certificates), Selected: len(s.Certificates), Level: o.Level, Rows: s.rows(), Run: s.Run,
	}
	if s.Run != nil {
		out.Selected = s.Run.Sampled(out.Examples)
	} else if sampled := s.Certificates[0].Sampled; sampled > 0 {
		out.Selected = sampled
	} else {
		out.NotCounted = true
	}
	for _, r := range out.Rows {
		if r.Label != certify.UnknownLabel {
			out.Labelled++
		}
	}
	var err error
	if c := out.Conditions; c.Sound != nil && *c.Sound && c.Alpha != nil {
		out.Dataset, err = newStatement(out.Selected, *c.Alpha, o.Delta)
	}
	if err == nil {
		out.Reliability, err = s.reliability(o)
	}
	if err == nil {
		out.Calibration, err = s.calibration(o)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	out.Clean, out.Smoothed = accuracies(out.Rows, o.Level)
	out.Abstained = newShare(countRows(out.Rows, abstained), out.Examples, o.Level)
	radii := o.Radii
	if len(radii) == 0 {
		radii = certify.SummaryRadii(s.Certificates)
	}
	for _, r := range slices.Compact(slices.Sorted(slices.Values(radii))) {
		out.Curve = append(out.Curve, out.At(r))
	}
	out.AverageRadius = out.averageRadius(s)
	out.Classes = out.classes()
	return out, nil
}

// check rejects certificates that are not a sample under a single set of conditions.
func (s Source) check() error {
	if len(s.Certificates) == 0 {
		return fmt.Errorf("%s: no certificates", s.Path)
	}
	first := s.Certificates[0]
	seen := make(map[int]bool, len(s.Certificates))
	for _, c := range s.Certificates {
		if seen[c.Index] {
			return fmt.Errorf("%s: index %d appears twice: its noise is one draw, not two independent ones", s.Path, c.Index)
		}
		seen[c.Index] = true
		if err := checkCertificate(first, c); err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	if first.Sampled != 0 && first.Sampled < len(s.Certificates) {
		return fmt.Errorf("%s: certificates of %d examples, which say that %d were sampled", s.Path, len(s.Certificates), first.Sampled)
	}
	return s.checkVotes()
}

// checkCertificate checks that c is consistent and has the conditions of the first certificate.
func checkCertificate(first, c certify.Certificate) error {
	if !(c.Radius >= 0) || math.IsInf(c.Radius, 1) {
		return fmt.Errorf("example %d has radius %v", c.Index, c.Radius)
	}
	if c.Correct != (c.Prediction == c.Label && c.Prediction != certify.Abstained) {
		return fmt.Errorf("example %d has label %d, prediction %d and correct %v", c.Index, c.Label, c.Prediction, c.Correct)
	}
	for _, d := range []struct {
		what      string
		one, this any
	}{
		{"method", first.Method, c.Method}, {"margin_kind", first.MarginKind, c.MarginKind}, {"alpha", first.Alpha, c.Alpha},
		{"law", first.Law, c.Law}, {"norm", first.Norm, c.Norm}, {"sigma", first.Sigma, c.Sigma}, {"sound", first.Sound, c.Sound},
		{"arithmetic", first.Arithmetic, c.Arithmetic}, {"precision", first.Precision, c.Precision}, {"sampled", first.Sampled, c.Sampled},
	} {
		if d.one != d.this {
			return fmt.Errorf("%s is %v of example %d, and %v of example %d: one summary is of one kind of certificate",
				d.what, d.one, first.Index, d.this, c.Index)
		}
	}
	return nil
}

// checkVotes checks that the votes belong to the examples of the certificates.
func (s Source) checkVotes() error {
	if s.Votes != nil && len(s.Votes) != len(s.Certificates) {
		return fmt.Errorf("%s: votes of %d examples, certificates of %d", s.Path, len(s.Votes), len(s.Certificates))
	}
	for i, v := range s.Votes {
		if c := s.Certificates[i]; v.Index != c.Index || v.Label != c.Label {
			return fmt.Errorf("%s: votes of example %d stand beside the certificate of example %d", s.Path, v.Index, c.Index)
		}
	}
	return nil
}

// conditions returns the conditions of the certificates, and of the run if there is one.
func (s Source) conditions() Conditions {
	first := s.Certificates[0]
	c := Conditions{Method: first.Method, Law: first.Law, Norm: first.Norm, Precision: first.Precision}
	if s.Kind != LogKind {
		c.MarginKind = fmt.Sprint(first.MarginKind)
		c.Sound, c.Arithmetic, c.Lipschitz = &first.Sound, first.Arithmetic, first.Lipschitz
		c.Alpha, c.Sigma = &first.Alpha, &first.Sigma
	}
	for _, cert := range s.Certificates {
		c.N = max(c.N, cert.N)
		c.Samples += cert.N
		c.Quantisation = max(c.Quantisation, cert.Quantisation)
		if cert.Stop.Given() {
			c.Stop = cert.Stop.String()
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
	if len(r.Data.Shards) > 0 { // a merge with missing shards
		c.Shard = strings.Join(strings.Fields(strings.Trim(fmt.Sprint(r.Data.Shards), "[]")), ", ")
	}
	c.Model, c.Data = &File{r.Model.File, r.Model.SHA256}, &File{r.Data.File, r.Data.SHA256}
	c.Denoiser = r.Model.Denoiser
	c.Provider, c.Device, c.Version = r.Runtime.Provider, r.Runtime.Device, r.Version
}

// rows collects the results of each example.
func (s Source) rows() []Row {
	rows := make([]Row, len(s.Certificates))
	at := make(map[int]int, len(rows))
	for i, c := range s.Certificates {
		at[c.Index] = i
		rows[i] = Row{Index: c.Index, Label: c.Label, Prediction: c.Prediction, Correct: c.Correct,
			Radius: c.Radius, Unbounded: c.Unbounded, N: c.N}
		if s.Votes == nil {
			continue
		}
		v := s.Votes[i]
		rows[i].Clean, rows[i].Counts = v.Clean, v.Counts
		class, none := certify.Abstained, v.None
		for k, n := range v.Counts { // the lowest class wins a tie
			if n > none && (class < 0 || n > v.Counts[class]) {
				class = k
			}
		}
		confidence := 0.0
		if class >= 0 {
			confidence = float64(v.Counts[class]) / float64(v.N)
		}
		rows[i].Smoothed, rows[i].Confidence = &class, &confidence
	}
	s.addBounds(rows, at)
	return rows
}

// newStatement returns a Statement about the given number of certificates.
func newStatement(examples int, alpha, delta float64) (*Statement, error) {
	k, err := binomial.FailureQuantile(int64(examples), alpha, delta)
	return &Statement{Delta: delta, Alpha: alpha, Examples: examples, Failures: min(k, int64(examples))}, err
}

func abstained(r Row) bool { return r.Prediction == certify.Abstained }

func countRows(rows []Row, is func(Row) bool) (n int) {
	for _, r := range rows {
		if is(r) {
			n++
		}
	}
	return n
}

// accuracies returns two accuracies as certify.Accuracy does: without noise, and of the class with the most votes. An
// unknown accuracy is nil.
func accuracies(rows []Row, level float64) (clean, smoothed *Share) {
	labelled := func(r Row) bool { return r.Label != certify.UnknownLabel }
	clean = optionalShare(
		countRows(rows, func(r Row) bool { return labelled(r) && r.Clean != nil && *r.Clean == r.Label }),
		countRows(rows, func(r Row) bool { return labelled(r) && r.Clean != nil }), level)
	smoothed = optionalShare(
		countRows(rows, func(r Row) bool { return labelled(r) && r.Smoothed != nil && *r.Smoothed == r.Label }),
		countRows(rows, func(r Row) bool { return labelled(r) && r.Smoothed != nil }), level)
	return clean, smoothed
}

// CertifiedAt counts the examples whose certified class is the label and whose radius, as a Decimal, is at least r.
func (s Summary) CertifiedAt(r *big.Rat) int {
	near, _ := r.Float64()
	tie := decimal.Of(near).Cmp(r) >= 0
	return countRows(s.Rows, func(row Row) bool {
		return row.Correct && (row.Radius > near || row.Radius == near && tie)
	})
}

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

// Steps returns the radii at which the certified accuracy falls, in ascending order. Fewer examples count just above
// such a radius than at this radius.
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

// SumOfRadii returns the sum of the radii of the correct examples, as decimals. It omits the largest radii; the
// parameter omit is their number.
func (s Summary) SumOfRadii(omit int64) *big.Rat {
	var radii []float64
	for _, r := range s.Rows {
		if r.Correct {
			radii = append(radii, r.Radius)
		}
	}
	slices.Sort(radii)
	return decimal.Sum(radii[:max(0, len(radii)-int(omit))])
}

// betsSeed fixes the random order of the examples in a betting interval. Any seed that is independent of the examples
// is valid.
const betsSeed = 1

func (s Summary) averageRadius(source Source) Average {
	a := Average{Value: decimal.MeanDown(s.SumOfRadii(0), s.Examples), Largest: source.largestRadius(s.Conditions)}
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

// classes returns the table by true class.
func (s Summary) classes() []Class {
	byLabel := map[int][]Row{}
	for _, r := range s.Rows {
		if r.Label != certify.UnknownLabel {
			byLabel[r.Label] = append(byLabel[r.Label], r)
		}
	}
	var classes []Class
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		part := Summary{Rows: byLabel[label], Examples: len(byLabel[label]), Level: s.Level}
		c := Class{Label: label, Examples: part.Examples, AverageRadius: decimal.MeanDown(part.SumOfRadii(0), part.Examples)}
		c.Clean, c.Smoothed = accuracies(part.Rows, s.Level)
		c.Abstained = newShare(countRows(part.Rows, abstained), part.Examples, s.Level)
		for _, p := range s.Curve {
			c.Certified = append(c.Certified, part.At(p.Radius).Accuracy)
		}
		classes = append(classes, c)
	}
	return classes
}

// reliability returns the bins of the vote shares. It returns nil if an example has no label or no answer.
func (s Source) reliability(o Options) (*Reliability, error) {
	for _, v := range s.Votes {
		if v.Label == certify.UnknownLabel || v.None > 0 {
			return nil, nil
		}
	}
	if len(s.Votes) == 0 {
		return nil, nil
	}
	p, err := predictions.FromVotes(s.Path, s.Votes)
	if err != nil {
		return nil, err
	}
	bins, err := calib.EqualWidth(p, o.Bins, calib.UpperClosed)
	if err != nil {
		return nil, err
	}
	return &Reliability{Level: o.Level, ECE: calib.ECE(bins), Bins: bins, Bands: calib.Bands(p, bins, o.Level)}, nil
}
