package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

// addExperimentFlags adds the flags of an experiment: model, data, noise and device. own, if not nil, adds the command's
// own flags behind the first ones, in groups of their own. The command calls settle once the flags are parsed.
func addExperimentFlags(cmd *cobra.Command, s *spec.Spec, own func()) (settle func() error) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.Model, "model", "", "ONNX `file` of the classifier")
	f.StringVar(&s.Data, "data", "", "dataset, a file or folder by its `path`: images in folders, Parquet, WebDataset tar, npz, npy, CSV, MNIST IDX or CIFAR, binary or Python version (docs/my-data.md)")
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
	group(cmd, "A denoiser in front of the model")
	return func() error {
		s.FixedSeed, s.FixedSelect = given(cmd, "seed", &s.Seed), given(cmd, "select", &s.Select)
		if !tf32 {
			return nil
		}
		return choosePrecision(s, cmd.Flags().Changed("precision"))
	}
}

// addDataFlags adds how the data are read.
func addDataFlags(cmd *cobra.Command, o *dataset.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Labels, "labels", "", "`file` of the labels, where they are apart: of IDX, npy and image data")
	f.StringVar(&o.LabelColumn, "label-column", "", "`column` of a table that holds the labels: first, last, none, a name or an index from 0; of CIFAR-100: coarse_labels; default: told from the header")
	integerVar(f, &o.FirstLabel, "first-label", 0, "`label` of the model's first class: 0 or 1")
	f.StringVar(&o.ClassNames, "class-names", "", "`file` of the model's class names in its order, a line each or JSON, for labels and folders that are names")
	f.TextVar(&o.Resize, "resize", dataset.Size{}, "`size` of images: the shorter side, or HEIGHTxWIDTH, as torchvision does it")
	f.TextVar(&o.Crop, "crop", dataset.Size{}, "`size` of the middle that is cut out of images, after --resize")
	choiceVar(f, &o.Interpolation, "interpolation", dataset.Bilinear, dataset.Interpolations, "of --resize: "+dataset.Interpolations.String())
	choices(f, "label-column", "first", "last", "none")
	group(cmd, "How the data are read")
}

// addModelFlags adds how the model is fed.
func addModelFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Outputs, "outputs", onnx.OutputsAuto, onnx.OutputKinds, "what the model returns: logits, probabilities or auto; of one number a sample, that of the second of two classes")
	f.StringVar(&s.ScoresOutput, "scores-output", "", "`name` of the model's output with the scores, where it has several")
	choiceVar(f, &s.Layout, "layout", onnx.CHW, onnx.Layouts, "order of the values of flat rows: "+onnx.Layouts.String())
	f.Float64SliceVar(&s.Mean, "mean", nil, "`values` subtracted from the noisy input, one or one a channel")
	f.Float64SliceVar(&s.Std, "std", nil, "`values` the noisy input is divided by, one or one a channel")
	group(cmd, "How the model is fed")
}

// addExampleFlags adds how noise is drawn, and which examples get it.
func addExampleFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Noise, "noise", spec.Lattice, spec.NoiseKinds, spec.NoiseKinds.Described())
	integerVar(f, &s.Seed, "seed", 0, "seed of the noise, to repeat a run; default: drawn from the system and recorded")
	integerVar(f, &s.Skip, "skip", 1, "take every `k`-th example of the dataset")
	integerVar(f, &s.Max, "max", 0, "take at most this many examples; 0 = all")
	choiceVar(f, &s.Select, "select", spec.First, spec.Selections, "which examples --max takes: first or spread (over all); default: spread where the data stand class by class")
	s.Shard = spec.Whole
	f.Var(shardFlag{&s.Shard}, "shard", "part `i/k` of the run, i = 0…k−1: the examples whose turn is i modulo k; auto: that of this task of a Slurm array or Indexed Job")
	group(cmd, "Noise and examples")
}

// addDenoiserFlags adds what stands in front of the model.
func addDenoiserFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	f.StringVar(&s.Denoiser, "denoiser", "", "ONNX `file` of a denoiser in front of the model: what is certified is the pair (docs/denoiser.md)")
	choiceVar(f, &s.DenoiserKind, "denoiser-kind", onnx.DenoisedImage, onnx.DenoiserKinds, "what the denoiser gives: "+onnx.DenoiserKinds.Described())
	f.Float64SliceVar(&s.DenoiserRange, "denoiser-range", nil, "the denoiser's `values` for data of 0 and 1; default: 0,1, of a diffusion model -1,1")
	f.StringVar(&s.DiffusionSchedule, "diffusion-schedule", "linear", "of a diffusion model: linear, cosine or a `file` with ᾱ of every timestep, a line each")
}
