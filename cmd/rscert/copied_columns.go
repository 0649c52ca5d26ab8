package main

import (
	"slices"

	"github.com/rscert/rscert/internal/table"
)

// copiedColumns are columns of the input that a command copies to its output. They follow the columns that the command
// writes itself.
type copiedColumns struct {
	names   []string
	numbers [][]float64        // columns that the command knows
	texts   []table.TextColumn // the other columns of the file
}

// copyColumns returns the columns of a table, without the columns that the output has already and without the columns
// for which the function 'replaced' returns true.
func copyColumns(t *table.Table, written []string, replaced func(name string) bool) (c copiedColumns) {
	if slices.Contains(written, "label") {
		written = append(slices.Clone(written), "labels") // two names of one column
	}
	skip := func(name string) bool { return slices.Contains(written, name) || replaced(name) }
	for _, name := range t.Names() {
		if column, ok := t.Column(name); ok && !skip(name) {
			c.names, c.numbers = append(c.names, name), append(c.numbers, column)
		}
	}
	for _, column := range t.Others() {
		if !skip(column.Name) {
			c.names, c.texts = append(c.names, column.Name), append(c.texts, column)
		}
	}
	return c
}

// write adds the fields of row i.
func (c copiedColumns) write(w *table.Writer, i int) {
	for _, column := range c.numbers {
		w.Float(column[i])
	}
	for _, column := range c.texts {
		w.Text(column.Values[i])
	}
}
