package predictions

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/table"
)

// MaxGroups limits the number of groups, because the bounds say little if there are more groups.
const MaxGroups = 1000

// RowGroup is a group of rows: the rows with the same value in a column.
type RowGroup struct {
	Column string      `json:"column"`
	Value  table.Group `json:"value"` // in JSON only its value: a number or a text
}

// Name returns the column and the value of the group as text, for example "site = 2".
func (g RowGroup) Name() string { return g.Column + " = " + g.Value.Name() }

// GroupRows divides all rows of a table once for each column: the rows with the same value in the column form a group.
// The groups of the first column come first, then the groups of the second column, and so on. Every row is in one group
// of each column.
func GroupRows(t *table.Table, columns []string) (groups []RowGroup, err error) {
	for _, column := range columns {
		found := t.GroupRows(column)
		if found == nil {
			return nil, fmt.Errorf("%s: no column %s that makes groups", t.Path, column)
		}
		for _, g := range found {
			groups = append(groups, RowGroup{column, g})
		}
	}
	return groups, checkGroups(t.Path, columns, groups)
}

// GroupByIndex divides the rows of an input by the columns of another table, t. The table t has a column 'index'. The
// argument 'index' holds, for each row of the input, the index of the row's example. The groups hold rows of the input.
// An error about a row of the input is a *calib.RowError.
func GroupByIndex(index []float64, t *table.Table, columns []string) ([]RowGroup, error) {
	if err := checkIndex(t); err != nil {
		return nil, err
	}
	known, _ := t.Column("index")
	at := make(map[float64]int, t.N) // row of the table, by index
	for i, x := range known {
		at[x] = i
	}
	rows := make([][]int, t.N) // rows[k] holds the rows of the input that belong to row k of the table
	for i, x := range index {
		k, ok := at[x]
		if !ok {
			return nil, &calib.RowError{Row: i, Reason: fmt.Sprintf("%s has no group of the example with index %v", t.Path, x)}
		}
		rows[k] = append(rows[k], i)
	}
	all, err := GroupRows(t, columns)
	if err != nil {
		return nil, err
	}
	var groups []RowGroup
	for _, g := range all {
		members := g.Value.Rows
		g.Value.Rows = nil
		for _, k := range members {
			g.Value.Rows = append(g.Value.Rows, rows[k]...)
		}
		slices.Sort(g.Value.Rows)
		if len(g.Value.Rows) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// noisy lists columns that the noise can change, and the column 'radius'. Rows must not be grouped by these columns,
// because a statement about a group holds only if the group is known before the noise is drawn.
var noisy = []string{"lower", "upper", "correct", "confidence", "certified", "prediction", "predicted", "radius", "margin", "n", "samples"}

// CheckNoisy returns an error if 'column' is in the list 'noisy', because rows must not be grouped by such a column.
func CheckNoisy(path, column string) error {
	if slices.Contains(noisy, column) {
		return hint.Add(param.Errorf("%s: %s %s: the noise can change this column, or it is the radius", path, param.Group, column),
			"a group must be known before the noise is drawn")
	}
	return nil
}

// GroupLabels divides examples by their label.
func GroupLabels(label []int) []RowGroup {
	members := map[int][]int{}
	for i, y := range label {
		members[y] = append(members[y], i)
	}
	var groups []RowGroup
	for _, y := range slices.Sorted(maps.Keys(members)) {
		groups = append(groups, RowGroup{"label", table.Group{Value: float64(y), Rows: members[y]}})
	}
	return groups
}

// checkGroups returns an error if there are too many groups, or no group.
func checkGroups(path string, columns []string, groups []RowGroup) error {
	switch {
	case len(groups) > MaxGroups:
		return hint.Add(param.Errorf("%s: %s makes %d groups: want at most %d", path, param.Group, len(groups), MaxGroups),
			"a column of groups has few values; it is not a score")
	case len(groups) == 0 && len(columns) > 0:
		return errors.New(path + ": no rows")
	}
	return nil
}
