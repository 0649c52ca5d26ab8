package main

import (
	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/spec"
)

// addExperimentFlags adds the flags of an experiment: model, data, noise and device. Help offers the given laws of the
// noise. If the function 'own' is not nil, addExperimentFlags calls it directly after it has added --law. The function
// 'own' can then add flags of the command itself. The command must call the function 'settle' after it has parsed the
// flags.
func addExperimentFlags[L law.Law](cmd *cobra.Command, s *spec.Spec, laws []L, own func()) (settle func() error) {
	f := cmd.Flags()
	f.SortFlags = false
	modelFlag(f, s, "ONNX `file` of the classifier, or builtin:NAME for a model that is part of rscert (docs/training.md)")
	f.StringVar(&s.Data, "data", "", "`path` of the dataset: images in folders, Parquet, WebDataset tar, npz, npy, CSV, MNIST IDX, or CIFAR in binary or Python form (docs/my-data.md)")
	lawFlags(f, &s.Sigma, &s.Law, laws)
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
		s.ModelLayout = !cmd.Flags().Changed("layout")
		if !tf32 {
			return nil
		}
		return choosePrecision(s, cmd.Flags().Changed("precision"))
	}
}

// addDataFlags adds the flags for reading the data.
func addDataFlags(cmd *cobra.Command, o *dataset.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Labels, "labels", "", "separate `file` with the labels of IDX, npy or image data; 'none' makes rscert read no labels")
	f.StringVar(&o.LabelColumn, "label-column", "", "`column` with the labels in a table: a name, an index from 0, 'first', 'last' or 'none' (docs/my-data.md); default: found by rscert")
	integerVar(f, &o.FirstLabel, "first-label", 0, "`label` that the data use for the model's first class: 0 or 1")
	f.StringVar(&o.ClassNames, "class-names", "", "`file` with the class names in the order of the model's classes, as JSON or one name per line; needed if the labels are words and the model's file does not list its classes; without --class-names, if any class folder has a name that is not a number, the folders count as 0, 1, … in the order of their names (docs/my-data.md)")
	f.TextVar(&o.Resize, "resize", dataset.Size{}, "resize images to this `size` in pixels, as torchvision does: give the length of the shorter side, or HEIGHTxWIDTH")
	f.TextVar(&o.Crop, "crop", dataset.Size{}, "crop each image around its centre to this `size` in pixels, after --resize")
	choiceVar(f, &o.Interpolation, "interpolation", dataset.Bilinear, dataset.Interpolations, "how --resize interpolates: "+dataset.Interpolations.String())
	choices(f, "label-column", "first", "last", "none")
	group(cmd, "How the data are read")
}

// addModelFlags adds the flags for the model's inputs and outputs.
func addModelFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Outputs, "outputs", graph.OutputsAuto, graph.OutputKinds, "kind of the model's outputs (if the model gives a single number per sample, rscert takes this number as the output for the second of two classes): "+graph.OutputKinds.Described())
	choiceVar(f, &s.Average, "average", graph.AverageLogits, graph.Averages, "with several models, which outputs rscert averages: 'logits' or 'probabilities'; --outputs says what every model returns")
	f.StringVar(&s.ScoresOutput, "scores-output", "", "`name` of the output with the scores, if the model has several outputs")
	choiceVar(f, &s.Layout, "layout", graph.CHW, graph.Layouts, "order of the values in an image that is a flat row (default: the order of the model's input, or 'chw' if the model takes no images): "+graph.Layouts.Described())
	f.Lookup("layout").DefValue = ""
	f.Float64SliceVar(&s.Mean, "mean", nil, "`values` to subtract from the noisy input: one value, or one per channel")
	f.Float64SliceVar(&s.Std, "std", nil, "`values` by which to divide the noisy input after --mean is subtracted: one value, or one per channel")
	group(cmd, "How the model is fed")
}

// addExampleFlags adds the flags for the noise and the examples.
func addExampleFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	choiceVar(f, &s.Noise, "noise", spec.Lattice, spec.NoiseKinds, "kind of the noise: "+spec.NoiseKinds.Described())
	integerVar(f, &s.Seed, "seed", 0, "seed of the noise; default: a seed that the operating system draws and the run records")
	integerVar(f, &s.Skip, "skip", 1, "use only every `k`-th example of the dataset")
	integerVar(f, &s.Max, "max", 0, "maximum number of examples; 0 means all examples")
	choiceVar(f, &s.Select, "select", spec.First, spec.Selections, "which examples --max keeps (default: 'spread' for data sorted by class, otherwise 'first'): "+spec.Selections.Described())
	s.Shard = spec.Whole
	f.Var(shardFlag{&s.Shard}, "shard", "run only shard `i/k`: every k-th example from example i on, where 0 ≤ i < k; 'auto' is the shard of this task in a Slurm array or a Kubernetes Indexed Job")
	group(cmd, "Noise and examples")
}

// addDenoiserFlags adds the flags for a denoiser before the model.
func addDenoiserFlags(cmd *cobra.Command, s *spec.Spec) {
	f := cmd.Flags()
	f.StringVar(&s.Denoiser, "denoiser", "", "ONNX `file` of a denoiser that runs before the model; the certificates hold for the denoiser and the model together (docs/denoiser.md)")
	choiceVar(f, &s.DenoiserKind, "denoiser-kind", graph.DenoisedImage, graph.DenoiserKinds, "kind of the denoiser: "+graph.DenoiserKinds.Described())
	f.Float64SliceVar(&s.DenoiserRange, "denoiser-range", nil, "two `values` of the denoiser: the first for the data value 0, the second for the data value 1; default: 0,1 (for a diffusion model -1,1)")
	f.StringVar(&s.DiffusionSchedule, "diffusion-schedule", "linear", "noise schedule of a diffusion model: 'linear', 'cosine', or a `file` whose lines hold the ᾱ of the timesteps")
}
