package runfolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/scorefile"
)

// lockFile keeps a second process from writing to the same folder. The file
// stays, the lock on it ends with the process.
const lockFile = ".lock"

// syncEvery is the longest time for which a power cut can undo what was
// appended. (A killed process loses nothing.)
const syncEvery = time.Second

// Folder is a run folder open for appending.
type Folder struct {
	dir      string
	lock     *flock.Flock
	votes    *appendFile
	certs    *appendFile
	bounds   *appendFile       // nil if the confidence is not bounded
	selected int               // examples of the run
	scores   *scorefile.Writer // nil if scores are not kept, or are all there
	done     []certify.Certificate
	synced   time.Time
}

// Create begins the run folder dir. It refuses with ErrExists a folder that
// has anything in it.
func Create(dir string, run Run) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := empty(dir); err != nil { // before a lock file is left in it
		return nil, err
	}
	f, err := lock(dir)
	if err != nil {
		return nil, err
	}
	err = empty(dir)
	if err == nil {
		err = run.write(dir)
	}
	if err == nil {
		err = f.open(run, sizes{})
	}
	if err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

// Resume opens a run folder that was begun with an equal run (else a
// MismatchError) and takes off what its end left unfinished. A folder that
// does not exist or is empty is created.
func Resume(dir string, run Run) (*Folder, error) {
	then, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(dir, run)
	}
	if err != nil {
		return nil, err
	}
	if err := then.compatible(dir, run); err != nil {
		return nil, err
	}
	f, err := lock(dir)
	if err != nil {
		return nil, err
	}
	if err := f.recover(run); err != nil {
		f.unlock()
		return nil, err
	}
	return f, nil
}

func lock(dir string) (*Folder, error) {
	l := flock.New(filepath.Join(dir, lockFile))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if !got {
		return nil, fmt.Errorf("%s: another rscert is writing to it", dir)
	}
	return &Folder{dir: dir, lock: l, synced: time.Now()}, nil
}

func (f *Folder) unlock() { _ = f.lock.Unlock() }

// empty returns ErrExists unless dir has nothing in it.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			return fmt.Errorf("%s: %w", dir, ErrExists)
		}
	}
	return nil
}

// sizes are the lengths of the files without what a killed run left unfinished.
type sizes struct{ votes, certs, bounds int64 }

// recover cuts the files back to the examples that all of them have whole.
func (f *Folder) recover(run Run) error {
	votes, voteEnds, err := readOwn(f.dir, VotesFile, func(v certify.Votes) error { return v.Validate() })
	if err != nil {
		return err
	}
	certs, certEnds, err := readOwn(f.dir, CertificatesFile, func(certify.Certificate) error { return nil })
	if err != nil {
		return err
	}
	n := min(len(votes), len(certs))
	for i := range n {
		if votes[i].Index != certs[i].Index {
			return fmt.Errorf("%s: line %d is example %d in %s and %d in %s", f.dir, i+1, votes[i].Index, VotesFile, certs[i].Index, CertificatesFile)
		}
	}
	f.done = certs[:n]
	var s sizes
	if n > 0 {
		s = sizes{votes: voteEnds[n-1], certs: certEnds[n-1]}
		if radii := run.Parameters.ConfidenceRadii; len(radii) > 0 {
			if s.bounds, err = boundsSize(filepath.Join(f.dir, BoundsFile), certs[:n], radii); err != nil {
				return err
			}
		}
	}
	return f.open(run, s)
}

func readOwn[T any](dir, name string, valid func(T) error) ([]T, []int64, error) {
	path := filepath.Join(dir, name)
	r, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	return decodeLines(r, path, true, valid)
}

// open opens the files for appending behind their first bytes.
func (f *Folder) open(run Run, s sizes) (err error) {
	f.selected = run.Data.Selected
	if f.votes, err = openAppend(filepath.Join(f.dir, VotesFile), s.votes); err != nil {
		return err
	}
	if f.certs, err = openAppend(filepath.Join(f.dir, CertificatesFile), s.certs); err != nil {
		return err
	}
	if len(run.Parameters.ConfidenceRadii) == 0 {
		return nil
	}
	if f.bounds, err = openAppend(filepath.Join(f.dir, BoundsFile), s.bounds); err != nil {
		return err
	}
	if s.bounds == 0 {
		return f.bounds.append([]byte(boundsHeader))
	}
	return nil
}

// Done returns the certificates that the folder had when it was opened.
func (f *Folder) Done() []certify.Certificate { return f.done }

// Scores opens the file of all scores, for runs with Parameters.SaveScores. It
// returns nil if the file is finished. An example's scores are written before
// the example is appended.
func (f *Folder) Scores(shape scorefile.Shape) (*scorefile.Writer, error) {
	path := filepath.Join(f.dir, ScoresFile)
	if len(f.done) > 0 {
		_, whole := os.Stat(path)
		_, part := scorefile.StatPart(path)
		switch {
		case whole == nil && len(f.done) == shape.Examples:
			return nil, nil
		case part != nil:
			return nil, fmt.Errorf("%s: the scores of the %d examples done are gone", path, len(f.done))
		}
	}
	var err error
	f.scores, err = scorefile.Create(path, shape)
	return f.scores, err
}

// Record is what a run finds out about one example.
type Record struct {
	Votes       certify.Votes
	Certificate certify.Certificate
	// Bounds of the confidence under attack, a row a radius; in runs with
	// Parameters.ConfidenceRadii only.
	Bounds []certify.ConfidenceBound
}

// Append adds an example. Its certificate comes last: what has one in the
// folder has all the rest beside it.
func (f *Folder) Append(r Record) error {
	if f.bounds != nil {
		if err := f.bounds.append(appendBounds(nil, r.Bounds, f.selected)); err != nil {
			return err
		}
	}
	if err := f.votes.appendJSON(r.Votes); err != nil {
		return err
	}
	if err := f.certs.appendJSON(r.Certificate); err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(f.synced) <= syncEvery {
		return nil
	}
	f.synced = now
	if f.scores != nil {
		if err := f.scores.Sync(); err != nil {
			return err
		}
	}
	return f.each((*os.File).Sync)
}

// Finish ends a run that has all its examples.
func (f *Folder) Finish() error {
	if f.scores == nil {
		return nil
	}
	err := f.scores.Finish()
	f.scores = nil
	return err
}

// each calls do for every file.
func (f *Folder) each(do func(*os.File) error) error {
	var errs []error
	for _, a := range []*appendFile{f.bounds, f.votes, f.certs} {
		if a != nil {
			errs = append(errs, do(a.file))
		}
	}
	return errors.Join(errs...)
}

// Close ends the writing. The folder stays resumable.
func (f *Folder) Close() error {
	var err error
	if f.scores != nil {
		err = f.scores.Close()
	}
	err = errors.Join(err, f.each((*os.File).Sync), f.each((*os.File).Close))
	f.unlock()
	return err
}

// appendFile is a file of whole lines.
type appendFile struct {
	file *os.File
	size int64
}

func openAppend(path string, size int64) (*appendFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(size); err == nil {
		_, err = file.Seek(size, 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &appendFile{file, size}, nil
}

// append writes whole lines; where they do not fit on the disk, none of them
// stays.
func (a *appendFile) append(lines []byte) error {
	if _, err := a.file.Write(lines); err != nil {
		_ = a.file.Truncate(a.size)
		return err
	}
	a.size += int64(len(lines))
	return nil
}

func (a *appendFile) appendJSON(v any) error {
	line, err := encode(v, "")
	if err != nil {
		return err
	}
	return a.append(line)
}
