package runfolder

import (
	"errors"
	"io/fs"
	"os"
)

// openAtOnce is the maximum number of shards whose files stay open, and whose folders stay locked, during a merge. A
// thousand shards would need more descriptors than a process may have (ulimit -n). The files of further shards are open
// only while they are being read.
const openAtOnce = 64

// sparing reads a file from its start to its end. If the field 'keep' is false, it closes the file between reads.
type sparing struct {
	path string
	was  fs.FileInfo // state of the file when the shard was checked
	keep bool        // the file stays open between reads
	file *os.File
	at   int64
}

// errMoved means that the file's name now leads to another file, or that another process wrote to the file.
var errMoved = errors.New("the file was changed after the merge began")

func (s *sparing) Read(b []byte) (int, error) {
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.ReadAt(b, s.at)
	s.at += int64(n)
	if !s.keep {
		s.close()
	}
	return n, err
}

func (s *sparing) open() error {
	f, err := openFile(s.path)
	if err != nil {
		return err
	}
	s.file = f
	info, err := f.Stat()
	if err == nil && (s.was == nil || !os.SameFile(s.was, info) || s.was.Size() != info.Size() || !s.was.ModTime().Equal(info.ModTime())) {
		err = errMoved
	}
	if err != nil {
		s.close()
	}
	return err
}

func (s *sparing) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}
