// Package durable writes files that survive a power cut. WriteFile writes a file that appears whole or not at all.
// SyncFolder makes the names in a folder survive. CheckName reports an open file that lost its name.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Temporary is the prefix of the names of unfinished files. An interrupted WriteFile leaves such a file behind.
const Temporary = ".rscert-"

// WriteFile writes a file that appears whole or not at all. It syncs a temporary file beside path, renames this file,
// and then syncs the folder.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), Temporary+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder survive a power cut, if the system can do that.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
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
