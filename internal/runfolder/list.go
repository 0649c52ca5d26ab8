package runfolder

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rscert/rscert/internal/spec"
)

// State is the state of a run folder.
type State string

// States of a run folder.
const (
	Complete State = "finished" // all examples are certified, and scores.npz exists if the run keeps scores
	// Resumable means that some examples are missing, or that the run keeps scores and scores.npz is missing. The
	// command 'certify --resume' completes the run.
	Resumable  State = "resumable"
	Unreadable State = "unreadable" // run.json or the certificates cannot be read
)

// Listed is one run folder in a list of runs.
type Listed struct {
	Path     string  `json:"path"`
	State    State   `json:"state"`
	Problem  string  `json:"problem,omitempty"` // why the run is unreadable
	Model    string  `json:"model,omitempty"`
	Data     string  `json:"data,omitempty"`
	Law      string  `json:"law,omitempty"`
	Sigma    float64 `json:"sigma,omitempty"`
	N        int64   `json:"n,omitempty"`
	Shard    string  `json:"shard,omitempty"` // empty for a whole run
	Done     int     `json:"done"`            // number of certified examples
	Examples int     `json:"examples"`        // number of examples in the run
	// Accuracy is the certified accuracy at radius 0. It counts only the examples that are already certified. If there
	// are none, Accuracy is nil.
	Accuracy *float64 `json:"certified_accuracy_at_0,omitempty"`
}

// List returns the run folders at and below a folder, in the order of their paths. It does not follow links, and skips
// hidden folders. List reads the certificates, but does not check them against the votes.
func List(ctx context.Context, root string) (runs []Listed, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == root:
			return err
		case err != nil || !d.IsDir():
			return nil // List omits a folder that it cannot read
		case path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(path, RunFile)); err != nil {
			return nil
		}
		runs = append(runs, describeRun(path))
		return fs.SkipDir // List does not look for other runs inside a run folder
	})
	return runs, err
}

// describeRun describes the run in a folder.
func describeRun(dir string) Listed {
	l := Listed{Path: dir, State: Unreadable}
	run, err := Read(dir)
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	p := run.Parameters
	l.Model, l.Data, l.Law, l.Sigma, l.N = run.Model.File, run.Data.File, string(p.Law.Law().Name()), p.Sigma, p.N
	if p.Shard != spec.Whole {
		l.Shard = p.Shard.String()
	}
	extent, err := ReadExtent(dir)
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	l.Done, l.Examples, l.State = extent.Done, extent.Selected, Resumable
	if extent.Finished {
		l.State = Complete
	}
	correct, err := countCorrect(filepath.Join(dir, CertificatesFile))
	switch {
	case missing(err) || err == nil && l.Done == 0:
	case err != nil && extent.Finished:
		l.State, l.Problem = Unreadable, err.Error()
	case err == nil:
		accuracy := float64(correct) / float64(l.Done)
		l.Accuracy = &accuracy
	}
	return l
}

// countCorrect counts the examples whose certified class is the label.
func countCorrect(path string) (correct int, err error) {
	evidence, err := Find(path)
	if err != nil {
		return 0, err
	}
	certificates, err := evidence.Certificates()
	for _, c := range certificates {
		if c.Correct {
			correct++
		}
	}
	return correct, err
}
