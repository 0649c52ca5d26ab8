// Package programs starts other programs, such as python3, nvidia-smi and sbatch. It never runs code from the current
// folder, which may have come with a stranger's model.
package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the absolute path of a program on the PATH. It passes over relative folders of the PATH, the empty one
// included, and goes on with the next folder. The error wraps exec.ErrNotFound.
func Find(name string) (string, error) {
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(folder) {
			continue
		}
		path := filepath.Join(folder, name)
		if executable(path) {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// executable reports whether path is a file that somebody may execute.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// Command returns a command that runs the program that Find finds. Running it fails with Find's error if there is none.
// It runs in the root folder, and its environment leads neither it nor the programs that it starts to the current
// folder, as an interpreter's "#!/usr/bin/env python3" would with "." on the PATH.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := Find(name)
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // an absolute path
	cmd.Args[0] = name
	cmd.Err = err
	cmd.Dir = string(filepath.Separator)
	cmd.Env = environment()
	return cmd
}

// searchPaths are the variables with lists of folders that programs run code from.
var searchPaths = []string{"PATH", "PYTHONPATH", "NODE_PATH"}

// environment returns this process's environment without the relative folders of searchPaths.
func environment() []string {
	env := os.Environ()
	for i, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		if slices.Contains(searchPaths, name) {
			env[i] = name + "=" + absolute(value)
		}
	}
	// Python leaves the current folder out of its modules' path (from 3.11 on; -I does it in all versions).
	return append(env, "PYTHONSAFEPATH=1")
}

// absolute returns the absolute folders of a list of folders.
func absolute(list string) string {
	folders := slices.DeleteFunc(filepath.SplitList(list), func(folder string) bool { return !filepath.IsAbs(folder) })
	return strings.Join(folders, string(filepath.ListSeparator))
}
