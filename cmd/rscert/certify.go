package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/sweep"
	"github.com/rscert/rscert/internal/warning"
)

// certifyOptions are the flags of certify.
type certifyOptions struct {
	run.Plan
	gate        gateOptions
	sign        signOptions
	preset      preset
	from        fromRun
	check       bool
	checkImage  string
	point       string
	plan        bool
	deadline    time.Duration
	quiet, json bool
}

func newCertify(s streams) *cobra.Command {
	var o certifyOptions
	var settle func() error
	cmd := &cobra.Command{
		Use:   "certify --model M.onnx --data D --sigma S --out RUN",
		Short: "Certify a classifier's predictions on a dataset",
		Long: `This command samples the predictions of a model under Gaussian noise N(0, σ²I). For
every example it writes an L2 radius. No perturbation within this radius changes the
prediction of the smoothed classifier. This prediction is the class that the model
answers most often under noise (with --scores, the class with the largest mean score).
Each radius is right with probability at least 1 − alpha (Cohen et al. 2019). σ and
every radius are in the units of the input data. Images have values in [0,1]; --mean and
--std apply after the noise. --law chooses noise with another distribution (law); the
radii are then in the L1 norm (docs/other-threats.md).

By default, each sample votes for the class that the model answers, and the command
certifies a class by these votes. In three cases, the command certifies a class by the
mean softmax scores instead: with --scores, with --save-scores but without
--confidence-radii, and with --confidence-radii and a --method for scores. With
--confidence-radii, the same samples also bound the confidence under attack at the given
radii. The confidence is the mean score of the class (see 'rscert acce').

A list of values, as in --sigma 0.25,0.5,1, makes a sweep: one run for each value.
Several lists make one run for each combination of their values. Each value or
combination is a point of the sweep. The folder of --out then holds one run folder per
point, and the command prints one table. docs/sweeps.md explains sweeps and names the
flags that accept such a list. A list of models (--model a.onnx,b.onnx) makes one run
for each model. Several --model flags make one run that averages the models.

The run folder holds run.json, votes.jsonl and certificates.jsonl (see
docs/results.md), and on request bounds.csv or scores.npz. The results are the same,
byte for byte, for every --batch and --threads, and after --resume. --sign signs the
finished run with a key of minisign; 'rscert verify --key' checks the signature.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --check
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --plan --deadline 2h
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --resume
  rscert certify --model resnet.onnx --data cifar/test_batch.bin --sigma 0.25 --skip 20 \
      --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010 --out run
  rscert certify --model pipeline.onnx --data iris.csv --sigma 0.2 --out table
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --stop 'radius>=0.5' --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --confidence-radii 0.25,0.5 --out run
  rscert certify --model cnn.onnx --denoiser denoiser.onnx --data mnist/ --sigma 0.5 --out denoised
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --seed 7 --out repeated
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --sign minisign.key
  rscert certify --from run --out again
  rscert certify --from run --only abstained=run --n 1e6 --out second
  rscert certify --from run/run.json --sigma 1 --out run-1
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.25,0.5,1 --out sweep
  rscert certify --model a.onnx,b.onnx --data mnist/ --sigma 0.25,0.5 --law gaussian,laplace --out grid
  rscert certify --config run.yaml --out run
  rscert certify --preset cohen2019 --model cnn.onnx --data mnist/ --sigma 0.5 --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --require 'certified:certified-accuracy@0.5>=0.9'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			warned := map[string]bool{}
			ready := func() error { return o.ready(cmd, s, settle, warned) }
			grid, err := sweptGrid(cmd.Flags())
			switch {
			case err != nil:
				return err
			case grid == nil && o.point != "":
				return errNoSweep
			case grid == nil:
				if err := ready(); err != nil {
					return err
				}
				return runCertify(cmd.Context(), s, o)
			}
			points, err := o.sweep(cmd.Flags(), grid, ready)
			if err != nil {
				return err
			}
			return runSweep(cmd.Context(), s, points)
		},
	}
	f := cmd.Flags()
	settle = addExperimentFlags(cmd, &o.Spec, law.Laws, func() {
		scaleFlags(f, &o.Scales)
		f.StringVar(&o.Out, "out", "", "`folder` to which rscert writes the run")
		group(cmd, "Inputs and output")
		addSamplingFlags(cmd, &o.Certification)
	})
	f.Var(onlyFlag{&o.OnlyOf}, "only", "certify some examples of RUN again, with new noise: 'abstained=RUN' takes the examples on which RUN abstained; 'failed=RUN' also takes the examples that RUN answered wrongly; rates over the chosen examples say nothing about the whole dataset (docs/only.md)")
	f.Var(&o.from, "from", "folder (or `run`.json) of a run to repeat; the new run takes its parameters from this run, except those that a flag gives; rscert checks that the model and the data have not changed; it does not check a model or data that a flag names")
	value := presetValue{choiceValue[preset]{&o.preset, presets}}
	f.Var(value, presetFlag, "use the parameters of this paper unless flags say otherwise: "+presets.Described())
	choices(f, presetFlag, described(presets)...)
	f.BoolVar(&o.Resume, "resume", false, "continue the run in the folder of --out, or start one if the folder holds none")
	sweepPointFlag(cmd, &o.point)
	f.BoolVar(&o.check, "check", false, "instead of certifying, check the shapes and ranges of the data, and print the model's speed and its accuracy on at most 200 examples")
	f.StringVar(&o.checkImage, "check-image", "", "with --check, write a noisy example to this PNG `file`")
	f.BoolVar(&o.plan, "plan", false, "instead of certifying, sample for some seconds and estimate the time of the whole run")
	f.DurationVar(&o.deadline, "deadline", 0, "with --plan, compute the number of parallel shards that finish the run within this time, such as 2h")
	o.sign.add(f)
	group(cmd, "How it is run")
	gateFlags(cmd, &o.gate)
	group(cmd, "Requirements")
	radiiVar(f, &o.Radii, "radii", "`radii` for which the table shows the certified accuracy; default: round numbers")
	normsFlag(f, &o.Norms)
	f.BoolVar(&o.PerClass, "per-class", false, "also print a table with one row per class")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Output")
	sweepFlags(f)
	return cmd
}

// ready completes the options after the flags are parsed. It warns of each flag that has no effect, and records this
// flag in the map 'warned', so that a second call does not repeat the warning.
func (o *certifyOptions) ready(cmd *cobra.Command, s streams, settle func() error, warned map[string]bool) error {
	for _, idle := range o.Settle() {
		if !cmd.Flags().Changed(idle.Flag) || warned[idle.Flag] {
			continue
		}
		warned[idle.Flag] = true
		if err := s.warnf(warning.FlagWithoutEffect, "--%s has no effect without --%s", idle.Flag, idle.Without); err != nil {
			return err
		}
	}
	if err := settle(); err != nil {
		return err
	}
	if (o.check || o.plan) && fromSettings(cmd, "require") {
		o.gate.required = nil // these requirements are from a config file; --check and --plan ignore them
	}
	o.Version, o.Preset, o.Expected = version(), o.preset.String(), o.from.expect()
	return nil
}

// sweep returns the options of a sweep over the grid, with a plan for each point that this process runs. For each point
// in turn, it sets the flags to the values of this point and calls the function 'ready', which completes the options of
// the point.
func (o *certifyOptions) sweep(f *pflag.FlagSet, grid sweep.Grid, ready func() error) (sweepOptions, error) {
	given := *o
	all := grid.Points()
	numbers, err := chooseNumbers(o.point, o.Shard, all)
	if err != nil {
		return sweepOptions{}, err
	}
	var points []run.SweepPoint
	for _, k := range numbers {
		*o = given
		if err := choosePoint(f, all[k]); err != nil {
			return sweepOptions{}, badInput(err)
		}
		if err := ready(); err != nil {
			return sweepOptions{}, fmt.Errorf("%s: %w", all[k].Name, err)
		}
		plan := o.Plan
		plan.Out = filepath.Join(o.Out, all[k].Name)
		points = append(points, run.SweepPoint{Point: all[k], Plan: plan})
	}
	return sweepOptions{certifyOptions: *o, grid: grid, points: points}, nil
}

// addSamplingFlags adds the flags for sampling and certificates.
func addSamplingFlags(cmd *cobra.Command, p *runfolder.Certification) {
	f := cmd.Flags()
	integerVar(f, &p.N, "n", 100000, "number of samples that certify the class, for each example; with --stop, the maximum number")
	integerVar(f, &p.N0, "n0", 100, "number of separate samples that select the class to certify, for each example")
	f.Float64Var(&p.Alpha, "alpha", 0.001, "largest probability that a certificate is wrong")
	choiceVar(f, &p.Method, "method", runfolder.Method{}, runfolder.Methods(), fmt.Sprintf("method of certification; for votes: %s; with --scores: %s",
		markDefault(names(certify.VoteMethods())), markDefault(names(certify.MeanBounds()))))
	choiceVar(f, &p.Class, "class", certify.Predicted, methods(certify.Classes()), "class to certify: "+methods(certify.Classes()).Described())
	choiceVar(f, &p.Margin, "margin", certify.SecondMargin, methods(certify.MarginKinds()), "margin between the probability p_A of the class and the largest probability p_B of another class: "+methods(certify.MarginKinds()).Described())
	f.Float64Var(&p.Lipschitz, "lipschitz", 0, "with '--margin first': a known Lipschitz constant L of the smoothed probabilities; default: the constant that the noise guarantees")
	f.TextVar(&p.Stop, "stop", certify.StopRule{}, "`rule` to stop sampling an example early: 'radius>=R' stops once it is known whether the radius is at least R; 'precision=F' stops once the radius is at least (1−F) times the largest radius that is still possible")
	f.BoolVar(&p.Scores, "scores", false, "certify by the mean softmax scores instead of the votes")
	f.BoolVar(&p.SaveScores, "save-scores", false, "save the scores of all samples in scores.npz (for m classes, 4·n·m bytes per example); without --confidence-radii, this flag implies --scores")
	choiceVar(f, &p.Combine, "combine", certify.Directed, methods(certify.Combines()), "with --scores, method that bounds the margin between two mean scores: "+methods(certify.Combines()).Described())
	f.Float64Var(&p.Temperature, "temperature", 1, "temperature of the softmax for --scores and --reject-below")
	claimFlags(f, &p.TopK, &p.None)
	f.Float64Var(&p.RejectBelow, "reject-below", 0, "smallest `confidence` (largest softmax score at --temperature) at which a sample votes for a class; below it, the sample votes for \"no class\" (docs/reject.md)")
	orderedRadiiVar(f, &p.ConfidenceRadii, "confidence-radii", "also bound the mean score under attack at these `radii`, and write the bounds to bounds.csv; the bounds use half of alpha, and the certificates use the other half")
	choiceVar(f, &p.Confidence, "confidence", certify.ConfidenceTangent, methods(certify.ConfidenceMethods()), "method that bounds the confidence under attack: "+methods(certify.ConfidenceMethods()).Described())
	choiceVar(f, &p.ConfidenceBound, "confidence-bound", certify.Betting, methods(sound(certify.MeanBounds())), "with --confidence standard or tangent, bound on the mean of the score (for tangent: of a function of the score): "+names(sound(certify.MeanBounds())))
	choiceVar(f, &p.Band, "band", certify.BandBinomial, methods(certify.Bands()), "with --confidence cdf, confidence band for the distribution of the score: "+methods(certify.Bands()).Described())
	group(cmd, "Samples and certificates")
}

func runCertify(ctx context.Context, s streams, o certifyOptions) error {
	if o.check {
		if o.gate.given() {
			return badInputf("--require: --check certifies nothing")
		}
		if o.sign.given() {
			return badInputf("--sign: --check certifies nothing")
		}
		return runCheck(ctx, s, o)
	}
	if o.plan || o.deadline != 0 {
		if o.gate.given() {
			return badInputf("--require: --plan certifies nothing")
		}
		if o.sign.given() {
			return badInputf("--sign: --plan certifies nothing")
		}
		return runPlan(ctx, s, o)
	}
	if err := o.refuseGate(); err != nil {
		return err
	}
	if err := errors.Join(o.gate.check(append(o.Models(), o.Data)...), o.gate.needRadii(o.ConfidenceRadii), checkNoSweep(o.Out)); err != nil {
		return err
	}
	var err error
	if o.Sign, err = o.sign.key(ctx, s); err != nil {
		return err
	}
	return o.gate.decide(s, func() ([]gate.Outcome, error) {
		outcome, err := run.Certify(ctx, o.Plan, s.console(o.quiet))
		if err != nil {
			return nil, err
		}
		met, err := o.gate.checkPath(ctx, o.Out)
		if err != nil {
			return nil, err
		}
		if o.json {
			return met, report.WriteJSON(s.out, "certify", certifyReport{outcome, met})
		}
		return met, o.print(s, outcome)
	})
}

// certifyReport is what certify --json prints.
type certifyReport struct {
	run.Outcome                 // embedded: JSON shows its fields as fields of certifyReport
	Requirements []gate.Outcome `json:"requirements,omitempty"`
}

// print prints the results of a run.
func (o certifyOptions) print(s streams, outcome run.Outcome) error {
	if outcome.Denoiser != nil {
		fmt.Fprintf(s.out, "classifier: %s\n\n", quote.Line(experiment.Classifier(o.ModelName(), outcome.Denoiser)))
	}
	if err := writeSummaries(s.out, []certify.Summary{outcome.Summary}); err != nil {
		return err
	}
	if err := writeNorms(s.out, outcome.Summary); err != nil {
		return err
	}
	if clean, smoothed := outcome.CleanAccuracy, outcome.SmoothedAccuracy; clean != nil && smoothed != nil {
		fmt.Fprintf(s.out, "\naccuracy %s %% without noise, %s %% of the smoothed classifier (estimates)\n",
			report.Round(*clean, report.Down, 2, 1), report.Round(*smoothed, report.Down, 2, 1))
	}
	writeTangentSamples(s.out, outcome.TangentSamples, o.N)
	if err := writeClasses(s.out, outcome.Summary); err != nil {
		return err
	}
	if outcome.Only != "" {
		fmt.Fprintf(s.out, "\n%s\n%s\n", quote.Line(outcome.Only), certify.BetterOfTwo)
	}
	fmt.Fprintln(s.out)
	if outcome.SamplesDrawn > 0 {
		took := time.Duration(outcome.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
		fmt.Fprintf(s.out, "%d samples in %s, %.0f samples/s\n", outcome.SamplesDrawn, took, outcome.SamplesPerSecond)
	}
	if outcome.Compared > 0 {
		fmt.Fprintf(s.out, "samples run again, alone and in other batches: %d; no bit of their outputs changed\n", outcome.Compared)
	}
	if outcome.SignedBy != "" {
		fmt.Fprintf(s.out, "signed by the key %s\n", outcome.SignedBy)
	}
	fmt.Fprintf(s.out, "results are in %s\nnext: %s\n      rscert report %s   (tables and curves; --html FILE writes a page)\n",
		quote.Line(outcome.Out), o.next(outcome), quote.Shell(outcome.Out))
	return nil
}

// next returns the hint that names a command to run next. It names a command about calibration only if the data have
// labels.
func (o certifyOptions) next(found run.Outcome) string {
	out := quote.Shell(found.Out)
	switch {
	case found.CleanAccuracy == nil:
		return "rscert radius " + out + " --method clopper-pearson,bonferroni,margin   (compares methods)"
	case len(o.ConfidenceRadii) > 0:
		return "rscert acce " + out + "   (worst calibration under attack)"
	}
	return "rscert metrics " + out + "   (calibration without attack)"
}
