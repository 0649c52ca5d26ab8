// Package spec defines experiments. An experiment consists of a model, data, noise, the parameters that say how to
// combine them, and the device that runs the model. Package experiment opens experiments.
package spec

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
)

// Expected holds the SHA-256s, in hex, of the files that a recorded run used. An empty digest allows any file.
type Expected struct {
	Run                   string // path of the run, for messages
	Model, Data, Denoiser string
}

// Spec describes an experiment. Every command that samples a model starts from a Spec.
type Spec struct {
	Model, Data string   // paths
	Further     []string // paths of further models, whose scores are averaged with the scores of Model; empty for one model
	Denoiser    string   // path of the denoiser in front of Model; empty for none

	// DataOptions says how the data are loaded.
	DataOptions dataset.Options

	Smoothing
	Conditions

	// KeepOutputs means that the command uses the model's outputs in addition to the votes.
	KeepOutputs bool
	// SmallerBatches means that the command also runs batches smaller than Batch.
	SmallerBatches bool
	// KeepSource means that the command builds further graphs from the model, to compute gradients.
	KeepSource bool

	// FixedSeed is the seed of the noise, for example to repeat the noise of another run. If FixedSeed is nil, the
	// function experiment.Open draws a random seed from the operating system.
	FixedSeed *uint64
	// FixedSelect says which examples are used if Max limits their number. If FixedSelect is nil, the function
	// experiment.Open chooses the rule from the order of the data.
	FixedSelect *Selection

	// ModelLayout means that the values of a flat row have the same order as the values of the model's input. If the
	// data are flat rows and the model takes images, the function experiment.Open then sets Layout to the layout of the
	// model's input.
	ModelLayout bool

	// Lattice, if not nil, is the lattice of another run, and the noise of this experiment is drawn on it. If Lattice
	// is nil, the data determine the lattice.
	Lattice *RunLattice

	// Scales says where the scales of the columns come from. The function experiment.Open writes them into the field
	// SigmaColumns.
	Scales Scales

	// Requests replaces Data if the inputs arrive one by one. Requests needs the field Lattice, except for noise of the
	// kind Float.
	Requests *Requests

	// Expected holds the digests of the files of a recorded run. An experiment that repeats this run needs the same
	// files.
	Expected Expected

	Library string // path of ONNX Runtime; if empty, rscert searches for it
	Device  onnx.Device
	NoiseOn NoiseOn // empty means NoiseOnAuto
	Batch   int     // samples per call; 0 means automatic
	Threads int     // 0 means one thread per core
}

// RunLattice is the lattice that a run's run.json records.
type RunLattice struct {
	Inputs    string  // the lattice of the run's data, as the text that dataset.Lattice.String returns
	Quantised bool    // the classifier clamps its inputs to [Low, High] and rounds them to a lattice
	Low, High float64 // 0 unless Quantised
	// If Round is true, an input that is not on the lattice is moved to the nearest lattice point. If Round is false,
	// an input off the lattice is an error.
	Round bool
	// Columns holds the ranges of the columns, if each column has its own lattice.
	Columns []LatticeColumn
}

// LatticeColumn is the lattice of a column.
type LatticeColumn struct {
	Quantised bool    // the classifier rounds the column's values, and clamps them to [Low, High]
	Low, High float64 // 0 unless Quantised
}

// Requests describes the inputs that arrive one by one in requests.
type Requests struct {
	Shape []int // shape of an input, in the form of Dataset.Shape
	Bytes bool  // values are bytes divided by 255
}

// Idle names a flag that has no effect without another flag.
type Idle struct{ Flag, Without string }

// Settle fills in the fields that follow from other fields. It returns the flags that have no effect. If such a flag
// belongs to a field of Conditions, Settle clears this field.
func (s *Spec) Settle() (idle []Idle) {
	s.Noise = cmp.Or(s.Noise, Lattice)
	if s.Noise != Lattice {
		idle = append(idle, Idle{"noise-on", "noise lattice"})
	}
	if len(s.Further) == 0 {
		s.Average = ""
		idle = append(idle, Idle{"average", "model given twice"})
	} else {
		s.Average = cmp.Or(s.Average, graph.AverageLogits)
	}
	return append(idle, s.settleDenoiser()...)
}

// settleDenoiser does the work of Settle for the denoiser's parameters.
func (s *Spec) settleDenoiser() (idle []Idle) {
	switch {
	case s.Denoiser == "":
		s.DenoiserKind, s.DenoiserRange, s.DiffusionSchedule = "", nil, ""
		for _, flag := range []string{"denoiser-kind", "denoiser-range", "diffusion-schedule"} {
			idle = append(idle, Idle{flag, "denoiser"})
		}
		return idle
	case !s.DenoiserKind.Diffusion():
		s.DenoiserKind, s.DiffusionSchedule = graph.DenoisedImage, ""
		idle = append(idle, Idle{"diffusion-schedule", "denoiser-kind epsilon or x0"})
	default:
		s.DiffusionSchedule = cmp.Or(s.DiffusionSchedule, "linear")
	}
	if len(s.DenoiserRange) == 0 {
		s.DenoiserRange = []float64{0, 1}
		if s.DenoiserKind.Diffusion() {
			s.DenoiserRange = []float64{-1, 1}
		}
	}
	return idle
}

// Models returns the paths of all models.
func (s Spec) Models() []string { return append([]string{s.Model}, s.Further...) }

// ModelName returns the path of the model or, for an ensemble, the paths of all models.
func (s Spec) ModelName() string { return strings.Join(s.Models(), " + ") }

// Tuning returns the options that affect how the device chooses its kernels.
func (s Spec) Tuning() onnx.Tuning {
	return onnx.Tuning{PreferNHWC: s.PreferNHWC, ConvSearch: s.ConvSearch}
}

// maxThreads limits the number of threads, because each thread holds a batch in memory. It exceeds the number of cores
// of any usual machine.
const maxThreads = 1024

// Missing returns the InputError for missing required parameters. The caller must pass at least one name.
func Missing(names ...param.Name) error {
	said := param.Textf("%s is missing", names[0])
	if last := len(names) - 1; last > 0 {
		list := param.Textf("%s", names[0])
		for _, name := range names[1:last] {
			list = param.Textf("%s, %s", list, name)
		}
		said = param.Textf("%s and %s are missing", list, names[last])
	}
	return hint.Add(BadInputf("%s", said), "see 'rscert certify %s'", param.Help)
}

// MissingParameters returns the required parameters that are not given. If only sigma is missing, the list is empty,
// because Validate itself refuses a sigma of 0.
func (s Spec) MissingParameters() (names []param.Name) {
	if slices.Contains(s.Models(), "") {
		names = append(names, param.Model)
	}
	if s.Data == "" && s.Requests == nil {
		names = append(names, param.Data)
	}
	if len(names) > 0 && s.Noise != NoNoise && s.needsSigma() && s.Sigma == 0 {
		names = append(names, param.Sigma)
	}
	return names
}

// Validate checks everything that can be checked before the model and the data are open. Its errors are InputErrors.
func (s Spec) Validate() error {
	if missing := s.MissingParameters(); len(missing) > 0 {
		return Missing(missing...)
	}
	switch {
	case s.Noise != NoNoise && s.needsSigma() && (!(s.Sigma > 0) || math.IsInf(s.Sigma, 0)):
		return BadInputf("%s %v: want a number above 0", param.Sigma, s.Sigma)
	case s.Noise == Float && s.Law.Law() != law.Gaussian:
		return BadInputf("%s float: is for %s, not for %s %s", param.Noise, law.Gaussian.Words().Noise, param.Law, s.Law)
	case s.NoiseOn == NoiseOnDevice && s.Law.Deterministic():
		return BadInputf("%s %s: %s %s is made on the %s", param.NoiseOn, s.NoiseOn, param.Law, s.Law, NoiseOnHost)
	case s.Skip < 1:
		return BadInputf("%s %d: want at least 1", param.Skip, s.Skip)
	case s.Max < 0:
		return BadInputf("%s %d: want at least 0", param.Max, s.Max)
	case s.Shard.K < 1 || s.Shard.I < 0 || s.Shard.I >= s.Shard.K:
		return BadInputf("%s %s: want i/k with 0 ≤ i < k", param.Shard, s.Shard)
	case s.Batch < 0:
		return BadInputf("%s %d: want at least 0", param.Batch, s.Batch)
	case s.Threads < 0 || s.Threads > maxThreads:
		return BadInputf("%s %d: want 0 to %d", param.Threads, s.Threads, maxThreads)
	}
	if err := s.Device.Check(s.Precision, s.Tuning()); err != nil {
		return BadInput(err)
	}
	if err := s.validateScales(); err != nil {
		return err
	}
	return s.validateDenoiser()
}

// needsSigma reports whether Sigma must be given.
func (s Spec) needsSigma() bool { return !s.Scales.Given() || s.Scales.Kind != "" }

// validateDenoiser does the work of Validate for the denoiser's parameters.
func (s Spec) validateDenoiser() error {
	if s.Denoiser == "" {
		return nil
	}
	if r := s.DenoiserRange; len(r) != 2 || !(r[0] < r[1]) || math.IsInf(float64(float32(r[1]-r[0])), 0) {
		return BadInputf("%s %v: want two numbers, LOW,HIGH", param.DenoiserRange, r)
	}
	if err := CheckChannelValues(param.Mean, s.Mean); err != nil {
		return err
	}
	return CheckChannelValues(param.Std, s.Std)
}

// CheckChannelValues checks that the values of the parameter 'mean' or 'std' are finite as float32, and that the values
// of 'std' are above 0.
func CheckChannelValues(of param.Name, values []float64) error {
	for _, v := range values {
		if x := float32(v); x-x != 0 || (of == param.Std && !(x > 0)) {
			return BadInputf("%s %v: want numbers within float32, for %s above 0", of, values, param.Std)
		}
	}
	return nil
}
