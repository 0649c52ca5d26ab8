// Package programs starts other programs, such as python3, nvidia-smi and sbatch. It never runs code from the current
// folder, because the folder may have come with a stranger's model.
package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the absolute path of a program. If the name is an absolute path, Find returns it. Otherwise Find
// searches the folders of the PATH, but skips relative folders and empty entries. If Find finds no program, the error
// wraps exec.ErrNotFound.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		if executable(name) {
			return name, nil
		}
		return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
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

// executable reports whether path is a file that somebody has the permission to execute.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// Command returns a command that runs the program with this name, at the path that Find returns. If there is no such
// program, running the command fails with Find's error. The command runs in the root folder. The search paths in its
// environment contain no relative folders, so the program starts no other program from the current folder. (Without
// these two measures, and with "." on the PATH, the line "#!/usr/bin/env python3" in a script would start a python3
// from the current folder.)
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := Find(name)
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // path is absolute
	cmd.Args[0] = name
	cmd.Err = err
	cmd.Dir = string(filepath.Separator)
	cmd.Env = environment()
	return cmd
}

// searchPaths lists environment variables. Each of them holds a list of folders, and programs run code from these
// folders.
var searchPaths = []string{"PATH", "PYTHONPATH", "NODE_PATH"}

// environment returns the environment of this process, but removes all relative folders from the variables in
// searchPaths.
func environment() []string {
	env := os.Environ()
	for i, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		if slices.Contains(searchPaths, name) {
			env[i] = name + "=" + absolute(value)
		}
	}
	// With this setting, Python 3.11 and later versions do not search the current folder for modules. Earlier versions
	// ignore the setting, and need the option -I.
	return append(env, "PYTHONSAFEPATH=1")
}

// The function 'absolute' removes the relative folders from a list of folders.
func absolute(list string) string {
	folders := slices.DeleteFunc(filepath.SplitList(list), func(folder string) bool { return !filepath.IsAbs(folder) })
	return strings.Join(folders, string(filepath.ListSeparator))
}
