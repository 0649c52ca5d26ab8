package calib

import (
	"errors"
	"slices"
)

// ErrNoIndex means that the rows do not name their examples.
var ErrNoIndex = errors.New("the rows do not name their examples")

// ErrNoSameExample means that no example has a row with a certified class at every radius.
var ErrNoSameExample = errors.New("no example has a row at every radius")

// SameExamples keeps the examples that have a row with a certified class at every radius. The argument 'radii' is a
// result of b.ByRadius. Element j of the result of SameExamples holds the rows of these examples at the radius of
// radii[j]. Emde et al. 2025, Figure 16(b), compare the Brier score under attack on this constant subset. Without this
// restriction, the predictions that remain at larger radii are fewer and have higher confidences.
//
// The subset depends on the noise samples, but statements about the subset stay true. A bound for a row holds in any
// subset. A statement for all rows counts the failures of all sampled examples, so it also counts the failures in the
// subset (StateForAll).
func (b BoundRows) SameExamples(radii []RadiusRows) ([]RadiusRows, error) {
	if b.Index == nil {
		return nil, ErrNoIndex
	}
	at := map[float64]int{} // number of radii at which an example is certified
	for _, g := range radii {
		seen := map[float64]bool{}
		for _, i := range g.Rows {
			if x := b.Index[i]; seen[x] {
				return nil, &RowError{i, "its example has two rows at one radius"}
			}
			seen[b.Index[i]] = true
			at[b.Index[i]]++
		}
	}
	out := make([]RadiusRows, len(radii))
	for j, g := range radii {
		g.Uncertified, g.UncertifiedRows = nil, nil
		out[j] = g.Only(func(i int) bool { return at[b.Index[i]] == len(radii) })
	}
	if slices.ContainsFunc(out, func(g RadiusRows) bool { return len(g.Rows) == 0 }) {
		return nil, ErrNoSameExample
	}
	return out, nil
}
