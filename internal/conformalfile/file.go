// Package conformalfile reads and writes the files of conformal prediction. The file conformal.json holds a fitted
// predictor with everything that its sets depend on. The file sets.jsonl holds prediction sets, one line per input.
package conformalfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// Schema is the version of conformal.json that this package writes. The package refuses files of newer versions. A new
// version only adds members to the file.
const Schema = 1

// File is the content of conformal.json.
type File struct {
	Schema  int    `json:"schema"`
	Version string `json:"rscert"` // version of rscert
	// Predictor holds the rule, its numbers and its thresholds.
	Predictor conformal.Predictor `json:"predictor"`
	// Sound is false if the sets have no guarantee under attack. In this case Why holds the reason.
	Sound bool   `json:"sound"`
	Why   string `json:"why,omitempty"`
	// Arithmetic says whether the guarantee holds for the noise that the computer added, or only for idealised noise.
	Arithmetic certify.Arithmetic `json:"arithmetic"`
	// Temperature is the temperature of the softmax that turned logits into probabilities.
	Temperature float64 `json:"temperature"`
	// Allowance is the length that rounding to the lattice can add to the distance between two inputs. It is 0 for
	// inputs on a lattice. The predictor's shift ρ includes this length.
	Allowance float64 `json:"allowance,omitempty"`

	// Calibration says where the scores of the calibration examples come from.
	Calibration Calibration `json:"calibration"`
	// Classifier is the sampled classifier. It is nil if the scores came from a file that no run of rscert wrote.
	Classifier *Classifier `json:"classifier,omitempty"`

	id string
}

// Calibration identifies the calibration examples.
type Calibration struct {
	Run    string `json:"run,omitempty"`    // run folder with the saved scores
	RunID  string `json:"run_id,omitempty"` // ID of this run
	Scores string `json:"scores,omitempty"` // file of scores that belongs to no run
	SHA256 string `json:"sha256,omitempty"` // SHA-256 of this file
	// Examples is a digest of the scores in the file of scores. It depends neither on the compression of that file nor
	// on the order of the scores.
	Examples string          `json:"examples_sha256,omitempty"`
	Data     *runfolder.Data `json:"data,omitempty"`  // nil for a file of scores
	Group    string          `json:"group,omitempty"` // column with the groups
}

// Classifier identifies the sampled classifier, as run.json does.
type Classifier struct {
	Model      runfolder.Model   `json:"model"`
	Smoothing  spec.Smoothing    `json:"smoothing"`
	Conditions spec.Conditions   `json:"conditions"`
	Noise      runfolder.Noise   `json:"noise"`
	Runtime    runfolder.Runtime `json:"runtime"`
}

// Noiseless reports whether the model runs without noise.
func (c *Classifier) Noiseless() bool { return c.Smoothing.Sigma == 0 }

// ClassifierOf returns the classifier of a run.
func ClassifierOf(run runfolder.Run) *Classifier {
	return &Classifier{run.Model, run.Parameters.Smoothing, run.Parameters.Conditions, run.Noise, run.Runtime}
}

// Run describes the classifier and the calibration data as run.json would. The description contains no certification.
func (f *File) Run() runfolder.Run {
	c := f.Classifier
	r := runfolder.Run{
		Schema: runfolder.Schema, Version: f.Version, Model: c.Model, Noise: c.Noise, Runtime: c.Runtime,
		Parameters: runfolder.Parameters{Smoothing: c.Smoothing, Conditions: c.Conditions},
	}
	if f.Calibration.Data != nil {
		r.Data = *f.Calibration.Data
	}
	return r
}

// IncludesAll reports whether every set contains every class. This happens if there are too few calibration examples.
func (f *File) IncludesAll() bool {
	for _, c := range f.Predictor.Cells {
		if !math.IsInf(float64(c.Tau), -1) {
			return false
		}
	}
	return true
}

// Statement says in words what the sets guarantee. For idealised noise, it also says that the noise is idealised. The
// text has no full stop.
func (f *File) Statement() string {
	if !f.Predictor.Sound {
		return f.Predictor.Statement
	}
	return f.Predictor.Statement + proviso(f.Arithmetic, f.Classifier == nil)
}

// proviso returns the text that Statement adds to the guarantee. For idealised arithmetic, the text names the
// additional conditions. For exact arithmetic it is empty. The argument 'elsewhere' is true if the scores come from a
// file that names no run.
func proviso(a certify.Arithmetic, elsewhere bool) string {
	switch {
	case a == certify.Exact:
		return ""
	case elsewhere:
		return "; for idealised noise, if the noise of these scores was drawn as stated, fresh and secret"
	}
	return "; for idealised noise, not for the floats that were run"
}

// ID returns the ID of the predictor: 16 hex digits that depend on the whole content of the file.
func (f *File) ID() string { return f.id }

// Encode returns the text of the file, with a checksum.
func (f *File) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	f.id = identify(b.Bytes())
	return checksum.Seal(b.Bytes()), nil
}

func identify(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf("%x", sum[:8])
}

// Write writes the file, which appears whole or not at all.
func (f *File) Write(path string) error {
	text, err := f.Encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}

// maxSize is the maximum size of conformal.json in bytes. A file with a threshold for each of a million classes is
// smaller.
const maxSize = 256 << 20

// openRegular opens a regular file. It refuses folders, devices and pipes.
func openRegular(path string) (*os.File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s: is no regular file", path), in.Close())
	}
	return in, nil
}

// Read reads and validates a conformal.json.
func Read(path string) (*File, error) {
	in, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("has more than %d MiB", maxSize>>20)
	}
	var f *File
	if err == nil {
		f, err = decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func decode(text []byte) (*File, error) {
	var version struct {
		Schema    int             `json:"schema"`
		Version   string          `json:"rscert"`
		Predictor json.RawMessage `json:"predictor"`
	}
	if err := json.Unmarshal(text, &version); err != nil || version.Schema < 1 || version.Predictor == nil {
		return nil, hint.New("is no conformal.json", "'rscert conformal fit' writes one")
	}
	if version.Schema > Schema {
		return nil, fmt.Errorf("written in format %d by rscert %.40q; this rscert reads formats up to %d", version.Schema, version.Version, Schema)
	}
	body, state := checksum.VerifySealed(text)
	if state != checksum.Good {
		return nil, errors.New("has changed since it was written: its checksum does not match")
	}
	f := &File{id: identify(body)}
	if err := json.Unmarshal(body, f); err != nil {
		return nil, err
	}
	return f, f.validate()
}

// validate returns an error if the file contradicts itself. The checksum alone is not enough, because it is no
// protection against deliberate changes.
func (f *File) validate() error {
	if err := f.Predictor.Validate(); err != nil {
		return err
	}
	switch c := f.Classifier; {
	case !(f.Temperature > 0):
		return fmt.Errorf("temperature %v: want a number above 0", f.Temperature)
	case !(f.Allowance >= 0):
		return fmt.Errorf("allowance %v: want a number from 0", f.Allowance)
	case c == nil && f.Calibration.Scores == "":
		return errors.New("names neither a classifier nor a file of scores")
	case c != nil && f.Calibration.Data == nil:
		return errors.New("names no calibration data")
	case c != nil && c.Model.Classes != f.Predictor.Labels:
		return fmt.Errorf("its model has %d classes, and its predictor %d", c.Model.Classes, f.Predictor.Labels)
	case c != nil && (c.Smoothing.Sigma != f.Predictor.Attack.Scale || c.Smoothing.Law.Law() != f.Predictor.Attack.Law.Law() && !c.Noiseless()):
		return errors.New("its predictor is for other noise than its classifier's")
	case c != nil && !c.Noiseless() && c.Noise.Quantised != f.Predictor.OwnRange:
		return errors.New("its predictor and its classifier disagree on whether inputs are clamped to the range of the calibration data")
	case c != nil && !c.Noiseless() && f.Predictor.Attack.Rounding < f.Allowance:
		return fmt.Errorf("its predictor allows for a rounding of %v, and its classifier rounds by %v", f.Predictor.Attack.Rounding, f.Allowance)
	}
	if f.Sound && !f.Predictor.Sound {
		return errors.New("claims a guarantee that its rule does not have")
	}
	return nil
}
