package onnx

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed libraries.sha256
var pinnedList string

// pinned returns the published SHA-256s of the libraries in a folder of the
// cache, VERSION/PLATFORM, by file name.
func pinned(folder string) map[string][]string {
	hashes := make(map[string][]string)
	for lines := bufio.NewScanner(strings.NewReader(pinnedList)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		if dir, file := filepath.Split(fields[1]); filepath.Clean(dir) == folder {
			hashes[file] = append(hashes[file], fields[0])
		}
	}
	return hashes
}

// checkPinned checks the library at path against the pinned hashes, with all
// that lies beside it, if it is one that 'make onnxruntime' put into the cache:
// the cache outlives disks' and downloads' faults, and what is loaded from it
// runs inside rscert. It is checked at every load, some 20 ms for 28 MB: a note of an
// earlier check would have to be believed in turn. Other files are the user's.
func checkPinned(path string) error {
	root, err := cacheRoot()
	if err != nil {
		return nil //nolint:nilerr // without a cache it lies elsewhere
	}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil || strings.HasPrefix(folder, "..") {
		return nil
	}
	hashes := pinned(folder)
	if hashes[filepath.Base(path)] == nil {
		return nil
	}
	for file, want := range hashes {
		file = filepath.Join(filepath.Dir(path), file)
		found, err := fileSHA256(file)
		if err != nil {
			return err
		}
		if !slices.Contains(want, found) {
			return &Error{fmt.Sprintf("%s: damaged: its SHA-256 %s is not that of the published library", file, found),
				"run 'make onnxruntime' in the rscert sources to fetch it again"}
		}
	}
	return nil
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
