package runfolder

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/scorefile"
)

// Merge writes the examples of all shards to a run folder at the path 'out'. This folder must be empty or missing.
// Except for run.json, the files equal the files of a run without shards. Merge calls the function 'progress' for every
// example of every file. It works in a hidden folder in the parent folder of 'out' until all results are on the disk.
// If Merge is killed, the next Merge to the same path takes over the hidden folder. If Merge finds damage that
// OpenShards did not find, it returns a ShardError.
func (s *Shards) Merge(ctx context.Context, out string, progress func(examples int64)) error {
	if err := checkFree(out); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(out); err == nil {
		out = real // the path may be a link to an empty folder
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	beside, err := os.OpenRoot(filepath.Dir(out))
	if err != nil {
		return err
	}
	defer beside.Close()
	m := merging{Shards: s, ctx: ctx, seed: s.run.Seed(), progress: progress, beside: beside, name: durable.Temporary + "merge-" + filepath.Base(out)}
	f, err := m.lock()
	if err != nil {
		return err
	}
	defer f.unlock()
	m.root = f.root
	err = m.write()
	if err == nil && m.key != nil {
		err = signFolder(ctx, m.root.Name(), m.run, *m.key)
	}
	if err == nil {
		err = m.rename(filepath.Base(out))
	}
	if err != nil {
		return errors.Join(err, m.discard())
	}
	return nil
}

// checkFree returns ErrExists unless the folder 'out' is missing or empty.
func checkFree(out string) error {
	entries, err := os.ReadDir(out)
	switch {
	case missing(err):
		return nil
	case err == nil && len(entries) == 0:
		return nil
	}
	return fmt.Errorf("%s: %w", out, ErrExists)
}

// merging is a merge in progress.
type merging struct {
	*Shards
	ctx      context.Context
	beside   *os.Root // the folder that holds the run folder and the work folder
	name     string   // name of the work folder
	root     *os.Root // the work folder
	seed     checksum.Seed
	progress func(int64)
}

// lock makes and locks the work folder, or takes over the work folder that a killed merge left. At the path of the work
// folder, there may also be another folder or file, for example one that was copied together with the shards. So the
// method accepts a folder only if it holds nothing but files of a merge. It accepts no link.
func (m merging) lock() (*Folder, error) {
	if err := m.beside.Mkdir(m.name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	path := filepath.Join(m.beside.Name(), m.name)
	refuse := func(what string) error {
		return &DamageError{hint.New(fmt.Sprintf("%s: %s, and no merge left it", path, what), "move it away")}
	}
	info, err := m.beside.Lstat(m.name)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, refuse("is no folder")
	}
	root, err := m.beside.OpenRoot(m.name)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(refuse("was replaced"), err, root.Close())
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if !e.Type().IsRegular() || !merges(e.Name()) {
			err = refuse("has " + e.Name())
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return lockRoot(root, path, m.run)
}

// The function 'merges' reports whether a merge can write a file with this name.
func merges(name string) bool {
	switch name {
	case lockFile, RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile, scorefile.Part(ScoresFile), ManifestFile, SignatureFile:
		return true
	}
	return strings.HasPrefix(name, durable.Temporary)
}

// discard removes the work folder, unless the merge has already renamed this folder to the run folder.
func (m merging) discard() error {
	if _, err := m.beside.Lstat(m.name); err != nil {
		return nil
	}
	return errors.Join(m.clear(), m.root.Remove(lockFile), m.beside.Remove(m.name))
}

func (m merging) write() error {
	if err := m.clear(); err != nil {
		return err
	}
	one := func(shardFolder, int) int { return 1 }
	if err := m.joinLines(VotesFile, one, m.copyJSON); err != nil {
		return err
	}
	if err := m.joinLines(CertificatesFile, one, m.copyJSON); err != nil {
		return err
	}
	if len(m.run.Parameters.ConfidenceRadii) > 0 {
		rows := func(p shardFolder, i int) int { return p.rows[i] }
		if err := m.joinLines(BoundsFile, rows, m.copyRow); err != nil {
			return err
		}
	}
	if m.run.Parameters.SaveScores {
		if err := m.joinScores(); err != nil {
			return err
		}
	}
	return m.run.writeIn(m.root)
}

// clear removes the files that an interrupted merge left.
func (m merging) clear() error {
	entries, err := fs.ReadDir(m.root.FS(), ".")
	for _, e := range entries {
		if e.Name() != lockFile {
			err = errors.Join(err, m.root.Remove(e.Name()))
		}
	}
	return err
}

// rename renames the finished work folder to 'out'.
func (m merging) rename(out string) error {
	if err := durable.SyncRoot(m.root); err != nil {
		return err
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if err := m.beside.Remove(out); err != nil && !missing(err) { // this removes only an empty folder
		return err
	}
	if err := m.beside.Rename(m.name, out); err != nil {
		return err
	}
	return durable.SyncRoot(m.beside)
}

// joinLines writes the file with this name. For each example of the run, in order, it copies the example's lines from
// the example's shard.
func (m merging) joinLines(name string, lines func(p shardFolder, example int) int, convert func([]byte) ([]byte, error)) (err error) {
	sources, header, err := m.openSources(name)
	defer closeSources(sources)
	if err != nil {
		return err
	}
	file, err := m.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to := bufio.NewWriterSize(file, 1<<16)
	if header != nil {
		_, _ = to.Write(append(header, '\n')) // Flush returns any error of Write
	}
	next := make([]int, len(m.parts)) // number of examples copied from each part
	for _, t := range m.turns {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		for range lines(m.parts[t.part], next[t.part]) {
			line, err := sources[t.part].next()
			if err == nil {
				line, err = convert(line)
			}
			if err != nil {
				return m.damaged(t.part, fmt.Errorf("%s:%d: %w", sources[t.part].path, sources[t.part].number, err))
			}
			_, _ = to.Write(append(line, '\n'))
		}
		next[t.part]++
		m.progress(1)
	}
	return errors.Join(to.Flush(), file.Sync())
}

// openSources opens the file with this name in each part, and reads the header if the file has one. The caller closes
// the sources, even after an error.
func (m merging) openSources(name string) (sources []*lineSource, header []byte, err error) {
	for i, p := range m.parts {
		source := newLineSource(&sparing{path: filepath.Join(p.dir, name), was: p.files[name], keep: i < openAtOnce})
		sources = append(sources, source)
		if name != BoundsFile {
			continue
		}
		if header, err = source.next(); err != nil {
			return sources, nil, m.damaged(i, err)
		}
	}
	return sources, header, nil
}

func closeSources(sources []*lineSource) {
	for _, s := range sources {
		s.close()
	}
}

// damaged returns a ShardError if the shard changed after it was opened. It returns the error of a failed read
// unchanged.
func (m merging) damaged(i int, err error) error {
	if !isDamage(err) {
		return err
	}
	return &ShardError{m.parts[i].dir, m.parts[i].run, "repair it", err}
}

// lineSource reads a file line by line. The buffer of a lineSource is small, because a merge may read a thousand shards
// at a time.
type lineSource struct {
	*sparing
	br     *bufio.Reader
	data   []byte
	number int
}

func newLineSource(s *sparing) *lineSource {
	return &lineSource{sparing: s, br: bufio.NewReaderSize(s, 1<<14)}
}

// next returns the next line that is not blank, without its newline. The line is valid until the following call.
func (s *lineSource) next() ([]byte, error) {
	for {
		s.number++
		var err error
		if s.data, err = readLine(s.br, s.data[:0]); errors.Is(err, io.EOF) {
			return nil, errTorn
		} else if err != nil {
			return nil, err
		}
		if text := bytes.TrimSpace(s.data); len(text) > 0 {
			return text, nil
		}
	}
}

// copyJSON returns a line unchanged, or an error if its checksum does not match.
func (m merging) copyJSON(line []byte) ([]byte, error) {
	if _, state := m.seed.VerifyJSON(line); state != checksum.Good {
		return nil, errChanged
	}
	return line, nil
}

// copyRow returns a row of bounds.csv in which the column 'examples' holds the number of examples in the merged run.
func (m merging) copyRow(row []byte) ([]byte, error) {
	for _, header := range []string{boundsHeader, certifiedHeader} {
		text, state := m.seed.VerifyCSV([]byte(header), row)
		fields := bytes.Split(text, []byte(","))
		if state != checksum.Good || len(fields) != strings.Count(header, ",") {
			continue
		}
		fields[examplesField] = strconv.AppendInt(nil, int64(m.run.Data.Selected), 10)
		return m.seed.AppendCSV([]byte(header), bytes.Join(fields, []byte(","))), nil
	}
	return nil, errChanged
}

// joinScores writes scores.npz shard by shard. Each sample has a fixed position in the file.
func (m merging) joinScores() error {
	w, err := scorefile.Create(filepath.Join(m.root.Name(), ScoresFile), m.run.scoreShape())
	if err != nil {
		return err
	}
	// for each part, the positions that its examples have in the merged run, in ascending order
	places := make([][]int, len(m.parts))
	for place, t := range m.turns {
		places[t.part] = append(places[t.part], place)
	}
	for i, p := range m.parts {
		if err := m.copyScores(p, places[i], w); err != nil {
			if m.ctx.Err() == nil {
				err = m.damaged(i, err)
			}
			return errors.Join(err, w.Close())
		}
	}
	return w.Finish()
}

// copyScores copies a shard's scores to their positions in the merged file.
func (m merging) copyScores(p shardFolder, places []int, w *scorefile.Writer) (err error) {
	e := Evidence{Path: p.dir, Run: &p.run, dir: p.dir}
	r, err := e.Scores()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, place := range places {
		index, label, err := r.Next()
		if err != nil {
			return err
		}
		if err := w.WriteExample(place, index, label); err != nil {
			return err
		}
		copySamples := func(write func(int, int64, []float32) error) func([]float32) error {
			var first int64
			return func(probs []float32) error {
				at := first
				first += int64(len(probs) / r.Classes)
				if err := m.ctx.Err(); err != nil {
					return err
				}
				return write(place, at, probs)
			}
		}
		if err := r.Selection(copySamples(w.WriteSelection)); err != nil {
			return err
		}
		if err := r.Estimation(copySamples(w.WriteEstimation)); err != nil {
			return err
		}
		m.progress(1)
	}
	if _, _, err = r.Next(); errors.Is(err, io.EOF) { // this call also checks the last example and the end of the file
		return nil
	}
	return err
}
