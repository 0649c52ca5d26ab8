// Package summary sums up what the evidence of runs says: how accurate a classifier is, within which radius that is
// certified, how bad calibration can get, and under which conditions. Everything that shows results (tables, curves,
// pages, requirements) works on its Summary.
//
// Read finds the evidence, New sums it up and reads no file. Shares are exact counts, with exact intervals for the
// examples that were drawn (Clopper & Pearson 1934). Bounds are on the safe side.
package summary

import (
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
)

// Summary is what the evidence of one run, or of one file from elsewhere, says.
type Summary struct {
	Name       string     `json:"name"` // among others: Options.Name, or the last part of the path
	Path       string     `json:"path"`
	Kind       Kind       `json:"kind"`
	Conditions Conditions `json:"conditions"`

	// Examples were certified, Selected are those that the run is to certify: with more of them it is not finished.
	Examples int `json:"examples"`
	Selected int `json:"selected"`
	// NotCounted says that certificates from elsewhere do not say how many were sampled: others may have been left out.
	NotCounted bool `json:"-"`
	// Labelled of the examples have a label; without one there is no accuracy.
	Labelled int `json:"labelled"`

	// Level is that of every interval, each for itself: of what an accuracy is over the population that the examples
	// were drawn from, independently. It has nothing to do with the noise.
	Level float64 `json:"level"`
	// Dataset says how many of the certificates of these examples may be wrong; nil if they are not sound, or say too
	// little of themselves. It has nothing to do with a population.
	Dataset *Statement `json:"dataset,omitempty"`

	Clean     *Share `json:"clean_accuracy,omitempty"`    // without noise; an estimate, nothing is certified
	Smoothed  *Share `json:"smoothed_accuracy,omitempty"` // by the most votes; an estimate, too
	Abstained Share  `json:"abstained"`

	Curve         []CurvePoint `json:"certified_accuracy"` // ascending in the radius
	AverageRadius Average      `json:"average_certified_radius"`
	Classes       []Class      `json:"classes,omitempty"` // by true class, ascending

	Calibration []Calibration `json:"calibration,omitempty"` // ascending in the radius; where there are bounds
	Reliability *Reliability  `json:"reliability,omitempty"` // of the votes, without attack

	// Rows are the examples, in the order of the file.
	Rows []Row `json:"-"`
	// Run is the whole run.json; nil of a file from elsewhere.
	Run *runfolder.Run `json:"-"`
}

// Kind says where the evidence is from.
type Kind string

const (
	RunKind          Kind = "run"          // a run folder
	CertificatesKind Kind = "certificates" // a certificates.jsonl from elsewhere
	LogKind          Kind = "log"          // a log in the columns of Cohen et al. 2019
)

// Conditions are what the numbers depend on. Pointers are nil, and words empty, where nobody says.
type Conditions struct {
	Method     string `json:"method,omitempty"`
	MarginKind string `json:"margin_kind,omitempty"`
	Class      string `json:"class,omitempty"` // that was certified: predicted or label
	// Sound: each certificate fails with probability Alpha at most.
	Sound *bool `json:"sound,omitempty"`
	// Arithmetic says for which noise the certificates hold: exact is the one that was drawn. Idealised, where nobody says.
	Arithmetic certify.Arithmetic `json:"arithmetic"`
	Precision  string             `json:"precision,omitempty"`
	Alpha      *float64           `json:"alpha,omitempty"` // of each certificate
	Law        law.Name           `json:"law,omitempty"`   // of the noise
	Sigma      *float64           `json:"sigma,omitempty"` // its scale
	Norm       law.Norm           `json:"norm"`            // of the radii; of a log it is not said, and L2
	N          int64              `json:"n,omitempty"`     // estimation samples of an example, at most
	N0         int64              `json:"n0,omitempty"`
	Stop       string             `json:"stop,omitempty"`
	Samples    int64              `json:"samples,omitempty"` // estimation samples of all examples
	// Quantisation is the most that rounding inputs to a lattice took off a radius.
	Quantisation float64 `json:"quantisation,omitempty"`
	Noise        string  `json:"noise,omitempty"` // lattice or float
	Seed         *uint64 `json:"seed,omitempty"`
	Lipschitz    float64 `json:"lipschitz,omitempty"`

	Model *File `json:"model,omitempty"`
	// Denoiser stands in front of the model: what is certified is the pair.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
	Data     *File               `json:"data,omitempty"`
	Shard    string              `json:"shard,omitempty"` // where the run is a part of another
	Provider string              `json:"provider,omitempty"`
	Device   string              `json:"device,omitempty"`
	Version  string              `json:"rscert,omitempty"`
}

// Norms names the norms of the runs' radii, as in "L2".
func Norms(runs []Summary) string {
	var titles []string
	for _, s := range runs {
		if t := s.Conditions.Norm.Title(); !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
	}
	return strings.Join(titles, " or ")
}

// OneNorm reports whether all radii are in one norm, and so can be compared.
func OneNorm(runs []Summary) bool {
	return !slices.ContainsFunc(runs, func(s Summary) bool { return s.Conditions.Norm != runs[0].Conditions.Norm })
}

// ScaleSymbol is the symbol of the noise's scale, as in "σ", or "scale" where the runs' laws have several.
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

// Certifies reports whether the numbers are certificates for what was run: sound, and in exact arithmetic.
func (c Conditions) Certifies() bool {
	return c.Sound != nil && *c.Sound && c.Arithmetic == certify.Exact
}

// Statement: with probability at least 1 − Delta over the noise, at most Failures of the certificates of so many
// Examples are wrong, each failing with probability Alpha at most, independently (binomial.FailureQuantile).
type Statement struct {
	Delta    float64 `json:"delta"`
	Alpha    float64 `json:"alpha"`
	Examples int     `json:"examples"`
	Failures int64   `json:"failures"`
}

// Share is a part of the examples.
type Share struct {
	Count int `json:"count"`
	Of    int `json:"of"`
	// Value is Count/Of, and Low to High the Clopper–Pearson interval at the summary's Level.
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// CurvePoint is a point of the certified accuracy curve: the share of the examples whose certified class is the label
// and whose radius is at least Radius.
type CurvePoint struct {
	Radius   float64 `json:"radius"`
	Accuracy Share   `json:"accuracy"`
	// Certified is what holds for these examples with probability 1 − Dataset.Delta: (Count − Failures)/Of, rounded
	// down. Each radius for itself, and all at once: the failures are the same. Nil without Dataset.
	Certified *float64 `json:"certified,omitempty"`
}

// Average is the average certified radius (ACR, Zhai et al. 2020): a wrong or abstained example counts as 0.
type Average struct {
	Value float64 `json:"value"` // rounded down
	// Low to High is a betting interval (Waudby-Smith & Ramdas 2024) at the summary's Level; nil where the largest
	// possible radius is not known beforehand.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Certified is what holds for these examples with probability 1 − Dataset.Delta: the largest radii, so many as
	// certificates may be wrong, count as 0. Nil without Dataset.
	Certified *float64 `json:"certified,omitempty"`
	// Largest is the largest radius that a sound method can give with n samples at α; nil if that is not known.
	Largest *float64 `json:"largest_possible,omitempty"`
}

// Class are the examples of one true class.
type Class struct {
	Label     int     `json:"label"`
	Examples  int     `json:"examples"`
	Clean     *Share  `json:"clean_accuracy,omitempty"`
	Smoothed  *Share  `json:"smoothed_accuracy,omitempty"`
	Abstained Share   `json:"abstained"`
	Certified []Share `json:"certified_accuracy"` // at the radii of Summary.Curve
	// AverageRadius of the class, rounded down.
	AverageRadius float64 `json:"average_certified_radius"`
}

// Calibration is how bad calibration can get within a radius (package acce).
type Calibration struct {
	Radius *float64 `json:"radius,omitempty"` // nil if the bounds do not say
	N      int      `json:"n"`                // examples whose class is certified there
	Bins   int      `json:"bins"`
	ECE    *float64 `json:"ece,omitempty"` // of these without attack
	CBS    float64  `json:"cbs"`           // if every bound holds
	CCE    float64  `json:"cce"`
	// Certified holds with probability 1 − δ for these examples; nil if α is not known.
	Certified   *CertifiedCalibration `json:"certified,omitempty"`
	Thresholded []Thresholded         `json:"thresholded,omitempty"` // ascending in τ
}

// CertifiedCalibration is a Statement about bounds on the confidence, and what holds if so many fail.
type CertifiedCalibration struct {
	Statement
	CBS float64 `json:"cbs"`
	CCE float64 `json:"cce"`
}

// Thresholded is the certified confidence-thresholded error: of the examples that are answered, with confidence ≥ Tau,
// whatever the attack within the radius, at most the share Wrong/(Wrong+Right) is answered wrongly.
type Thresholded struct {
	Tau   float64 `json:"tau"`
	Wrong int     `json:"wrong"` // may be answered wrongly
	Right int     `json:"right"` // are answered rightly, whatever the attack
	Error float64 `json:"error"` // if every bound holds
	// Certified holds with probability 1 − δ for these examples; nil if α is not known.
	Certified *float64 `json:"certified,omitempty"`
	// Failures are the bounds that may not hold, of all that were sampled.
	Failures int64 `json:"failures"`
}

// Reliability are the bins of a reliability diagram: of the shares of the votes as confidences.
type Reliability struct {
	Level float64      `json:"level"`
	ECE   float64      `json:"ece"`
	Bins  []calib.Bin  `json:"bins"`
	Bands [][2]float64 `json:"bands"` // of the accuracy in each bin
}

// Row is an example.
type Row struct {
	Index      int  `json:"index"`
	Label      int  `json:"label"` // −1 if it is not known
	Prediction int  `json:"prediction"`
	Correct    bool `json:"correct"`
	// Radius is the certified one, 0 of an abstained example. Unbounded: it stands for +∞.
	Radius    float64 `json:"radius"`
	Unbounded bool    `json:"unbounded,omitempty"`
	N         int64   `json:"n,omitempty"` // estimation samples
	// Clean is the model's class without noise (−1: none) and Smoothed the one with the most votes; nil if not known.
	Clean    *int `json:"clean,omitempty"`
	Smoothed *int `json:"smoothed,omitempty"`
	// Confidence is the share of the votes for Smoothed; Counts [m] are all votes.
	Confidence *float64 `json:"confidence,omitempty"`
	Counts     []int64  `json:"counts,omitempty"`
	// Bounds are those on the confidence of the certified class, ascending in the radius.
	Bounds []Bound `json:"bounds,omitempty"`
}

// Bound is an interval of the confidence under attack within a radius.
type Bound struct {
	Radius float64 `json:"radius"`
	Lower  float64 `json:"lower"`
	Upper  float64 `json:"upper"`
}

// CertifiedRadius is the radius of a correct example, 0 of another: the term of the average certified radius.
func (r Row) CertifiedRadius() float64 {
	if !r.Correct {
		return 0
	}
	return r.Radius
}
