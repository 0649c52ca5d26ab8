// Package durable writes files that survive a power cut. WriteFile writes a file that appears whole or not at all.
// SyncFolder makes the names in a folder survive a power cut. CheckName returns an error if an open file was deleted,
// moved or replaced.
package durable

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Temporary is the prefix of the names of unfinished files. An interrupted WriteFile leaves such a file behind.
const Temporary = ".rscert-"

// WriteFile writes a file that appears whole or not at all. It syncs a temporary file beside the path, renames this
// file, and then syncs the folder. If path is a link, WriteFile writes the file that the link leads to. An existing
// file keeps its mode and, where the system allows, its owner. If path is a device, a pipe or a socket, WriteFile
// writes into it, because a rename would replace it.
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
		// /dev/stdout leads to a file that is already open. If WriteFile replaced the file, other processes that have
		// it open would continue to write to the old file, which has lost its name.
		return writeInto(path, data, os.O_APPEND)
	}
	return replace(target, data, info)
}

// Resolve follows the links at path and returns the path of the file that they lead to. The file may be missing.
func Resolve(path string) (string, error) {
	const most = 40 // Linux also follows at most 40 links
	for range most {
		to, err := os.Readlink(path)
		if err != nil { // path is missing or is no link
			return path, nil
		}
		if ofProcess(path) { // the target of /proc/self/fd/1 need not be a path; it may be "pipe:[7]"
			return path, nil
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to // not cleaned, because in the path "a/.." the folder "a" may be a link
		}
		path = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// ofProcess reports whether a path may name an open file of a process. For example, /dev/stdout is a link to such a
// path, /proc/self/fd/1.
func ofProcess(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/fd/")
}

// writeInto writes data to an existing device, pipe or file that must not be replaced.
func writeInto(path string, data []byte, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// newMode is the mode of a new file, before the system applies the umask.
const newMode = 0o666

// The function 'replace' writes a new file to path. If a file exists there, the argument 'was' is the FileInfo of this
// file, and the new file gets the same mode and owner. If the caller passes nil, the new file gets newMode.
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
	return writeIn(root, name, writerOf(data), 0o600, func(f *os.File) error {
		if owner, ok := was.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(owner.Uid), int(owner.Gid)) // only root may change the owner of a file
		}
		return f.Chmod(was.Mode().Perm())
	})
}

// WriteIn writes a file in a folder, as WriteFile does. Unlike WriteFile, it follows no link, and it replaces any file
// or link with this name. The umask limits the mode.
func WriteIn(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	return StreamIn(root, name, mode, writerOf(data))
}

// StreamIn writes a file as WriteIn does. The function 'data' writes the content.
func StreamIn(root *os.Root, name string, mode fs.FileMode, data func(io.Writer) error) error {
	return writeIn(root, name, data, mode, func(*os.File) error { return nil })
}

// writerOf returns a function that writes data.
func writerOf(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func writeIn(
	root *os.Root, name string, data func(io.Writer) error, mode fs.FileMode, adapt func(*os.File) error,
) (err error) {
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
	if err = data(f); err != nil {
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

// fullPath puts the folder's path into an error about a file in the folder.
func fullPath(root *os.Root, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: "open", Path: filepath.Join(root.Name(), failed.Path), Err: failed.Err}
	}
	return err
}

// SyncRoot does the same as SyncFolder, for an open folder.
func SyncRoot(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return syncFolder(f)
}

// SyncFolder makes the names in a folder survive a power cut, if the system supports this.
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

// CheckName returns an error unless the open file is still the file at the path. Data written to a file without a name
// is lost.
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
