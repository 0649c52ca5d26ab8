package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report/curves"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

// byModelOptions are the flags of the command 'report' that compare models.
type byModelOptions struct {
	wanted    bool
	within    *float64 // nil if --within is not given
	families  []string
	bestScale bool
	delta     float64 // --delta, not yet divided among the runs
	choices   int     // reportOptions.choices
}

// byModelFlags adds the flags of byModelOptions to cmd. The caller must call the function 'complete' after parsing the
// flags.
func byModelFlags(cmd *cobra.Command, o *byModelOptions) (complete func()) {
	var within float64
	f := cmd.Flags()
	f.BoolVar(&o.wanted, "by-model", false, "compare models instead of runs; --names then gives the model of each run")
	f.Float64Var(&within, "within", 0, "with --by-model, also choose models by the rule of Emde et al. 2025; this `share` is the rule's tolerance in certified accuracy, such as 0.03 for three percentage points")
	f.StringSliceVar(&o.families, "families", nil, "with --by-model, the `family` of each run's model, such as the model's training method; --within then chooses models in each family, but compares certified accuracy with the best of all families")
	f.BoolVar(&o.bestScale, "best-sigma", false, "with --by-model, show only one run of each model: the run with the largest certified accuracy at the table's radius")
	group(cmd, "Models")
	return func() { o.within = given(cmd, "within", &within) }
}

// check refuses flags that do not fit together. The argument 'runs' is the number of runs.
func (o byModelOptions) check(runs int) error {
	if !o.wanted {
		for flag, is := range map[string]bool{"within": o.within != nil, "families": o.families != nil, "best-sigma": o.bestScale} {
			if is {
				return hint.Add(badInputf("--%s compares models", flag), "add --by-model")
			}
		}
		return nil
	}
	switch {
	case o.families != nil && len(o.families) != runs:
		return badInputf("--families: %d families for %d runs", len(o.families), runs)
	case o.within != nil && !(*o.within >= 0 && *o.within <= 1):
		return badInputf("--within %v: want a share from 0 to 1; three points are 0.03", *o.within)
	}
	return nil
}

// share divides delta among the runs if the report compares models, because the user then chooses a model by the
// results. The argument 'choices' is reportOptions.choices.
func (o *byModelOptions) share(options *summary.Options, choices int) {
	o.delta, o.choices = options.Delta, choices
	if o.wanted {
		options.Choices = choices
	}
}

// compare compares the models of the runs, for the tables and for the curve. It returns nil if neither needs the
// comparison.
func (o byModelOptions) compare(runs []summary.Summary, radii []float64, names []string, curve curves.Curve) (*selection.Comparison, error) {
	if !o.wanted && curve != curves.Pareto {
		return nil, nil
	}
	c, err := selection.Compare(runs, selection.Options{Radii: radii, Names: slices.Clone(names), Families: o.families, Within: o.within,
		BestScale: o.bestScale, Delta: o.delta, Choices: o.choices})
	if err != nil {
		return nil, badInput(fmt.Errorf("comparing models: %w", err))
	}
	return &c, nil
}
