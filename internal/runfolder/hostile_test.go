package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/spec"
)

// TestHostileFiles checks that readers refuse files that would make them wait or read for ever. The readers must take
// little memory before they refuse a file.
func TestHostileFiles(t *testing.T) {
	sparse := func(path string) error { // the file has one line of 8 GiB of zeros, but takes no space on the disk
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(8<<30), f.Close())
	}
	link := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	for _, tt := range []struct {
		name, file string
		make       func(path string) error
		want       string
	}{
		{"endless line", VotesFile, sparse, "line 1: has more than 64 MiB"},
		{"endless line", CertificatesFile, sparse, "line 1: has more than 64 MiB"},
		{"endless line", BoundsFile, sparse, "line 1: has more than 64 MiB"},
		{"endless", RunFile, sparse, "has more than 64 MiB"},
		{"device", VotesFile, link("/dev/zero"), "is a link"},
		{"device", CertificatesFile, link("/dev/zero"), "is a link"},
		{"device", BoundsFile, link("/dev/zero"), "is a link"},
		{"device", RunFile, link("/dev/zero"), "is a link"},
		{"pipe", VotesFile, func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is no regular file"},
		{"pipe", RunFile, func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is no regular file"},
	} {
		t.Run(tt.name+" "+tt.file, func(t *testing.T) {
			dir := wholeRun(t)
			path := filepath.Join(dir, tt.file)
			if err := errors.Join(os.Remove(path), tt.make(path)); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := resumeAndRead(dir, tt.file)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > len(path)+200 {
				t.Errorf("error %v, want a short one with %q", err, tt.want)
			}
			// A buffer that grows by a quarter each time, up to 64 MiB, allocates 360 MiB in all. Resuming uses one
			// such buffer, and reading uses another.
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 1000 {
				t.Errorf("took %d MiB of memory", mib)
			}
		})
	}
}

// TestLinks puts a link in the place of one file of a run folder, and then resumes the run. The link leads to a file
// outside of the folder. If the run already had this file, Resume must refuse a symbolic link. If Resume would write to
// the file, it must refuse symbolic links and hard links. Resume must never change the file outside.
func TestLinks(t *testing.T) {
	names := []string{RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile, ScoresFile + ".part", lockFile}
	for _, name := range names {
		for how, link := range map[string]func(string, string) error{"link": os.Symlink, "hard link": os.Link} {
			if name == lockFile && how == "hard link" {
				continue // a hard link is harmless, because nothing is ever written to the lock
			}
			for _, without := range []int{0, 3} {
				t.Run(fmt.Sprintf("%s of %s, %d to do", how, name, without), func(t *testing.T) {
					dir := sampleShard(t, splitRun, spec.Whole, without)
					path, outside := filepath.Join(dir, name), filepath.Join(t.TempDir(), "outside")
					had := os.Rename(path, outside) == nil // the link leads to the run's own file, so only the link itself is wrong
					if !had {
						if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					was, err := os.ReadFile(outside)
					if err := errors.Join(err, link(outside, path)); err != nil {
						t.Fatal(err)
					}
					f, err := Resume(dir, splitRun)
					if err == nil {
						err = f.Close()
					}
					writes := name != RunFile && (name != ScoresFile || without > 0) && (name != ScoresFile+".part" || without > 0)
					want := map[string]string{"link": "is a link", "hard link": "has a second name"}[how]
					if (how == "link" && had || writes) && (err == nil || !strings.Contains(err.Error(), want)) {
						t.Errorf("resumed: error %v, want %q", err, want)
					}
					if now, err := os.ReadFile(outside); err != nil || !bytes.Equal(now, was) {
						t.Errorf("the file outside was changed: %d bytes, had %d, %v", len(now), len(was), err)
					}
				})
			}
		}
	}
}

// TestLockFollowsNoLink makes a link at the path of the lock file, after newLock has checked this path. TryLock must
// then fail, and must make no file at the other end of the link.
func TestLockFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	lock, err := newLock(root, dir, os.O_CREATE|os.O_RDONLY)
	if err := errors.Join(err, os.Symlink(outside, filepath.Join(dir, lockFile))); err != nil {
		t.Fatal(err)
	}
	if got, err := lock.TryLock(); got || err == nil {
		t.Errorf("locked: %v, %v", got, err)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made outside: %v", err)
	}
}

// TestReadsNoLink replaces a file of a run folder by a link. Reading the run must then fail, whether the user gives the
// path of the folder or the path of the link. A link to the whole folder is allowed.
func TestReadsNoLink(t *testing.T) {
	for _, name := range []string{RunFile, VotesFile, CertificatesFile, BoundsFile, ScoresFile} {
		dir := sampleShard(t, splitRun, spec.Whole, 0)
		path, outside := filepath.Join(dir, name), filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Rename(path, outside), os.Symlink(outside, path)); err != nil {
			t.Fatal(err)
		}
		read := func(at string) error {
			e, err := Find(at)
			if err != nil {
				return err
			}
			_, votes := e.Votes(anyVotes)
			_, certs := e.Certificates()
			_, bounds := e.Bounds()
			scores, err := e.Scores()
			if err == nil {
				err = scores.Close()
			}
			return errors.Join(votes, certs, bounds, err)
		}
		for _, at := range []string{dir, path} {
			if err := read(at); err == nil || !strings.Contains(err.Error(), "is a link") {
				t.Errorf("%s: error %v, want one of the link", at, err)
			}
		}
		link := filepath.Join(t.TempDir(), "run")
		if err := errors.Join(os.Remove(path), os.Rename(outside, path), os.Symlink(dir, link)); err != nil {
			t.Fatal(err)
		}
		if err := read(link); err != nil {
			t.Errorf("a link to the folder: %v", err)
		}
	}
}

// resumeAndRead checks that the run in dir cannot be resumed. Then it reads the file and returns the error.
func resumeAndRead(dir, file string) error {
	if f, err := Resume(dir, testRun); err == nil {
		return errors.Join(errors.New("the run can be resumed"), f.Close())
	}
	e, err := Find(dir)
	if err != nil {
		return err
	}
	switch file {
	case VotesFile:
		_, err = e.Votes(anyVotes)
	case CertificatesFile:
		_, err = e.Certificates()
	case BoundsFile:
		_, err = e.Bounds()
	}
	return err
}

// TestLongLine reads a line of the maximum length. If the line is one byte longer, the reader must return an error.
func TestLongLine(t *testing.T) {
	for _, more := range []int{0, 1} {
		text := append(bytes.Repeat([]byte("a"), maxLine-1+more), "\nb\n"...)
		var lengths []int
		s := newLineScanner(bytes.NewReader(text))
		l, err := s.next()
		for ; err == nil; l, err = s.next() {
			lengths = append(lengths, len(l.text))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if more == 0 && (err != nil || len(lengths) != 2 || lengths[0] != maxLine-1 || lengths[1] != 1) {
			t.Errorf("lines of %v bytes, error %v", lengths, err)
		}
		if more == 1 && err == nil {
			t.Error("a line that is too long is read")
		}
	}
}

// TestManyLines reads a file of very many short lines. If the lines need more memory than one input file may take
// (memory.Limit), the reader must return an error.
func TestManyLines(t *testing.T) {
	var text bytes.Buffer
	const lines = 10_000
	others := strings.Repeat(",0", 19)
	for i := range lines {
		fmt.Fprintf(&text, `{"index":%d,"label":0,"n":1,"counts":[1%s],"n0":1,"counts0":[1%s]}`+"\n", i, others, others)
	}
	path := filepath.Join(t.TempDir(), "many-votes.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c, err := readAll(path, openVotes)
	if err != nil || len(c.values) != lines {
		t.Fatalf("%d lines, %v", len(c.values), err)
	}
	held := heap() - before
	runtime.KeepAlive(c)

	// memory.Limit, the memory for one input file, is half of this limit
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(held * 3 / 2))
	_, err = readAll(path, openVotes)
	var limit *memory.LimitError
	if !errors.As(err, &limit) || !regexp.MustCompile(`many-votes\.jsonl: line \d+: needs more than `).MatchString(err.Error()) {
		t.Errorf("three quarters of %d bytes: error %v", held, err)
	}
	debug.SetMemoryLimit(3 * held)
	if _, err := readAll(path, openVotes); err != nil {
		t.Errorf("one and a half times %d bytes: %v", held, err)
	}
}
