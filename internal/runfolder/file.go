package runfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
)

// appendFile is a file to which whole lines are appended.
type appendFile struct {
	path string
	file *os.File
	size int64
}

// openAppend opens a file of the folder for appending. It first truncates the file to the given size.
func openAppend(root *os.Root, name string, size int64) (*appendFile, error) {
	file, err := confined.OpenIn(root, name, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(size); err == nil {
		_, err = file.Seek(size, 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &appendFile{filepath.Join(root.Name(), name), file, size}, nil
}

// append writes whole lines. If the disk has no room for all of these lines, none of them stays in the file.
func (a *appendFile) append(lines []byte) error {
	if _, err := a.file.Write(lines); err != nil {
		_ = a.file.Truncate(a.size)
		return err
	}
	a.size += int64(len(lines))
	return nil
}

// sync makes the appended lines survive a power cut. It also checks that the file still has its name and its expected
// size, because results in a deleted file would be lost.
func (a *appendFile) sync() error {
	if err := a.file.Sync(); err != nil {
		return err
	}
	return stillThere(a.path, a.file, a.size)
}

// stillThere checks that the open file is still the file at the path and has the expected size.
func stillThere(path string, file *os.File, size int64) error {
	if err := durable.CheckName(path, file); err != nil {
		return hint.New(err.Error(), "its results are lost: start again")
	}
	if info, err := file.Stat(); err != nil || info.Size() != size {
		return errors.Join(err, hint.New(fmt.Sprintf("%s: was changed while it was written to", path), "start again in another folder"))
	}
	return nil
}

// openFile opens a regular file for reading. It refuses pipes and devices, because reading them may never end. In a run
// folder it also refuses links, because a run's evidence must be in the run's folder.
func openFile(path string) (*os.File, error) {
	if Owns(path) {
		return confined.Open(path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, hint.New(fmt.Sprintf("%s: is a folder", path), "name a file")
	case !info.Mode().IsRegular():
		return nil, hint.New(fmt.Sprintf("%s: is no regular file", path), "copy what it gives into a file")
	}
	return os.Open(path)
}

// checkOwn returns an error if a file of a run folder is a link or is not regular. The file may be missing.
func checkOwn(path string) error {
	f, err := confined.Open(path)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
