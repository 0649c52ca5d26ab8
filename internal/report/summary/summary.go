// Package summary summarises the evidence of runs: the accuracy of a classifier, its certified accuracy by radius, the
// worst calibration under attack, and the conditions. The type Summary holds the results. Tables, curves and pages show
// them, and requirements are checked against them.
//
// Read reads the evidence. New summarises the evidence and reads no file. Each share is an exact count of examples,
// divided by the number of examples. Each share has an exact interval, for examples drawn independently from a
// population (Clopper & Pearson 1934). Bounds are rounded to the safe side.
package summary

import (
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
)

// Summary summarises the evidence of one run, or of one file that does not belong to a run.
type Summary struct {
	Name       string     `json:"name"` // Options.Name or, if that is empty, the last part of the path
	Path       string     `json:"path"`
	Kind       Kind       `json:"kind"`
	Conditions Conditions `json:"conditions"`

	// Examples is the number of certified examples. Selected is the number of examples that the run should certify. If
	// Selected is larger than Examples, the run is unfinished.
	Examples int `json:"examples"`
	Selected int `json:"selected"`
	// NotCounted is set if the certificates are not from a run folder and do not state the number of sampled examples.
	// Then some certificates may be missing.
	NotCounted bool `json:"-"`
	// Labelled is the number of examples with a label. Without labels there is no accuracy.
	Labelled int `json:"labelled"`

	// Level is the confidence level of each single interval. The intervals are for the accuracy over a population, and
	// assume that the examples were drawn independently from this population. They do not account for the randomness of
	// the noise.
	Level float64 `json:"level"`
	// Dataset states how many certificates of the selected examples may be wrong. Dataset is nil if the certificates
	// are not known to be sound, or if their α is unknown. Dataset is a statement about the selected examples, not
	// about a population.
	Dataset *Statement `json:"dataset,omitempty"`

	Clean     *Share `json:"clean_accuracy,omitempty"`    // accuracy without noise; not certified
	Smoothed  *Share `json:"smoothed_accuracy,omitempty"` // accuracy of the class with the most votes; not certified
	Abstained Share  `json:"abstained"`

	Curve         []CurvePoint `json:"certified_accuracy"` // in ascending order of radius
	AverageRadius Average      `json:"average_certified_radius"`
	Classes       []Class      `json:"classes,omitempty"`  // by true class, ascending
	ByGroup       *ByGroup     `json:"by_group,omitempty"` // if requested (Options.Groups)

	Calibration []Calibration `json:"calibration,omitempty"` // in ascending order of radius; empty without bounds
	// bins of a reliability diagram without attack; the vote shares are the confidences
	Reliability *Reliability `json:"reliability,omitempty"`

	// Norms holds the certified accuracy in further norms (Options.Norms).
	Norms []InNorm `json:"norms,omitempty"`

	// Selective is the error among the answered inputs, if requested (Source.Selection).
	Selective []Selective `json:"selective_error,omitempty"`

	// PA is the distribution of the bounds on p_A (Options.PA).
	PA *PA `json:"p_a,omitempty"`

	// Columns says what a radius means in each column's own units. It is only set for a run whose noise has a scale for
	// each column.
	Columns *Columns `json:"columns,omitempty"`

	// Sets is not nil if the evidence consists of prediction sets. All fields above, except Name and Path, are then
	// empty.
	Sets *Sets `json:"-"`

	// CalibrationError is not nil if the evidence consists of bounds on the calibration error without attack. All
	// fields above, except Name and Path, are then empty.
	CalibrationError *CalibrationError `json:"-"`

	// Cautions says which statements have too few examples or samples.
	Cautions []Caution `json:"cautions,omitempty"`

	// Audit holds the results of an audit of the run. It is nil if the run was not audited.
	Audit *Audit `json:"audit,omitempty"`

	// Choices is Options.Choices: the number of runs from which the best run is chosen.
	Choices int `json:"-"`
	// RoundRadii says that the radii of Curve are round numbers that depend on the certified radii of the runs.
	RoundRadii bool `json:"-"`

	// Rows are the examples, in the order of the file.
	Rows []Row `json:"-"`
	// Run is the content of run.json. It is nil for a file that does not belong to a run.
	Run *runfolder.Run `json:"-"`

	selection *Selection
	grouped   *grouped
	delta     float64 // Options.Delta, divided by Choices
}

// Delta returns the allowed error probability of each statement that the summary makes about all its examples.
func (s Summary) Delta() float64 { return s.delta }

// CalibrationError holds bounds on the calibration error E|s − P(y=1|s)|.
type CalibrationError struct {
	Lower       float64
	LowerMethod string
	Upper       float64
	UpperMethod string // "" if there is no sound upper bound
	Examples    int
	// WorstGroup bounds the largest error of a group, and WorstClass bounds the largest error of a class. Classwise
	// bounds the mean error of all classes. A field is nil if its bounds were not computed.
	WorstGroup, WorstClass, Classwise *CalibrationError
}

// Sets counts prediction sets.
type Sets struct {
	Inputs   int    // number of sets
	Size     int64  // sum of the sizes of the sets
	Labelled int    // number of sets whose input has a label
	Covered  int    // number of sets that contain the label
	Unsound  int    // number of sets without a guarantee
	Why      string // reason why these sets have no guarantee
}

// Kind says what the evidence consists of.
type Kind string

// These constants are the kinds of evidence.
const (
	RunKind          Kind = "run"          // a run folder
	CertificatesKind Kind = "certificates" // certificates in the format of certificates.jsonl, without a run
	LogKind          Kind = "log"          // a log with the columns of Cohen et al. 2019
)

// Conditions are the settings behind the numbers. Unknown settings are nil or empty.
type Conditions struct {
	Method     string `json:"method,omitempty"`
	MarginKind string `json:"margin_kind,omitempty"`
	Class      string `json:"class,omitempty"` // the class that the certificates are about: "predicted" or "label"
	// Sound means that each certificate fails with probability at most Alpha. Sound is nil if the soundness is unknown.
	Sound *bool `json:"sound,omitempty"`
	// Arithmetic says for which noise the certificates hold. If Arithmetic is 'exact', the certificates hold for the
	// noise that the run drew. If the arithmetic is unknown, it counts as 'idealised': the certificates then hold for
	// real-valued noise, which the computed floats approximate.
	Arithmetic certify.Arithmetic `json:"arithmetic"`
	Precision  string             `json:"precision,omitempty"`
	Alpha      *float64           `json:"alpha,omitempty"` // failure probability of each certificate
	Law        law.Name           `json:"law,omitempty"`   // law of the noise
	Sigma      *float64           `json:"sigma,omitempty"` // scale of the noise
	// Deterministic means that the certificates hold with certainty; Alpha is then 0.
	Deterministic bool     `json:"deterministic,omitempty"`
	Norm          law.Norm `json:"norm"` // norm of the radii; a log (LogKind) states no norm, and Norm is then L2
	// Scaled means that the radii are in units of the scales of the columns (certify.Target.Scaled). Sigma is then 1.
	Scaled  bool   `json:"scaled,omitempty"`
	N       int64  `json:"n,omitempty"` // largest number of estimation samples of an example
	N0      int64  `json:"n0,omitempty"`
	Stop    string `json:"stop,omitempty"`
	Samples int64  `json:"samples,omitempty"` // estimation samples of all examples
	// The classifier may round its inputs to a lattice. The rounding reduces each radius by at most Quantisation.
	Quantisation float64 `json:"quantisation,omitempty"`
	Noise        string  `json:"noise,omitempty"` // spec.NoiseKind of the run, for example "lattice"
	Seed         *uint64 `json:"seed,omitempty"`
	Lipschitz    float64 `json:"lipschitz,omitempty"`

	Model *File `json:"model,omitempty"`
	// Denoiser is the model that runs before the classifier. The certificates hold for the two models together.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
	// Average and Members describe the model if it is an ensemble.
	Average graph.Average      `json:"average,omitempty"`
	Members []runfolder.Member `json:"members,omitempty"`
	// Composition says how certificates of several runs were composed ('rscert combine').
	Composition string `json:"composition,omitempty"`
	Data        *File  `json:"data,omitempty"`
	Shard       string `json:"shard,omitempty"` // the shard or shards that the run consists of; empty for a whole run
	// If the results of another run decided which examples were selected, the field Only says how they were selected.
	// Then a share of these examples does not estimate a share of the dataset.
	Only     string `json:"only,omitempty"`
	Provider string `json:"provider,omitempty"`
	Device   string `json:"device,omitempty"`
	Version  string `json:"rscert,omitempty"`
	certify.Claim
}

// Norms lists the norms of the radii of the runs, for example "L2".
func Norms(runs []Summary) string {
	var titles []string
	for _, s := range runs {
		if t := s.Conditions.NormTitle(); !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
	}
	return strings.Join(titles, " or ")
}

// OneNorm reports whether all radii are in the same norm and in the same units. Otherwise they are not comparable.
func OneNorm(runs []Summary) bool {
	return !slices.ContainsFunc(runs, func(s Summary) bool {
		return s.Conditions.Norm != runs[0].Conditions.Norm || !SameScales(s, runs[0])
	})
}

// ScaleSymbol returns the symbol of the scale of the noise, for example "σ". It returns "scale" if the laws of the runs
// have different symbols.
func ScaleSymbol(runs []Summary) string {
	symbol := ""
	for _, s := range runs {
		of := s.Conditions.Law.Law().Words().Symbol
		if symbol != "" && symbol != of {
			return "scale"
		}
		symbol = of
	}
	return symbol
}

// File identifies an input of a run.
type File struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// Certifies reports whether the numbers certify the classifier that ran. The numbers certify this classifier if the
// certificates are sound and the arithmetic of the certificates is exact.
func (c Conditions) Certifies() bool {
	return c.Sound != nil && *c.Sound && c.Arithmetic == certify.Exact
}

// Statement bounds the number of wrong certificates of some examples. The field Examples is the number of these
// examples. With probability at least 1 − Delta over the noise, at most Failures of these certificates are wrong. Each
// certificate fails independently with probability at most Alpha (binomial.FailureQuantile). For deterministic
// certificates, Delta, Alpha and Failures are 0, because no certificate is wrong.
type Statement struct {
	Delta    float64 `json:"delta"`
	Alpha    float64 `json:"alpha"`
	Examples int     `json:"examples"`
	Failures int64   `json:"failures"`
}

// Share says how many of some examples have a certain property.
type Share struct {
	Count int `json:"count"`
	Of    int `json:"of"`
	// Value is Count/Of. The interval from Low to High is the Clopper–Pearson interval at the Level of the summary.
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// CurvePoint is a point of the certified accuracy curve: the share of examples whose certified class is the label and
// whose certified radius is at least Radius.
type CurvePoint struct {
	Radius   float64 `json:"radius"`
	Accuracy Share   `json:"accuracy"`
	// Certified is (Count − Failures)/Of, rounded down. With probability 1 − Dataset.Delta, it is a lower bound on the
	// certified accuracy of the summarised examples. This lower bound holds for all radii at once, because the wrong
	// certificates are the same at each radius. Certified is nil without Dataset.
	Certified *float64 `json:"certified,omitempty"`
}

// Average is the average certified radius (ACR, Zhai et al. 2020). A wrong or abstained example counts as 0.
type Average struct {
	Value float64 `json:"value"` // rounded down
	// The interval from Low to High is a betting interval (Waudby-Smith & Ramdas 2024) at the Level of the summary.
	// Both ends are nil if the largest possible radius is not known beforehand.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// With probability 1 − Dataset.Delta, Certified is a lower bound on the average radius of the summarised examples.
	// In this bound, the largest radii count as 0. Dataset.Failures is the number of these radii. Certified is nil
	// without Dataset.
	Certified *float64 `json:"certified,omitempty"`
	// Largest is the largest radius that a sound method can certify with n samples at α. Largest is nil if this radius
	// is unknown.
	Largest *float64 `json:"largest_possible,omitempty"`
}

// Class summarises the examples of one true class.
type Class struct {
	Label     int     `json:"label"`
	Examples  int     `json:"examples"`
	Clean     *Share  `json:"clean_accuracy,omitempty"`
	Smoothed  *Share  `json:"smoothed_accuracy,omitempty"`
	Abstained Share   `json:"abstained"`
	Certified []Share `json:"certified_accuracy"` // at the radii of Summary.Curve
	// AverageRadius is the class's average radius, rounded down.
	AverageRadius float64 `json:"average_certified_radius"`
}

// Calibration is the worst calibration under attacks within a radius (package acce).
type Calibration struct {
	Radius *float64 `json:"radius,omitempty"` // nil if the bounds state no radius
	N      int      `json:"n"`                // number of examples with a certified class at this radius
	Bins   int      `json:"bins"`
	ECE    *float64 `json:"ece,omitempty"` // for these N examples, without attack
	CBS    float64  `json:"cbs"`           // value if all bounds on the confidences hold
	CCE    float64  `json:"cce"`
	// Certified holds with probability 1 − δ for the summarised examples. Certified is nil if α is unknown.
	Certified   *CertifiedCalibration `json:"certified,omitempty"`
	Thresholded []Thresholded         `json:"thresholded,omitempty"` // ascending in τ
	// ByGroup holds the calibration under attack of each group. It is nil without groups.
	ByGroup *acce.ByGroup `json:"by_group,omitempty"`
}

// CertifiedCalibration is the worst calibration if the number of wrong bounds on the confidence is Failures. With
// probability at least 1 − Delta, at most Failures of these bounds are wrong.
type CertifiedCalibration struct {
	Statement
	CBS float64 `json:"cbs"`
	CCE float64 `json:"cce"`
}

// Thresholded is the certified confidence-thresholded error. It concerns the examples that are answered with a
// confidence of at least Tau under an attack within the radius. For any attack, at most the share Wrong/(Wrong+Right)
// of these examples gets a wrong answer.
type Thresholded struct {
	Tau   float64 `json:"tau"`
	Wrong int     `json:"wrong"` // number of examples that may get a wrong answer
	Right int     `json:"right"` // number of examples that get a correct answer under any attack
	Error float64 `json:"error"` // upper bound on the error; it holds if every bound on the confidence holds
	// Certified is an upper bound on the error. It holds with probability 1 − δ for the summarised examples. Certified
	// is nil if α is unknown.
	Certified *float64 `json:"certified,omitempty"`
	// Failures is the number of bounds that may be wrong, among the bounds of all sampled examples.
	Failures int64 `json:"failures"`
}

// Reliability holds the bins of a reliability diagram with the vote shares as confidences.
type Reliability struct {
	Level float64      `json:"level"`
	ECE   float64      `json:"ece"`
	Bins  []calib.Bin  `json:"bins"`
	Bands [][2]float64 `json:"bands"` // interval for the accuracy of each bin (calib.Bands)
}

// Unknown stands for a class that the evidence does not state.
const Unknown = -2

// Row holds the results of an example. A report may hold millions of rows, so Row must be small.
type Row struct {
	Index      int
	Label      int // −1 if unknown
	Prediction int
	Correct    bool
	Unbounded  bool    // whether Radius stands for +∞
	Radius     float64 // certified radius; 0 for an abstention
	N          int64   // number of estimation samples
	PA         float64 // certified lower bound on the probability of the certified class; NaN if unknown
	// Clean is the model's class without noise, or −1 for no answer. Smoothed is the class with the most votes. Without
	// votes, Clean and Smoothed are Unknown.
	Clean, Smoothed int
	Confidence      float64 // number of samples that vote for the class Smoothed, divided by the number of all samples
}

// CertifiedRadius returns the radius of a correct example, and 0 for any other example. The average certified radius is
// the mean of these values.
func (r Row) CertifiedRadius() float64 {
	if !r.Correct {
		return 0
	}
	return r.Radius
}
