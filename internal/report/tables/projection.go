package tables

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/projection"
)

// project returns the table of a projection. The first columns hold the parameters of the rows.
func project(p projection.Projection) section {
	in := ""
	if p.Quantity.Share() {
		in = " in %"
	}
	out := section{caption: fmt.Sprintf("%s%s, by %s", p.Value, in, strings.Join(slices.Concat(p.Rows, p.Cols), ", "))}
	for _, name := range p.Rows {
		out.table.Columns = append(out.table.Columns, report.TextColumn(name))
	}
	rows := projection.Keys(p.Cells, func(c projection.Cell) []string { return c.Row })
	cols := projection.Keys(p.Cells, func(c projection.Cell) []string { return c.Col })
	for _, col := range cols {
		out.table.Columns = append(out.table.Columns, valueColumn(p, heading(p.Cols, col)))
	}
	for _, row := range rows {
		var cells []report.Cell
		for _, name := range row {
			cells = append(cells, report.Text(name))
		}
		for _, col := range cols {
			cells = append(cells, cellAt(p, row, col))
		}
		out.table.AddRow(cells...)
	}
	if p.Quantity.Certified() && len(p.Cells) > 1 {
		out.notes = append(out.notes, "Each value holds with probability 1 − delta by itself. A choice of the best cell is a selection: "+
			"requirements with the prefix best: and the comparison by model pay for this choice.")
	}
	for _, c := range p.Cells {
		if c.Nothing != "" {
			out.notes = append(out.notes, c.Run+": nothing is certified: "+c.Nothing+".")
		}
	}
	return out
}

// heading returns the name of a column. The name lists the column's parameters with their values. If the columns have
// no parameters, the name is "value".
func heading(names, values []string) string {
	var parts []string
	for k, name := range names {
		parts = append(parts, name+"="+values[k])
	}
	if len(parts) == 0 {
		return "value"
	}
	return strings.Join(parts, ", ")
}

// valueColumn returns a column of the values, rounded to the safe side.
func valueColumn(p projection.Projection, name string) report.Column {
	to := report.Down
	if p.Quantity.Upper() {
		to = report.Up
	}
	if p.Quantity.Share() {
		return percent(name, to)
	}
	return report.RoundedColumn(name, to, 4)
}

// cellAt returns the value of the run that belongs in the given row and column. It returns nil if no run belongs there,
// or if the run has no value.
func cellAt(p projection.Projection, row, col []string) report.Cell {
	for _, c := range p.Cells {
		if slices.Equal(c.Row, row) && slices.Equal(c.Col, col) {
			return report.OptionalNumber(c.Value)
		}
	}
	return nil
}

// writeProjectionCSV writes a row for each run: its parameters, its name and its value. The value is empty if nothing is
// certified.
func writeProjectionCSV(w io.Writer, p projection.Projection) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat(p.Rows, p.Cols, []string{"run", p.Value})) // out.Error returns the error of Write
	for _, c := range p.Cells {
		var line []string
		for _, text := range slices.Concat(c.Row, c.Col, []string{c.Run}) {
			line = append(line, csvText(text))
		}
		_ = out.Write(append(line, csvField(c.Value)))
	}
	out.Flush()
	return out.Error()
}
