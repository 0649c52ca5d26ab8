package predictions

import (
	"errors"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/table"
)

// SelectUnfitted leaves out the rows whose value in the column 'fitted' is 1, and returns how many rows it left out. A
// calibration map was fitted on these rows. Metrics and bounds computed from these rows therefore say nothing about
// other rows.
func SelectUnfitted(t *table.Table) (rest *table.Table, leftOut int, err error) {
	var unfitted []int
	fitted, _ := t.Column("fitted")
	for i, x := range fitted {
		switch x {
		case 0:
			unfitted = append(unfitted, i)
		case 1:
			leftOut++
		default:
			return nil, 0, t.Errorf(i, "fitted %v is not 0 or 1", x)
		}
	}
	switch {
	case leftOut == 0:
		return t, 0, nil
	case len(unfitted) == 0:
		return nil, 0, hint.Add(errors.New(t.Path+": a calibration map was fitted on every row (column fitted)"),
			"apply the map to other rows")
	}
	if err := checkUnfitted(t, unfitted); err != nil {
		return nil, 0, err
	}
	return t.Select(unfitted), leftOut, nil
}

// checkUnfitted returns an error if a row with 0 in the column 'fitted' belongs to the same example as a row with 1 in
// this column.
func checkUnfitted(t *table.Table, unfitted []int) error {
	index, ok := t.Column("index")
	if !ok {
		return nil
	}
	fitted, _ := t.Column("fitted")
	used := map[float64]bool{}
	for i, x := range index {
		if fitted[i] == 1 {
			used[x] = true
		}
	}
	for _, i := range unfitted {
		if used[index[i]] {
			return t.Errorf(i, "a calibration map was fitted on another row with the index %v", index[i])
		}
	}
	return nil
}
