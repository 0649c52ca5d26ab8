package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// combineOptions are the flags of combine.
type combineOptions struct {
	plan        run.CombinePlan
	json, quiet bool
}

func newCombine(s streams) *cobra.Command {
	var o combineOptions
	cmd := &cobra.Command{
		Use:   "combine RUN… --out FOLDER",
		Short: "Certify routers and ensembles of certified runs",
		Long: `This command certifies a classifier that consists of the smoothed classifiers of
several runs. It reads the certificates of the runs and needs no model.

With --router, the class that the router answers chooses the run that answers: the
first RUN for class 0, the second for class 1, and so on. The radius is the smaller
one of the router and the chosen run. The failure probability is the alpha of the
router plus the largest alpha of the runs.

Without --router, the runs vote. --by majority answers the class that more than half
of the runs answer. --by agree answers the class that all runs answer. The command
certifies a class if --at-least runs certify it, within the radius that so many of
them reach. The failure probability depends on these numbers (docs/combine.md). It is
smaller if the runs have different seeds.

All runs must certify the same examples with the same law of noise, by sound methods.
A router may have other labels than the runs, or none; the command then reads the data
of the runs to compare the inputs.

The result is a folder with certificates.jsonl and combined.json, which describes the
runs. 'rscert report' and requirements accept the folder like a run. It holds no votes,
so commands that need votes or a model refuse it.`,
		Example: `  rscert combine --router router expert0 expert1 --out routed
  rscert combine run1 run2 run3 --out together
  rscert combine run1 run2 run3 --at-least 3 --out together
  rscert combine run1 run2 --by agree --out together --json
  rscert report together`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return badInput(errors.New("want two or more run folders to combine"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.plan.Router != "" && cmd.Flags().Changed("by") {
				return badInputf("--by: is for runs of equal rank, not for --router")
			}
			o.plan.Runs = args
			return runCombine(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.plan.Out, "out", "", "new `folder` for the certificates")
	f.StringVar(&o.plan.Router, "router", "", "run `folder` of the router, whose classes choose the runs in their order")
	choiceVar(f, &o.plan.By, "by", certify.Majority, certify.Compositions, "how the runs answer together: "+certify.Compositions.Described())
	integerVar(f, &o.plan.AtLeast, "at-least", 0, "number of runs that must certify a class; fix it before you see the runs; 0 = as many as must answer it")
	f.BoolVar(&o.json, "json", false, "print the description of the combined runs as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

func runCombine(ctx context.Context, s streams, o combineOptions) error {
	if o.plan.Out == "" {
		return hint.Add(badInput(errors.New("--out is missing")), "see 'rscert combine --help'")
	}
	o.plan.Version = version()
	done, err := run.Combine(ctx, o.plan, s.progress(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "combine", done)
	}
	return writeCombined(s.out, o.plan.Out, done)
}

func writeCombined(w io.Writer, out string, c *runfolder.Combined) error {
	fmt.Fprintf(w, "%s\n\n", c.Says)
	for _, m := range c.Members {
		fmt.Fprintf(w, "  %-20s %s  %s, scale %v, alpha %v\n", m.Role, m.Run, quote.Line(m.Path), m.Sigma, m.Alpha)
	}
	fmt.Fprintf(w, "\n%d of %d examples are certified, each except with probability %.6g\n", c.Certified, c.Examples, c.Alpha)
	if !c.Independent && c.Composition != certify.Router {
		fmt.Fprintln(w, "runs have the same seed, so this probability allows for any dependence between them")
	}
	_, err := fmt.Fprintf(w, "the certificates are in %s\n", quote.Line(out))
	return err
}
