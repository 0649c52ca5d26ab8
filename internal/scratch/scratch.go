// Package scratch makes folders for temporary files. A killed process leaves its folder behind. The next call of Make
// with the same parent and prefix removes this folder. A lock on a file in each folder shows whether the folder's
// process still runs.
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

// lockFile is the name of the file that a process locks in its folder.
const lockFile = ".lock"

// Folder is a folder for temporary files.
type Folder struct {
	path string
	lock *flock.Flock
}

// Make makes a folder in the folder 'parent'. The name of the new folder begins with 'prefix'. An empty 'parent' stands
// for the system's folder for temporary files. Killed processes leave their folders behind. Make first removes these
// folders, if they have the same prefix and belong to the same user.
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
			continue // another process locked the folder first, to remove it
		case err != nil:
			lock = nil // the file system has no locks, so no later call of Make removes the folder
		}
		return &Folder{path, lock}, nil
	}
}

// The function 'names' reports whether the lock's path still leads to the locked file.
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

// random matches the part that Make adds to a prefix. In practice, no other program or person chooses such a name by
// accident.
var random = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// clean removes the folders of killed processes. It leaves folders that it cannot remove.
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

// own reports whether a folder belongs to this user. In a shared folder, other users may make folders with any name.
func own(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// removeDead removes a folder unless its process still runs.
func removeDead(root *os.Root, name string) {
	lock := flock.New(filepath.Join(root.Name(), name, lockFile), flock.SetFlag(os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK))
	if got, err := lock.TryLock(); err != nil || !got {
		return // if the folder has no lock file, a process may be making the folder just now
	}
	_ = root.RemoveAll(name)
	_ = lock.Unlock()
}
