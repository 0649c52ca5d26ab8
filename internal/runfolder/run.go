// Package runfolder reads and writes run folders, which hold the results of a certification run and everything needed
// to repeat it.
//
//	run.json            model, data and parameters; written first
//	votes.jsonl         class votes, one line per example
//	certificates.jsonl  certificates, one line per example
//	bounds.csv          bounds on the confidence, one row per example and radius; only with confidence radii
//
// Results are only ever appended. A run that was killed at any moment resumes where it stopped. It ends with the same
// bytes as a run that was never killed.
package runfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// Schema is the format version that this package writes. The package refuses newer versions. A new version may add
// fields, but it never changes or removes fields.
const Schema = 3

// These are the names of the files in a run folder.
const (
	RunFile          = "run.json"
	VotesFile        = "votes.jsonl"
	CertificatesFile = "certificates.jsonl"
	BoundsFile       = "bounds.csv"
	ScoresFile       = "scores.npz"
)

// Run is the content of run.json: everything needed to repeat a run.
type Run struct {
	Schema     int        `json:"schema"`
	Version    string     `json:"rscert"` // version of rscert
	Model      Model      `json:"model"`
	Data       Data       `json:"data"`
	Parameters Parameters `json:"parameters"`
	Noise      Noise      `json:"noise"`
	Runtime    Runtime    `json:"runtime"`
	// TangentSamples is the number of estimation samples from which the method 'tangent' computes its function
	// (Parameters.TangentSamples). It is recorded because no single parameter holds this number.
	TangentSamples int64 `json:"tangent_samples,omitempty"`
	// Preset is the name of the preset that set the run's parameters, except for the parameters that the user gave.
	Preset string `json:"preset,omitempty"`
}

// Model identifies the ONNX model.
type Model struct {
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Input   string `json:"input"` // name, type and shape
	Output  string `json:"output"`
	Classes int    `json:"classes"`
	// Recipe is the SHA-256 of the training recipe, a text in the model's file. Recipe is empty for an ensemble, whose
	// Members have recipes of their own.
	Recipe string `json:"recipe,omitempty"`
	// Changes are the graph edits that are part of the classifier, one line per edit.
	Changes []string `json:"changes,omitempty"`
	// Denoiser is the model that runs before this model. The classifier consists of both models.
	Denoiser *Denoiser `json:"denoiser,omitempty"`
	// Members are the models of an ensemble, in order. For an ensemble, SHA256 is graph.EnsembleDigest of the members.
	Members []Member `json:"members,omitempty"`
}

// Member identifies a model of an ensemble.
type Member struct {
	File    string           `json:"file"`
	SHA256  string           `json:"sha256"`
	Outputs graph.OutputKind `json:"outputs"` // kind of the model's outputs
	Recipe  string           `json:"recipe,omitempty"`
}

// Paths returns the path of the first model and the paths of the further models of an ensemble.
func (m Model) Paths() (first string, further []string) {
	if len(m.Members) == 0 {
		return m.File, nil
	}
	for _, member := range m.Members[1:] {
		further = append(further, member.File)
	}
	return m.Members[0].File, further
}

// outputs returns the kind of the models' outputs if all models of the ensemble have the same kind. Otherwise it
// returns OutputsAuto, so that rscert detects the kind of each model. The user can give only one kind for all models.
// So if the kinds differ, rscert also detected them in the recorded run.
func (m Model) outputs() graph.OutputKind {
	kind := m.Members[0].Outputs
	for _, member := range m.Members {
		if member.Outputs != kind {
			return graph.OutputsAuto
		}
	}
	return kind
}

// Reopened returns the conditions for an experiment that repeats a run of this model. The argument c holds the run's
// conditions. For an ensemble, c.Outputs is the kind of the ensemble's outputs. The experiment needs the kind of the
// members' outputs instead.
func (m Model) Reopened(c spec.Conditions) spec.Conditions {
	if len(m.Members) > 0 {
		c.Outputs = m.outputs()
	}
	return c
}

// checkMembers checks that the digests of the members give the digest of the ensemble.
func (r Run) checkMembers() error {
	if len(r.Model.Members) == 0 {
		return nil
	}
	members := make([]graph.EnsembleMember, len(r.Model.Members))
	for k, m := range r.Model.Members {
		members[k] = graph.EnsembleMember{SHA256: m.SHA256, Outputs: m.Outputs}
	}
	if len(members) < 2 || graph.EnsembleDigest(r.Parameters.Average, members) != r.Model.SHA256 {
		return errors.New("the SHA-256 of its model is not that of an ensemble of its members")
	}
	return nil
}

// Denoiser identifies the ONNX model that runs before the classifier. The parameters say how the two models are
// combined.
type Denoiser struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	// These fields are for a diffusion model: the timestep used, the number of timesteps, and ᾱ at the timestep used.
	Timestep  int     `json:"timestep,omitempty"`
	Timesteps int     `json:"timesteps,omitempty"`
	AlphaBar  float64 `json:"alpha_bar,omitempty"`
}

// String returns the name of the denoiser's file and, for a diffusion model, the timestep.
func (d *Denoiser) String() string {
	if d.Timesteps == 0 {
		return d.File
	}
	return fmt.Sprintf("%s at timestep %d of %d, ᾱ = %.6g", d.File, d.Timestep, d.Timesteps, d.AlphaBar)
}

// sum returns the SHA-256 of the denoiser, or "" if there is no denoiser.
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

// step describes the denoiser's timestep.
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
	Examples int    `json:"examples"` // number of examples in the dataset
	Selected int    `json:"selected"` // number of examples in the run or, for a shard, in the shard
	// Shards lists the merged shards if other shards are missing. Only the examples of the listed shards are present.
	Shards []spec.Shard `json:"shards,omitempty"`

	Options          dataset.Options `json:"options,omitzero"`             // settings for reading the data
	Note             string          `json:"note,omitempty"`               // choices that rscert made while reading the data
	ClassNames       string          `json:"class-names,omitempty"`        // source of the class names
	ClassNamesSHA256 string          `json:"class-names-sha256,omitempty"` // SHA-256 of the file with the class names
	Scale            *ScaleData      `json:"scale,omitempty"`              // data that gave the columns their scales
	OnlyRun          string          `json:"only-run,omitempty"`           // path of the run whose ID is in Parameters.Only
}

// Reading describes how rscert interpreted the data file. The description contains no paths.
func (d Data) Reading() string {
	o := d.Options
	o.Labels, o.ClassNames = "", ""
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // the options are plain values, so encoding cannot fail
	}
	return string(text)
}

// Runtime describes the software and hardware of a run. The fields Threads and Batch do not affect votes. The field Call
// may affect the last bits of scores.
type Runtime struct {
	Library string `json:"library"` // ONNX Runtime's version
	// LibrarySHA256 is the SHA-256 of ONNX Runtime's library, in hex. Runs of older versions lack it. If LibraryUnknown
	// is true, rscert knew no published library with this SHA-256 when it wrote run.json.
	LibrarySHA256  string `json:"library_sha256,omitempty"`
	LibraryUnknown bool   `json:"library_unknown,omitempty"`
	Provider       string `json:"provider"`
	Device         string `json:"device"`
	Batch          int    `json:"batch"`
	Threads        int    `json:"threads"`
	// Call is the number of samples in one call of ONNX Runtime. Options are the options of the execution provider.
	Call    int               `json:"call,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	// Independence gives the reason why no output of the model depends on other inputs in the batch: "proved" or "one
	// input a call". Older versions, which did not prove this independence, did not write the field. The outputs of
	// their runs may depend on the batch.
	Independence string `json:"independence,omitempty"`
	// GPUs are the names of the GPUs, in the same order as the indices in the field Device.
	GPUs []string `json:"gpus,omitempty"`
	// Resumed lists each change of a resumed run to GPUs of other kinds, or to another library of the same version of
	// ONNX Runtime.
	Resumed []Resumption `json:"resumed,omitempty"`
	// NoiseOn says whether the host or the device made noise and counted votes at the start of the run. This choice
	// does not change votes, but it may change the last bits of scores. So Differences compares NoiseOn only if both
	// runs have scores.
	NoiseOn string `json:"noise_on,omitempty"`
	// Shards are the runtimes of a merged run's shards.
	Shards []ShardRuntime `json:"shards,omitempty"`
}

// Resumption records a change of the Runtime when a run was resumed. Examples is the number of examples that were
// finished before the change. Runtime describes the software and hardware after the change.
type Resumption struct {
	Examples int `json:"examples"`
	Runtime
}

// latest returns the runtime after the last change in r.Resumed. If there was no change, it returns r.
func (r Runtime) latest() Runtime {
	if n := len(r.Resumed); n > 0 {
		return r.Resumed[n-1].Runtime
	}
	return r
}

// kinds returns the names of the GPUs without repetitions. The number of GPUs of a kind changes no result.
func (r Runtime) kinds() []string { return slices.Compact(slices.Sorted(slices.Values(r.GPUs))) }

// Libraries returns the SHA-256s of all libraries of the run without repetitions, in the order of their first use. Runs
// of older versions do not name their libraries.
func (r Runtime) Libraries() (all []string) {
	add := func(sums ...string) {
		for _, sum := range sums {
			if sum != "" && !slices.Contains(all, sum) {
				all = append(all, sum)
			}
		}
	}
	add(r.LibrarySHA256)
	for _, on := range r.Resumed {
		add(on.Libraries()...)
	}
	for _, shard := range r.Shards {
		add(shard.Libraries()...)
	}
	return all
}

// otherLibrary returns r.LibrarySHA256 if other.LibrarySHA256 is known and different. Otherwise it returns "". Callers
// pass runtimes with the same version of ONNX Runtime.
func (r Runtime) otherLibrary(other Runtime) string {
	if other.LibrarySHA256 == "" || r.LibrarySHA256 == other.LibrarySHA256 {
		return ""
	}
	return r.LibrarySHA256
}

// Kinds returns the names of all GPUs that the run used at the start, after each resume and in all shards. It returns
// them without repetitions.
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

// ShardRuntime is the Runtime of a shard.
type ShardRuntime struct {
	Shard spec.Shard `json:"shard"`
	Runtime
}

// Read reads run.json in the folder dir.
func Read(dir string) (Run, error) {
	path := filepath.Join(dir, RunFile)
	data, err := readWhole(path)
	if missing(err) && isCombined(dir) {
		err = errCombined(dir)
	}
	if err != nil {
		return Run{}, err
	}
	r, err := decodeRun(data)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// readWhole reads a file of at most maxLine bytes.
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

// decodeRun decodes run.json. It checks the format version first, because a newer version may differ in everything
// else.
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

// FormatError means that this package cannot read the format of a run.json.
type FormatError struct{ error }

func (e *FormatError) Unwrap() error { return e.error }

// dropEmpty removes parameters with the value "". Format 1 wrote unused parameters this way.
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

// validate checks fields of run.json. Without these checks, a fault in such a field would be noticed late or never.
func (r Run) validate() error {
	p := r.Parameters
	if r.sealed() && (r.Data.Examples < 1 || r.Data.Selected < 1 || r.Model.Classes < 2 || p.N < 1 || p.N0 < 0 || p.Skip < 1 || p.Max < 0 || p.Shard.K < 1) {
		return errors.New("its parameters are not those of a run")
	}
	// A run with noise on a lattice must record its noise table, because the rounding in this table reduces the level
	// of the certificates.
	if r.sealed() && p.Noise == spec.Lattice && (r.Noise.Entries < 1 || r.Noise.Table == "" || !(r.Noise.Eta >= 0)) {
		return errors.New("it records no table of the lattice noise")
	}
	if err := r.validateColumns(); err != nil {
		return err
	}
	if err := p.Only.Check(r.Data.Examples); err != nil {
		return err
	}
	if err := r.checkMembers(); err != nil {
		return err
	}
	if positions := r.positions(); len(r.Data.Shards) > 0 && len(slices.Compact(positions)) != len(positions) {
		return errors.New("the shards that it is merged of overlap")
	}
	return nil
}

// The method 'positions' lists the run's examples by their positions in the dataset, in ascending order. It includes
// examples that are not sampled yet, but omits examples that a merge lacks.
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

// MismatchError says how a run folder differs from the run that should resume it.
type MismatchError struct {
	Dir         string
	Differences []param.Text
	gaps        bool // the folder is a merge with missing shards
}

func (e *MismatchError) Error() string { return e.Spell(param.Plain) }

// Spell returns the text of Error, with the parameter names spelled by s.
func (e *MismatchError) Spell(s param.Spelling) string {
	all := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		all[i] = d.Spell(s)
	}
	return fmt.Sprintf("cannot resume %s: %s", e.Dir, strings.Join(all, "; "))
}

// Hint returns advice for the user.
func (e *MismatchError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint, with the parameter names spelled by s.
func (e *MismatchError) SpellHint(s param.Spelling) string {
	if e.gaps {
		return "sample the shards that are missing, then merge all of them"
	}
	return "resume with the settings of the folder, or choose another " + s(param.Out)
}

// compatible compares r, the run that started the folder, with the run that should continue it. It returns a
// MismatchError if the results of the two runs would differ, or if the folder is a merge with missing shards.
func (r Run) compatible(dir string, now Run) error {
	var diff []param.Text
	for _, d := range r.Differences(now) {
		diff = append(diff, param.Textf("%s was %s, now %s", d.What, d.First, d.Second))
	}
	if other := r.otherIdentity(now); other != "" && len(diff) == 0 {
		diff = append(diff, param.Textf("what run.json says of model, data and noise differs: %s", other))
	}
	if a, b := r.Runtime.latest().Call, now.Runtime.Call; r.Parameters.Scores && a != 0 && b != 0 && a != b {
		diff = append(diff, param.Textf("the samples a call (%s), on which the last bits of scores may depend, were %d, now %d", param.Batch, a, b))
	}
	gaps := len(r.Data.Shards) > 0
	if gaps {
		diff = append(diff, param.Textf("it is a merge with missing shards"))
	}
	if len(diff) == 0 {
		return nil
	}
	return &MismatchError{dir, diff, gaps}
}

// Difference is a condition in which two runs differ.
type Difference struct {
	What   string `json:"what"`
	First  string `json:"first"`
	Second string `json:"second"`
	Of     Aspect `json:"-"`
}

// Aspect is the kind of a condition in which runs differ.
type Aspect int

// These are the kinds of conditions.
const (
	OfResults     Aspect = iota // the classifier, and what the results claim about it
	OfExtent                    // the choice of examples, and which results are kept
	OfComputation               // software, hardware and precision used to compute the results
)

// NoiseOnFlag is the value of Difference.What if two runs differ in Runtime.NoiseOn. It has the hyphens of a flag
// because 'compare --json' has always printed it so.
const NoiseOnFlag = "--" + string(param.NoiseOn)

// aspect returns the kind of a parameter.
func aspect(name param.Name) Aspect {
	switch name {
	case "skip", "max", "select", "shard", "only", "save-scores":
		return OfExtent
	case "precision", "prefer-nhwc", "conv-search":
		return OfComputation
	}
	return OfResults
}

// Differences returns the conditions in which r and the argument 'other' differ. It considers only conditions that
// determine the results.
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
		differs(OfResults, "the model's adaptation", strings.Join(r.Model.Changes, "; "), strings.Join(other.Model.Changes, "; "))
	}
	for _, d := range r.Parameters.Differences(other.Parameters) {
		// Keep the hyphens: 'compare --json' has always printed the names of parameters with the hyphens of flags.
		differs(aspect(d.Name), "--"+string(d.Name), d.First, d.Second)
	}
	differs(OfComputation, "the folder's format", r.Schema, other.Schema)
	differs(OfComputation, "rscert", r.Version, other.Version)
	differs(OfComputation, "ONNX Runtime", r.Runtime.Library, other.Runtime.Library)
	differs(OfComputation, "the provider", r.Runtime.Provider, other.Runtime.Provider)
	if a, b := r.Runtime.NoiseOn, other.Runtime.NoiseOn; r.Parameters.Scores && other.Parameters.Scores && a != "" && b != "" {
		differs(OfComputation, NoiseOnFlag, a, b) // votes do not depend on where noise is made
	}
	// The noise is compared only if no difference of the kind OfResults was found above, because such a difference can
	// explain why the noise differs.
	if !slices.ContainsFunc(diff, func(d Difference) bool { return d.Of == OfResults }) {
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

// ErrExists means that the folder for new results already holds files, or that a file is in its place.
var ErrExists = errors.New("exists already")

// write writes run.json into dir, completely or not at all.
func (r Run) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(r.writeIn(root), root.Close())
}

func (r Run) writeIn(root *os.Root) error {
	data, err := encode(r, "  ")
	if err != nil {
		return err
	}
	return durable.WriteIn(root, RunFile, checksum.Seal(data), 0o644)
}

// encode returns v in JSON, with a newline at the end. It does not escape characters for HTML, so that the text
// 'radius>=0.5' stays readable.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}
