package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// radiusOptions are the flags of radius.
type radiusOptions struct {
	methods     []runfolder.Method
	target      certify.Target
	combine     certify.Combine
	temperature float64
	n0          int64
	radii       []float64
	perClass    bool
	out         string
	json, quiet bool
}

func newRadius(s streams) *cobra.Command {
	var o radiusOptions
	cmd := &cobra.Command{
		Use:   "radius RUN | votes.jsonl | scores.npz",
		Short: "Certify saved votes or scores again, without the model",
		Long: `This command certifies the votes or scores of a run or file again, with other methods
or another alpha, class or margin. For several methods it prints a table that compares
them. A sound method gives valid certificates if you chose the method before you saw
the votes or scores. It is not sound to choose the best of several methods by their
results here: compare the methods on other votes, or divide alpha by the number of
methods. Values that you do not give come from the run. A file without a run needs
--sigma.

These methods certify votes:
` + listed(certify.VoteMethods()) + `
Scores come from scores.npz, or from a run with --save-scores. --combine says how to
get a margin from bounds on mean scores. The following methods bound mean scores:
` + listed(certify.MeanBounds()) + `
Let p_A be the probability of the class, and p_B the largest probability of another
class. The second margin is Φ⁻¹(p_A)−Φ⁻¹(p_B), and its radius is σ/2 times the margin.
The first margin is p_A−p_B, and its radius is σ√(π/2) times the margin. --lipschitz
gives L, a Lipschitz constant of the smoothed probabilities. The radius of the first
margin is then margin/(√2·L), if this radius is larger. If the run stopped the sampling
of an example early (--stop of certify), the certificate uses the share of alpha that
the stopping rule assigns to this number of samples.`,
		Example: `  rscert radius run --method clopper-pearson,bonferroni,margin
  rscert radius run --alpha 0.01 --margin first --out certificates.jsonl
  rscert radius votes.jsonl --sigma 0.25 --class label --json
  rscert radius scores.npz --sigma 0.5 --n0 100 --method betting,hoeffding`,
		Args: oneArgument("one run folder, votes.jsonl or scores.npz"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRadius(cmd.Context(), s, args[0], o, runfolder.Given{
				Alpha: given(cmd, "alpha", &o.target.Alpha), Sigma: given(cmd, "sigma", &o.target.Sigma),
				Lipschitz: given(cmd, "lipschitz", &o.target.Lipschitz), Class: given(cmd, "class", &o.target.Class),
				Margin: given(cmd, "margin", &o.target.Margin), Law: given(cmd, "law", &o.target.Law),
				TopK: given(cmd, "top-k", &o.target.TopK), None: given(cmd, "none", &o.target.None),
			}, given(cmd, "combine", &o.combine))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	choiceListVar(f, &o.methods, "method", nil, runfolder.Methods(), "methods, separated by commas; default: the method of the run or, without a run, margin for votes and betting for scores")
	targetFlags(cmd, &o.target)
	choiceVar(f, &o.target.Margin, "margin", certify.SecondMargin, methods(certify.MarginKinds()), "margin between the probability p_A of the class and the largest probability p_B of another class: "+methods(certify.MarginKinds()).Described())
	f.Float64Var(&o.target.Lipschitz, "lipschitz", 0, "for --margin first, a known Lipschitz constant L of the smoothed probabilities; 0 means that L is unknown, and rscert uses the constant that the noise guarantees")
	claimFlags(f, &o.target.TopK, &o.target.None)
	choiceVar(f, &o.combine, "combine", certify.Directed, methods(certify.Combines()), "how to bound the margin between two mean scores: "+names(certify.Combines()))
	f.Float64Var(&o.temperature, "temperature", 1, "additional temperature for the saved scores, which already contain the temperature of the run")
	integerVar(f, &o.n0, "n0", 0, "use the first `k` scores to select the class, if the file has no separate selection samples")
	f.Float64SliceVar(&o.radii, "radii", nil, "`radii` for which the table shows the certified accuracy; default: round numbers")
	f.BoolVar(&o.perClass, "per-class", false, "also print a table with one row per class for each method")
	f.StringVar(&o.out, "out", "", "write the certificates to this JSON lines `file`; allowed only with a single method")
	f.BoolVar(&o.json, "json", false, "print the summaries as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// targetFlags adds the flags of radius and confidence whose defaults come from a run.
func targetFlags(cmd *cobra.Command, t *certify.Target) {
	f := cmd.Flags()
	choiceVar(f, &t.Class, "class", certify.Predicted, methods(certify.Classes()), "class to certify: 'predicted', which needs selection samples, or 'label'; if the input is a run, the run's choice replaces the default")
	f.Float64Var(&t.Alpha, "alpha", 0.001, "largest probability that the certificate of an example is wrong; if the input is a run, the run's value replaces the default")
	f.Float64Var(&t.Sigma, "sigma", 0, scaleWords()+"; default: the value of the run")
	lawFlag(f, &t.Law)
}

func runRadius(ctx context.Context, s streams, path string, o radiusOptions, g runfolder.Given, combine *certify.Combine) error {
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	if err := certify.CheckRadii(o.radii); err != nil {
		return badInputf("--radii %w", err)
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return badInput(err)
	}
	if err := warnChosen(s, path, evidence.Run); err != nil {
		return err
	}
	target, err := evidence.ClassTarget(g)
	if err != nil {
		return badInput(err)
	}
	if o.out != "" && len(o.methods) > 1 {
		return badInputf("--out takes the certificates of one method, not %d", len(o.methods))
	}
	sets, err := run.Recertification{
		Evidence: evidence, Target: target, Methods: o.methods, Combine: evidence.Combine(combine), N0: o.n0, Temperature: o.temperature,
	}.Certify(ctx, s.progress(o.quiet))
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := runfolder.WriteCertificates(o.out, evidence.CountSampled(sets[0])); err != nil {
			return err
		}
	}
	radii := o.radii
	if len(radii) == 0 {
		radii = certify.SummaryRadii(sets...)
	}
	found := radiusReport{File: path}
	for _, certs := range sets {
		summary := certify.Summarize(certs, radii).Among(evidence.Sampled(len(certs)))
		if o.perClass {
			summary.Classes = certify.SummarizeClasses(certs, radii)
		}
		found.Methods = append(found.Methods, summary)
	}
	if o.json {
		if len(found.Methods) > 1 {
			found.Note = strings.ReplaceAll(certify.ChooseFirst, "\n", " ")
		}
		return report.WriteJSON(s.out, "radius", found)
	}
	if err := writeSummaries(s.out, found.Methods); err != nil {
		return err
	}
	return writeClasses(s.out, found.Methods...)
}

// radiusReport is what radius --json prints.
type radiusReport struct {
	File    string            `json:"file"`
	Methods []certify.Summary `json:"methods"`
	// If there are several methods, Note is the warning certify.ChooseFirst in one line.
	Note string `json:"note,omitempty"`
}
