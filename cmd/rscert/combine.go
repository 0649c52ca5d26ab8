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
		Short: "Certify a router or a majority vote over certified runs",
		Long: `This command certifies a classifier that consists of the smoothed classifiers of
several runs. It reads the certificates of the runs and needs no model.

A router is a classifier that chooses, for each input, the RUN that answers. --router
names the run folder of the router. If the router's class is 0, the first RUN answers;
if it is 1, the second RUN answers, and so on. The certified radius is the smaller of
two radii: the router's radius and the chosen run's radius.

Without --router, the runs vote. With --by majority, the answer is the class that more
than half of the runs answer. With --by agree, the answer is the class that all runs
answer. The command certifies a class if at least c runs certify it, where c is the
value of --at-least. The certified radius is the c-th largest radius of the runs that
certify the class.

The failure probability is an upper bound on the probability that a certificate of the
result is wrong. With --router, it is the alpha of the router plus the largest alpha of
the runs. Without --router, the failure probability depends on six things
(docs/combine.md): --by, --at-least, the number of runs, their alpha, their --class, and
whether all seeds differ. If all seeds differ, the failure probability is usually
smaller than if some seeds are equal.

All runs must certify the same examples, under noise of the same law (such as Gaussian),
by sound methods. The σ of the runs may differ. A method is sound if a certificate is
wrong with probability at most alpha, for every classifier. The router's dataset may
have no labels, and its labels may differ from those in the dataset of the runs. If the
labels differ, the command reads both datasets and checks that the inputs are the same.

The result is a folder with two files. certificates.jsonl holds the certificates, and
combined.json describes the runs. 'rscert report' reads the folder like a run, and can
check requirements on it (--require). The folder holds no votes and no model, so
commands that need votes or a model refuse it.`,
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
	f.StringVar(&o.plan.Out, "out", "", "new `folder` to which rscert writes the certificates")
	f.StringVar(&o.plan.Router, "router", "", "run `folder` of the router; the router's class for an input chooses the RUN that answers: class 0 chooses the first RUN, class 1 the second RUN, and so on")
	choiceVar(f, &o.plan.By, "by", certify.Majority, certify.Compositions, "without --router, answer of the combined classifier: "+certify.Compositions.Described())
	integerVar(f, &o.plan.AtLeast, "at-least", 0, "without --router, number of runs that must certify a class; choose this number before you see the runs; default: the smallest whole number above half of the runs (with --by agree, all runs)")
	f.BoolVar(&o.json, "json", false, "print the description of the combined runs as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
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
