package predictions

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// ClusterRows divides the rows of a table into clusters. The rows with the same value in a column are one cluster.
// Values that are equal as numbers, such as 7 and 007, count as the same value. So do values that differ only in
// characters without width, or in white space at the beginning or end. A row without a value is an error, because its
// cluster is unknown. The table must have been read with this column in Options.Texts.
func ClusterRows(t *table.Table, column string) ([]table.Group, error) {
	values, _ := t.Column(column)
	clusters := mergeClusters(t.GroupRows(column))
	for _, c := range clusters {
		if len(c.Rows) > 0 && missing(c) {
			return nil, noCluster(t, c.Rows[0], column)
		}
	}
	texts := len(clusters) > 0 && clusters[0].Text != ""
	for i, x := range values {
		const exact = 1 << 53 // two different numbers of 2⁵³ or more in the file can be equal as float64
		switch {
		case math.IsNaN(x) && !texts: // no group contains this row
			return nil, noCluster(t, i, column)
		case math.Abs(x) >= exact:
			return nil, hint.Add(t.Errorf(i, "column %s: the number %v is too large to tell clusters apart", quote.Name(column), x),
				"make the values text, for example with a letter in front")
		}
	}
	if len(clusters) == 0 {
		return nil, errors.New(t.Path + ": no rows")
	}
	return clusters, nil
}

// mergeClusters joins the groups with the same ClusterName.
func mergeClusters(groups []table.Group) (merged []table.Group) {
	at := map[string]int{} // for each cluster name, its position in the slice 'merged'
	for _, g := range groups {
		name := ClusterName(g)
		k, ok := at[name]
		if !ok {
			at[name] = len(merged)
			merged = append(merged, g)
			continue
		}
		merged[k].Rows = slices.Concat(merged[k].Rows, g.Rows)
		slices.Sort(merged[k].Rows)
	}
	return merged
}

// ClusterName returns the name of the cluster to which a group belongs. Groups whose values are spellings of the same
// value get the same name.
func ClusterName(g table.Group) string {
	name := strings.TrimSpace(noWidth.Replace(g.Name()))
	if x, err := strconv.ParseFloat(name, 64); err == nil && !math.IsNaN(x) {
		return strconv.FormatFloat(x+0, 'g', -1, 64) // x+0 makes −0 the same as 0
	}
	return name
}

// noWidth removes the Unicode characters that have no width and are not white space.
var noWidth = strings.NewReplacer("\u200b", "", "\u200c", "", "\u200d", "", "\u2060", "", "\ufeff", "")

// missing reports whether the value of a cluster stands for a missing value. JSON writes such a value as null, Python
// as None or NaN, and R as NA.
func missing(c table.Group) bool {
	return slices.Contains([]string{"", "nan", "null", "none", "na", "n/a", "<na>"}, strings.ToLower(ClusterName(c)))
}

func noCluster(t *table.Table, row int, column string) error {
	return hint.Add(t.Errorf(row, "column %s: no cluster: every row needs one", quote.Name(column)),
		"leave out the row; if it depends on no other row, give it a cluster of its own")
}

// CheckClustersUnfitted returns an error if a cluster has a row with 1 and a row with 0 in the column 'fitted'. A
// calibration map was fitted on the row with 1, so the map depends on this row. The rows of one cluster depend on each
// other, so the map also depends on the row with 0.
func CheckClustersUnfitted(t *table.Table, column string) error {
	fitted, ok := t.Column("fitted")
	if !ok {
		return nil
	}
	for _, c := range mergeClusters(t.GroupRows(column)) {
		used := slices.ContainsFunc(c.Rows, func(i int) bool { return fitted[i] == 1 })
		rest := slices.IndexFunc(c.Rows, func(i int) bool { return fitted[i] == 0 })
		if used && rest >= 0 {
			return t.Errorf(c.Rows[rest], "a calibration map was fitted on another row of the cluster %s", quote.Name(c.Name()))
		}
	}
	return nil
}
