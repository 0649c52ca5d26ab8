//go:build !linux

package ortlib

import (
	"io/fs"
	"time"
)

// changeTime returns the time of the last change to the file's content; callers compare its identity, too.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
