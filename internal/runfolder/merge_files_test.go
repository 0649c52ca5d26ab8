package runfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/spec"
)

// TestMergeTakesOverOnlyItsOwn puts other files, folders and links at the path of the work folder. Merge must refuse
// them and leave them unchanged.
func TestMergeTakesOverOnlyItsOwn(t *testing.T) {
	s, err := OpenShards([]string{sampleShard(t, votesRun, spec.Whole, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		name string
		make func(victim, work string) error
		want string
	}{
		{"a link to a folder", os.Symlink, "is no folder"},
		{"a file", func(_, work string) error { return os.WriteFile(work, []byte("x"), 0o600) }, "is no folder"},
		{"a foreign file", func(_, work string) error {
			return errors.Join(os.Mkdir(work, 0o700), os.WriteFile(filepath.Join(work, "thesis.tex"), []byte("x"), 0o600))
		}, "has thesis.tex"},
		{"a folder within", func(_, work string) error { return os.MkdirAll(filepath.Join(work, VotesFile), 0o700) }, "has votes.jsonl"},
		{"a link within", func(victim, work string) error {
			return errors.Join(os.Mkdir(work, 0o700), os.Symlink(victim, filepath.Join(work, durable.Temporary+"x")))
		}, "has .rscert-x"},
		{"a lock that is a link", func(victim, work string) error {
			return errors.Join(os.Mkdir(work, 0o700), os.Symlink(filepath.Join(victim, "made"), filepath.Join(work, lockFile)))
		}, "has .lock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			victim, root := t.TempDir(), t.TempDir()
			work := filepath.Join(root, durable.Temporary+"merge-run")
			if err := errors.Join(os.WriteFile(filepath.Join(victim, "dear"), nil, 0o600), tt.make(victim, work)); err != nil {
				t.Fatal(err)
			}
			was := list(t, work)
			err := s.Merge(t.Context(), filepath.Join(root, "run"), func(int64) {})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if left := list(t, victim); left != "dear " {
				t.Errorf("the other folder has %q", left)
			}
			if left := list(t, work); left != was {
				t.Errorf("its place had %q, has %q", was, left)
			}
			if left := list(t, root); left != filepath.Base(work)+" " {
				t.Errorf("beside it are %q", left)
			}
		})
	}
}

// list returns the names in a folder, or "" for a file.
func list(t *testing.T, dir string) (names string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names += e.Name() + " "
	}
	return names
}

// limitFiles allows the process to open at most 'more' further files at the same time. The limit holds until the test
// ends.
func limitFiles(t *testing.T, more int) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(os.DevNull) // Open uses the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	limit := was
	limit.Cur = uint64(next.Fd()) + uint64(more)
	if err := errors.Join(next.Close(), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

// TestDiscard checks that discard removes the work folder, unless this folder has already become the run folder.
func TestDiscard(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		dir := t.TempDir()
		beside, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer beside.Close()
		m := merging{Shards: &Shards{run: votesRun}, ctx: t.Context(), beside: beside, name: durable.Temporary + "merge-run"}
		f, err := m.lock()
		if err != nil {
			t.Fatal(err)
		}
		defer f.unlock()
		m.root = f.root
		if err := os.WriteFile(filepath.Join(dir, m.name, VotesFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		if renamed {
			want = "run "
			if err := m.rename("run"); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.discard(); err != nil || list(t, dir) != want {
			t.Errorf("renamed %v: %v, left %q", renamed, err, list(t, dir))
		}
		if renamed && list(t, filepath.Join(dir, "run")) != lockFile+" "+VotesFile+" " {
			t.Errorf("the run folder has %q", list(t, filepath.Join(dir, "run")))
		}
	}
}

// TestMergeManyShards merges 100 shards, while the process may open only 150 further files. If all shards and their
// locks stayed open, the merge would need 200 files.
func TestMergeManyShards(t *testing.T) {
	const k = 100
	run := votesRun
	run.Data.Examples, run.Data.Selected, run.Parameters.Skip, run.Parameters.Max = 2*k, 2*k, 1, 0
	run.Parameters.ConfidenceRadii = splitRun.Parameters.ConfidenceRadii
	whole, dirs := sampleShard(t, run, spec.Whole, 0), shardsOf(t, run, k)
	limitFiles(t, 150) // the usual limit is 256 or more
	out, err := merge(t, dirs)
	if err != nil {
		t.Fatal(err)
	}
	checkWhole(t, out, whole, run)
}

// TestMergeWithoutDescriptors merges under limits of 0 to 39 further open files, so that file descriptors run out at
// each step of a merge. The errors must not call a shard damaged.
func TestMergeWithoutDescriptors(t *testing.T) {
	dirs := shardsOf(t, splitRun, 3)
	failures := 0
	for more := range 40 {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			root := t.TempDir()
			limitFiles(t, more)
			s, err := OpenShards(dirs)
			if err == nil {
				err = s.Merge(t.Context(), filepath.Join(root, "out"), func(int64) {})
				s.Close()
			}
			var shard *ShardError
			switch {
			case err != nil && (errors.As(err, &shard) || !errors.Is(err, syscall.EMFILE)):
				t.Errorf("error %v", err)
			case err != nil:
				failures++
			}
		})
	}
	if failures < 5 || failures > 35 {
		t.Errorf("%d of 40 merges failed", failures)
	}
}

// TestReadErrorIsNoDamage simulates a merge in which a file of a shard cannot be read. The error must not call the
// shard damaged.
func TestReadErrorIsNoDamage(t *testing.T) {
	dir := sampleShard(t, votesRun, spec.Whole, 0)
	s, err := OpenShards([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failing, err := os.Open(dir) // reading a folder fails with EISDIR, as reading a failing disk fails with EIO
	if err != nil {
		t.Fatal(err)
	}
	defer failing.Close()
	if err := (&Evidence{Run: &votesRun}).finished("/dev/null/" + ScoresFile); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("scores that cannot be looked for: %v", err)
	}
	m := merging{Shards: s}
	_, err = newLineSource(&sparing{path: dir, file: failing, keep: true}).next()
	var shard *ShardError
	if err = m.damaged(0, err); errors.As(err, &shard) || !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a read error: %v", err)
	}
	if err := m.damaged(0, errChanged); !errors.As(err, &shard) {
		t.Errorf("damage: %v", err)
	}
}

// TestMergeOfChangedShard swaps two lines of a shard after the shard was checked. Both lines are intact, but each line
// is at the position of the other.
func TestMergeOfChangedShard(t *testing.T) {
	dirs := shardsOf(t, splitRun, 2)
	for _, name := range []string{VotesFile, CertificatesFile, BoundsFile} {
		s, err := OpenShards(dirs)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dirs[1], name)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(was), "\n")
		lines[1], lines[2] = lines[2], lines[1]
		overwrite(t, dirs[1], name, func(string) string { return strings.Join(lines, "") })
		err = s.Merge(t.Context(), filepath.Join(t.TempDir(), "out"), func(int64) {})
		if !errors.Is(err, errMoved) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
		overwrite(t, dirs[1], name, func(string) string { return string(was) })
	}
}
