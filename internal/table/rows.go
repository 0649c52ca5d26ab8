package table

import (
	"maps"
	"slices"
)

// A Group holds the rows with the same value in a column.
type Group struct {
	Value float64
	Rows  []int // ascending
}

// GroupRows groups the rows by their value in a column, in ascending order of the value. −0 counts as 0. It returns nil
// if the table has no column of this name.
func (t *Table) GroupRows(column string) []Group {
	rows := map[float64][]int{}
	values, _ := t.Column(column)
	for i, x := range values {
		rows[x] = append(rows[x], i) // −0 and 0 are one key
	}
	var groups []Group
	for _, x := range slices.Sorted(maps.Keys(rows)) {
		groups = append(groups, Group{x + 0, rows[x]}) // −0 + 0 is 0
	}
	return groups
}

// Select returns a table of the given rows. In errors, the rows keep their line numbers.
func (t *Table) Select(rows []int) *Table {
	out := &Table{Path: t.Path, N: len(rows), header: t.header, binary: t.binary, index: map[string]*column{}}
	for _, c := range t.columns {
		width := max(1, c.Cols) // columns of text files have Cols 0
		kept := make([]float64, 0, len(rows)*width)
		for _, i := range rows {
			kept = append(kept, c.Data[i*width:(i+1)*width]...)
		}
		out.add(&column{name: c.name, Matrix: Matrix{len(rows), c.Cols, kept}, matrix: c.matrix})
	}
	for k, i := range rows {
		out.lines.add(k, t.origin(i))
	}
	return out
}

// origin returns the line of row i in the file, or the row number in an archive.
func (t *Table) origin(i int) int {
	if t.binary && len(t.lines.shifts) == 0 {
		return i
	}
	return t.lines.line(i)
}
