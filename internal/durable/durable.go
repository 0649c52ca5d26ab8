// Package durable writes files that survive a power cut. WriteFile writes a file that appears whole or not at all.
// SyncFolder makes the names in a folder survive. CheckName reports an open file that lost its name.
package durable

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Temporary is the prefix of the names of unfinished files. An interrupted WriteFile leaves such a file behind.
const Temporary = ".rscert-"

// WriteFile writes a file that appears whole or not at all: it syncs a temporary file beside path, renames it, then
// syncs the folder. If path is a link, it writes the file that the link leads to. An existing file keeps its mode and,
// where the system allows, its owner. Into a device, a pipe or a socket, which a rename would replace, it writes.
func WriteFile(path string, data []byte) error {
	target, err := Resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(target, data, nil)
	case err != nil:
		return err
	case !info.Mode().IsRegular() && !info.IsDir():
		return writeInto(path, data, 0)
	}
	if named, err := os.Lstat(target); err != nil || !os.SameFile(info, named) {
		// /dev/stdout leads to a file that is open already, whatever its name: after a rename its other writers would lose it.
		return writeInto(path, data, os.O_APPEND)
	}
	return replace(target, data, info)
}

// Resolve returns the path of the file that path leads to by links. The file may be missing.
func Resolve(path string) (string, error) {
	const most = 40 // as in Linux
	for range most {
		to, err := os.Readlink(path)
		if err != nil { // missing, or no link
			return path, nil
		}
		if ofProcess(path) { // names an open file, and may have no path
			return path, nil
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to // not cleaned: in a/.. the folder a may be a link
		}
		path = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// ofProcess reports whether a path names an open file of a process, as /dev/stdout does.
func ofProcess(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/fd/")
}

// writeInto writes to what exists and is not to be replaced.
func writeInto(path string, data []byte, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// newMode is the mode of a new file, before the umask.
const newMode = 0o666

// replace writes a file that is new, or whose mode and owner are those of was.
func replace(path string, data []byte, was fs.FileInfo) error {
	dir, name := filepath.Split(path)
	root, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	defer root.Close()
	if was == nil {
		return WriteIn(root, name, data, newMode)
	}
	return writeIn(root, name, data, 0o600, func(f *os.File) error {
		if owner, ok := was.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(owner.Uid), int(owner.Gid)) // only root may give files away
		}
		return f.Chmod(was.Mode().Perm())
	})
}

// WriteIn is WriteFile for a file of a folder: it follows no link, and replaces what has the name. The mode is limited
// by the umask.
func WriteIn(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	return writeIn(root, name, data, mode, func(*os.File) error { return nil })
}

func writeIn(root *os.Root, name string, data []byte, mode fs.FileMode, adapt func(*os.File) error) (err error) {
	temporary := Temporary + rand.Text()
	f, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fullPath(root, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = root.Remove(temporary)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = adapt(f); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = root.Rename(temporary, name); err != nil {
		return fullPath(root, err)
	}
	return SyncRoot(root)
}

// fullPath names the folder in an error of a file in it.
func fullPath(root *os.Root, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: "open", Path: filepath.Join(root.Name(), failed.Path), Err: failed.Err}
	}
	return err
}

// SyncRoot is SyncFolder for an open folder.
func SyncRoot(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return syncFolder(f)
}

// SyncFolder makes the names in a folder survive a power cut, if the system can do that.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return syncFolder(f)
}

func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) || runtime.GOOS == "windows" {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// CheckName returns an error unless path still names the open file. If a file has no name, the data written to it are
// lost.
func CheckName(path string, file *os.File) error {
	open, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: was deleted or moved while it was written to", path)
	case err != nil:
		return err
	case !os.SameFile(open, named):
		return fmt.Errorf("%s: was replaced while it was written to", path)
	}
	return nil
}
