package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// clusterOptions is the flag --cluster. The flag names the column that holds the cluster of each row.
type clusterOptions struct {
	column   string
	set      bool // the user gave the flag
	optional bool // the file may lack the column
}

// clusterFlag adds the flag to a command. The argument 'what' says what the command does with the clusters.
func clusterFlag(f *pflag.FlagSet, o *clusterOptions, what string) {
	f.StringVar(&o.column, "cluster", "", "`column` that gives the cluster of each row, such as the row's patient; rows of one cluster may depend on each other; "+what)
}

// The method 'find' sets o.set to whether the user gave the flag.
func (o *clusterOptions) find(cmd *cobra.Command) { o.set = given(cmd, "cluster", &o.column) != nil }

// extend adds the column of --cluster to the columns that the command reads from the input. It refuses a column that
// already has a meaning, such as the labels or the weights.
func (o clusterOptions) extend(columns table.Options) (table.Options, error) {
	if !o.set {
		return columns, nil
	}
	if o.column == "" {
		return columns, badInputf("--cluster: want the name of a column")
	}
	for _, known := range []table.Options{columns, predictions.Columns()} {
		names := slices.Concat(known.Required, known.Optional, known.Matrices)
		if slices.Contains(names, o.column) || known.Match != nil && known.Match(o.column) {
			return columns, hint.Add(badInputf("--cluster %s: this column already has another meaning", o.column),
				"name a column that says which rows belong together, such as a column patient")
		}
	}
	if o.optional {
		columns.Optional = append(slices.Clone(columns.Optional), o.column)
	} else {
		columns.Required = append(slices.Clone(columns.Required), o.column)
	}
	columns.Texts = append(slices.Clone(columns.Texts), o.column)
	return columns, nil
}

// check returns an error if a calibration map was fitted on a part of a cluster. The table must still have all rows of
// the file.
func (o clusterOptions) check(t *table.Table) error {
	if !o.set {
		return nil
	}
	return badInput(predictions.CheckClustersUnfitted(t, o.column))
}

// readUnfitted reads a table with readUnweighted, and also reads the column of the clusters. It leaves out the rows on
// which a calibration map was fitted.
func (o clusterOptions) readUnfitted(ctx context.Context, s streams, path string, quiet bool, columns table.Options) (*table.Table, error) {
	columns, err := o.extend(columns)
	if err != nil {
		return nil, err
	}
	t, err := readUnweighted(ctx, s, path, quiet, columns)
	if err != nil {
		return nil, err
	}
	return leaveOutFitted(s, t, o)
}

// divide divides the rows of the input into clusters. The table must have been read with the columns that the method
// 'extend' returns. The result is nil if the flag is not given.
func (o clusterOptions) divide(t *table.Table, seed uint64) (*rowClusters, error) {
	if !o.set {
		return nil, nil
	}
	groups, err := predictions.ClusterRows(t, o.column)
	if err != nil {
		return nil, badInput(err)
	}
	weights, _ := t.Column("weight")
	for i, w := range weights {
		if w != weights[0] {
			return nil, refuseClusterWeights(t, i)
		}
	}
	var rows [][]int
	for _, g := range groups {
		rows = append(rows, g.Rows)
	}
	return &rowClusters{Column: o.column, Rows: t.N, Clusters: len(groups), Seed: seed, of: calib.NewClusters(rows, seed), groups: groups}, nil
}

// keepPredictions divides predictions into clusters, and keeps one row of each cluster. The argument t is the table
// with the rows of the predictions. If the predictions are votes of a run, t is nil. Without --cluster, keepPredictions
// keeps all rows.
func (o clusterOptions) keepPredictions(path string, p *calib.Predictions, t *table.Table, seed uint64) (*calib.Predictions, *rowClusters, error) {
	if o.set && t == nil {
		return nil, nil, hint.Add(badInputf("%s: --cluster %s: a run knows no clusters of its examples", displayPath(path), o.column),
			"write a file of predictions with a column %s", o.column)
	}
	clusters, err := o.divide(t, seed)
	if clusters == nil {
		return p, nil, err
	}
	return p.Only(clusters.keepAll(p.N())), clusters, nil
}

// refuseClusterWeights returns the error for a table with both clusters and weights.
func refuseClusterWeights(t *table.Table, row int) error {
	return hint.Add(badInput(t.Errorf(row, "column weight: --cluster cannot be combined with weights")),
		"remove the column to treat all clusters alike")
}

// rowClusters is what --json prints about clusters.
type rowClusters struct {
	Column   string `json:"column"`
	Rows     int    `json:"rows"` // rows of the file, without the rows that the command leaves out
	Clusters int    `json:"clusters"`
	Kept     int    `json:"kept"` // rows that the bounds, the intervals and the tests use
	Seed     uint64 `json:"seed"`
	// Population describes the population for which the bounds, the intervals and the tests hold.
	Population string `json:"population"`

	of     calib.Clusters
	groups []table.Group
}

// oneRow describes the population from which keepAll takes a sample.
const oneRow = "a random row of a random cluster"

// keepAll keeps one row of each cluster and records the number of the kept rows. If there are no clusters, it keeps all
// rows. The argument n is the number of all rows.
func (c *rowClusters) keepAll(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	kept := c.keep(all)
	if c != nil {
		c.Kept, c.Population = len(kept), oneRow
	}
	return kept
}

// keep chooses one of the given rows from each cluster. If there are no clusters, it returns all given rows.
func (c *rowClusters) keep(rows []int) []int {
	if c == nil {
		return rows
	}
	return c.of.KeepOne(rows)
}

// names returns the cluster of each row.
func (c *rowClusters) names() []string {
	names := make([]string, c.Rows)
	for _, g := range c.groups {
		for _, i := range g.Rows {
			names[i] = g.Name()
		}
	}
	return names
}

// print says which rows were kept. The argument 'what' names the results that were computed from these rows, such as
// "The bounds".
func (c *rowClusters) print(out io.Writer, what string) {
	if c == nil {
		return
	}
	fmt.Fprintf(out, "%d clusters (column %s) of %d rows: kept one random row of each cluster (seed %d)\n",
		c.Clusters, c.Column, c.Rows, c.Seed)
	fmt.Fprintf(out, "%s are about %s.\n", what, oneRow)
}
