//go:build !linux

package ortlib

import (
	"io/fs"
	"time"
)

// changeTime returns the time of the last change to the file's content. Callers also compare the file's identity.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
