package runfolder

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/spec"
)

// JournalForm describes a journal, which is a folder with two files. The first file holds a document, which is written
// first. The second file holds lines of type T. Programs only ever append lines to it. Both files have checksums, like
// the files of a run. The checksum of every line identifies the document.
type JournalForm[T any] struct {
	Document, Lines string // names of the files
	// Keys lists the keys that each line must have. Valid returns an error for a line that contradicts itself.
	Keys  []string
	Valid func(T) error
}

// Journal is the folder of a journal, open for appending.
type Journal[T any] struct {
	root *os.Root
	lock *flock.Flock
	file *appendFile
	seed checksum.Seed
}

// Read decodes the document of a journal into the argument 'document' and returns the lines. Read checks every line. It
// omits the last line if this line was not completely written.
func (f JournalForm[T]) Read(dir string, document any) ([]T, error) {
	text, err := f.readDocument(dir, document)
	if err != nil {
		return nil, err
	}
	lines, err := f.lines(dir, journalSeed(text))
	if err != nil {
		return nil, err
	}
	return lines.values, lines.intact(filepath.Join(dir, f.Lines))
}

// readDocument reads and decodes the document. It returns the document without its checksum.
func (f JournalForm[T]) readDocument(dir string, document any) ([]byte, error) {
	path := filepath.Join(dir, f.Document)
	data, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	text, state := checksum.VerifySealed(data)
	if state != checksum.Good {
		return nil, spec.BadInputf("%s: has changed since it was written: its checksum does not match", path)
	}
	if err := json.Unmarshal(text, document); err != nil {
		return nil, spec.BadInputf("%s: %w", path, jsonError(err))
	}
	return text, nil
}

func journalSeed(document []byte) checksum.Seed {
	digest := sha256.Sum256(document)
	return checksum.NewSeed(digest[:])
}

// The method 'lines' reads the journal's file of lines. If the file is missing, the result is empty.
func (f JournalForm[T]) lines(dir string, seed checksum.Seed) (content[T], error) {
	path := filepath.Join(dir, f.Lines)
	c, err := hold(path, fileFormat[T]{keys: f.Keys, sealed: true, seed: seed, own: true, valid: f.Valid}.open)
	if missing(err) {
		return content[T]{}, nil
	}
	return c, err
}

// Create makes the folder dir and writes the document. It returns ErrExists if the folder holds anything except the
// lock file and temporary files, which an interrupted Create may leave.
func (f JournalForm[T]) Create(dir string, document any) (*Journal[T], error) {
	text, err := encode(document, "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	j, err := f.open(dir, journalSeed(text))
	if err != nil {
		return nil, err
	}
	if err = f.unused(dir); err == nil {
		err = removeTemporary(j.root)
	}
	if err == nil {
		err = durable.SyncFolder(filepath.Dir(filepath.Clean(dir)))
	}
	if err == nil {
		err = durable.WriteIn(j.root, f.Document, checksum.Seal(text), 0o644)
	}
	if err == nil {
		j.file, err = openAppend(j.root, f.Lines, 0)
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Resume opens an existing journal for appending and returns its lines. It cuts off a line that an interruption left
// unfinished.
func (f JournalForm[T]) Resume(dir string, document any) (*Journal[T], []T, error) {
	text, err := f.readDocument(dir, document)
	if err != nil {
		return nil, nil, err
	}
	j, err := f.open(dir, journalSeed(text))
	if err != nil {
		return nil, nil, err
	}
	lines, err := f.lines(dir, j.seed)
	if err == nil {
		err = spec.BadInput(lines.repairable(filepath.Join(dir, f.Lines)))
	}
	size := int64(0)
	if n := len(lines.ends); n > 0 {
		size = lines.ends[n-1]
	}
	if err == nil {
		j.file, err = openAppend(j.root, f.Lines, size)
	}
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return j, lines.values, nil
}

// open opens and locks the folder.
func (f JournalForm[T]) open(dir string, seed checksum.Seed) (*Journal[T], error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	locked, err := lockRoot(root, dir, Run{})
	if err != nil {
		return nil, err
	}
	return &Journal[T]{root: root, lock: locked.lock, seed: seed}, nil
}

// unused returns ErrExists if dir contains anything except the lock file and temporary files, which an interrupted
// Create may leave.
func (f JournalForm[T]) unused(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockFile && !strings.HasPrefix(e.Name(), durable.Temporary) {
			return hint.Add(fmt.Errorf("%s: %w", dir, ErrExists), "go on with it, or name another folder")
		}
	}
	return nil
}

// Append writes a line. Once Append has returned, the line survives a power cut.
func (j *Journal[T]) Append(v T) error {
	line, err := encodeLine(j.seed, v)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(line)) > maxLine {
		return fmt.Errorf("%s: a line has more than %d MiB", j.file.path, maxLine>>20)
	}
	if err := j.file.append(line); err != nil {
		return err
	}
	return j.file.sync()
}

// Close stops writing. The journal can be resumed.
func (j *Journal[T]) Close() error {
	var err error
	if j.file != nil {
		err = j.file.file.Close()
	}
	_ = j.lock.Unlock()
	return errors.Join(err, j.root.Close())
}
