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
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Schema is the version of the folder's format that this package writes.
// Folders of a newer version are refused; fields are only ever added.
const Schema = 1

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
	Runtime    Runtime    `json:"runtime"`
}

// Model identifies the ONNX model.
type Model struct {
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Input   string `json:"input"` // name, type and shape
	Output  string `json:"output"`
	Classes int    `json:"classes"`
}

// Data identifies the dataset.
type Data struct {
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Format   string `json:"format"`
	Shape    []int  `json:"shape"`
	Examples int    `json:"examples"` // in the dataset
	Selected int    `json:"selected"` // of them in the run, by skip, max and shard
}

// Parameters are the flags that determine the results, by their names.
type Parameters struct {
	Sigma           float64   `json:"sigma"`
	N               int64     `json:"n"`
	N0              int64     `json:"n0"`
	Alpha           float64   `json:"alpha"`
	Method          string    `json:"method"`
	Class           string    `json:"class"`
	Margin          string    `json:"margin"`
	Lipschitz       float64   `json:"lipschitz"` // 0 = unknown
	Stop            string    `json:"stop"`      // empty = all n samples
	Scores          bool      `json:"scores"`
	SaveScores      bool      `json:"save-scores"`
	Combine         string    `json:"combine"` // of scores
	ConfidenceRadii []float64 `json:"confidence-radii"`
	Confidence      string    `json:"confidence"`       // method of the bounds on the confidence
	ConfidenceBound string    `json:"confidence-bound"` // of the means in them
	Band            string    `json:"band"`             // of the distribution in them
	Temperature     float64   `json:"temperature"`
	Outputs         string    `json:"outputs"`       // logits, probabilities; as told apart
	ScoresOutput    string    `json:"scores-output"` // empty = the only one
	Layout          string    `json:"layout"`
	Mean            []float64 `json:"mean"`
	Std             []float64 `json:"std"`
	Seed            uint64    `json:"seed"`
	Skip            int       `json:"skip"`
	Max             int       `json:"max"`
	Shard           string    `json:"shard"`
}

// Runtime is what the model ran on. Threads and Batch do not change results.
type Runtime struct {
	Library  string `json:"library"` // ONNX Runtime's version
	Provider string `json:"provider"`
	Device   string `json:"device"`
	Batch    int    `json:"batch"`
	Threads  int    `json:"threads"`
}

// Read reads dir's run.json.
func Read(dir string) (Run, error) {
	path := filepath.Join(dir, RunFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Run{}, err
	}
	var r Run
	if err := json.Unmarshal(data, &r); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema > Schema {
		return Run{}, fmt.Errorf("%s: written in format %d by rscert %s; this rscert reads formats up to %d", path, r.Schema, r.Version, Schema)
	}
	if r.Schema < 1 {
		return Run{}, fmt.Errorf("%s: not a run folder's run.json: no schema version", path)
	}
	return r, nil
}

// Owns reports whether path is a file of a run folder.
func Owns(path string) bool {
	switch filepath.Base(path) {
	case RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile:
		_, err := os.Stat(filepath.Join(filepath.Dir(path), RunFile))
		return err == nil
	}
	return false
}

// MismatchError says what differs between a run folder and the run that wants
// to resume it.
type MismatchError struct {
	Dir         string
	Differences []string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("cannot resume %s: %s", e.Dir, strings.Join(e.Differences, "; "))
}

// Hint says what to do.
func (e *MismatchError) Hint() string {
	return "resume with what the folder was begun with, or choose another --out"
}

// compatible returns a MismatchError unless a run with now would give the same
// results as the one that began the folder.
func (r Run) compatible(dir string, now Run) error {
	var diff []string
	differs := func(what string, then, now any) {
		if !reflect.DeepEqual(then, now) {
			diff = append(diff, fmt.Sprintf("%s was %v, now %v", what, show(then), show(now)))
		}
	}
	if r.Model.SHA256 != now.Model.SHA256 {
		diff = append(diff, fmt.Sprintf("the model is another (SHA-256 was %.12s…, %s has %.12s…)", r.Model.SHA256, now.Model.File, now.Model.SHA256))
	}
	if r.Data.SHA256 != now.Data.SHA256 {
		diff = append(diff, fmt.Sprintf("the data are others (SHA-256 was %.12s…, %s has %.12s…)", r.Data.SHA256, now.Data.File, now.Data.SHA256))
	}
	then, current := reflect.ValueOf(r.Parameters), reflect.ValueOf(now.Parameters)
	for i := range then.NumField() {
		name := then.Type().Field(i).Tag.Get("json")
		a, b := then.Field(i), current.Field(i)
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		differs("--"+name, a.Interface(), b.Interface())
	}
	differs("rscert", r.Version, now.Version)
	differs("ONNX Runtime", r.Runtime.Library, now.Runtime.Library)
	differs("the provider", r.Runtime.Provider, now.Runtime.Provider)
	if len(diff) == 0 {
		return nil
	}
	return &MismatchError{dir, diff}
}

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
	return WriteFile(filepath.Join(dir, RunFile), data)
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

// WriteFile writes a file that appears whole or not at all: a temporary file
// beside it is synced and renamed.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".rscert-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
