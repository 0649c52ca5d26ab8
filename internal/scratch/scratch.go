// Package scratch makes folders for temporary files. A killed process leaves its folder behind; the next Make in the
// same place removes it. A lock on a file in the folder tells whether its process still runs.
package scratch

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// lockFile is the file of a folder that its process locks.
const lockFile = ".lock"

// Folder is a folder for temporary files.
type Folder struct {
	path string
	lock *flock.Flock
}

// Make makes a folder in parent ("": the system's folder for temporary files), whose name begins with prefix. It first
// removes folders with the same prefix of the same user's killed processes.
func Make(parent, prefix string) (*Folder, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	clean(root, prefix)
	for {
		path := filepath.Join(parent, prefix+rand.Text())
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		lock := flock.New(filepath.Join(path, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR))
		got, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && (!got || !names(lock)):
			continue // another process came between and removes it
		case err != nil:
			lock = nil // a file system without locks: nobody removes it but Remove
		}
		return &Folder{path, lock}, nil
	}
}

// names reports whether the lock's path still names the locked file.
func names(lock *flock.Flock) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(lock.Path())
	return err == nil && os.SameFile(locked, named)
}

// Path returns the folder's path.
func (f *Folder) Path() string { return f.path }

// Remove removes the folder with everything in it.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Unlock()
	}
	return err
}

// random is what Make puts behind a prefix: no other program's or person's folder is called so.
var random = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// clean removes the folders of killed processes. What it cannot remove it leaves.
func clean(root *os.Root, prefix string) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok && e.IsDir() && random.MatchString(rest) && own(e) {
			removeDead(root, e.Name())
		}
	}
}

// own reports whether a folder belongs to this user: in a shared folder, others may make any.
func own(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// removeDead removes a folder unless its process runs.
func removeDead(root *os.Root, name string) {
	lock := flock.New(filepath.Join(root.Name(), name, lockFile), flock.SetFlag(os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK))
	if got, err := lock.TryLock(); err != nil || !got {
		return // without a lock file it is being made
	}
	_ = root.RemoveAll(name)
	_ = lock.Unlock()
}
