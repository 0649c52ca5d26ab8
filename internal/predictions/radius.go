package predictions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/table"
)

// LocateRadius adds the file name to an error about a table's radii, such as an error of calib.BoundRows.ByRadius. If
// the error is about a row, LocateRadius adds the line. If no row has the wanted radius, LocateRadius adds the radii of
// the table.
func LocateRadius(t *table.Table, err error) error {
	var none *calib.NoRadiusError
	switch {
	case errors.Is(err, calib.ErrNoneCertified):
		return fmt.Errorf("%s: %w", t.Path, err)
	case errors.Is(err, calib.ErrNoRadii):
		return param.Errorf("%s: %s is given, but there is no column radius", t.Path, param.Radius)
	case errors.As(err, &none):
		return hint.New(fmt.Sprintf("%s: %v", t.Path, err), fmt.Sprintf("the radii are %v", none.Found))
	}
	return LocateRow(t, err)
}

// SelectRadius returns the rows whose radius is *wanted. If 'wanted' is nil, the table must have only one radius. (Each
// example has one row for each radius, so rows of several radii count the same example several times.) If the table has
// no column 'radius', SelectRadius returns it unchanged.
func SelectRadius(t *table.Table, wanted *float64) (*table.Table, error) {
	groups := t.GroupRows("radius")
	if groups == nil {
		if wanted != nil {
			return nil, LocateRadius(t, calib.ErrNoRadii)
		}
		return t, nil
	}
	if first := groups[0]; first.Value < 0 {
		return nil, t.Errorf(first.Rows[0], "radius %v is below 0", first.Value)
	}
	if wanted != nil {
		for _, g := range groups {
			if g.Value == *wanted {
				return t.Select(g.Rows), nil
			}
		}
		return nil, LocateRadius(t, &calib.NoRadiusError{Radius: *wanted, Found: values(groups)})
	}
	if len(groups) > 1 {
		return nil, hint.Add(
			fmt.Errorf("%s: has rows of %d radii: %s", t.Path, len(groups), listRadii(values(groups))),
			"each example has a row for each radius; choose one with %s", param.Radius)
	}
	return t, nil
}

func values(groups []table.Group) []float64 {
	radii := make([]float64, len(groups))
	for k, g := range groups {
		radii[k] = g.Value
	}
	return radii
}

// listRadii lists the first few radii.
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

// SelectCertified returns the rows whose class is certified within the radius. In all other rows of a bounds.csv, the
// columns 'lower' and 'upper' are not bounds on the confidence. If the table has no column 'certified', SelectCertified
// returns it unchanged.
func SelectCertified(t *table.Table) (*table.Table, error) {
	groups := t.GroupRows("certified")
	if groups == nil {
		return t, nil
	}
	var certified []int
	for _, g := range groups {
		switch g.Value {
		case 0:
		case 1:
			certified = g.Rows
		default:
			return nil, t.Errorf(g.Rows[0], "certified %v is not 0 or 1", g.Value)
		}
	}
	if len(certified) == 0 {
		return nil, hint.Add(errors.New(t.Path+": no class is certified at the radius"), "choose a smaller one with %s", param.Radius)
	}
	return t.Select(certified), nil
}
