package ortlib

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Opened is the open file of a library that was hashed. With an Opened, a caller can load exactly the bytes that were
// hashed.
type Opened struct {
	file   *os.File
	path   string // absolute path
	sum    string
	before fs.FileInfo
}

// OpenLibrary opens and hashes the library at path. If 'rscert setup' put the library into the cache, its hash must
// equal the published hash (see CheckPinned).
func OpenLibrary(path string) (*Opened, error) {
	if err := RegularFile(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(absolute)
	if err != nil {
		return nil, err
	}
	l := &Opened{file: file, path: absolute}
	if err := l.check(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return l, nil
}

// The method 'check' hashes the open file. If the file is in the cache, check compares the hash with the published
// hashes.
func (l *Opened) check() (err error) {
	if l.before, err = l.file.Stat(); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, l.file); err != nil {
		return err
	}
	l.sum = hex.EncodeToString(h.Sum(nil))
	return checkPinned(l.path, l.sum)
}

// SHA256 returns the SHA-256 of the library's file in hex.
func (l *Opened) SHA256() string { return l.sum }

// Path returns the absolute path from which to load the library. On Linux it is the path /proc/self/fd/N of the open
// file, so the loader gets the file that was hashed. The library may need other files in its folder. In this case, Path
// instead returns the library's path in this folder, because the loader looks for these files relative to the library's
// path. A library may need such files if the folder holds execution providers, or if the library is an unknown build
// that sets its own search path. On other systems, Path always returns the library's path in its folder. Somebody could
// exchange the file at that path after it was hashed. So the caller must call Unchanged after it has loaded the
// library. The caller must keep l, because l keeps the file open. If the file were closed, another library could get
// the same path. The loader would then mistake the other library for the one that is already loaded.
func (l *Opened) Path() string {
	own := fmt.Sprintf("/proc/self/fd/%d", l.file.Fd())
	if _, err := os.Stat(own); runtime.GOOS != "linux" || err != nil || l.needsFolder() {
		return l.path
	}
	return own
}

// needsFolder reports whether the library may need files in its own folder.
func (l *Opened) needsFolder() bool {
	if len(Glob(filepath.Dir(l.path), "libonnxruntime_providers_*")) > 0 {
		return true
	}
	if Known(l.sum) {
		return false
	}
	e, err := elf.NewFile(l.file)
	if err != nil {
		return false // the loader will report the error
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if paths, err := e.DynString(tag); err != nil || len(paths) > 0 {
			return true
		}
	}
	return false
}

// Unchanged returns an error if the library's file was changed or replaced after it was hashed. The caller calls
// Unchanged after it has loaded the library. So if the file was replaced, the start-up code of the replacement has
// already run. Unchanged misses two kinds of changes. A folder above the file may have been replaced during the loading
// and then put back. And the file may have changed so quickly that the file system records the same change time as
// before.
func (l *Opened) Unchanged() error {
	after, err := l.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.path)
	if err != nil {
		return err
	}
	if !os.SameFile(l.before, there) || after.Size() != l.before.Size() || !after.ModTime().Equal(l.before.ModTime()) ||
		!changeTime(after).Equal(changeTime(l.before)) {
		return errors.New("the library was changed or exchanged while it was loaded")
	}
	return nil
}

// Known reports whether a SHA-256, in hex, belongs to a published ONNX Runtime library in rscert's list.
func Known(sum string) bool {
	for line := range strings.Lines(pinnedList) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == sum {
			return slices.Contains(libraryNames(), filepath.Base(fields[1]))
		}
	}
	return false
}
