package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/spec"
)

// Shards holds finished run folders that belong to one run and have no examples in common.
type Shards struct {
	run   Run                  // run.json of the merged run
	parts []shardFolder        // in the order of the parts' first examples
	turns []turn               // the examples of the merged run, sorted by index
	key   *signature.SecretKey // signs the merged run; nil: no signature
}

// shardFolder is the run folder of one shard.
type shardFolder struct {
	dir       string
	run       Run
	positions []int // positions of the shard's examples in the dataset
	rows      []int // number of rows in bounds.csv for each example
	lock      *flock.Flock
	// the files' information by file name; obtained before the method 'check' read the lines of the files
	files map[string]fs.FileInfo
}

// turn locates an example of the merged run. The field 'index' is the example's index in the dataset. The field 'part'
// is the number of the part that holds the example.
type turn struct{ index, part int }

// ShardError reports a shard that cannot be merged. To repair the shard, the user follows Advice and then resumes the
// shard's run.
type ShardError struct {
	Dir    string
	Run    Run
	Advice string
	err    error
}

func (e *ShardError) Error() string { return e.err.Error() }
func (e *ShardError) Unwrap() error { return e.err }

// GapError says that shards are missing.
type GapError struct {
	Run      Run          // the run that the shards belong to
	Missing  []spec.Shard // empty if the missing examples do not form complete shards
	Examples int          // number of examples that no shard has
	Of       int
}

func (e *GapError) Error() string {
	what := "examples are missing"
	if len(e.Missing) > 0 {
		what = "shard " + joinShards(e.Missing) + " is missing"
		if len(e.Missing) > 1 {
			what = "shards " + joinShards(e.Missing) + " are missing"
		}
	}
	return fmt.Sprintf("%s: no shard has %d of the run's %d examples", what, e.Examples, e.Of)
}

// joinShards lists shards. It shortens the list if there are many.
func joinShards(shards []spec.Shard) string {
	const most = 12
	var names []string
	for _, s := range shards[:min(most, len(shards))] {
		names = append(names, s.String())
	}
	if more := len(shards) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// OpenShards opens run folders for merging. The runs must be finished; otherwise the error is a ShardError. The runs
// may differ only in their shard and in settings that do not change the results. The folders are locked against other
// processes until Close. If there are more than openAtOnce folders, only the first openAtOnce of them stay locked. If
// another process writes to one of the unlocked folders, Merge notices it.
func OpenShards(dirs []string) (*Shards, error) {
	s := &Shards{}
	for _, dir := range dirs {
		p, err := openPart(dir)
		if err == nil {
			s.parts = append(s.parts, p)
			err = s.parts[0].oneFormat(p)
		}
		if err == nil {
			err = s.parts[0].matches(p)
		}
		if err == nil {
			last := &s.parts[len(s.parts)-1]
			err = last.check()
			if len(s.parts) > openAtOnce {
				last.unlock()
			}
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	slices.SortStableFunc(s.parts, func(a, b shardFolder) int { return a.positions[0] - b.positions[0] })
	if err := s.arrange(); err != nil {
		s.Close()
		return nil, err
	}
	s.describe()
	return s, nil
}

// openPart opens a shard's folder and locks it. The folder stays unlocked if there is no lock file, or if rscert lacks
// the permission to open it.
func openPart(dir string) (p shardFolder, err error) {
	e, err := Find(dir)
	if err != nil {
		return p, err
	}
	p = shardFolder{dir: e.dir, run: *e.Run}
	switch {
	case e.file != "":
		return p, hint.New(fmt.Sprintf("%s: is a file", dir), "name the folder of the shard")
	case !p.run.sealed():
		return p, hint.New(fmt.Sprintf("%s: was written in format %d, without checksums", dir, p.run.Schema), "sample it again with this rscert")
	}
	if p.positions = p.run.positions(); len(p.positions) == 0 {
		return p, fmt.Errorf("%s: has no examples", filepath.Join(p.dir, RunFile))
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return p, err
	}
	defer root.Close()
	lock, err := newLock(root, p.dir, os.O_RDONLY)
	if err != nil {
		return p, err
	}
	switch got, err := lock.TryRLock(); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("locking %s: %w", dir, err)
	case !got:
		return p, hint.New(fmt.Sprintf("%s: another rscert is writing to it", dir), "wait until it is done")
	}
	p.lock = lock
	return p, nil
}

// oneFormat returns an error unless both parts have the same format. A file cannot hold lines of different formats,
// because their checksums start from different seeds.
func (p shardFolder) oneFormat(other shardFolder) error {
	if p.run.Schema == other.run.Schema {
		return nil
	}
	return hint.New(fmt.Sprintf("%s is in format %d and %s in format %d: the checksums of their lines differ in kind",
		p.dir, p.run.Schema, other.dir, other.run.Schema), "shards of one run are sampled by one version of rscert")
}

// matches returns an error that names every condition in which the parts differ.
func (p shardFolder) matches(other shardFolder) error {
	a, b := p.run, other.run
	a.Parameters.Shard, b.Parameters.Shard = spec.Whole, spec.Whole
	var diff []string
	for _, d := range a.Differences(b) {
		diff = append(diff, fmt.Sprintf("%s is %s there, %s here", d.What, d.First, d.Second))
	}
	if a.Data.Examples != b.Data.Examples || a.Model.Classes != b.Model.Classes {
		diff = append(diff, "their examples or classes differ in number")
	}
	if other := a.otherIdentity(b); other != "" && len(diff) == 0 {
		diff = append(diff, "what run.json says of model, data and noise differs: "+other)
	}
	if len(diff) == 0 {
		return nil
	}
	return hint.Add(fmt.Errorf("%s is no shard of the run of %s: %s", other.dir, p.dir, strings.Join(diff, "; ")),
		"shards of one run have the same parameters, one %s among them", param.Seed)
}

// check reads the shard's lines. All lines must be present and intact.
func (p *shardFolder) check() error {
	refuse := func(advice string, err error) error {
		if !isDamage(err) {
			return err
		}
		return &ShardError{p.dir, p.run, advice, err}
	}
	path := func(name string) string { return filepath.Join(p.dir, name) }
	p.files = map[string]fs.FileInfo{}
	for _, name := range []string{VotesFile, CertificatesFile, BoundsFile} {
		if info, err := os.Lstat(path(name)); err == nil {
			p.files[name] = info
		} else if !missing(err) {
			return err
		}
	}
	found, err := p.run.readExamples(p.dir, math.MaxInt, func(d Done) error {
		p.rows = append(p.rows, bytes.Count(d.Rows, []byte("\n")))
		return nil
	})
	if err != nil {
		return refuse("delete this line and all after it, then go on", err)
	}
	for _, file := range []struct {
		name string
		*damage
	}{{VotesFile, found.votesDamage}, {CertificatesFile, found.certsDamage}, {BoundsFile, found.boundsDamage}} {
		if file.damage != nil {
			return refuse("finish it", fmt.Errorf("%s:%d: %w", path(file.name), file.line, file.err))
		}
	}
	n := found.whole
	beyond := found.certs > n || found.moreBounds
	var unfinished error
	if p.run.Parameters.SaveScores {
		unfinished = (&Evidence{Path: p.dir, Run: &p.run}).finished(path(ScoresFile))
	}
	switch {
	case n < len(p.positions):
		return refuse("finish it", fmt.Errorf("%s: is not finished: it has %d of its %d examples", p.dir, n, len(p.positions)))
	case beyond:
		return refuse("finish it", fmt.Errorf("%s: its files are not of the same examples", p.dir))
	case unfinished != nil && !isDamage(unfinished):
		return unfinished
	case unfinished != nil:
		return refuse("finish it", fmt.Errorf("%s: is not finished: it has no %s yet", p.dir, ScoresFile))
	}
	return nil
}

// arrange sorts the examples of all parts by index. It returns an error if two parts have the same example.
func (s *Shards) arrange() error {
	for i, p := range s.parts {
		for _, index := range p.positions {
			s.turns = append(s.turns, turn{index, i})
		}
	}
	slices.SortStableFunc(s.turns, func(a, b turn) int { return a.index - b.index })
	var twice []turn
	for i, t := range s.turns {
		if i > 0 && s.turns[i-1].index == t.index {
			twice = append(twice, s.turns[i-1], t)
		}
	}
	if len(twice) == 0 {
		return nil
	}
	a, b := s.parts[twice[0].part], s.parts[twice[1].part]
	return hint.New(fmt.Sprintf("%s (%s) and %s (%s) overlap: both have example %d; %d examples are in several shards",
		a.dir, joinShards(a.shards()), b.dir, joinShards(b.shards()), twice[0].index, len(twice)/2), "leave one of them out")
}

// The method 'shards' lists the shards in the folder p. There are several only if p is the result of an incomplete
// merge.
func (p shardFolder) shards() []spec.Shard {
	if len(p.run.Data.Shards) > 0 {
		return p.run.Data.Shards
	}
	return []spec.Shard{p.run.Parameters.Shard}
}

// describe sets s.run, which is the run.json of the merged run. All entries except the field Runtime describe the whole
// run. Runtime is the runtime of the first shard, and Runtime.Shards lists the runtimes of all shards.
func (s *Shards) describe() {
	s.run = s.parts[0].run
	s.run.Parameters.Shard = spec.Whole
	s.run.Data.Selected = len(s.run.Parameters.Positions(s.run.Data.Examples))
	s.run.Data.Shards, s.run.Runtime.Shards = nil, nil
	s.run.Runtime.Resumed = nil // Resumed described only the first shard
	for _, p := range s.parts {
		if s.Gaps() != nil {
			s.run.Data.Shards = append(s.run.Data.Shards, p.shards()...)
		}
		ran := p.run.Runtime.Shards
		if len(ran) == 0 {
			ran = []ShardRuntime{{p.run.Parameters.Shard, p.run.Runtime}}
		}
		s.run.Runtime.Shards = append(s.run.Runtime.Shards, ran...)
	}
	slices.SortFunc(s.run.Data.Shards, spec.Shard.Compare)
	slices.SortFunc(s.run.Runtime.Shards, func(a, b ShardRuntime) int { return a.Shard.Compare(b.Shard) })
}

// Examples returns the number of examples in the shards.
func (s *Shards) Examples() int { return len(s.turns) }

// Run returns the run.json of the merged run.
func (s *Shards) Run() Run { return s.run }

// Gaps returns the missing shards of the whole run, or nil if no shard is missing.
func (s *Shards) Gaps() *GapError {
	absent := s.run.Data.Selected - len(s.turns)
	if absent == 0 {
		return nil
	}
	gap := &GapError{Run: s.run, Examples: absent, Of: s.run.Data.Selected}
	named := 0
	p := s.run.Parameters
	for _, part := range s.parts {
		for _, shard := range part.shards() {
			p.Shard.K = max(p.Shard.K, shard.K)
		}
	}
	for i := range min(p.Shard.K, s.run.Data.Selected) {
		p.Shard.I = i
		positions := p.Positions(s.run.Data.Examples)
		if !slices.ContainsFunc(positions, s.has) {
			gap.Missing = append(gap.Missing, p.Shard)
			named += len(positions)
		}
	}
	if named != absent {
		gap.Missing = nil
	}
	return gap
}

func (s *Shards) has(index int) bool {
	_, found := slices.BinarySearchFunc(s.turns, index, func(t turn, index int) int { return t.index - index })
	return found
}

// Close unlocks and closes the shards.
func (s *Shards) Close() {
	for i := range s.parts {
		s.parts[i].unlock()
	}
}

func (p *shardFolder) unlock() {
	if p.lock != nil {
		_ = p.lock.Unlock()
		p.lock = nil
	}
}

// Steps returns the total number of steps that Merge reports to its function 'progress'. Each example of each file is
// one step.
func (s *Shards) Steps() int64 {
	files := 2
	if len(s.run.Parameters.ConfidenceRadii) > 0 {
		files++
	}
	if s.run.Parameters.SaveScores {
		files++
	}
	return int64(files * len(s.turns))
}
