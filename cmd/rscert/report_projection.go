package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/projection"
	"github.com/rscert/rscert/internal/report/summary"
)

// projectionOptions are the flags for a table of the runs. Parameters of the runs determine the row and the column of
// each run.
type projectionOptions struct {
	rows, cols []string
	value      gate.Requirement // a requirement that names a quantity but has no bound
	text       string           // the text of --value
}

func projectionFlags(cmd *cobra.Command, o *projectionOptions) {
	f := cmd.Flags()
	f.StringSliceVar(&o.rows, "rows", nil, "`parameters`, such as 'model' or 'sigma'; print one table of all runs, with a row for each combination of values of these parameters")
	f.StringSliceVar(&o.cols, "cols", nil, "`parameters`, such as 'sigma' or 'n'; print one table of all runs, with a column for each combination of their values")
	f.StringVar(&o.text, "value", "acr", "`quantity` in the cells of the table of --rows and --cols, such as 'certified-accuracy@0.5'")
}

// given reports whether the user asks for the table.
func (o projectionOptions) given() bool { return len(o.rows)+len(o.cols) > 0 }

// complete parses --value. It refuses --value if neither --rows nor --cols is given.
func (o *projectionOptions) complete(valueGiven bool) (err error) {
	if !o.given() {
		if valueGiven {
			return badInputf("--value needs --rows or --cols")
		}
		return nil
	}
	if o.value, err = gate.ParseQuantity(o.text); err != nil {
		return badInputf("--value %w", err)
	}
	return nil
}

// project makes the table that the flags --rows and --cols describe. It returns nil without these flags.
func (o projectionOptions) project(runs []summary.Summary) (*projection.Projection, error) {
	if !o.given() {
		return nil, nil
	}
	p, err := projection.New(runs, o.rows, o.cols, o.value)
	return p, badInput(err)
}
