package main

import (
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/runfolder"
)

// checkOutput refuses, before any work, an output file that cannot be written
// or must not be: it would replace an input or what a run found. An empty path
// is no output.
func checkOutput(flag, path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return badInputf("--%s %s: there is no folder %s", flag, path, dir)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // nothing is replaced
	}
	if info.IsDir() {
		return badInputf("--%s %s: is a folder", flag, path)
	}
	for _, input := range inputs {
		if in, err := os.Stat(input); err == nil && os.SameFile(info, in) {
			return badInputf("--%s %s: is the input", flag, path)
		}
	}
	if runfolder.Owns(path) {
		return badInputf("--%s %s: belongs to the run in %s", flag, path, dir)
	}
	return nil
}
