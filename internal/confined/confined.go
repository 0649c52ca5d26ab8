// Package confined opens the files of a folder that somebody else may have packed, such as a run folder. It follows no
// link inside the folder, and writes to no file that has a second name (hard link). So nothing outside the folder is
// read or changed.
package confined

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rscert/rscert/internal/hint"
)

// Open opens a regular file for reading. It returns an error if the path names a link, a folder, a pipe or a device.
// The path of the file's folder may contain links.
func Open(path string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, rename(err, path)
	}
	defer root.Close()
	return OpenIn(root, filepath.Base(path), os.O_RDONLY)
}

// OpenIn opens the regular file with this name in a folder. It returns an error if the name leads to anything else.
// With os.O_CREATE, OpenIn creates a missing file. It refuses to open a file for writing if the file has another hard
// link.
func OpenIn(root *os.Root, name string, flag int) (*os.File, error) {
	path := filepath.Join(root.Name(), name)
	if flag&os.O_CREATE != 0 {
		if file, err := root.OpenFile(name, flag|os.O_EXCL, 0o644); !errors.Is(err, fs.ErrExist) {
			return file, rename(err, path)
		}
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, rename(err, path)
	}
	if err := check(path, info, flag&(os.O_WRONLY|os.O_RDWR) != 0); err != nil {
		return nil, err
	}
	// After the check above, somebody may have put another file in place of the checked file. So the code below
	// compares the opened file with the checked file. With the flags here, opening another file does no harm: with
	// O_NONBLOCK the call does not wait for a pipe, and without O_CREATE it creates no file. Nothing is truncated,
	// because no caller passes os.O_TRUNC.
	file, err := root.OpenFile(name, flag&^os.O_CREATE|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, rename(err, path)
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(err, fmt.Errorf("%s: was replaced while it was opened", path), file.Close())
	}
	return file, nil
}

// Check makes the same checks as OpenIn, but does not open the file. The argument 'write' says whether the file is to
// be opened for writing. Check returns nil if OpenIn may open the file, or if there is no file.
func Check(root *os.Root, name string, write bool) error {
	path := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return rename(err, path)
	}
	return check(path, info, write)
}

func check(path string, info fs.FileInfo, write bool) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return hint.New(path+": is a link, and may lead out of its folder", "put a copy of the file in its place")
	case mode.IsDir():
		return hint.New(path+": is a folder", "name a file")
	case !mode.IsRegular():
		return hint.New(path+": is no regular file", "copy what it gives into a file")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); write && ok && stat.Nlink > 1 {
		return hint.New(path+": has a second name (a hard link), and writing would change that file, too",
			"copy the folder, and go on with the copy")
	}
	return nil
}

// rename puts the argument 'path' into an error in place of the file's name. An error of a method of os.Root contains
// only the name of the file inside the root, not the whole path.
func rename(err error, path string) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: "open", Path: path, Err: failed.Err}
	}
	return err
}
