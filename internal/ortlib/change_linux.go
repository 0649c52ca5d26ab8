package ortlib

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns the time of the last change to the file's content, mode or names.
func changeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}
