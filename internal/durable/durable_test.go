package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// write calls WriteFile and checks that no temporary file remains.
func write(t *testing.T, path, data string) {
	t.Helper()
	if err := WriteFile(path, []byte(data)); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), Temporary) {
			err = errors.Join(err, errors.New(e.Name()+" is left"))
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func expect(t *testing.T, path, data string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	info, statErr := os.Lstat(path)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if string(got) != data || info.Mode() != mode {
		t.Errorf("%s is %q with mode %v, want %q with %v", path, got, info.Mode(), data, mode)
	}
}

// TestModes checks that the umask limits a new file's mode, and that an existing file keeps its mode.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for umask, want := range map[int]fs.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		before := syscall.Umask(umask)
		write(t, path, "new")
		syscall.Umask(before)
		expect(t, path, "new", want)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666, 0o755} {
		if err := errors.Join(os.WriteFile(path, []byte("longer than before"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		write(t, path, "short")
		expect(t, path, "short", mode)
	}
}

// TestOwner checks that a file of another user still belongs to that user after root wrote to it.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, 23456)); err != nil {
		t.Fatal(err)
	}
	write(t, path, "x")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 12345 || owner.Gid != 23456 {
		t.Errorf("the file belongs to %d:%d", owner.Uid, owner.Gid)
	}
}

// TestLinks writes through links to existing and missing files. The file that the link leads to must be written, and
// the link must stay.
func TestLinks(t *testing.T) {
	for name, to := range map[string]string{"relative": "../there/file", "two links": "second", "by a linked folder": "../here/../there/file"} {
		for _, exists := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				here, there := filepath.Join(dir, "deep", "here"), filepath.Join(dir, "deep", "there")
				err := errors.Join(os.MkdirAll(here, 0o755), os.MkdirAll(there, 0o755), os.Symlink("deep/here", filepath.Join(dir, "here")),
					os.Symlink(to, filepath.Join(here, "out")), os.Symlink("../there/file", filepath.Join(here, "second")))
				want := fs.FileMode(0o644)
				if exists {
					want = 0o600
					err = errors.Join(err, os.WriteFile(filepath.Join(there, "file"), []byte("before"), want))
				}
				if err != nil {
					t.Fatal(err)
				}
				defer syscall.Umask(syscall.Umask(0o022))
				write(t, filepath.Join(dir, "here", "out"), "after")
				expect(t, filepath.Join(there, "file"), "after", want)
				if now, err := os.Readlink(filepath.Join(here, "out")); err != nil || now != to {
					t.Errorf("the link is %q, %v", now, err)
				}
			})
		}
	}
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(loop, nil); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
}

// TestNoRegularFile writes to a pipe, directly and through a link. The pipe must get the data and stay a pipe.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("pipe", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link} {
		got := make(chan string)
		go func() {
			data, err := os.ReadFile(pipe)
			if err != nil {
				t.Error(err)
			}
			got <- string(data)
		}()
		write(t, path, "through "+path)
		if data := <-got; data != "through "+path {
			t.Errorf("the pipe gave %q", data)
		}
		if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("the pipe is %v, %v", info.Mode(), err)
		}
	}
}

// TestDevice writes to a null device in a temporary folder. It checks that the device stays a device.
func TestDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "null")
	const null = 1<<8 | 3
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, null); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	write(t, path, "nothing")
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeDevice|fs.ModeCharDevice {
		t.Errorf("the device is %v, %v", info.Mode(), err)
	}
}

// TestOpenFile writes to an open file through a path such as /dev/fd/3, and through a link to this path. /dev/stdout is
// a link to a similar path. The earlier data in the file must stay.
func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	link := filepath.Join(filepath.Dir(path), "link")
	open := "/dev/fd/" + strconv.Itoa(int(f.Fd()))
	if _, err := os.Stat(open); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{open, link} {
		if _, err := f.WriteString("before "); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(out, []byte("out ")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(0, 2); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "before out before out " {
		t.Errorf("%q, %v", data, err)
	}
}

// TestWriteIn writes to a link. WriteIn must replace the link and must not write to the link's target.
func TestWriteIn(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("x"), 0o600), os.Symlink(outside, filepath.Join(dir, "run.json"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	defer syscall.Umask(syscall.Umask(0o022))
	if err := WriteIn(root, "run.json", []byte("{}"), 0o644); err != nil {
		t.Error(err)
	}
	expect(t, filepath.Join(dir, "run.json"), "{}", 0o644)
	expect(t, outside, "x", 0o600)
	if err := WriteIn(root, "none/a", nil, 0o644); err == nil {
		t.Error("a file in no folder")
	}
}
