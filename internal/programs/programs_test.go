package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant writes a program that prints its own path.
func plant(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+path+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFindSkipsTheCurrentFolder(t *testing.T) {
	here, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(here)
	plant(t, "it")
	plant(t, "bin/it")
	for _, path := range []string{".", "", "bin", ".:bin::", "./bin"} {
		t.Setenv("PATH", path)
		if found, err := Find("it"); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("PATH=%s: %s, %v", path, found, err)
		}
		if err := Command(t.Context(), "it").Run(); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("PATH=%s: Run returns %v", path, err)
		}
	}
	want := filepath.Join(elsewhere, "it")
	plant(t, want)
	if err := os.Mkdir(filepath.Join(here, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", ".:"+here+"/none:"+elsewhere+":"+here)
	if found, err := Find("it"); err != nil || found != want {
		t.Errorf("found %s, %v", found, err)
	}
	if found, err := Find("folder"); err == nil {
		t.Errorf("found the folder %s", found)
	}
	if out, err := Command(t.Context(), "it").Output(); err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("ran %s, %v", out, err)
	}
}

// TestEnvironment checks that a command runs in the root folder and that its search paths have no relative folders. The
// environment of the command must set PYTHONSAFEPATH=1 and keep other variables unchanged.
func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", ".:/bin::bin:/usr/bin")
	t.Setenv("PYTHONPATH", ":/opt/python")
	t.Setenv("NODE_PATH", "node")
	t.Setenv("KEPT", ".:/x")
	cmd := Command(t.Context(), "sh")
	for _, want := range []string{"PATH=/bin:/usr/bin", "PYTHONPATH=/opt/python", "NODE_PATH=", "KEPT=.:/x", "PYTHONSAFEPATH=1"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("no %s in the environment", want)
		}
	}
	if cmd.Dir != "/" {
		t.Errorf("runs in %q", cmd.Dir)
	}
}
