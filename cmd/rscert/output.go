package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/runfolder"
)

// checkOutput checks an output file before any work starts. It refuses a file that cannot be written, and a file that
// would replace an input or a file of a run. An empty path means no output.
func checkOutput(flag, path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	target, err := durable.Resolve(path) // a link may lead to a file of a run
	if err != nil {
		return badInputf("--%s %s: %w", flag, path, err)
	}
	dir := filepath.Dir(target)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return badInputf("--%s %s: there is no folder %s", flag, path, dir)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // the file is new
	}
	if info.IsDir() {
		return badInputf("--%s %s: is a folder", flag, path)
	}
	for _, input := range inputs {
		if in, err := os.Stat(input); err == nil && os.SameFile(info, in) {
			return badInputf("--%s %s: is the input", flag, path)
		}
	}
	if runfolder.Owns(target) {
		return badInputf("--%s %s: belongs to the run in %s", flag, path, dir)
	}
	return nil
}

// The type 'written' holds the path of an output file and the flag that asks for this file.
type written struct{ flag, path string }

// writtenBy returns the output files that a flag names. The user may repeat the flag.
func writtenBy(flag string, paths []string) (files []written) {
	for _, path := range paths {
		files = append(files, written{flag, path})
	}
	return files
}

// checkDistinct refuses a file that two flags write, because the second content would replace the first one.
func checkDistinct(files ...written) error {
	named := map[string]string{} // the flag of each path
	for _, f := range files {
		if f.path == "" {
			continue
		}
		target, err := durable.Resolve(f.path)
		if err == nil {
			target, err = filepath.Abs(target)
		}
		if err != nil {
			return badInputf("--%s %s: %w", f.flag, f.path, err)
		}
		if earlier, ok := named[target]; ok && earlier != f.flag {
			return badInputf("--%s %s: is the file of --%s", f.flag, f.path, earlier)
		}
		named[target] = f.flag
	}
	return nil
}

// output keeps the first error of writing to stdout. This error ends the command with exit code 1. Therefore the
// commands do not check the error of each line that they print.
type output struct {
	w      io.Writer
	strict *strictness // if a warning has ended the command, Write prints nothing
	err    error
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if err := o.strict.verdict(nil); err != nil {
		return 0, err
	}
	n, err := o.w.Write(p)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		o.err = fmt.Errorf("cannot write to stdout: %w", err)
	}
	return n, o.err
}
