package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// certifyOptions are the flags of certify.
type certifyOptions struct {
	run.Plan
	gate        gateOptions
	check       bool
	checkImage  string
	plan        bool
	deadline    time.Duration
	quiet, json bool
	allowTF32   bool
}

func newCertify(s streams) *cobra.Command {
	var o certifyOptions
	cmd := &cobra.Command{
		Use:   "certify --model M.onnx --data D --sigma S --out RUN",
		Short: "Certify a classifier's predictions on a dataset",
		Long: `Certify samples the model's predictions under Gaussian noise N(0, σ²I). For every
example it writes an L2 radius: within it, no perturbation changes the smoothed
prediction. Each radius is right with probability at least 1 − alpha (Cohen et al.
2019). σ and every radius are in the units of the data as read: images have values in
[0,1]; --mean and --std are applied after the noise.

With --confidence-radii the votes certify the class, and the same samples bound the
confidence, the class's mean score, at those radii; see 'rscert acce'. With --scores
too, or with a --method for scores, the scores certify the class.

The run folder holds run.json, votes.jsonl and certificates.jsonl (see
docs/results.md), and bounds.csv or scores.npz if requested. The results are the
same, byte for byte, for every --batch and --threads, and after --resume.`,
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
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --require 'certified:certified-accuracy@0.5>=0.9'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, idle := range o.Settle() {
				if cmd.Flags().Changed(idle.Flag) {
					fmt.Fprintf(s.err, "warning: --%s has no effect without --%s\n", idle.Flag, idle.Without)
				}
			}
			if err := o.choosePrecision(cmd.Flags().Changed("precision")); err != nil {
				return err
			}
			o.FixedSeed, o.FixedSelect = given(cmd, "seed", &o.Seed), given(cmd, "select", &o.Select)
			return runCertify(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Model, "model", "", "ONNX `file` of the classifier")
	f.StringVar(&o.Data, "data", "", "`path` of the dataset, a file or folder: images in folders, Parquet, WebDataset tar, npz, npy, CSV, MNIST IDX or CIFAR (binary or Python version); see docs/my-data.md")
	f.Float64Var(&o.Sigma, "sigma", 0, scaleWords()+", in the units of the data")
	lawFlag(f, &o.Law)
	f.StringVar(&o.Out, "out", "", "run `folder` to write")
	group(cmd, "Inputs and output")
	addSamplingFlags(cmd, &o.Parameters)
	addDataFlags(cmd, &o.DataOptions)
	addModelFlags(cmd, &o)
	group(cmd, "How it is run")
	addDenoiserFlags(cmd, &o.Plan)
	group(cmd, "A denoiser before the model")
	f.BoolVar(&o.Resume, "resume", false, "continue the run in the run folder; start it if there is none")
	f.BoolVar(&o.check, "check", false, "check model and data without sampling: shapes, ranges, accuracy on 200 examples, time")
	f.StringVar(&o.checkImage, "check-image", "", "with --check: write a noisy example to this PNG `file`")
	f.BoolVar(&o.plan, "plan", false, "sample for some seconds and estimate how long the whole run would take")
	f.DurationVar(&o.deadline, "deadline", 0, "with --plan: compute how many parallel shards finish within this time, such as 2h")
	group(cmd, "How it is run")
	gateFlags(cmd, &o.gate)
	group(cmd, "Requirements")
	f.Float64SliceVar(&o.Radii, "radii", nil, "`radii` of the table; default: round ones")
	f.BoolVar(&o.PerClass, "per-class", false, "also show a table by class")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	group(cmd, "Output")
	return cmd
}

// addSamplingFlags adds the flags for sampling and certificates.
func addSamplingFlags(cmd *cobra.Command, p *runfolder.Parameters) {
	f := cmd.Flags()
	integerVar(f, &p.N, "n", 100000, "estimation samples per example; with --stop, the most")
	integerVar(f, &p.N0, "n0", 100, "selection samples per example")
	f.Float64Var(&p.Alpha, "alpha", 0.001, "allowed failure probability of a certificate")
	choiceVar(f, &p.Method, "method", runfolder.Method{}, runfolder.Methods(), fmt.Sprintf("for votes: %s (default margin); for scores: %s (default with --scores: betting)",
		names(certify.VoteMethods()), names(certify.MeanBounds())))
	choiceVar(f, &p.Class, "class", certify.Predicted, methods(certify.Classes()), "class to certify: "+names(certify.Classes()))
	choiceVar(f, &p.Margin, "margin", certify.SecondMargin, methods(certify.MarginKinds()), "margin to certify: "+methods(certify.MarginKinds()).Described())
	f.Float64Var(&p.Lipschitz, "lipschitz", 0, "known Lipschitz constant for --margin first; 0 = only the smoothed classifier's")
	f.TextVar(&p.Stop, "stop", certify.StopRule{}, "`rule` to stop early: radius>=R or precision=F")
	f.BoolVar(&p.Scores, "scores", false, "certify by mean scores (softmax), not by votes")
	f.BoolVar(&p.SaveScores, "save-scores", false, "keep all scores in scores.npz, to certify them again; implies --scores unless --confidence-radii is given; takes 4·n·m bytes per example")
	choiceVar(f, &p.Combine, "combine", certify.Directed, methods(certify.Combines()), "how --scores bound a margin: "+names(certify.Combines()))
	f.Float64Var(&p.Temperature, "temperature", 1, "temperature of the softmax with --scores")
	f.Float64SliceVar(&p.ConfidenceRadii, "confidence-radii", nil, "also bound the confidence under attack at these `radii` by mean scores (bounds.csv); takes half of alpha")
	choiceVar(f, &p.Confidence, "confidence", certify.ConfidenceTangent, methods(certify.ConfidenceMethods()), "method for these bounds: "+names(certify.ConfidenceMethods()))
	choiceVar(f, &p.ConfidenceBound, "confidence-bound", certify.Betting, methods(certify.MeanBounds()), "bound on the means in standard and tangent")
	choiceVar(f, &p.Band, "band", certify.BandBinomial, methods(certify.Bands()), "band for the distribution in cdf: "+names(certify.Bands()))
	group(cmd, "Samples and certificates")
}

// addDataFlags adds the flags for reading the data.
func addDataFlags(cmd *cobra.Command, o *dataset.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Labels, "labels", "", "`file` with the labels of IDX, npy or image data, if they are separate")
	f.StringVar(&o.LabelColumn, "label-column", "", "`column` of a table with the labels: first, last, none, a name or an index from 0; for CIFAR-100: coarse_labels; default: by the header")
	integerVar(f, &o.FirstLabel, "first-label", 0, "`label` in the data of the model's first class: 0 or 1")
	f.StringVar(&o.ClassNames, "class-names", "", "`file` with the model's class names in its order, one per line or as JSON, if labels or folders are names")
	f.TextVar(&o.Resize, "resize", dataset.Size{}, "resize images to this `size`, as torchvision does: the shorter side, or HEIGHTxWIDTH")
	f.TextVar(&o.Crop, "crop", dataset.Size{}, "crop the centre of images to this `size`, after --resize")
	choiceVar(f, &o.Interpolation, "interpolation", dataset.Bilinear, dataset.Interpolations, "interpolation of --resize: "+dataset.Interpolations.String())
	choices(f, "label-column", "first", "last", "none")
	group(cmd, "How the data are read")
}

// addModelFlags adds the flags for the model's inputs, the noise and the examples.
func addModelFlags(cmd *cobra.Command, o *certifyOptions) {
	f, p := cmd.Flags(), &o.Plan
	choiceVar(f, &p.Outputs, "outputs", graph.OutputsAuto, graph.OutputKinds, "outputs of the model: logits, probabilities or auto; a single number per sample belongs to the second of two classes")
	f.StringVar(&p.ScoresOutput, "scores-output", "", "`name` of the output with the scores, if the model has several")
	choiceVar(f, &p.Layout, "layout", graph.CHW, graph.Layouts, "order of the values in flat rows: "+graph.Layouts.String())
	f.Float64SliceVar(&p.Mean, "mean", nil, "`values` to subtract from the noisy input: one, or one per channel")
	f.Float64SliceVar(&p.Std, "std", nil, "`values` to divide the noisy input by: one, or one per channel")
	group(cmd, "How the model is fed")
	choiceVar(f, &p.Noise, "noise", runfolder.Lattice, runfolder.NoiseKinds, runfolder.NoiseKinds.Described())
	integerVar(f, &p.Seed, "seed", 0, "seed of the noise, to repeat a run; default: drawn from the system and recorded")
	integerVar(f, &p.Skip, "skip", 1, "take every `k`-th example of the dataset")
	integerVar(f, &p.Max, "max", 0, "take at most this many examples; 0 = all")
	choiceVar(f, &p.Select, "select", runfolder.First, runfolder.Selections, "examples that --max takes: first or spread (over all); default: spread if the data are sorted by class")
	p.Shard = runfolder.Whole
	f.Var(shardFlag{&p.Shard}, "shard", "run shard `i/k`, i = 0…k−1: every k-th example from number i on; auto: the shard of this task in a Slurm array or Indexed Job")
	group(cmd, "Noise and examples")
	addDeviceFlags(cmd, o)
}

// addDenoiserFlags adds the flags for a denoiser before the model.
func addDenoiserFlags(cmd *cobra.Command, p *run.Plan) {
	f := cmd.Flags()
	f.StringVar(&p.Denoiser, "denoiser", "", "ONNX `file` of a denoiser before the model: the certificates are for the pair (docs/denoiser.md)")
	choiceVar(f, &p.DenoiserKind, "denoiser-kind", graph.DenoisedImage, graph.DenoiserKinds, "output of the denoiser: "+graph.DenoiserKinds.Described())
	f.Float64SliceVar(&p.DenoiserRange, "denoiser-range", nil, "the denoiser's `values` for 0 and 1 in the data; default: 0,1, or -1,1 for a diffusion model")
	f.StringVar(&p.DiffusionSchedule, "diffusion-schedule", "linear", "schedule of a diffusion model: linear, cosine or a `file` with ᾱ of each timestep, one per line")
}

func runCertify(ctx context.Context, s streams, o certifyOptions) error {
	o.Version = version()
	if o.check {
		if o.gate.given() {
			return badInputf("--require: --check certifies nothing")
		}
		return runCheck(ctx, s, o)
	}
	if o.plan || o.deadline != 0 {
		if o.gate.given() {
			return badInputf("--require: --plan certifies nothing")
		}
		return runPlan(ctx, s, o)
	}
	if err := errors.Join(o.gate.check(o.Model, o.Data), o.gate.needRadii(o.ConfidenceRadii)); err != nil {
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
	run.Outcome                 // embedded: its fields appear beside the others
	Requirements []gate.Outcome `json:"requirements,omitempty"`
}

// print prints the results of a run.
func (o certifyOptions) print(s streams, outcome run.Outcome) error {
	if outcome.Denoiser != nil {
		fmt.Fprintf(s.out, "classifier: %s\n\n", o.Classifier(outcome.Denoiser))
	}
	if err := writeSummaries(s.out, []certify.Summary{outcome.Summary}); err != nil {
		return err
	}
	if clean, smoothed := outcome.CleanAccuracy, outcome.SmoothedAccuracy; clean != nil && smoothed != nil {
		fmt.Fprintf(s.out, "\naccuracy %s %% without noise, %s %% of the smoothed classifier (estimates)\n",
			report.Round(*clean, report.Nearest, 2, 1), report.Round(*smoothed, report.Nearest, 2, 1))
	}
	writeTangentSamples(s.out, outcome.TangentSamples, o.N)
	if err := writeClasses(s.out, outcome.Summary); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if outcome.SamplesDrawn > 0 {
		took := time.Duration(outcome.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
		fmt.Fprintf(s.out, "%d samples in %s, %.0f samples/s\n", outcome.SamplesDrawn, took, outcome.SamplesPerSecond)
	}
	if outcome.Compared > 0 {
		fmt.Fprintf(s.out, "samples run again, alone and in other batches: %d; no bit of their outputs changed\n", outcome.Compared)
	}
	fmt.Fprintf(s.out, "results are in %s\nnext: %s\n", outcome.Out, o.next(outcome))
	return nil
}

// next suggests a command to learn more about a run. Calibration needs labels.
func (o certifyOptions) next(found run.Outcome) string {
	switch {
	case found.CleanAccuracy == nil:
		return "rscert radius " + found.Out + " --method clopper-pearson,bonferroni,margin   (compares methods)"
	case len(o.ConfidenceRadii) > 0:
		return "rscert acce " + found.Out + "   (worst calibration under attack)"
	}
	return "rscert metrics " + found.Out + "   (calibration without attack)"
}
