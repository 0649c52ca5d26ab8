package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
)

// ceOptions are the flags of ce.
type ceOptions struct {
	methods []calib.BoundMethod
	chosen  bool // by --method
	calib.BoundParams
	joint, perturb, json, quiet bool
}

func newCE(s streams) *cobra.Command {
	var o ceOptions
	cmd := &cobra.Command{
		Use:   "ce scores.csv",
		Short: "Bound the calibration error of a binary classifier from above",
		Long: `CE bounds the calibration error E|s − P(y=1|s)| of a binary classifier from
above, with probability at least 1 − delta, for any distribution of the scores
(Ciosek et al. 2025). Each method has an assumption, without which no bound from
finite data exists: that P(y=1|s) has total variation at most --variation (1 if it
only ascends or only descends in s), or that the scores were perturbed with the
sech kernel of bandwidth --bandwidth ('rscert perturb', or --perturb here). In the
second case the bound is on the calibration error of the perturbed scores, so these
are the ones to use the classifier with.

` + describeBoundMethods() + `
Each method's bound holds with probability 1 − delta for itself; with --joint
delta is divided among the methods, so that all hold at once, and with them the
smallest. Choose the method, the bandwidth and the variation before you look at
the bounds, or use --joint.

The file has columns score (in [0,1]) and label (0 or 1); for a classifier of
more classes, confidence and correct. CSV, JSON lines or npz; .gz; - for stdin.`,
		Example: `  rscert ce scores.csv
  rscert perturb scores.csv --bandwidth 0.015625 --out perturbed.csv
  rscert ce perturbed.csv --bandwidth 0.015625
  rscert ce scores.csv --method nw --bandwidth 0.015625 --perturb --json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.chosen = given(cmd, "method", &o.methods) != nil
			return runCE(cmd.Context(), s, args[0], o)
		},
	}
	cmd.SetFlagErrorFunc(explainFlag)
	f := cmd.Flags()
	f.SortFlags = false
	textListVar(f, &o.methods, "method", defaultBoundMethods(), "`bounds` to compute")
	f.Float64Var(&o.Delta, "delta", 0.05, "allowed failure probability of a bound")
	f.Float64Var(&o.Variation, "variation", 1, "assumed total variation of P(y=1|s), for tv")
	f.Float64Var(&o.Bandwidth, "bandwidth", 0, "`h` with which the scores were perturbed, for nw and lipschitz")
	f.IntVar(&o.Folds, "folds", 5, "folds of the cross-fitting, for tv and nw")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the folds, and of --perturb")
	f.BoolVar(&o.joint, "joint", false, "divide delta among the methods: all bounds hold at once")
	f.BoolVar(&o.perturb, "perturb", false, "perturb the scores with --bandwidth first, as 'rscert perturb' does")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// describeBoundMethods lists the methods for the help text.
func describeBoundMethods() string {
	assumption := map[calib.Assumption]string{calib.BoundedVariation: "variation", calib.PerturbedScores: "perturbed"}
	var b strings.Builder
	for _, m := range calib.BoundMethods {
		fmt.Fprintf(&b, "  %-16s %-10s %s\n", m.Name, assumption[m.Assumption], nameMethod(m.What, m.Sound))
	}
	return b.String()
}

// defaultBoundMethods are the methods of choice.
func defaultBoundMethods() (methods []calib.BoundMethod) {
	for _, m := range calib.BoundMethods {
		if m.Default {
			methods = append(methods, m)
		}
	}
	return methods
}

func (o ceOptions) check() error {
	switch {
	case !(o.Delta > 0 && o.Delta < 1):
		return badInputf("--delta %v: want a number between 0 and 1", o.Delta)
	case o.Bandwidth < 0 || math.IsNaN(o.Bandwidth) || math.IsInf(o.Bandwidth, 0):
		return badInputf("--bandwidth %v: want a positive number", o.Bandwidth)
	case !(o.Variation >= 0) || math.IsInf(o.Variation, 0):
		return badInputf("--variation %v: want a number from 0 on", o.Variation)
	case o.Folds < 2 || o.Folds > 255:
		return badInputf("--folds %d: want 2 to 255", o.Folds)
	case o.perturb && o.Bandwidth == 0:
		return badInputf("--perturb needs --bandwidth")
	}
	return nil
}

// supported are the methods whose assumption can hold: without --bandwidth the scores are not known to be perturbed.
func (o ceOptions) supported() ([]calib.BoundMethod, error) {
	if o.Bandwidth > 0 {
		return o.methods, nil
	}
	var methods []calib.BoundMethod
	for _, m := range o.methods {
		switch {
		case m.Assumption != calib.PerturbedScores:
			methods = append(methods, m)
		case o.chosen:
			return nil, withHint(badInputf("--method %s needs --bandwidth", m.Name),
				"perturb the scores with 'rscert perturb' or --perturb; "+
					"'rscert perturb --auroc' shows what a bandwidth costs")
		}
	}
	return methods, nil
}

// ceReport is what --json prints.
type ceReport struct {
	N         int                    `json:"n"`
	Delta     float64                `json:"delta"`
	Joint     bool                   `json:"joint"`
	Folds     int                    `json:"folds"`
	Seed      uint64                 `json:"seed"`
	Variation float64                `json:"variation"`
	Bandwidth float64                `json:"bandwidth,omitempty"`
	Perturbed bool                   `json:"perturbed"` // by this command
	Bounds    map[string]calib.Bound `json:"bounds"`
}

func runCE(ctx context.Context, s streams, path string, o ceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	methods, err := o.supported()
	if err != nil {
		return err
	}
	sample, err := readSample(ctx, s, path, o)
	if err != nil {
		return err
	}
	r := ceReport{N: sample.N(), Delta: o.Delta, Joint: o.joint, Folds: o.Folds, Seed: o.Seed, Variation: o.Variation,
		Bandwidth: o.Bandwidth, Perturbed: o.perturb, Bounds: map[string]calib.Bound{}}
	params := o.BoundParams
	if o.joint {
		params.Delta /= float64(len(methods))
	}
	bar := progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: o.quiet},
		"bounds", int64(len(methods)), 0)
	defer bar.Finish()
	for _, m := range methods {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := m.Compute(sample, params)
		if err != nil {
			// Flags are checked: what is left is too few rows.
			return badInput(fmt.Errorf("%s: %s: %w", displayPath(path), m.Name, err))
		}
		r.Bounds[m.Name] = b
		bar.Add(1, m.Name)
	}
	bar.Finish()
	if o.json {
		return report.WriteJSON(s.out, r)
	}
	if err := r.print(s, methods); err != nil {
		return err
	}
	if o.Bandwidth == 0 && len(o.methods) > len(methods) {
		fmt.Fprintln(s.err, "rscert: nw and lipschitz need scores perturbed with a known --bandwidth: not computed")
	}
	return nil
}

// readSample reads the scores, perturbed if --perturb says so. What it read is freed with it, but for the sample.
func readSample(ctx context.Context, s streams, path string, o ceOptions) (*calib.Sample, error) {
	table, err := readTable(ctx, s, path, o.quiet, predictions.ScoreColumns())
	if err != nil {
		return nil, err
	}
	score, label, err := predictions.Scores(table)
	if err != nil {
		return nil, badInput(err)
	}
	if o.perturb {
		if err := perturbScores(table, score, calib.Sech{Bandwidth: o.Bandwidth, Seed: o.Seed}, 0); err != nil {
			return nil, err
		}
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		return nil, badInput(predictions.LocateRow(table, err))
	}
	return sample, nil
}

func (r ceReport) print(s streams, methods []calib.BoundMethod) error {
	each := "each holds for itself"
	if r.Joint {
		each = "all hold at once"
	}
	if len(methods) == 1 {
		each = "it holds"
	}
	fmt.Fprintf(s.out, "upper bounds on the calibration error E|s − P(y=1|s)|, %d scores; "+
		"%s with probability ≥ 1 − %g\n\n", r.N, each, r.Delta)
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""), {Round: report.Up, Decimals: 4}, report.TextColumn(""),
	}}
	for _, m := range methods {
		b := r.Bounds[m.Name]
		t.AddRow(report.Text(nameMethod(m.Name, b.Sound)), report.Number(b.Value),
			report.Text("= "+describeTerms(b.Terms)))
	}
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	assumes := func(a calib.Assumption) bool {
		return slices.ContainsFunc(methods, func(m calib.BoundMethod) bool { return m.Assumption == a })
	}
	if assumes(calib.BoundedVariation) {
		fmt.Fprintf(s.out, "tv assumes that P(y=1|s) has total variation ≤ %g.\n", r.Variation)
	}
	if assumes(calib.PerturbedScores) {
		who := "were perturbed"
		if r.Perturbed {
			who = "are perturbed here"
		}
		fmt.Fprintf(s.out, "The scores %s with the sech kernel of bandwidth %g: "+
			"the bounds are for the perturbed scores.\n", who, r.Bandwidth)
	}
	return nil
}

// describeTerms prints a bound's terms as a sum, without those that are only rounding.
func describeTerms(terms calib.Terms) string {
	var sum []string
	for _, term := range terms {
		if term.Name != "rounding" {
			name := strings.ReplaceAll(term.Name, "_", " ")
			sum = append(sum, name+" "+report.Round(term.Value, report.Nearest, 0, 4))
		}
	}
	return strings.Join(sum, " + ")
}
