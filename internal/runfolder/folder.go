package runfolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/scorefile"
)

// lockFile is the name of the file that a process locks to keep other processes from writing to the same folder. The
// lock ends with the process, and the file stays.
const lockFile = ".lock"

// syncEvery is the longest time from the append of an example to the next sync. A power cut can undo the appends since
// the last sync. If only the process is killed, no work is lost.
const syncEvery = time.Second

// Folder is a run folder open for appending. Several goroutines may call its methods.
type Folder struct {
	dir  string
	root *os.Root // the opened folder 'dir'; all files are opened through it
	lock *flock.Flock
	run  Run
	seed checksum.Seed // seed of the checksums of the run's lines

	mu     sync.Mutex
	votes  *appendFile
	certs  *appendFile
	bounds *appendFile       // nil if the confidence is not bounded
	scores *scorefile.Writer // nil if scores are not kept, or are complete
	done   int               // number of examples in the folder when it was opened
	moved  []string          // earlier kinds of GPUs, if different from the current kinds
	// otherLibrary is set if a resumed run continues with a different ONNX Runtime library. It is then the SHA-256 of
	// the earlier library.
	otherLibrary string
	dropped      int         // number of examples that a kill or a power cut left incomplete
	timer        *time.Timer // starts the next sync; nil if no sync is due
	failed       error       // error of a sync in the background
}

// Record holds the results for one example.
type Record struct {
	Votes       certify.Votes
	Certificate certify.Certificate
	// Bounds are the bounds on the confidence under attack, one per radius. Bounds is set only if
	// Parameters.ConfidenceRadii is set. A record that was read from a folder has no bounds.
	Bounds []certify.ConfidenceBound
	// Scores is the checksum of the example's scores in scores.npz, if scores are kept.
	Scores string
	// Compared is the number of the example's samples that were rerun for comparison and gave the same outputs (see
	// smoothing.Votes.Compared).
	Compared int64
}

// Done is an example that a folder contained when it was opened.
type Done struct {
	Record
	Rows   []byte  // the example's rows of bounds.csv, as they are in the file; valid until the next example
	Scores Samples // the example's saved scores; nil if the run keeps no scores
}

// Samples are the saved scores of an example. Each method passes the samples of one phase to the function 'take', a few
// at a time. The slice 'probs' holds k samples, each with m class probabilities. The next call of 'take' gets other
// values in the same memory.
type Samples interface {
	Selection(take func(probs []float32) error) error
	Estimation(take func(probs []float32) error) error
}

// votesLine is a line of votes.jsonl in a run folder.
type votesLine struct {
	certify.Votes
	Compared int64  `json:"compared,omitempty"`
	Scores   string `json:"scores,omitempty"`
}

// size estimates how many bytes of memory a line takes. Each count takes 8 bytes. The other fields, together with the
// line's entry in the set of all indices read so far, take about 64 bytes.
func (v votesLine) size() int { return 8*(cap(v.Counts)+cap(v.Counts0)) + 64 }

// Create creates the run folder dir. It returns an error if Read would refuse the run.json of this run. It returns
// ErrExists if the folder is not empty, but it ignores files that an interrupted start left.
func Create(dir string, run Run) (*Folder, error) {
	if err := run.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// this check must come first, because lockFolder makes a lock file in the folder
	if err := checkUnused(dir); err != nil {
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
	if err := removeTemporary(f.root); err != nil {
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

// Resume opens the folder of a run to continue it, and removes unfinished results. It returns a MismatchError if the
// run in the folder differs from the argument 'run', and a DamageError for damage that an interruption cannot cause. If
// the folder is missing, or if the start of its run was interrupted, Resume creates the folder.
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
	if then.Schema == 2 { // lines of format 2 do not name their run; the run continues in format 2
		run.Schema = then.Schema
	}
	if err := then.compatible(dir, run); err != nil {
		return nil, err
	}
	f, err := lockFolder(dir, run)
	if err != nil {
		return nil, err
	}
	err = removeTemporary(f.root)
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

// noteMove records in run.json that the run continues on another kind of GPU, or with a different library file of the
// same version of ONNX Runtime. Votes may then differ for samples near a tie. Each certificate holds for the device
// and the library that ran the example.
func (f *Folder) noteMove(then Run) error {
	before := then.Runtime.latest()
	f.otherLibrary = before.otherLibrary(f.run.Runtime)
	if !slices.Equal(before.kinds(), f.run.Runtime.kinds()) {
		f.moved = before.kinds()
	}
	if f.moved == nil && f.otherLibrary == "" || f.signedWhole() {
		return nil
	}
	then.Runtime.Resumed = append(then.Runtime.Resumed, Resumption{f.done, f.run.Runtime})
	return then.write(f.dir)
}

// Moved returns the earlier kinds of GPUs if a resumed run continues on other kinds. Otherwise it returns nil.
func (f *Folder) Moved() []string { return f.moved }

// OtherLibrary returns the SHA-256 of the earlier ONNX Runtime library if a resumed run continues with a different
// library file of the same version. Otherwise it returns "".
func (f *Folder) OtherLibrary() string { return f.otherLibrary }

func lockFolder(dir string, run Run) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return lockRoot(root, dir, run)
}

// lockRoot locks a folder for writing. If this fails, lockRoot closes the argument 'root'.
func lockRoot(root *os.Root, dir string, run Run) (*Folder, error) {
	l, err := lockDir(root, dir)
	if err != nil {
		return nil, err
	}
	return &Folder{dir: dir, root: root, lock: l, run: run, seed: run.Seed()}, nil
}

// lockDir locks a folder of any kind for writing. If this fails, lockDir closes the argument 'root'.
func lockDir(root *os.Root, dir string) (*flock.Flock, error) {
	l, err := newLock(root, dir, os.O_CREATE|os.O_RDONLY)
	var got bool
	if err == nil {
		got, err = l.TryLock()
	}
	switch {
	case err != nil:
		err = fmt.Errorf("locking %s: %w", dir, err)
	case !got:
		err = fmt.Errorf("%s: another rscert is writing to it", dir)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return l, nil
}

// newLock returns the folder's lock, which is not yet locked. If the lock file is a link, locking does not follow the
// link. If the lock file is a pipe, locking does not wait for the pipe.
func newLock(root *os.Root, dir string, flag int) (*flock.Flock, error) {
	if err := confined.Check(root, lockFile, false); err != nil {
		return nil, err
	}
	return flock.New(filepath.Join(dir, lockFile), flock.SetFlag(flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK)), nil
}

func (f *Folder) unlock() {
	_ = f.lock.Unlock()
	_ = f.root.Close()
}

// checkUnused returns ErrExists if dir is not empty. It ignores the remains of a start that was interrupted before it
// wrote run.json. These remains are the lock, a temporary file and empty result files.
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

// removeTemporary removes the temporary files of interrupted writes.
func removeTemporary(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), durable.Temporary) && !e.IsDir() {
			err = errors.Join(err, root.Remove(e.Name()))
		}
	}
	return err
}

// sizes holds the length of each file up to the end of the last example that is complete in all files.
type sizes struct{ votes, certs, bounds int64 }

// open opens the files for appending. It cuts each file to the length in s.
func (f *Folder) open(s sizes) (err error) {
	if f.votes, err = openAppend(f.root, VotesFile, s.votes); err != nil {
		return err
	}
	if f.certs, err = openAppend(f.root, CertificatesFile, s.certs); err != nil {
		return err
	}
	if len(f.run.Parameters.ConfidenceRadii) > 0 {
		if f.bounds, err = openAppend(f.root, BoundsFile, s.bounds); err != nil {
			return err
		}
		if s.bounds == 0 {
			if err := f.bounds.append([]byte(boundsHeader + "\n")); err != nil {
				return err
			}
		}
	}
	if f.run.Parameters.SaveScores && f.scores == nil && f.done < f.run.Data.Selected {
		if f.scores, err = scorefile.Create(f.path(ScoresFile), f.run.scoreShape()); err != nil {
			return err
		}
	}
	return durable.SyncFolder(f.dir)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// scoreShape returns the shape of the run's scores.npz.
func (r Run) scoreShape() scorefile.Shape {
	p, examples := r.Parameters, r.Data.Selected
	if len(r.Data.Shards) > 0 {
		examples = len(r.positions())
	}
	return scorefile.Shape{Examples: examples, Classes: r.Model.Classes, N0: p.N0, N: p.N}
}

// Done returns the number of examples that the folder contained when it was opened.
func (f *Folder) Done() int { return f.done }

// EachDone reads the examples that the folder contained when it was opened, and calls the function 'visit' with each of
// them, in order.
func (f *Folder) EachDone(visit func(Done) error) (err error) {
	next := func(int) (Samples, error) { return nil, nil }
	switch {
	case f.scores != nil:
		next = func(turn int) (Samples, error) { return f.scores.Samples(turn) }
	case f.run.Parameters.SaveScores: // scores.npz is finished, so there is no writer
		r, err := openScoreFile(f.path(ScoresFile))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		next = func(int) (Samples, error) {
			_, _, err := r.Next()
			return r, err
		}
	}
	turn := 0
	_, err = f.run.readExamples(f.dir, f.done, func(d Done) (err error) {
		if d.Scores, err = next(turn); err != nil {
			return err
		}
		turn++
		return visit(d)
	})
	return err
}

// Rows returns the rows of bounds.csv that hold the bounds of an example.
func (f *Folder) Rows(bounds []certify.ConfidenceBound) []byte {
	return appendBounds(nil, f.seed, bounds, f.run.Data.Selected, law.L2)
}

// Dropped returns the number of examples that an interrupted run left incomplete. These examples must be sampled again.
func (f *Folder) Dropped() int { return f.dropped }

// Scores returns the writer of the scores. It returns nil if the run does not keep scores, or if scores.npz is
// finished. The scores of an example must be written before the example's record is appended, because the record holds
// the checksum of the scores.
func (f *Folder) Scores() *scorefile.Writer { return f.scores }

// Append adds an example. It writes the certificate last. After a power cut, the files may hold different numbers of
// examples. Any file may be the shortest, so Resume compares all files.
func (f *Folder) Append(r Record) error {
	votes, err := encodeLine(f.seed, votesLine{r.Votes, r.Compared, r.Scores})
	if err != nil {
		return err
	}
	cert, err := encodeLine(f.seed, r.Certificate)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	if f.bounds != nil {
		if err := f.bounds.append(f.Rows(r.Bounds)); err != nil {
			return err
		}
	}
	if err := f.votes.append(votes); err != nil {
		return err
	}
	if err := f.certs.append(cert); err != nil {
		return err
	}
	if f.timer == nil { // even if no further example follows, the timer syncs this one
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

// sync makes the written results survive a power cut. The caller must hold f.mu.
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

// Finish completes a run that has all its examples. It syncs the lines before it renames the file of scores to
// scores.npz. So a folder with a scores.npz is complete.
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

// Close stops writing. The folder can still be resumed.
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
