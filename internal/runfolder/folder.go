package runfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/scorefile"
)

// lockFile keeps a second process from writing to the same folder. The file
// stays, the lock on it ends with the process.
const lockFile = ".lock"

// syncEvery is the longest time for which a power cut can undo what was
// appended. (A killed process loses nothing.)
const syncEvery = time.Second

// Folder is a run folder open for appending. Its methods may be called from several
// goroutines.
type Folder struct {
	dir  string
	lock *flock.Flock
	run  Run

	mu      sync.Mutex
	votes   *appendFile
	certs   *appendFile
	bounds  *appendFile       // nil if the confidence is not bounded
	scores  *scorefile.Writer // nil if scores are not kept, or are all there
	done    []Record
	moved   []string    // kinds of GPUs that the run was on before; nil: those that it is on
	dropped int         // examples that a kill or a power cut left incomplete
	timer   *time.Timer // runs while something is not synced
	failed  error       // of a sync in the background
}

// Record is what a run finds out about one example.
type Record struct {
	Votes       certify.Votes
	Certificate certify.Certificate
	// Bounds of the confidence under attack, a row a radius; in runs with
	// Parameters.ConfidenceRadii only. Not read back.
	Bounds []certify.ConfidenceBound
	// Scores is the checksum of the example's scores in scores.npz, where they are kept.
	Scores string
	// Compared is the number of its samples that were run again, alone and among other inputs, with the same outputs.
	Compared int64
}

// votesLine is a line of a run's own votes.jsonl.
type votesLine struct {
	certify.Votes
	Compared int64  `json:"compared,omitempty"`
	Scores   string `json:"scores,omitempty"`
}

// size is what the counts take, in bytes, with the rest and the index among those seen.
func (v votesLine) size() int { return 8*(cap(v.Counts)+cap(v.Counts0)) + 64 }

// Create begins the run folder dir. It refuses a run that Read would refuse, and with ErrExists a folder with anything in
// it but the files of an interrupted start.
func Create(dir string, run Run) (*Folder, error) {
	if err := run.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := checkUnused(dir); err != nil { // before a lock file is left in it
		return nil, err
	}
	f, err := lockFolder(dir, run)
	if err != nil {
		return nil, err
	}
	if err := f.create(); err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

func (f *Folder) create() error {
	if err := checkUnused(f.dir); err != nil {
		return err
	}
	if err := removeTemporary(f.dir); err != nil {
		return err
	}
	if err := durable.SyncFolder(filepath.Dir(filepath.Clean(f.dir))); err != nil {
		return err
	}
	if err := f.run.write(f.dir); err != nil {
		return err
	}
	return f.open(sizes{})
}

// Resume opens a run folder that was begun with an equal run (else a
// MismatchError) and takes off what its end left unfinished. Other damage is a
// DamageError. A folder that does not exist, or whose start was interrupted, is
// created.
func Resume(dir string, run Run) (*Folder, error) {
	then, err := Read(dir)
	if missing(err) {
		return Create(dir, run)
	}
	if err != nil {
		return nil, damaged(err)
	}
	if err := run.validate(); err != nil {
		return nil, err
	}
	if err := then.compatible(dir, run); err != nil {
		return nil, err
	}
	f, err := lockFolder(dir, run)
	if err != nil {
		return nil, err
	}
	err = removeTemporary(dir)
	if err == nil {
		err = f.recover()
	}
	if err == nil {
		err = f.noteMove(then)
	}
	if err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

// noteMove records in run.json that a run goes on on GPUs of another kind. Votes may then differ near ties; each
// certificate is of the device that its example was run on.
func (f *Folder) noteMove(then Run) error {
	before := then.Runtime.now()
	if slices.Equal(before.kinds(), f.run.Runtime.kinds()) {
		return nil
	}
	f.moved = before.kinds()
	then.Runtime.Resumed = append(then.Runtime.Resumed, Resumption{len(f.done), f.run.Runtime})
	return then.write(f.dir)
}

// Moved are the kinds of GPUs that a resumed run was on before, if it goes on on others; else nil.
func (f *Folder) Moved() []string { return f.moved }

func lockFolder(dir string, run Run) (*Folder, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if !got {
		return nil, fmt.Errorf("%s: another rscert is writing to it", dir)
	}
	return &Folder{dir: dir, lock: l, run: run}, nil
}

func (f *Folder) unlock() { _ = f.lock.Unlock() }

// checkUnused returns ErrExists unless dir has nothing in it but what a start that was
// interrupted before run.json was there can leave: the lock, a temporary file, results
// without a byte.
func checkUnused(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == lockFile || strings.HasPrefix(name, durable.Temporary) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() == 0 && isResult(name) {
			continue
		}
		return fmt.Errorf("%s: %w", dir, ErrExists)
	}
	return nil
}

func isResult(name string) bool {
	return name == VotesFile || name == CertificatesFile || name == BoundsFile
}

// removeTemporary removes what interrupted writes of whole files left.
func removeTemporary(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, durable.Temporary+"*"))
	for _, path := range found {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// sizes are the lengths of the files without what a killed run left unfinished.
type sizes struct{ votes, certs, bounds int64 }

// open opens the files for appending behind their first bytes.
func (f *Folder) open(s sizes) (err error) {
	if f.votes, err = openAppend(filepath.Join(f.dir, VotesFile), s.votes); err != nil {
		return err
	}
	if f.certs, err = openAppend(filepath.Join(f.dir, CertificatesFile), s.certs); err != nil {
		return err
	}
	if len(f.run.Parameters.ConfidenceRadii) > 0 {
		if f.bounds, err = openAppend(filepath.Join(f.dir, BoundsFile), s.bounds); err != nil {
			return err
		}
		if s.bounds == 0 {
			if err := f.bounds.append([]byte(boundsHeader + "\n")); err != nil {
				return err
			}
		}
	}
	if f.run.Parameters.SaveScores && f.scores == nil && len(f.done) < f.run.Data.Selected {
		if f.scores, err = scorefile.Create(f.path(ScoresFile), f.run.scoreShape()); err != nil {
			return err
		}
	}
	return durable.SyncFolder(f.dir)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// scoreShape is the shape of the run's scores.npz.
func (r Run) scoreShape() scorefile.Shape {
	p, examples := r.Parameters, r.Data.Selected
	if len(r.Data.Shards) > 0 {
		examples = len(r.positions())
	}
	return scorefile.Shape{Examples: examples, Classes: r.Model.Classes, N0: p.N0, N: p.N}
}

// Done returns the records that the folder had when it was opened.
func (f *Folder) Done() []Record { return f.done }

// Dropped is the number of examples of which an interrupted run had left some but not
// all of the results: they are to be sampled again.
func (f *Folder) Dropped() int { return f.dropped }

// Scores is the writer of all scores, nil if they are not kept. An example's scores are
// written before the example is appended, with their checksum in its record.
func (f *Folder) Scores() *scorefile.Writer { return f.scores }

// Append adds an example. Its certificate comes last, but after a power cut any file
// can be behind any other: resuming compares them.
func (f *Folder) Append(r Record) error {
	votes, err := encodeLine(votesLine{r.Votes, r.Compared, r.Scores})
	if err != nil {
		return err
	}
	cert, err := encodeLine(r.Certificate)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	if f.bounds != nil {
		if err := f.bounds.append(appendBounds(nil, r.Bounds, f.run.Data.Selected)); err != nil {
			return err
		}
	}
	if err := f.votes.append(votes); err != nil {
		return err
	}
	if err := f.certs.append(cert); err != nil {
		return err
	}
	if f.timer == nil { // also the last example for a long time is synced
		f.timer = time.AfterFunc(syncEvery, f.syncLater)
	}
	return nil
}

func (f *Folder) syncLater() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer = nil
		f.failed = errors.Join(f.failed, f.sync())
	}
}

// sync makes what was written survive a power cut; f.mu is held.
func (f *Folder) sync() error {
	if f.scores != nil {
		if err := f.scores.Sync(); err != nil {
			return err
		}
	}
	for _, a := range f.files() {
		if err := a.sync(); err != nil {
			return err
		}
	}
	if _, err := os.Stat(f.path(RunFile)); err != nil {
		return hint.New(fmt.Sprintf("%s: was deleted or moved during the run", f.path(RunFile)), "its results are lost: start again")
	}
	return nil
}

func (f *Folder) files() []*appendFile {
	var files []*appendFile
	for _, a := range []*appendFile{f.bounds, f.votes, f.certs} {
		if a != nil {
			files = append(files, a)
		}
	}
	return files
}

// Finish ends a run that has all its examples: the lines are on the disk before
// scores.npz gets its name, so that a folder with a finished scores.npz is complete.
func (f *Folder) Finish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(f.failed, f.sync()); err != nil {
		return err
	}
	if f.scores == nil {
		return nil
	}
	err := f.scores.Finish()
	f.scores = nil
	return err
}

// Close ends the writing. The folder stays resumable.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	err := errors.Join(f.failed, f.sync())
	if f.scores != nil {
		err = errors.Join(err, f.scores.Close())
	}
	for _, a := range f.files() {
		err = errors.Join(err, a.file.Close())
	}
	f.unlock()
	return err
}
