package scratch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const prefix = "rscert-[test-" // filepath.Glob would take this for a malformed pattern

// TestKilled kills a process that has made a scratch folder with Make. The next Make must remove this folder, and keep
// everything else in the parent folder.
func TestKilled(t *testing.T) {
	if parent := os.Getenv("SCRATCH_PARENT"); parent != "" {
		f, err := Make(parent, prefix)
		if err == nil {
			err = os.WriteFile(filepath.Join(f.Path(), "left"), []byte("x"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Stdout.Close() // this tells the parent process that the folder is there
		time.Sleep(time.Hour) // the parent process kills this process; the runtime would end a deadlocked one at once
	}
	parent, victim := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "SCRATCH_PARENT="+parent)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = stdout.Read(make([]byte, 1)) // the call returns io.EOF when the process has made its folder
	keep := []string{prefix + "notes", prefix, "unlocked", prefix + strings.Repeat("a", 26)}
	for _, name := range keep {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, name, lockFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := prefix + strings.Repeat("A", 26)
	if err := errors.Join(os.WriteFile(filepath.Join(victim, lockFile), nil, 0o600), os.Symlink(victim, filepath.Join(parent, link))); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, link)

	check := func(when string, others int) {
		t.Helper()
		f, err := Make(parent, prefix)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(parent)
		if err != nil || len(entries) != len(keep)+others+1 {
			t.Errorf("%s: %v, %v", when, entries, err)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
		for _, name := range keep {
			if _, err := os.Stat(filepath.Join(parent, name, lockFile)); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	check("while the process runs", 1)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	check("after its end", 0)
}

// TestAtOnce makes many folders at the same time. No call of Make may remove a folder that is still in use.
func TestAtOnce(t *testing.T) {
	parent := t.TempDir()
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			for range 20 {
				f, err := Make(parent, prefix)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(f.Path(), "a"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}
