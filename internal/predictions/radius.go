package predictions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/tabular"
)

// RadiusError says that a table's radii are not those that were asked for. Hint says what to do.
type RadiusError struct {
	message, hint string
}

func (e *RadiusError) Error() string { return e.message }

// Hint is what the user can do about it.
func (e *RadiusError) Hint() string { return e.hint }

// ChooseRadii returns the rows of each of the radii wanted, or of all there are where none is wanted, in ascending order.
// It returns nil for a table without the column radius.
func ChooseRadii(t *tabular.Table, wanted []float64) ([]tabular.Group, error) {
	groups := t.GroupRows("radius")
	if groups == nil {
		if len(wanted) > 0 {
			return nil, fmt.Errorf("%s: --radius is given, but there is no column radius", t.Path)
		}
		return nil, nil
	}
	if first := groups[0]; first.Value < 0 {
		return nil, t.Errorf(first.Rows[0], "radius %v is below 0", first.Value)
	}
	if len(wanted) == 0 {
		return groups, nil
	}
	var chosen []tabular.Group
	for _, r := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
		k := slices.IndexFunc(groups, func(g tabular.Group) bool { return g.Value == r })
		if k < 0 {
			return nil, &RadiusError{fmt.Sprintf("%s: no rows with radius %v", t.Path, r), fmt.Sprintf("the radii are %v", values(groups))}
		}
		chosen = append(chosen, groups[k])
	}
	return chosen, nil
}

// SelectRadius returns the rows of one radius: *wanted, or the only one where wanted is nil. An example has a row for each
// radius, so rows of several radii are no sample of predictions. A table without the column radius is returned as it is.
func SelectRadius(t *tabular.Table, wanted *float64) (*tabular.Table, error) {
	var radii []float64
	if wanted != nil {
		radii = []float64{*wanted}
	}
	groups, err := ChooseRadii(t, radii)
	switch {
	case err != nil:
		return nil, err
	case len(groups) > 1:
		return nil, &RadiusError{
			fmt.Sprintf("%s: has the rows of %d radii: %s", t.Path, len(groups), listRadii(values(groups))),
			"each example is there once a radius; choose one with --radius",
		}
	case wanted == nil:
		return t, nil
	}
	return t.Select(groups[0].Rows), nil
}

func values(groups []tabular.Group) []float64 {
	radii := make([]float64, len(groups))
	for k, g := range groups {
		radii[k] = g.Value
	}
	return radii
}

// listRadii names the first of the radii.
func listRadii(radii []float64) string {
	const show = 10
	var names []string
	for _, r := range radii[:min(show, len(radii))] {
		names = append(names, fmt.Sprint(r))
	}
	if len(radii) > show {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
