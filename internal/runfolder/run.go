// Package runfolder reads and writes run folders: what a certification run
// found and enough to repeat it.
//
//	run.json            what was run; written first
//	votes.jsonl         a line an example: class votes
//	certificates.jsonl  a line an example: what is certified
//	bounds.csv          with confidence radii: a row an example and radius
//
// A folder is only ever appended to. A run killed at any moment resumes where
// it stopped and ends with the same bytes as one that was never killed.
package runfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// Schema is the version of the folder's format that this package writes.
// Folders of a newer version are refused; fields are only ever added.
const Schema = 2

// Names of the files in a run folder.
const (
	RunFile          = "run.json"
	VotesFile        = "votes.jsonl"
	CertificatesFile = "certificates.jsonl"
	BoundsFile       = "bounds.csv"
	ScoresFile       = "scores.npz"
)

// Run is run.json: everything needed to repeat a run.
type Run struct {
	Schema     int        `json:"schema"`
	Version    string     `json:"rscert"` // version of the program
	Model      Model      `json:"model"`
	Data       Data       `json:"data"`
	Parameters Parameters `json:"parameters"`
	Noise      Noise      `json:"noise"`
	Runtime    Runtime    `json:"runtime"`
	// TangentSamples is Parameters.TangentSamples: what no parameter says by itself.
	TangentSamples int64 `json:"tangent_samples,omitempty"`
}

// Model identifies the ONNX model.
type Model struct {
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Input   string `json:"input"` // name, type and shape
	Output  string `json:"output"`
	Classes int    `json:"classes"`
	// Changes are the edits of the model's graph that are part of the classifier, a line each.
	Changes []string `json:"changes,omitempty"`
	// Denoiser stands in front of the model: the classifier is the pair.
	Denoiser *Denoiser `json:"denoiser,omitempty"`
}

// Denoiser identifies the ONNX model in front of the classifier. How the two work together is in the parameters.
type Denoiser struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	// Of a diffusion model: its timestep, of so many, and ᾱ there.
	Timestep  int     `json:"timestep,omitempty"`
	Timesteps int     `json:"timesteps,omitempty"`
	AlphaBar  float64 `json:"alpha_bar,omitempty"`
}

// String is the denoiser's file, and what a diffusion model is run at.
func (d *Denoiser) String() string {
	if d.Timesteps == 0 {
		return d.File
	}
	return fmt.Sprintf("%s at timestep %d of %d, ᾱ = %.6g", d.File, d.Timestep, d.Timesteps, d.AlphaBar)
}

// sum is the SHA-256 of a denoiser; "": there is none.
func (d *Denoiser) sum() string {
	if d == nil {
		return ""
	}
	return d.SHA256
}

func (d *Denoiser) describe() string {
	if d == nil {
		return "none"
	}
	return fileWithSum(d.File, d.SHA256)
}

// step is what a denoiser's timestep is.
func (d *Denoiser) step() string {
	if d == nil || d.Timesteps == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d, ᾱ = %v", d.Timestep, d.Timesteps, d.AlphaBar)
}

// Data identifies the dataset.
type Data struct {
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Format   string `json:"format"`
	Shape    []int  `json:"shape"`
	Examples int    `json:"examples"` // in the dataset
	Selected int    `json:"selected"` // of them in the run, by skip, max, select and shard
	// Shards are those that the run is merged of, where others are missing: only their examples are there.
	Shards []spec.Shard `json:"shards,omitempty"`

	Options          dataset.Options `json:"options,omitzero"`             // how the data were read
	Note             string          `json:"note,omitempty"`               // what was decided in reading
	ClassNames       string          `json:"class-names,omitempty"`        // where the names of the classes are from
	ClassNamesSHA256 string          `json:"class-names-sha256,omitempty"` // of that file
}

// Reading says how the data were read, but for where files are.
func (d Data) Reading() string {
	o := d.Options
	o.Labels, o.ClassNames = "", ""
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // options are plain values
	}
	return string(text)
}

// Runtime is what the model ran on. Threads and Batch do not change votes; Call may change the last bits of scores.
type Runtime struct {
	Library  string `json:"library"` // ONNX Runtime's version
	Provider string `json:"provider"`
	Device   string `json:"device"`
	Batch    int    `json:"batch"`
	Threads  int    `json:"threads"`
	// Call is the number of samples of one call of ONNX Runtime, and Options the
	// provider's.
	Call    int               `json:"call,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	// Independence says why no input's answer depends on the inputs beside it: "proved" or "one input a call". It is
	// missing in runs of rscert 0.1 before the proof, whose answers may depend on the batch.
	Independence string `json:"independence,omitempty"`
	// GPUs are the names of the GPUs, in the order of Device's indices.
	GPUs []string `json:"gpus,omitempty"`
	// Resumed says where the run went on on GPUs of another kind.
	Resumed []Resumption `json:"resumed,omitempty"`
	// NoiseOn says where noise was made and votes counted when the run was begun: on the host or the device. It does
	// not change votes; of runs with scores, whose last bits it may change, it is a condition (Differences).
	NoiseOn string `json:"noise_on,omitempty"`
	// Shards are what the shards of a merged run ran on.
	Shards []ShardRuntime `json:"shards,omitempty"`
}

// Resumption is what a resumed run went on on, after so many examples.
type Resumption struct {
	Examples int `json:"examples"`
	Runtime
}

// now is what the run ran on last.
func (r Runtime) now() Runtime {
	if n := len(r.Resumed); n > 0 {
		return r.Resumed[n-1].Runtime
	}
	return r
}

// kinds are the names of the GPUs, each once. How many of a kind there are changes no result.
func (r Runtime) kinds() []string { return slices.Compact(slices.Sorted(slices.Values(r.GPUs))) }

// Kinds are the names of all GPUs that the run was on, each once: when it was begun, where it went on, in all shards.
func (r Runtime) Kinds() []string {
	all := r.kinds()
	for _, on := range r.Resumed {
		all = append(all, on.Kinds()...)
	}
	for _, shard := range r.Shards {
		all = append(all, shard.Kinds()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ShardRuntime is what a shard ran on.
type ShardRuntime struct {
	Shard spec.Shard `json:"shard"`
	Runtime
}

// Read reads dir's run.json.
func Read(dir string) (Run, error) {
	path := filepath.Join(dir, RunFile)
	data, err := readWhole(path)
	if err != nil {
		return Run{}, err
	}
	r, err := decodeRun(data)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// readWhole reads a file that is no longer than a line may be.
func readWhole(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLine+1))
	if err == nil && len(data) > maxLine {
		err = fmt.Errorf("%s: has more than %d MiB", path, maxLine>>20)
	}
	return data, err
}

// decodeRun reads run.json. The version comes first: a newer one may differ in all else.
func decodeRun(data []byte) (r Run, err error) {
	var version struct {
		Schema  int    `json:"schema"`
		Version string `json:"rscert"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return r, jsonError(err)
	}
	switch {
	case version.Schema > Schema:
		return r, &FormatError{fmt.Errorf("written in format %d by rscert %.40q; this rscert reads formats up to %d", version.Schema, version.Version, Schema)}
	case version.Schema < 1:
		return r, &FormatError{errors.New("not a run folder's run.json: no schema version")}
	}
	_, state := checksum.VerifySealed(data)
	if state == checksum.Bad || (state == checksum.Absent && version.Schema >= 2) {
		return r, errors.New("has changed since it was written: its checksum does not match")
	}
	if version.Schema == 1 {
		data = dropEmpty(data)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, jsonError(err)
	}
	return r, r.validate()
}

// FormatError says that a run.json is in no format that this package reads.
type FormatError struct{ error }

func (e *FormatError) Unwrap() error { return e.error }

// dropEmpty takes out parameters that are "": format 1 wrote those that play no part so.
func dropEmpty(data []byte) []byte {
	var doc, parameters map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil || json.Unmarshal(doc["parameters"], &parameters) != nil {
		return data
	}
	maps.DeleteFunc(parameters, func(_ string, v json.RawMessage) bool { return string(v) == `""` })
	doc["parameters"], _ = json.Marshal(parameters)
	data, _ = json.Marshal(doc)
	return data
}

// validate checks what else would fail later, or not at all.
func (r Run) validate() error {
	p := r.Parameters
	if r.sealed() && (r.Data.Examples < 1 || r.Data.Selected < 1 || r.Model.Classes < 2 || p.N < 1 || p.N0 < 0 || p.Skip < 1 || p.Max < 0 || p.Shard.K < 1) {
		return errors.New("its parameters are not those of a run")
	}
	if positions := r.positions(); len(r.Data.Shards) > 0 && len(slices.Compact(positions)) != len(positions) {
		return errors.New("the shards that it is merged of overlap")
	}
	return nil
}

// positions are the positions in the dataset of the examples that the run has when it is finished, ascending.
func (r Run) positions() []int {
	p := r.Parameters
	if len(r.Data.Shards) == 0 {
		return p.Positions(r.Data.Examples)
	}
	var all []int
	for _, p.Shard = range r.Data.Shards {
		all = append(all, p.Positions(r.Data.Examples)...)
	}
	slices.Sort(all)
	return all
}

// MismatchError says what differs between a run folder and the run that wants
// to resume it.
type MismatchError struct {
	Dir         string
	Differences []string
	gaps        bool // the folder is merged, with gaps
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("cannot resume %s: %s", e.Dir, strings.Join(e.Differences, "; "))
}

// Hint says what to do.
func (e *MismatchError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint is Hint with its parameters spelled.
func (e *MismatchError) SpellHint(s param.Spelling) string {
	if e.gaps {
		return "sample the shards that are missing, then merge all of them"
	}
	return "resume with what the folder was begun with, or choose another " + s(param.Out)
}

// compatible returns a MismatchError unless a run with now would give the same
// results as the one that began the folder.
func (r Run) compatible(dir string, now Run) error {
	var diff []string
	for _, d := range r.Differences(now) {
		diff = append(diff, fmt.Sprintf("%s was %s, now %s", d.What, d.First, d.Second))
	}
	if a, b := r.Runtime.now().Call, now.Runtime.Call; r.Parameters.Scores && a != 0 && b != 0 && a != b {
		diff = append(diff, fmt.Sprintf("the samples a call (--batch), on which the last bits of scores may depend, were %d, now %d", a, b))
	}
	gaps := len(r.Data.Shards) > 0
	if gaps {
		diff = append(diff, "it is merged, and examples between its own are missing")
	}
	if len(diff) == 0 {
		return nil
	}
	return &MismatchError{dir, diff, gaps}
}

// Difference is a condition that two runs do not share.
type Difference struct {
	What   string `json:"what"`
	First  string `json:"first"`
	Second string `json:"second"`
	Of     Aspect `json:"-"`
}

// Aspect is what of a run a condition is of.
type Aspect int

const (
	OfResults     Aspect = iota // what the results are about
	OfExtent                    // which examples are sampled, and what is kept of them
	OfComputation               // by what, and in which precision, the same numbers are computed
)

// NoiseOnFlag is what a Difference is of where the noise of two runs with scores was made in different places.
const NoiseOnFlag = "--noise-on"

// aspect is that of a parameter.
func aspect(name param.Name) Aspect {
	switch name {
	case "skip", "max", "select", "shard", "save-scores":
		return OfExtent
	case "precision", "prefer-nhwc", "conv-search":
		return OfComputation
	}
	return OfResults
}

// Differences are the conditions on which results depend and that r and other do not share.
func (r Run) Differences(other Run) (diff []Difference) {
	differs := func(of Aspect, what string, first, second any) {
		if !reflect.DeepEqual(first, second) {
			diff = append(diff, Difference{what, show(first), show(second), of})
		}
	}
	if r.Model.SHA256 != other.Model.SHA256 {
		differs(OfResults, "the model", fileWithSum(r.Model.File, r.Model.SHA256), fileWithSum(other.Model.File, other.Model.SHA256))
	}
	if a, b := r.Model.Denoiser, other.Model.Denoiser; a.sum() != b.sum() {
		differs(OfResults, "the denoiser", a.describe(), b.describe())
	}
	differs(OfResults, "the denoiser's timestep", r.Model.Denoiser.step(), other.Model.Denoiser.step())
	if r.Data.SHA256 != other.Data.SHA256 {
		differs(OfResults, "the data set", fileWithSum(r.Data.File, r.Data.SHA256), fileWithSum(other.Data.File, other.Data.SHA256))
	}
	if !slices.Equal(r.Model.Changes, other.Model.Changes) {
		differs(OfResults, "what is done to the model", strings.Join(r.Model.Changes, "; "), strings.Join(other.Model.Changes, "; "))
	}
	for _, d := range r.Parameters.Differences(other.Parameters) {
		differs(aspect(d.Name), "--"+string(d.Name), d.First, d.Second) // as compare --json has always written it
	}
	differs(OfComputation, "the folder's format", r.Schema, other.Schema)
	differs(OfComputation, "rscert", r.Version, other.Version)
	differs(OfComputation, "ONNX Runtime", r.Runtime.Library, other.Runtime.Library)
	differs(OfComputation, "the provider", r.Runtime.Provider, other.Runtime.Provider)
	if a, b := r.Runtime.NoiseOn, other.Runtime.NoiseOn; r.Parameters.Scores && other.Parameters.Scores && a != "" && b != "" {
		differs(OfComputation, NoiseOnFlag, a, b) // votes do not depend on it
	}
	if !slices.ContainsFunc(diff, func(d Difference) bool { return d.Of == OfResults }) { // what else could make another table?
		differs(OfResults, "the table of the noise", r.Noise, other.Noise)
	}
	return diff
}

func fileWithSum(name, sum string) string { return fmt.Sprintf("%s with SHA-256 %.12s…", name, sum) }

func show(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "not given"
}

// ErrExists is wrapped by Create where there is something already.
var ErrExists = errors.New("exists already")

// write puts run.json into dir: whole or not at all.
func (r Run) write(dir string) error {
	data, err := encode(r, "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, RunFile), checksum.Seal(data))
}

// encode is JSON with a newline, in which radius>=0.5 stays readable.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}
