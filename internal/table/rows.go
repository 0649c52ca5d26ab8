package table

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

// A Group holds the rows with the same value in a column.
type Group struct {
	Value float64
	Text  string // the value as text, if the column holds text; "" if the column holds only numbers
	Rows  []int  // ascending
}

// Name returns the value as text.
func (g Group) Name() string {
	if g.Text != "" {
		return g.Text
	}
	return strconv.FormatFloat(g.Value, 'g', -1, 64)
}

// MarshalJSON returns the value: a number, or text.
func (g Group) MarshalJSON() ([]byte, error) {
	if g.Text != "" {
		return json.Marshal(g.Text)
	}
	return json.Marshal(g.Value)
}

// GroupRows groups the rows by their value in a column, in ascending order of the value. −0 counts as 0. A column of
// Options.Texts can hold a value that is not a number. In this case, all values of the column count as text. GroupRows
// returns nil if the table has no column of this name.
func (t *Table) GroupRows(column string) []Group {
	rows := map[float64][]int{}
	values, _ := t.Column(column)
	if c := t.index[column]; c != nil && slices.ContainsFunc(c.text, func(s string) bool { return s != "" }) {
		return c.groupText()
	}
	for i, x := range values {
		rows[x] = append(rows[x], i) // −0 and 0 are one key
	}
	var groups []Group
	for _, x := range slices.Sorted(maps.Keys(rows)) {
		groups = append(groups, Group{Value: x + 0, Rows: rows[x]}) // −0 + 0 is 0
	}
	return groups
}

// groupText groups the rows by their value as text, in the order of the texts.
func (c *column) groupText() []Group {
	rows := map[string][]int{}
	for i, x := range c.Data {
		name := Group{Value: x + 0}.Name()
		if i < len(c.text) && c.text[i] != "" {
			name = c.text[i]
		}
		rows[name] = append(rows[name], i)
	}
	var groups []Group
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		groups = append(groups, Group{Value: math.NaN(), Text: name, Rows: rows[name]})
	}
	return groups
}

// Select returns a table of the given rows. In errors, the rows keep their line numbers.
func (t *Table) Select(rows []int) *Table {
	out := &Table{Path: t.Path, N: len(rows), header: t.header, binary: t.binary, index: map[string]*column{}}
	for _, c := range t.columns {
		width := max(1, c.Cols) // a column of a text file has Cols = 0
		kept := make([]float64, 0, len(rows)*width)
		for _, i := range rows {
			kept = append(kept, c.Data[i*width:(i+1)*width]...)
		}
		out.add(&column{name: c.name, Matrix: Matrix{len(rows), c.Cols, kept}, matrix: c.matrix, text: c.selectText(rows)})
	}
	for _, c := range t.Others() {
		kept := make([]string, len(rows))
		for k, i := range rows {
			kept[k] = c.Values[i]
		}
		out.others = append(out.others, &TextColumn{c.Name, kept})
	}
	for k, i := range rows {
		out.lines.add(k, t.origin(i))
	}
	return out
}

// origin returns the number of the line that holds row i. For a binary file, which has no lines, it returns the number
// of the row in the file.
func (t *Table) origin(i int) int {
	if t.binary && len(t.lines.shifts) == 0 {
		return i
	}
	return t.lines.line(i)
}

// selectText returns the texts of the given rows, or nil if the column has none.
func (c *column) selectText(rows []int) []string {
	if c.text == nil {
		return nil
	}
	text := make([]string, len(rows))
	for k, i := range rows {
		if i < len(c.text) {
			text[k] = c.text[i]
		}
	}
	return text
}
