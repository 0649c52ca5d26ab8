package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/table"
)

// groupOptions are the flags that divide rows or examples into groups.
type groupOptions struct {
	columns []string
	file    string // "": the columns are in the input
}

// divideFlags adds the flags --group and --groups to a command. The argument 'what' says what the command does for each
// group.
func divideFlags(cmd *cobra.Command, o *groupOptions, what string) {
	f := cmd.Flags()
	f.StringSliceVar(&o.columns, "group", nil, what+"; the rows with the same value in the given `column` form a group; if you name several columns, each of them makes groups of its own")
	f.StringVar(&o.file, "groups", "", "`file` with the groups of the examples, in the columns 'index' and 'group'; to use another column instead of 'group', give its name to --group")
}

// check completes the options and checks them.
func (o *groupOptions) check() error {
	if o.file != "" && len(o.columns) == 0 {
		o.columns = []string{"group"}
	}
	if slices.Contains(o.columns, "index") {
		return badInputf("--group index: each example would be a group of its own")
	}
	for k, column := range o.columns {
		if slices.Contains(o.columns[:k], column) {
			return badInputf("--group %s is given twice", column)
		}
	}
	return nil
}

func (o groupOptions) given() bool { return len(o.columns) > 0 }

// extend adds the columns of the groups to the columns that the command reads from the input.
func (o groupOptions) extend(columns table.Options) table.Options {
	switch {
	case o.file != "":
		columns.Required = append(slices.Clone(columns.Required), "index")
	case o.given():
		for _, column := range o.columns {
			if !slices.Contains(columns.Required, column) && !slices.Contains(columns.Optional, column) {
				// read this column as text, unless the command already reads it as numbers
				columns.Texts = append(columns.Texts, column)
			}
		}
		columns.Required = slices.Concat(columns.Required, o.columns)
	}
	return columns
}

// split divides the rows of the input into groups. The table must have been read with the columns that the method
// 'extend' returns. The result is nil if the user wants no groups.
func (o groupOptions) split(ctx context.Context, s streams, quiet bool, t *table.Table) ([]predictions.RowGroup, error) {
	if !o.given() {
		return nil, nil
	}
	if o.file == "" {
		groups, err := predictions.GroupRows(t, o.columns)
		return groups, badInput(err)
	}
	index, _ := t.Column("index")
	of, err := o.readFile(ctx, s, quiet)
	if err != nil {
		return nil, err
	}
	groups, err := predictions.GroupByIndex(index, of, o.columns)
	var row *calib.RowError
	if errors.As(err, &row) {
		err = t.Errorf(row.Row, "%s", row.Reason)
	}
	return groups, badInput(err)
}

// readFile reads the file of the groups.
func (o groupOptions) readFile(ctx context.Context, s streams, quiet bool) (*table.Table, error) {
	t, err := readTable(ctx, s, o.file, quiet, table.Options{Required: append([]string{"index"}, o.columns...), Texts: o.columns})
	if err != nil {
		return nil, hint.Add(err, "--groups names a file with the columns index and %s", strings.Join(o.columns, ", "))
	}
	return t, nil
}

// grouping returns the groups of the examples of runs, or nil if the user wants no groups.
func (o groupOptions) grouping(ctx context.Context, s streams) (g *summary.Grouping, err error) {
	if !o.given() {
		return nil, nil
	}
	g = &summary.Grouping{Columns: o.columns}
	if o.file != "" {
		g.Table, err = o.readFile(ctx, s, true)
	}
	return g, err
}
