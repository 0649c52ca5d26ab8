package runfolder

import (
	"errors"
	"fmt"
	"os"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
)

// appendFile is a file of whole lines.
type appendFile struct {
	path string
	file *os.File
	size int64
}

// openAppend opens a file for appending after its first size bytes and cuts off the rest.
func openAppend(path string, size int64) (*appendFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
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
	return &appendFile{path, file, size}, nil
}

// append writes whole lines. If the disk has no room for them, none remains.
func (a *appendFile) append(lines []byte) error {
	if _, err := a.file.Write(lines); err != nil {
		_ = a.file.Truncate(a.size)
		return err
	}
	a.size += int64(len(lines))
	return nil
}

// sync makes the appended lines survive a power cut. It also checks the file's name and size: results in a file that
// nobody can find are lost.
func (a *appendFile) sync() error {
	if err := a.file.Sync(); err != nil {
		return err
	}
	return stillThere(a.path, a.file, a.size)
}

// stillThere checks that path still names the open file and that the file has the expected size.
func stillThere(path string, file *os.File, size int64) error {
	if err := durable.CheckName(path, file); err != nil {
		return hint.New(err.Error(), "its results are lost: start again")
	}
	if info, err := file.Stat(); err != nil || info.Size() != size {
		return errors.Join(err, hint.New(fmt.Sprintf("%s: was changed while it was written to", path), "start again in another folder"))
	}
	return nil
}

// openFile opens a regular file for reading. It refuses others: a pipe may never begin, a device never end.
func openFile(path string) (*os.File, error) {
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
