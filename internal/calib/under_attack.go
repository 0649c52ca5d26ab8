package calib

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
)

// BoundRows holds the columns of a bounds.csv. A row bounds the confidence of one example within one radius. An unknown
// column is nil.
type BoundRows struct {
	Lower, Upper, Correct []float64 // [N]; Correct is 0 or 1
	Index                 []float64 // [N], index of the example
	Radius                []float64 // [N], radius of the attack
	Confidence            []float64 // [N], confidence without attack
	Examples              []float64 // [N], number of sampled examples; the same in every row
	// Certified [N] is 1 if the class is certified within the radius. If it is 0, Lower and Upper are bounds on the
	// label's score. If the column is nil, every row counts as certified.
	Certified []float64
	Alpha     []float64 // [N], failure probability of a row; the same in every row
}

// RadiusRows holds the rows of one radius. In a result of ByRadius, at least one row has a certified class. The rows
// without a certified class are in Uncertified.
type RadiusRows struct {
	Radius      float64 // 0 if unknown
	Rows        []int   // input positions of the rows with a certified class
	Intervals   []Bounded
	Confidence  []float64 // confidences without attack; nil if unknown
	Uncertified []Uncertified
	// UncertifiedRows holds the input position of each element of Uncertified.
	UncertifiedRows []int
}

// Only is a filter: it returns the rows that the function 'keep' accepts. The argument of 'keep' is the position of a
// row in the input.
func (r RadiusRows) Only(keep func(row int) bool) RadiusRows {
	out := RadiusRows{Radius: r.Radius}
	for k, i := range r.Rows {
		if !keep(i) {
			continue
		}
		out.Rows, out.Intervals = append(out.Rows, i), append(out.Intervals, r.Intervals[k])
		if r.Confidence != nil {
			out.Confidence = append(out.Confidence, r.Confidence[k])
		}
	}
	for k, i := range r.UncertifiedRows {
		if keep(i) {
			out.Uncertified, out.UncertifiedRows = append(out.Uncertified, r.Uncertified[k]), append(out.UncertifiedRows, i)
		}
	}
	return out
}

// ErrNoneCertified means that there are rows, but none has a certified class.
var ErrNoneCertified = errors.New("no class is certified at any radius")

// ErrNoRadii means that the caller wants certain radii, but the rows have no radii.
var ErrNoRadii = errors.New("the rows have no radii")

// NoRadiusError means that no row has the wanted radius.
type NoRadiusError struct {
	Radius float64
	Found  []float64 // the radii of the rows, ascending
}

func (e *NoRadiusError) Error() string { return fmt.Sprintf("no rows with radius %v", e.Radius) }

// ByRadius checks the rows and groups them by radius, ascending. It returns the groups of the wanted radii. If the
// argument 'wanted' is empty, it returns the groups of all radii at which a row has a certified class. An error about a
// row is a *RowError.
func (b BoundRows) ByRadius(wanted []float64) ([]RadiusRows, error) {
	if b.Radius == nil && len(wanted) > 0 {
		return nil, ErrNoRadii
	}
	groups := map[float64]*RadiusRows{}
	for i := range b.Lower {
		v, err := b.row(i)
		if err != nil {
			return nil, err
		}
		radius := b.radius(i)
		g := groups[radius]
		if g == nil {
			g = &RadiusRows{Radius: radius}
			groups[radius] = g
		}
		b.put(g, i, v)
	}
	var found []float64
	for r, g := range groups {
		if len(g.Rows) > 0 {
			found = append(found, r)
		}
	}
	if len(found) == 0 && len(groups) > 0 {
		return nil, ErrNoneCertified
	}
	slices.Sort(found)
	if len(wanted) == 0 {
		wanted = found
	}
	var out []RadiusRows
	for _, r := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
		g := groups[r]
		if g == nil || len(g.Rows) == 0 {
			return nil, &NoRadiusError{r, found}
		}
		out = append(out, *g)
	}
	return out, nil
}

// The method 'put' adds row i to g. The argument v holds the bounds of the row.
func (b BoundRows) put(g *RadiusRows, i int, v Bounded) {
	confidence := math.NaN()
	if b.Confidence != nil {
		confidence = b.Confidence[i]
	}
	if b.Certified != nil && b.Certified[i] == 0 {
		g.Uncertified = append(g.Uncertified, Uncertified{v.Lower, v.Upper, confidence, v.Correct})
		g.UncertifiedRows = append(g.UncertifiedRows, i)
		return
	}
	g.Rows = append(g.Rows, i)
	g.Intervals = append(g.Intervals, v)
	if b.Confidence != nil {
		g.Confidence = append(g.Confidence, confidence)
	}
}

// Answers returns the predictions without attack for all examples, certified or not: the confidences, and whether the
// predictions are right. Both are nil if the confidences are unknown.
func (r RadiusRows) Answers() (confidence []float64, correct []bool) {
	if r.Confidence == nil {
		return nil, nil
	}
	for i, v := range r.Intervals {
		confidence, correct = append(confidence, r.Confidence[i]), append(correct, v.Correct)
	}
	for _, v := range r.Uncertified {
		confidence, correct = append(confidence, v.Confidence), append(correct, v.Correct)
	}
	return confidence, correct
}

// radius returns the radius of row i, or 0 if it is unknown.
func (b BoundRows) radius(i int) float64 {
	if b.Radius == nil {
		return 0
	}
	return b.Radius[i] + 0 // +0 turns −0 into 0
}

// The method 'row' checks row i and returns its bounds.
func (b BoundRows) row(i int) (Bounded, error) {
	v := Bounded{Lower: b.Lower[i], Upper: b.Upper[i], Correct: b.Correct[i] == 1}
	if err := v.Check(); err != nil {
		return v, &RowError{i, err.Error()}
	}
	if b.Correct[i] != 0 && b.Correct[i] != 1 {
		return v, &RowError{i, fmt.Sprintf("correct %v is not 0 or 1", b.Correct[i])}
	}
	if b.Confidence != nil && !(b.Confidence[i] >= 0 && b.Confidence[i] <= 1) {
		return v, &RowError{i, fmt.Sprintf("confidence %v is outside [0, 1]", b.Confidence[i])}
	}
	if b.Certified != nil && b.Certified[i] != 0 && b.Certified[i] != 1 {
		return v, &RowError{i, fmt.Sprintf("certified %v is not 0 or 1", b.Certified[i])}
	}
	if r := b.radius(i); !(r >= 0) {
		return v, &RowError{i, fmt.Sprintf("radius %v is below 0", r)}
	}
	return v, nil
}

// Sampled holds the number N of examples that were classified on noise samples. The bounds of each of these examples
// can fail. N includes examples without a row, because the noise samples can decide whether an example has a row. If N
// counted only the examples with a row, more of these bounds could fail than Bin(N, α) predicts.
type Sampled struct {
	Examples int
	Assumed  bool // the number of sampled examples is unknown; Examples is only the number of examples in the rows
}

// ErrLeavesOut means that the number of sampled examples is unknown, but the rows omit some of these examples. Gaps in
// the indices, or fewer rows at some radii, show that examples are missing.
var ErrLeavesOut = errors.New("the rows leave examples out, and the number of sampled examples is unknown")

// FewerError means that the stated number of sampled examples is smaller than the number of examples in the rows, or
// smaller than the number in the column Examples.
type FewerError struct{ Stated, Known int }

func (e *FewerError) Error() string {
	return fmt.Sprintf("%d examples were sampled, but the rows have %d", e.Stated, e.Known)
}

// CountSampled returns the number of sampled examples. This is the argument 'stated' if it is positive. Otherwise it is
// the number in the column Examples or, without this column, the number of examples in the rows. An error about a row
// is a *RowError. An example may not occur twice at one radius, because both rows would use the same noise samples, not
// two independent sets of samples.
func (b BoundRows) CountSampled(stated int) (Sampled, error) {
	most, complete, err := b.countExamples()
	if err != nil {
		return Sampled{}, err
	}
	known, err := b.statedExamples()
	if err != nil {
		return Sampled{}, err
	}
	if stated == 0 {
		stated = known
	}
	switch {
	case stated == 0 && !complete:
		return Sampled{}, ErrLeavesOut
	case stated == 0:
		return Sampled{most, true}, nil
	case stated < max(most, known):
		return Sampled{}, &FewerError{stated, max(most, known)}
	}
	return Sampled{stated, false}, nil
}

// countExamples returns the number of examples in the rows. The result 'complete' is false if the rows show that
// examples are missing.
func (b BoundRows) countExamples() (most int, complete bool, err error) {
	type key struct{ radius, index float64 }
	rows := map[float64]int{} // number of rows by radius
	seen, distinct := map[key]bool{}, map[float64]bool{}
	highest := 0.0
	for i := range b.Lower {
		k := key{radius: b.radius(i)}
		rows[k.radius]++
		if b.Index == nil {
			continue
		}
		k.index = b.Index[i]
		if seen[k] {
			return 0, false, &RowError{i, fmt.Sprintf("index %v appears twice at one radius: a statement for all needs independent bounds", k.index)}
		}
		seen[k], distinct[k.index] = true, true
		highest = max(highest, k.index)
	}
	fewest, most := len(b.Lower), len(distinct)
	for _, n := range rows {
		fewest, most = min(fewest, n), max(most, n)
	}
	complete = fewest == most && (b.Index == nil || highest+1 == float64(len(distinct)))
	return most, complete, nil
}

// statedExamples returns the number in the column Examples, or 0 without this column.
func (b BoundRows) statedExamples() (int, error) {
	for i, x := range b.Examples {
		if x != b.Examples[0] || x < 1 || x != float64(int(x)) {
			return 0, &RowError{i, fmt.Sprintf("examples %v: want the same positive whole number in every row", x)}
		}
	}
	if len(b.Examples) == 0 {
		return 0, nil
	}
	return int(b.Examples[0]), nil
}

// StatedAlpha returns the failure probability in the column Alpha, or 0 without this column.
func (b BoundRows) StatedAlpha() (float64, error) {
	for i, x := range b.Alpha {
		if x != b.Alpha[0] || !(x > 0 && x < 1) {
			return 0, &RowError{i, fmt.Sprintf("alpha %v: want the same number between 0 and 1 in every row", x)}
		}
	}
	if len(b.Alpha) == 0 {
		return 0, nil
	}
	return b.Alpha[0], nil
}

// AttackBounds holds bounds on metrics of n predictions under attack. CCE and LargestGap are nil if not computed.
type AttackBounds struct {
	CBS        float64
	CCE        *float64
	LargestGap *float64
}

// WithFailures returns bounds that hold even if some intervals fail. The argument 'share' is an upper bound on the
// share of the total weight that belongs to predictions with failed intervals (RowWeights.LargestShare). See
// MeanWithFailures and CCEWithFailures.
func (b AttackBounds) WithFailures(share float64) AttackBounds {
	out := AttackBounds{CBS: MeanWithFailures(b.CBS, share)}
	if b.CCE != nil {
		cce := CCEWithFailures(*b.CCE, share)
		out.CCE = &cce
	}
	if b.LargestGap != nil {
		gap := MeanWithFailures(*b.LargestGap, share)
		out.LargestGap = &gap
	}
	return out
}

// A Statement holds for all predictions of a dataset simultaneously.
type Statement struct {
	Failures int64 // upper bound on the number of intervals that fail
	AttackBounds
}

// StateForAll returns bounds on the metrics of n predictions. These bounds hold with probability at least 1 − δ. The
// argument b has the bounds that hold if every interval holds. Intervals fail independently, each with probability at
// most α. Let k be the 1 − δ quantile of Bin(N, α) for the N sampled examples (binomial.FailureQuantile). With
// probability at least 1 − δ, at most min(k, n) intervals fail. The metrics use the weights w, so predictions with
// failed intervals have at most the fraction w.LargestShare(k, n) of the total weight. The weights must not depend on
// the noise.
func StateForAll(b AttackBounds, n int, w RowWeights, s Sampled, alpha, delta float64) (Statement, error) {
	k, err := binomial.FailureQuantile(int64(s.Examples), alpha, delta)
	if err != nil {
		return Statement{}, err
	}
	k = min(k, int64(n))
	return Statement{k, b.WithFailures(w.LargestShare(k, n))}, nil
}
