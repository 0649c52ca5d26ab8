package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// predictOptions are the flags of the command 'predict'.
type predictOptions struct {
	plan          run.PredictPlan
	offLattice    string
	certify       bool
	certifyRadius float64
	n0, n         int64
	out           string
	replay        string // path of the audit log whose answers are repeated
	json, quiet   bool
}

func newPredict(s streams) *cobra.Command {
	var o predictOptions
	var settle func() error
	cmd := &cobra.Command{
		Use:   "predict --run RUN --data DATA",
		Short: "Answer inputs with the smoothed classifier that was certified",
		Long: `Certificates are about the smoothed classifier G, which returns the class that the model
answers most often under noise. This command runs G. For each input the command draws
votes, which are the model's answers to noisy copies of the input. The rule (--rule)
says when the command stops drawing votes for the input. Then the command answers a
class or abstains. For each input, the probability that the command answers a class
other than the class of G is at most --alpha.

With --run, the command uses the classifier of the run. It has the run's noise law, σ,
lattice (the grid of input values), normalisation, precision and execution provider. The
command refuses a model whose SHA-256 differs from the run's. The command draws fresh
noise. Without --run, give --model and --sigma as for 'rscert certify'.

A second guarantee is for runs whose certificates meet three conditions: they come from
votes, they use a sound method, and they hold for the exact numbers that the model
receives, as with 'certify --noise lattice' (docs/predict.md). Suppose that the run
certifies an input. Suppose also that somebody queries Q inputs that are on the lattice
and within the certified radius of this input. Then every answer is the certified class
or an abstention, except with probability at most α₁ + Q·α₂. Here α₁ is the alpha of the
run, and α₂ is --alpha. This holds even if each query depends on the earlier answers.

The rules:
` + ruleList() + `
--certify also certifies the class of each input, with fresh samples. The run gives the
method, alpha, n0 and n of the certificates. Without --run, the method is 'margin', and
the flags --alpha, --n0 and --n give alpha, n0 and n.

--out writes the answers as .jsonl, .csv or .parquet. Without --out, the command prints
a table of the answers. Answers do not depend on --batch or --threads. The same --seed
repeats the same answers.`,
		Example: `  rscert predict --run run --data mnist/
  rscert predict --run run --data new.npz --out answers.jsonl
  rscert predict --run run --data mnist/ --alpha 1e-6 --budget 10000 --json
  rscert predict --run run --data mnist/ --max 10 --certify
  rscert predict --run run --data mnist/ --certify-radius 0.5 --out answers.parquet
  rscert predict --model cnn.onnx --sigma 0.5 --data mnist/ --rule fixed --n 1000`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(); err != nil {
				return err
			}
			if err := o.settle(cmd.Flags()); err != nil {
				return err
			}
			if o.replay != "" {
				return runReplay(cmd.Context(), s, o)
			}
			return runPredict(cmd.Context(), s, o)
		},
	}
	f, p := cmd.Flags(), &o.plan
	settle = addExperimentFlags(cmd, &p.Spec, law.Additives(), func() {
		f.StringVar(&p.Run, "run", "", "`folder` of the run; the classifier of this run answers the inputs")
		f.StringVar(&o.out, "out", "", "write the answers to this .jsonl, .csv or .parquet `file`")
		group(cmd, "Inputs and output")
		choiceVar(f, &p.Rule, "rule", predict.BySequence, predict.Rules, "rule that decides when to answer: "+predict.Rules.String())
		f.Float64Var(&p.Alpha, "alpha", 0.001, "for each input, largest probability that the command answers a class that differs from the smoothed classifier's class")
		integerVar(f, &p.Budget, "budget", 100000, "for --rule sequential, maximum number of votes per input; if these votes do not decide the answer, the command abstains")
		integerVar(f, &o.n, "n", 1000, "for --rule fixed, number of votes per input; without --run, also number of samples for each certificate of --certify")
		f.BoolVar(&o.certify, "certify", false, "also certify the class of each input, with fresh samples")
		radiusVar(f, &o.certifyRadius, "certify-radius", "like --certify, but stop sampling an input as soon as the samples show whether it is certified at this `radius`")
		integerVar(f, &o.n0, "n0", 100, "without --run, number of samples with which --certify selects the class")
		f.StringVar(&o.offLattice, "off-lattice", "refuse", "what to do with inputs off the run's lattice (the grid of input values): 'refuse' them, or 'round' them to the nearest lattice point")
		choices(f, "off-lattice", "refuse", "round")
		f.StringVar(&p.Conformal, "conformal", "", "also compute a prediction set for each input; the `file` is the conformal.json of 'rscert conformal fit'")
		f.StringVar(&o.replay, "replay", "", "answer the inputs in --data again, and compare the answers bit by bit with this audit log `file` of 'rscert serve'")
		group(cmd, "Answers")
	})
	f.BoolVar(&o.json, "json", false, "print the answers as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Output")
	return cmd
}

// ruleList lists the rules, one per line.
func ruleList() string {
	var list strings.Builder
	for _, r := range predict.Rules.Values() {
		fmt.Fprintf(&list, "  %-10s  %s\n", r, predict.Rules.What(r))
	}
	return list.String()
}

// runDecides lists flags that the user must not give with --run, because the run determines their values.
var runDecides = []string{
	"sigma", "law", "outputs", "scores-output", "layout", "mean", "std", "resize", "crop", "interpolation", "noise", "precision",
	"allow-tf32", "prefer-nhwc", "conv-search", "denoiser-kind", "denoiser-range", "diffusion-schedule", "n0",
}

// settle checks the flags, and copies values of flags into the plan.
func (o *predictOptions) settle(f *pflag.FlagSet) error {
	p := &o.plan
	p.N, p.Version = o.n, version()
	var err error
	if p.Round, err = parseOffLattice(o.offLattice); err != nil {
		return err
	}
	if o.replay != "" {
		return o.settleReplay(f)
	}
	if p.Run != "" {
		for _, flag := range runDecides {
			if f.Changed(flag) {
				return badInputf("--%s comes from the run %s: leave the flag out", flag, p.Run)
			}
		}
	} else if p.Round {
		return badInputf("--off-lattice round needs --run, which has the lattice")
	}
	if !f.Changed("device") {
		p.Spec.Device = onnx.Device{}
	}
	if _, err := answerWriters.choose(o.out); err != nil {
		return err
	}
	return o.settleCertify(f)
}

func (o *predictOptions) settleCertify(f *pflag.FlagSet) error {
	if !o.certify && !f.Changed("certify-radius") {
		return nil
	}
	c := &runfolder.Certification{N: o.n, N0: o.n0, Alpha: o.plan.Alpha, Method: runfolder.ByVotes(certify.ExactMargin)}
	if f.Changed("certify-radius") {
		stop, err := certify.ParseStop(fmt.Sprintf("radius>=%v", o.certifyRadius))
		if err != nil {
			return badInputf("--certify-radius %v: want a radius above 0", o.certifyRadius)
		}
		c.Stop = stop
	}
	o.plan.Certify = c
	return nil
}

// answerWriters write answers in the formats of --out.
var answerWriters = rowWriters[predict.Answer]{predict.WriteLines, predict.WriteCSV, predict.WriteParquet}

func runPredict(ctx context.Context, s streams, o predictOptions) error {
	if err := checkOutput("out", o.out, append(o.plan.Spec.Models(), o.plan.Spec.Data)...); err != nil {
		return err
	}
	r, err := run.Predict(ctx, o.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	if err := answerWriters.write(o.out, r.Answers); err != nil {
		return err
	}
	s.wrote(o.out)
	if o.json {
		return report.WriteJSON(s.out, "predict", r)
	}
	if o.out == "" {
		if err := writeAnswers(s.out, r); err != nil {
			return err
		}
	}
	return writePredicted(s.out, r, o.out)
}

// writeAnswers prints a table of the answers.
func writeAnswers(w io.Writer, r *run.Predicted) error {
	columns := []report.Column{report.ExactColumn("index"), report.ExactColumn("label"), report.ExactColumn("answer"), report.ExactColumn("votes")}
	certified := len(r.Answers) > 0 && r.Answers[0].Certificate != nil
	if certified {
		c := r.Answers[0].Certificate
		columns = append(columns, report.RoundedColumn(certify.NormTitle(c.Norm, c.Scaled)+" radius", report.Down, 3))
	}
	sets := len(r.Answers) > 0 && r.Answers[0].Set != nil
	if sets {
		columns = append(columns, report.TextColumn("set"))
	}
	table := report.Table{Columns: columns}
	for _, a := range r.Answers {
		row := []report.Cell{report.Count(a.Index), nil, report.Text("abstains"), report.Count(a.Samples)}
		if a.Label != nil {
			row[1] = report.Count(*a.Label)
		}
		if a.Class != predict.Abstained {
			row[2] = report.Count(a.Class)
		}
		if certified {
			row = append(row, nil)
			if c := a.Certificate; c.Prediction != certify.Abstained {
				row[4] = report.Number(c.Radius)
			}
		}
		if sets {
			row = append(row, setCell(*a.Set))
		}
		table.AddRow(row...)
	}
	if err := table.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writePredicted prints a summary of the predictions.
func writePredicted(w io.Writer, r *run.Predicted, out string) error {
	fmt.Fprintf(w, "%d inputs: %d answered, %d abstained", r.Inputs, r.Answered, r.Abstained)
	if r.Labelled > 0 {
		fmt.Fprintf(w, "; %d of %d labels agree with the answer", r.Correct, r.Labelled)
	}
	fmt.Fprintf(w, "\n%.1f votes per answer on average, at most %d; %s rule, alpha %g, seed %d\n", float64(r.Samples)/float64(max(r.Inputs, 1)), r.Budget, r.Rule, r.Alpha, r.Seed)
	fmt.Fprintf(w, "\n%s\n", strings.ReplaceAll(r.Statement, ". ", ".\n"))
	if r.Sets != "" {
		fmt.Fprintf(w, "\n%s\n", paragraph(r.Sets))
	}
	if out != "" {
		fmt.Fprintf(w, "the answers are in %s\n", out)
	}
	return nil
}
