package table

import (
	"maps"
	"slices"
)

// Group are the rows with one value in a column.
type Group struct {
	Value float64
	Rows  []int // ascending
}

// GroupRows puts the rows with the same value in a column together, in ascending order of the value; −0 is 0. It
// returns nil if there is no such column.
func (t *Table) GroupRows(column string) []Group {
	at := map[float64][]int{}
	values, _ := t.Column(column)
	for i, x := range values {
		at[x] = append(at[x], i) // −0 and 0 are one key
	}
	var groups []Group
	for _, x := range slices.Sorted(maps.Keys(at)) {
		groups = append(groups, Group{x + 0, at[x]}) // −0 + 0 is 0
	}
	return groups
}

// Select returns a table of the given rows, which keep their lines.
func (t *Table) Select(rows []int) *Table {
	out := &Table{Path: t.Path, N: len(rows), header: t.header, binary: t.binary, index: map[string]*column{}}
	for _, c := range t.columns {
		width := max(1, c.Cols) // columns of text have none
		kept := make([]float64, 0, len(rows)*width)
		for _, i := range rows {
			kept = append(kept, c.Data[i*width:(i+1)*width]...)
		}
		out.add(&column{name: c.name, Matrix: Matrix{len(rows), c.Cols, kept}, matrix: c.matrix})
	}
	for k, i := range rows {
		out.lines.add(k, t.place(i))
	}
	return out
}

// place is where row i stands in the file: its line, or its row in an archive.
func (t *Table) place(i int) int {
	if t.binary && len(t.lines.at) == 0 {
		return i
	}
	return t.lines.line(i)
}
