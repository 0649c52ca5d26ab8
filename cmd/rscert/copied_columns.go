package main

import (
	"slices"

	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// copiedColumns are columns of the input that a command copies to its output. They follow the columns that the command
// writes itself.
type copiedColumns struct {
	names   []string
	numbers [][]float64        // values of the columns that were read as numbers
	texts   []table.TextColumn // the other columns, as texts
}

// copyColumns returns the columns of a table that the output keeps. It leaves out columns about the scores of the
// input, because the command changes these scores. It also leaves out the columns that the argument 'written' lists,
// because the output has them already. Some columns get another name in the output.
func copyColumns(t *table.Table, written []string) (c copiedColumns) {
	if slices.Contains(written, "label") {
		written = append(slices.Clone(written), "labels") // "label" and "labels" name the same column
	}
	kept := func(name string) string {
		if to := predictions.KeptName(name); !slices.Contains(written, to) && !slices.Contains(c.names, to) {
			return to
		}
		return ""
	}
	for _, name := range t.Names() {
		column, ok := t.Column(name)
		if to := kept(name); ok && to != "" {
			c.names, c.numbers = append(c.names, to), append(c.numbers, column)
		}
	}
	for _, column := range t.Others() {
		if to := kept(column.Name); to != "" {
			c.names, c.texts = append(c.names, to), append(c.texts, column)
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
