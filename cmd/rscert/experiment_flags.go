package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/spec"
)

// addExperimentFlags adds the flags of an experiment: model, data, noise and device. If the function own is not nil, it
// adds the flags of the command after the first flags, in separate groups. The command calls settle after parsing the
// flags.
func addExperimentFlags(cmd *cobra.Command, s *spec.Spec, own func()) (settle func() error) {
	f := cmd.Flags()
	f.SortFlags = false
	modelFlag(f, s, "ONNX `file` of the classifier")
	f.StringVar(&s.Data, "data", "", "`path` of the dataset, a file or folder: images in folders, Parquet, WebDataset tar, npz, npy, CSV, MNIST IDX or CIFAR (binary or Python version); see docs/my-data.md")
	f.Float64Var(&s.Sigma, "sigma", 0, scaleWords()+", in the units of the data")
	lawFlag(f, &s.Law)
	if own != nil {
		own()
	}
	group(cmd, "Model, data and noise")
	addDataFlags(cmd, &s.DataOptions)
	addModelFlags(cmd, s)
	addExampleFlags(cmd, s)
	var tf32 bool
	addDeviceFlags(cmd, s, &tf32)
	group(cmd, "How it is run")
	addDenoiserFlags(cmd, s)
	group(cmd, "A denoiser before the model")
	return func() error {
		s.FixedSeed, s.FixedSelect = given(cmd, "seed", &s.Seed), given(cmd, "select", &s.Select)
		if !tf32 {
			return nil
		}
		return choosePrecision(s, cmd.Flags().Changed("precision"))
	}
}

// addDataFlags adds the flags for reading the data.
func addDataFlags(cmd *cobra.Command, o *dataset.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Labels, "labels", "", "`file` with the labels of IDX, npy or image data, if they are separate; none: the data have no labels, or should be read without")
	f.StringVar(&o.LabelColumn, "label-column", "", "`column` with the labels of a table: first, last, none, a name or an index from 0; for CIFAR-100: coarse_labels; default: chosen by the header")
	integerVar(f, &o.FirstLabel, "first-label", 0, "`label` that the data uses for the first class of the model: 0 or 1")
	f.StringVar(&o.ClassNames, "class-names", "", "`file` with the class names, one per line or as JSON, in the class order of the model; needed if labels or folders are names")
	f.TextVar(&o.Resize, "resize", dataset.Size{}, "resize images to this `size` by the rules of torchvision: the length of the shorter side, or HEIGHTxWIDTH")
	f.TextVar(&o.Crop, "crop", dataset.Size{}, "crop the centre of images to this `size`, after --resize")
	choiceVar(f, &o.Interpolation, "interpolation", dataset.Bilinear, dataset.Interpolations, "interpolation of --resize: "+dataset.Interpolations.String())
	choices(f, "label-column", "first", "last", "none")
	group(cmd, "How the data are read")
}

// addModelFlags adds the flags for the model's inputs and outputs.
func addModelFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Outputs, "outputs", graph.OutputsAuto, graph.OutputKinds, "outputs of the model: logits, probabilities or auto; a single number per sample is the output for the second of two classes")
	choiceVar(f, &s.Average, "average", graph.AverageLogits, graph.Averages, "of several models (--model given several times): what they average, logits or probabilities; --outputs then says what every model returns")
	f.StringVar(&s.ScoresOutput, "scores-output", "", "`name` of the output with the scores, if the model has several")
	choiceVar(f, &s.Layout, "layout", graph.CHW, graph.Layouts, "order of the values in flat rows: "+graph.Layouts.String())
	f.Float64SliceVar(&s.Mean, "mean", nil, "`values` to subtract from the noisy input: one, or one per channel")
	f.Float64SliceVar(&s.Std, "std", nil, "`values` that divide the noisy input: one, or one per channel")
	group(cmd, "How the model is fed")
}

// addExampleFlags adds the flags for the noise and the examples.
func addExampleFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Noise, "noise", spec.Lattice, spec.NoiseKinds, "kind of the noise: "+spec.NoiseKinds.Described())
	integerVar(f, &s.Seed, "seed", 0, "seed of the noise, to repeat a run; by default the system draws a seed, and the run records it")
	integerVar(f, &s.Skip, "skip", 1, "take every `k`-th example of the dataset")
	integerVar(f, &s.Max, "max", 0, "take at most this many examples; 0 = all")
	choiceVar(f, &s.Select, "select", spec.First, spec.Selections, "which examples --max takes: first, or spread over all examples; if not given, spread for data that are sorted by class")
	s.Shard = spec.Whole
	f.Var(shardFlag{&s.Shard}, "shard", "run shard `i/k`, i = 0…k−1: every k-th example, starting at example i; auto: the shard of this task in a Slurm array or Indexed Job")
	group(cmd, "Noise and examples")
}

// addDenoiserFlags adds the flags for a denoiser before the model.
func addDenoiserFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	f.StringVar(&s.Denoiser, "denoiser", "", "ONNX `file` of a denoiser that runs before the model; the certificates are for denoiser and model together (docs/denoiser.md)")
	choiceVar(f, &s.DenoiserKind, "denoiser-kind", graph.DenoisedImage, graph.DenoiserKinds, "output of the denoiser: "+graph.DenoiserKinds.Described())
	f.Float64SliceVar(&s.DenoiserRange, "denoiser-range", nil, "`values` with which the denoiser represents 0 and 1 of the data; default: 0,1, or -1,1 for a diffusion model")
	f.StringVar(&s.DiffusionSchedule, "diffusion-schedule", "linear", "schedule of a diffusion model: linear, cosine or a `file` with ᾱ of each timestep, one per line")
}
