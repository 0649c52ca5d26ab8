package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// confidenceOptions are the flags of confidence.
type confidenceOptions struct {
	scores      run.SavedScores
	class       classMethod
	out         string
	json, quiet bool
	widths      widthOptions
}

// classMethod is the method that certifies the class. The field 'votes' names a method for votes. It is empty if the
// mean scores certify the class.
type classMethod struct{ votes certify.VoteMethod }

const byScores = "scores"

// classMethods lists the methods that certify the class. The first uses the mean scores. The others are the given
// methods, which use votes.
func classMethods(votes []certify.Row[certify.VoteMethod]) choice.List[classMethod] {
	all := []classMethod{{}}
	what := map[classMethod]string{{}: "bounds the margin between two mean scores"}
	for _, r := range votes {
		all = append(all, classMethod{r.Name})
		what[classMethod{r.Name}] = r.What
	}
	return choice.Of("class method", all...).Describe(func(m classMethod) string { return what[m] })
}

func (m classMethod) String() string {
	if m.votes == "" {
		return byScores
	}
	return m.votes.String()
}

func newConfidence(s streams) *cobra.Command {
	var o confidenceOptions
	cmd := &cobra.Command{
		Use:   "confidence RUN… | scores.npz --radii R,…",
		Short: "Bound the confidence of the smoothed classifier under attack",
		Long: `This command bounds the mean score z(x+δ) = E f_A(x+δ+ε) of the certified class A for
every perturbation δ with ‖δ‖ ≤ R. Here x is the input, f_A is the model's score of A,
and ε is the noise. The norm is L2 for Gaussian noise, and L1 for Laplace and uniform
noise.

With --class label, A is the label. With --class predicted, the n0 selection samples
choose A. With --class-method scores, they choose the class with the largest mean score.
With another --class-method, they choose the class with the most votes.

All samples except the selection samples certify the class A, and also bound its mean
score. Half of alpha is for the certificate of the class, and half is for the bounds. So
for each example and radius, the certificate and the bounds hold with probability at
least 1 − alpha. With --method standard or cdf, they hold at all radii at once with
probability at least 1 − alpha.

bounds.csv has a row for each example and radius. It leaves out the row if the class A
to certify (--class) is not certified and the label is unknown. If A is not certified at
radius R, the row has certified = 0, and its bounds are for the mean score of the label.
The column 'lower' is the lower bound on a mean score. If certified = 0, this is the
mean score of the label; otherwise, it is the mean score of A. If certified = 0, the
mean score of every class other than the label is at most 1 − lower, because an
example's scores sum to at most 1.

--method takes one of these values. Here z̲ and z̄ are the lower and the upper bound on
the mean score without attack, and z is the mean score under attack. Φ is the
distribution function of the noise at σ = 1:

  standard  uses the bounds Φ(Φ⁻¹(z̲)−R/σ) ≤ z ≤ Φ(Φ⁻¹(z̄)+R/σ) (Kumar et al. 2020,
            Theorem 1)
  cdf       bounds, for every threshold, the probability that the score exceeds the
            threshold. These bounds are a confidence band (--band). The method applies
            the formula of 'standard' to each bound and adds up the results (Kumar et
            al. 2020, Theorem 2). The sum includes a term that is missing in equation 13
            of Emde et al. 2025
  tangent   (default) bounds the mean of a function of the score, and needs no
            confidence band. The formula of 'standard' describes a curve: the bound on z
            as a function of z̲ (or of z̄). To find the function, the method replaces
            this curve by its tangents. The selection samples determine the tangents.
            Without selection samples (--class label), the first twentieth of the
            samples (at most 1,024 samples) determines the tangents, and the other
            samples bound the mean of the function

--out writes bounds.csv, the input of 'rscert acce'.

--compare takes a list of methods. For each input (a run or a file scores.npz) and each
method, the command prints the mean width of the intervals between the lower and the
upper bound at each radius. --plot draws the widths against the radius. In the list, a
method can be followed by + and a bound. For the method 'cdf', the bound is a value of
--band, as in cdf+dkw. For the other methods, the bound is a value of --bound, as in
standard+hoeffding.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --n 1000 --save-scores --out run
  rscert confidence run --radii 0.25,0.5 --out bounds.csv
  rscert confidence run --radii 0.25,0.5 --class-method margin
  rscert confidence run --radii 0.25,0.5 --method cdf --band dkw --json
  rscert confidence scores.npz --sigma 0.5 --n0 100 --radii 0.25 --bound hoeffding
  rscert confidence run-0.25 run-0.5 --radii 0,0.25,0.5 --compare standard+hoeffding,cdf+dkw,tangent --plot widths.svg`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(o.widths.methods) > 0 && len(args) > 1 {
				return nil
			}
			return oneArgument("one run folder or scores.npz")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t := &o.scores.Params.Target
			g := runfolder.Given{
				Alpha: given(cmd, "alpha", &t.Alpha), Sigma: given(cmd, "sigma", &t.Sigma), Class: given(cmd, "class", &t.Class),
				Law: given(cmd, "law", &t.Law),
			}
			class := given(cmd, "class-method", &o.class)
			if err := o.widths.check(len(args), o.out); err != nil {
				return err
			}
			if len(o.widths.methods) > 0 {
				return compareWidths(cmd.Context(), s, args, o, g, class)
			}
			return runConfidence(cmd.Context(), s, args[0], o, g, class)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	p := &o.scores.Params
	orderedRadiiVar(f, &p.Confidence.Radii, "radii", "`radii` of the attack, in the units of the data")
	choiceVar(f, &p.Confidence.Method, "method", certify.ConfidenceTangent, methods(certify.ConfidenceMethods()), "method that bounds the confidence: "+names(certify.ConfidenceMethods()))
	choiceVar(f, &p.Bound, "bound", certify.Betting, methods(sound(certify.MeanBounds())), "bound on the mean of a score: "+names(sound(certify.MeanBounds())))
	choiceVar(f, &p.Confidence.Band, "band", certify.BandBinomial, methods(certify.Bands()), "with --method cdf, confidence band for the distribution of the score: "+methods(certify.Bands()).Described())
	choiceVar(f, &o.class, "class-method", classMethod{}, classMethods(certify.VoteMethods()), "method that certifies the class: 'scores', or a method for votes; default: the method of the run, or else 'scores': "+classMethods(sound(certify.VoteMethods())).Described())
	// list only sound methods, because run.BoundConfidence refuses the others
	choices(f, "class-method", described(classMethods(sound(certify.VoteMethods())))...)
	choiceVar(f, &p.Combine, "combine", certify.Directed, methods(certify.Combines()), "with --class-method scores, method that bounds the margin between two mean scores: "+methods(sound(certify.Combines())).Described())
	// list only sound methods, because run.BoundConfidence refuses the others
	choices(f, "combine", described(methods(sound(certify.Combines())))...)
	targetFlags(cmd, &p.Target, "largest probability that the certificate or the bounds are wrong, for one example and one radius", law.Additives())
	integerVar(f, &o.scores.N0, "n0", 0, "use the first `k` samples to select the class, if the file has no separate selection samples")
	f.Float64Var(&o.scores.Temperature, "temperature", 1, "further temperature, applied to the saved probabilities after the temperature of the run")
	f.StringVar(&o.out, "out", "", "write the bounds to this CSV `file`")
	f.BoolVar(&o.json, "json", false, "print the bounds as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Bounds")
	widthFlags(cmd, &o.widths)
	return cmd
}

// evidence finds the scores in a file or run folder, and completes the settings for the bounds on these scores.
func (o confidenceOptions) evidence(s streams, path string, g runfolder.Given, class *classMethod) (run.SavedScores, error) {
	var err error
	q := o.scores
	if q.Evidence, err = runfolder.Find(path); err != nil {
		return q, badInput(err)
	}
	if err := warnChosen(s, path, q.Evidence.Run); err != nil {
		return q, err
	}
	if q.Params.Target, err = q.Evidence.Target(g); err != nil {
		return q, badInput(err)
	}
	if q.Votes = q.Evidence.ClassMethod(); class != nil {
		q.Votes = class.votes
	}
	// if scores certify the class, use the margin that --margin second computes; the run may have used --margin first
	if q.Votes == "" {
		q.Params.Margin, q.Params.Lipschitz = certify.SecondMargin, 0
	}
	q.Params.Confidence.Bound = q.Params.Bound
	return q, nil
}

func runConfidence(ctx context.Context, s streams, path string, o confidenceOptions, g runfolder.Given, class *classMethod) error {
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	q, err := o.evidence(s, path, g, class)
	if err != nil {
		return err
	}
	found, err := run.BoundConfidence(ctx, q, s.progress(o.quiet))
	if err != nil {
		return err
	}
	if o.out != "" {
		var b bytes.Buffer
		if err := runfolder.WriteBounds(&b, found.Bounds, q.Evidence.Sampled(found.Examples), found.Norm); err != nil {
			return err
		}
		if err := durable.WriteFile(o.out, b.Bytes()); err != nil {
			return err
		}
		s.wrote(o.out)
	}
	if o.json {
		return report.WriteJSON(s.out, "confidence", found)
	}
	return writeConfidence(s.out, found)
}

// writeTangentSamples prints that the first k of n samples determine the function of the method 'tangent'. It prints
// nothing if k is 0: then selection samples determine this function, or the bounds use another method.
func writeTangentSamples(w io.Writer, k, n int64) {
	if k > 0 {
		fmt.Fprintf(w, "no selection samples: the first %d of %d samples determine the function of the method tangent, the other %d bound its mean\n", k, n, n-k)
	}
}

func writeConfidence(w io.Writer, r run.Confidence) error {
	fmt.Fprintf(w, "confidence of the class certified by %s under attack, %s (%d examples, n = %d, %s = %g, α = %g)\n\n",
		r.Class, r.Method, r.Examples, r.N, r.Law.Law().Words().Symbol, r.Sigma, r.Alpha)
	t := report.Table{Columns: []report.Column{
		report.ExactColumn(r.Norm.Title() + " radius"), report.ExactColumn("certified"), report.ExactColumn("left out"),
		report.RoundedColumn("mean lower", report.Down, 4), report.RoundedColumn("mean upper", report.Up, 4),
		report.RoundedColumn("mean width", report.Nearest, 4),
	}}
	for _, at := range r.Radii {
		row := []report.Cell{report.Number(at.Radius), report.Count(at.Certified), report.Count(at.LeftOut), nil, nil, nil}
		if at.Certified > 0 {
			row = append(row[:3], report.Number(at.Lower), report.Number(at.Upper), report.Number(at.Width))
		}
		t.AddRow(row...)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nleft out: examples whose class is not certified at the radius; --out bounds the score of their label")
	writeTangentSamples(w, r.TangentSamples, r.N)
	return conditions{r.Arithmetic, r.Precision, r.Quantisation}.write(w)
}
