package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

// conformalFitOptions are the flags of conformal fit.
type conformalFitOptions struct {
	plan        run.ConformalFit
	score       conformal.ScoreKind
	penalty     *float64
	free        *int
	radius      *float64
	groups      string
	out         string
	json, quiet bool
}

func newConformalFit(s streams) *cobra.Command {
	var o conformalFitOptions
	var settle func() error
	var penalty, radius float64
	var free int
	cmd := &cobra.Command{
		Use:   "fit [RUN | scores.npz] --radius R --out conformal.json",
		Short: "Fit prediction sets: choose the threshold from calibration examples",
		Long: `This command draws noisy copies of labelled calibration examples, computes the score of
the label at each copy, and chooses a threshold τ. 'rscert conformal apply' includes a
class in the set of an input if enough scores of this class are at least τ. The set of
an input contains the label with probability at least 1 − miss. This guarantee holds
even if an attacker has moved the input within the radius. The attacker may know
everything except the noise. The calibration examples and the inputs must be
exchangeable, for example drawn at random from one population. No calibration example
may be one of the inputs (docs/conformal.md).

With --model and --data, the command samples the model. A RUN of 'rscert certify
--save-scores' can replace --model and --data. This suits long sampling, because a run
can be divided into shards, resumed and merged. The command uses the estimation samples
of the run as the noisy copies. Instead of a RUN, the command also accepts a file
scores.npz of another program. The file holds the arrays scores [N, n, m] and labels
[N]: for each of N examples, a label and n noisy copies with m class probabilities each.
A RUN records its noise. For a model or a file of scores, --sigma gives the scale of the
noise. Without --sigma there is no noise, and --radius must be 0.

The rules (a query is an input of 'rscert conformal apply'):
` + choiceLines(conformal.Rules.Values(), conformal.Rules.What) + `
The default of --draws is 20 for the rule 'bincp', and for the rule 'count' with noise.
It is 1 otherwise.

The guarantees (a query is an input of 'rscert conformal apply'):
` + choiceLines(conformal.Guarantees.Values(), conformal.Guarantees.What) + `
The scores:
` + choiceLines(conformal.ScoreKinds.Values(), conformal.ScoreKinds.What) + ``,
		Example: `  rscert conformal fit --model cnn.onnx --data calibration/ --sigma 0.5 --radius 0.5 --miss 0.1 --out conformal.json
  rscert conformal fit run --radius 0.5 --miss 0.05 --out conformal.json
  rscert conformal fit run --radius 0.5 --guarantee training --delta 0.1 --out conformal.json
  rscert conformal fit scores.npz --radius 0 --score aps --out conformal.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("want at most one run or file of scores, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(); err != nil {
				return err
			}
			o.penalty, o.free = given(cmd, "raps-penalty", &penalty), given(cmd, "raps-free", &free)
			o.radius = given(cmd, "radius", &radius)
			if len(args) == 1 {
				o.plan.Saved = args[0]
			}
			if err := o.settle(cmd.Flags()); err != nil {
				return err
			}
			return runConformalFit(cmd.Context(), s, o)
		},
	}
	f, p := cmd.Flags(), &o.plan.Params
	settle = addExperimentFlags(cmd, &o.plan.Spec, law.Additives(), func() {
		f.StringVar(&o.out, "out", "", "write the predictor (the threshold and the settings for 'rscert conformal apply') to this JSON `file`")
		group(cmd, "Inputs and output")
		radiusVar(f, &radius, "radius", "largest perturbation of an input, in the norm of the noise law and in the "+
			"units of the data; 0 means no attack")
		f.Float64Var(&p.Miss, "miss", 0.1, "allowed probability that a set misses the label")
		choiceVar(f, &p.Rule, "rule", conformal.Auto, conformal.Rules,
			"rule that decides which classes a set contains: "+conformal.Rules.String())
		integerVar(f, &p.Draws, "draws", 0, "number of noisy copies of each query (an input of 'rscert conformal apply'); 0 means the default of the rule")
		integerVar(f, &p.CalibrationDraws, "calibration-draws", 0, "number of noisy copies of each calibration example; 0 means "+
			"that rscert chooses this number")
		choiceVar(f, &o.score, "score", conformal.THR, conformal.ScoreKinds,
			"score of a class: "+conformal.ScoreKinds.String())
		f.Float64Var(&penalty, "raps-penalty", conformal.DefaultPenalty, "with --score raps, penalty for each rank beyond --raps-free")
		f.IntVar(&free, "raps-free", conformal.DefaultFree, "with --score raps, number of top ranks without a penalty")
		choiceVar(f, &p.Guarantee, "guarantee", conformal.Marginal, conformal.Guarantees,
			"kind of the guarantee: "+conformal.Guarantees.String())
		f.Float64Var(&p.Delta, "delta", 0, "with --guarantee training, allowed probability that the random choice of the calibration examples gives a predictor for which the guarantee fails")
		f.StringVar(&o.groups, "groups", "", "with --guarantee group, CSV `file` with a row for each example, in the "+
			"order of the data")
		f.StringVar(&o.plan.GroupColumn, "group", "", "`column` with the name of the group, in the file of --groups")
		integerVar(f, &p.Attack.Queries, "queries", 1, "number of variants of one input that an attacker may submit; "+
			"the guarantee covers all their sets together")
		integerVar(f, &p.Poisoned, "poisoned", 0, "number of calibration examples that an attacker may have replaced")
		radiusVar(f, &p.Attack.PoisonRadius, "poison-radius", "radius within which an attacker may have moved each "+
			"calibration example before its noise was drawn")
		f.Float64Var(&o.plan.Temperature, "temperature", 1, "temperature of the softmax that turns logits into probabilities")
		group(cmd, "Prediction sets")
	})
	f.BoolVar(&o.json, "json", false, "print the predictor as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Output")
	return cmd
}

// choiceLines lists values with their descriptions, one per line.
func choiceLines[T fmt.Stringer](values []T, what func(T) string) string {
	var list strings.Builder
	for _, v := range values {
		fmt.Fprintf(&list, "  %-10s  %s\n", v, what(v))
	}
	return list.String()
}

// ofSaved lists the flags that a fit from saved scores accepts. If the scores are not from a run, this fit also accepts
// --sigma and --law.
var ofSaved = []string{
	"out", "radius", "miss", "rule", "draws", "calibration-draws", "score", "raps-penalty", "raps-free", "guarantee",
	"delta", "groups", "group", "queries", "poisoned", "poison-radius", "json", "quiet", "help",
}

// settle fills in the rest of the plan from the flags.
func (o *conformalFitOptions) settle(f *pflag.FlagSet) (err error) {
	p := &o.plan
	switch {
	case o.radius == nil:
		return badInputf("--radius is missing")
	case o.out == "":
		return badInputf("--out is missing")
	}
	p.Version, p.Params.Attack.Radius = version(), *o.radius
	if p.Params.Attack.Queries == 1 {
		p.Params.Attack.Queries = 0 // the value 0 also means one query; JSON then omits the field
	}
	p.Params.Scorer = conformal.NewScorer(o.score)
	if o.score != conformal.RAPS && (o.penalty != nil || o.free != nil) {
		return badInputf("--raps-penalty, --raps-free: are for --score raps")
	}
	if o.penalty != nil {
		p.Params.Scorer.Penalty = *o.penalty
	}
	if o.free != nil {
		p.Params.Scorer.Free = *o.free
	}
	if err := badInput(p.Params.Scorer.Validate()); err != nil {
		return err
	}
	if err := o.settleSaved(f); err != nil {
		return err
	}
	p.Groups, err = readGroups(o.groups, p.GroupColumn)
	return err
}

// settleSaved refuses flags that a fit from saved scores does not accept.
func (o *conformalFitOptions) settleSaved(f *pflag.FlagSet) (err error) {
	if o.plan.Saved == "" {
		return nil
	}
	evidence, err := runfolder.Find(o.plan.Saved)
	if err != nil {
		return badInput(err)
	}
	inRun := evidence.Run != nil
	f.Visit(func(flag *pflag.Flag) {
		ofFile := flag.Name == "sigma" || flag.Name == "law"
		switch {
		case err != nil || slices.Contains(ofSaved, flag.Name) || ofFile && !inRun:
		case ofFile:
			err = badInputf("--%s comes from the run %s: leave the flag out", flag.Name, o.plan.Saved)
		default:
			err = badInputf("--%s has no effect on the saved scores of %s: leave the flag out", flag.Name, o.plan.Saved)
		}
	})
	return err
}

// conformalFitted is what conformal fit --json prints.
type conformalFitted struct {
	Out         string              `json:"out"`
	ID          string              `json:"id"`
	Predictor   conformal.Predictor `json:"predictor"`
	Sound       bool                `json:"sound"`
	Why         string              `json:"why,omitempty"`
	Arithmetic  certify.Arithmetic  `json:"arithmetic"`
	Temperature float64             `json:"temperature"`
	Allowance   float64             `json:"allowance,omitempty"`
	Statement   string              `json:"statement"`
	Seconds     float64             `json:"seconds"`
}

func runConformalFit(ctx context.Context, s streams, o conformalFitOptions) error {
	inputs := append(o.plan.Spec.Models(), o.plan.Spec.Data, o.plan.Saved, o.groups)
	if err := checkOutput("out", o.out, inputs...); err != nil {
		return err
	}
	began := time.Now()
	console := s.console(o.quiet)
	file, err := run.FitConformal(ctx, o.plan, console)
	if err != nil {
		return err
	}
	if file.IncludesAll() {
		err := s.warnf(warning.SetsOfAllClasses, "there are too few calibration examples or draws for this %s: every set contains every class",
			param.Miss)
		if err != nil {
			return err
		}
	}
	if err := file.Write(o.out); err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "conformal-fit", conformalFitted{
			Out: o.out, ID: file.ID(), Predictor: file.Predictor, Sound: file.Sound, Why: file.Why,
			Arithmetic: file.Arithmetic, Temperature: file.Temperature, Allowance: file.Allowance,
			Statement: file.Statement(), Seconds: time.Since(began).Seconds(),
		})
	}
	return writeFitted(s.out, file, o.out)
}

// paragraph capitalises the first letter of a sentence and ends the sentence with a full stop. It breaks the text into
// lines of at most 88 characters.
func paragraph(sentence string) string {
	sentence = strings.TrimSuffix(quote.Line(sentence), ".") + "."
	first, size := utf8.DecodeRuneInString(sentence)
	sentence = string(unicode.ToUpper(first)) + sentence[size:]
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(sentence) {
		n := utf8.RuneCountInString(word)
		switch {
		case width == 0:
		case width+1+n > 88:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// writeFitted prints a summary of a predictor.
func writeFitted(w io.Writer, f *conformalfile.File, out string) error {
	p := &f.Predictor
	var b bytes.Buffer
	fmt.Fprintf(&b, "rule         %s: %s\n", p.Rule, conformal.Rules.What(p.Rule))
	fmt.Fprintf(&b, "query        a class is in the set if %d of %d scores reach the threshold\n", p.QueryT, p.QueryM)
	if p.T > 0 {
		fmt.Fprintf(&b, "calibration  %d examples with %d draws each; an example counts as covered by %d of them\n", p.N,
			p.M, p.T)
	} else {
		fmt.Fprintf(&b, "calibration  %d examples with %d draws each; slack of the weights %.2g\n", p.N, p.M, p.Slack)
	}
	if len(p.Cells) == 1 {
		fmt.Fprintf(&b, "threshold    %v\n", float64(p.Cells[0].Tau))
	} else {
		fmt.Fprintf(&b, "thresholds   %d\n", len(p.Cells))
	}
	fmt.Fprintf(&b, "\n%s\n", paragraph(f.Statement()))
	if !f.Sound {
		fmt.Fprintf(&b, "%s\n", paragraph("no promise under attack: "+f.Why))
	}
	fmt.Fprintf(&b, "\nthe predictor is in %s\n", out)
	_, err := w.Write(b.Bytes())
	return err
}
