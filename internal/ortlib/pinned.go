package ortlib

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

//go:embed libraries.sha256
var pinnedList string

// For a folder of the cache, the function 'pinned' maps each file's name to the published SHA-256s of this file. The
// argument 'folder' is VERSION/PLATFORM.
func pinned(folder string) map[string][]string { return pinnedIn(folder, "") }

// pinnedIn returns the same hashes as the function 'pinned', but only for files from one package. The argument 'source'
// names the package; "" means all packages.
func pinnedIn(folder, source string) map[string][]string {
	hashes := make(map[string][]string)
	for lines := bufio.NewScanner(strings.NewReader(pinnedList)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		if dir, file := filepath.Split(fields[1]); filepath.Clean(dir) == folder && (source == "" || fields[len(fields)-1] == source) {
			hashes[file] = append(hashes[file], fields[0])
		}
	}
	return hashes
}

// CheckPinned checks the library at path, and the other published files in its folder, against the published hashes. It
// checks only libraries that 'rscert setup' put into the cache. The user is responsible for files outside the cache.
// The check matters because faulty disks and downloads can damage cached files, and a loaded library runs inside
// rscert. CheckPinned hashes the files at every load, because a record of an earlier check could itself be damaged. The
// hashing takes about 20 ms for the plain build of 28 MB, and 100 ms for the 160 MB of OpenVINO.
func CheckPinned(path string) error { return checkPinned(path, "") }

// checkPinned does the work of CheckPinned. The argument 'sum' is the library's SHA-256. If 'sum' is "", checkPinned
// hashes the library.
func checkPinned(path, sum string) error {
	root, err := cacheRoot()
	if err != nil {
		return nil // there is no cache, so the library cannot be in it
	}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil || strings.HasPrefix(folder, "..") {
		return nil
	}
	hashes := pinned(folder)
	library := filepath.Base(path)
	if hashes[library] == nil {
		return nil
	}
	if sum != "" {
		if !slices.Contains(hashes[library], sum) {
			return damaged(path, sum)
		}
		delete(hashes, library)
	}
	return checkFiles(filepath.Dir(path), hashes)
}

// checkFiles checks files in a folder. The map 'hashes' maps the names of these files to their valid hashes.
func checkFiles(folder string, hashes map[string][]string) error {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		problems []error
	)
	for file, want := range hashes {
		wg.Go(func() {
			if err := checkFile(filepath.Join(folder, file), want); err != nil {
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, err)
			}
		})
	}
	wg.Wait()
	if len(problems) > 0 {
		return problems[0]
	}
	return nil
}

func checkFile(file string, want []string) error {
	found, err := fileSHA256(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fetchAgain(file + ": missing, a part of the published library")
	case err != nil || slices.Contains(want, found):
		return err
	}
	return damaged(file, found)
}

func damaged(file, sum string) error {
	return fetchAgain(fmt.Sprintf("%s: damaged: its SHA-256 %s is not that of the published library", file, sum))
}

func fetchAgain(problem string) error {
	return hint.Add(errors.New(problem), "run 'rscert setup' (with the same %s) to fetch it again", param.Device)
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
