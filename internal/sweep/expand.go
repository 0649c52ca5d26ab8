package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/runfolder"
)

// Expand replaces each path that is a folder of runs by the runs in the folder. A folder of runs has no run of its own,
// and its subfolders hold runs. If the folder holds a sweep, the runs have the order of the sweep's points; otherwise
// they have the order of their names. If a path is a file sweep.json, Expand replaces it by the runs of the sweep. It
// leaves out each run whose own path is also in the list 'paths'. The shell pattern FOLDER/* matches both sweep.json
// and the folders of the runs, so the result would otherwise hold each run twice. The result 'missing' lists the
// folders of points that have not begun.
func Expand(paths []string) (runs, missing []string, err error) {
	for _, path := range paths {
		inside, absent, err := runsOf(path)
		if err != nil {
			return nil, nil, err
		}
		missing = append(missing, absent...)
		if filepath.Base(path) != File {
			runs = append(runs, inside...)
			continue
		}
		for _, run := range inside {
			if !slices.ContainsFunc(paths, func(p string) bool { return filepath.Clean(p) == run }) {
				runs = append(runs, run)
			}
		}
	}
	return runs, missing, nil
}

// runsOf returns the runs in a folder of runs. For the path of a file sweep.json, it returns the runs of the sweep. For
// any other path, it returns the path itself.
func runsOf(path string) (runs, missing []string, err error) {
	dir := path
	if filepath.Base(path) == File {
		dir = filepath.Dir(path)
	}
	record, err := Read(dir)
	if err == nil {
		for _, folder := range record.Folders(dir) {
			if holdsRun(folder) {
				runs = append(runs, folder)
			} else {
				missing = append(missing, folder)
			}
		}
		if len(runs) == 0 {
			return nil, nil, fmt.Errorf("%s: no point of the sweep has begun", dir)
		}
		return runs, missing, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil || holdsRun(path) {
		return []string{path}, nil, nil // a path that is not a run is refused later, when the caller reads it
	}
	for _, e := range entries {
		if folder := filepath.Join(path, e.Name()); e.IsDir() && !strings.HasPrefix(e.Name(), ".") && holdsRun(folder) {
			runs = append(runs, folder)
		}
	}
	if len(runs) == 0 {
		runs = []string{path}
	}
	return runs, nil, nil
}

// holdsRun reports whether a folder is the folder of a run or of combined runs.
func holdsRun(dir string) bool {
	for _, name := range []string{runfolder.RunFile, runfolder.CombinedFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
