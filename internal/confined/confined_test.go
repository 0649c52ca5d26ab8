package confined

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpenIn tries a regular file, links, a pipe and a folder. Open must refuse everything except regular files. OpenIn
// must also refuse to write to hard links. A file outside the folder must not change.
func TestOpenIn(t *testing.T) {
	const was = "not to be changed"
	for _, tt := range []struct {
		name         string
		make         func(victim, path string) error
		reads, write string // a part of the expected error, or "" if the file must open
	}{
		{"file", func(_, path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, "", ""},
		{"missing", func(_, _ string) error { return nil }, "no such file", ""},
		{"link", os.Symlink, "is a link", "is a link"},
		{"link to nothing", func(victim, path string) error { return os.Symlink(victim+"-new", path) }, "is a link", "is a link"},
		{"link within", func(_, path string) error {
			return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(path), "other"), nil, 0o600), os.Symlink("other", path))
		}, "is a link", "is a link"},
		{"hard link", os.Link, "", "has a second name"},
		{"pipe", func(_, path string) error { return syscall.Mkfifo(path, 0o600) }, "is no regular file", "is no regular file"},
		{"folder", func(_, path string) error { return os.Mkdir(path, 0o700) }, "is a folder", "is a folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outside, dir := t.TempDir(), t.TempDir()
			victim, path := filepath.Join(outside, "victim"), filepath.Join(dir, "votes")
			if err := errors.Join(os.WriteFile(victim, []byte(was), 0o600), tt.make(victim, path)); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			file, err := Open(path)
			expect(t, "reading", file, err, tt.reads)
			if file, err = OpenIn(root, "votes", os.O_RDWR|os.O_CREATE); err == nil {
				_, err = file.WriteString("changed")
			}
			expect(t, "writing", file, err, tt.write)
			if err := Check(root, "votes", true); tt.write != "" && (err == nil || !strings.Contains(err.Error(), tt.write)) {
				t.Errorf("checked: %v, want %q", err, tt.write)
			}
			if left, err := os.ReadFile(victim); err != nil || string(left) != was {
				t.Errorf("the file outside is %q, %v", left, err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Errorf("outside are %v, %v", entries, err)
			}
		})
	}
}

func expect(t *testing.T, doing string, file *os.File, err error, want string) {
	t.Helper()
	if file != nil {
		_ = file.Close()
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: error %v, want %q", doing, err, want)
	}
}

// TestPaths checks that errors name the whole path, and that the path of a folder may contain links.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink("real", link), os.WriteFile(filepath.Join(real, "a"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	file, err := Open(filepath.Join(link, "a"))
	expect(t, "by a link to the folder", file, err, "")
	var failed *fs.PathError
	for _, path := range []string{filepath.Join(link, "b"), filepath.Join(dir, "none", "b")} {
		if _, err := Open(path); !errors.As(err, &failed) || failed.Path != path || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
