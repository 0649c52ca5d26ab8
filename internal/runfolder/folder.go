package runfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/certify"
)

// lockFile keeps a second process from writing to the same folder. The file
// stays, the lock on it ends with the process.
const lockFile = ".lock"

// syncEvery is the longest time for which a power cut can undo what was
// appended. (A killed process loses nothing.)
const syncEvery = time.Second

// Folder is a run folder open for appending.
type Folder struct {
	dir    string
	lock   *flock.Flock
	votes  *appendFile
	certs  *appendFile
	done   []certify.Certificate
	synced time.Time
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
		err = f.open(0)
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
	if err := f.recover(); err != nil {
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

// recover cuts both files back to the examples that both have whole.
func (f *Folder) recover() error {
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
	return f.open(n, voteEnds, certEnds)
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

// open opens the files for appending behind their first n lines, which end at
// ends.
func (f *Folder) open(n int, ends ...[]int64) error {
	for i, file := range []struct {
		name string
		to   **appendFile
	}{{VotesFile, &f.votes}, {CertificatesFile, &f.certs}} {
		var size int64
		if n > 0 {
			size = ends[i][n-1]
		}
		a, err := openAppend(filepath.Join(f.dir, file.name), size)
		if err != nil {
			return err
		}
		*file.to = a
	}
	return nil
}

// Done returns the certificates that the folder had when it was opened.
func (f *Folder) Done() []certify.Certificate { return f.done }

// Append adds an example. The votes come first: a certificate in the folder
// always has its votes beside it.
func (f *Folder) Append(v certify.Votes, c certify.Certificate) error {
	if err := f.votes.append(v); err != nil {
		return err
	}
	if err := f.certs.append(c); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(f.synced) > syncEvery {
		f.synced = now
		return f.sync()
	}
	return nil
}

func (f *Folder) sync() error {
	return errors.Join(f.votes.file.Sync(), f.certs.file.Sync())
}

// Close ends the writing. The folder stays resumable.
func (f *Folder) Close() error {
	err := errors.Join(f.sync(), f.votes.file.Close(), f.certs.file.Close())
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

// append writes a line; where it does not fit on the disk, none of it stays.
func (a *appendFile) append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := a.file.Write(append(line, '\n')); err != nil {
		_ = a.file.Truncate(a.size)
		return err
	}
	a.size += int64(len(line)) + 1
	return nil
}
