package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "LICENSE.md"), "of the module\n")
	write(t, filepath.Join(dir, "license.go"), "package code")
	write(t, filepath.Join(dir, "fonts/LICENSE-OFL"), "of the fonts")
	write(t, filepath.Join(dir, "fonts/a/a.go"), "package a")
	write(t, filepath.Join(dir, "unused/LICENSE"), "of nothing linked")
	m := module{"example.org/m v1.2.3", dir, []string{filepath.Join(dir, "fonts/a"), dir}}
	text, err := collect([]module{m})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.org/m v1.2.3: LICENSE.md\n\nof the module\n", "example.org/m v1.2.3: fonts/LICENSE-OFL\n\nof the fonts\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(string(text), "unused") || strings.Contains(string(text), "package") {
		t.Errorf("too much: %s", text)
	}
	bare := t.TempDir()
	write(t, filepath.Join(bare, "README"), "no licence")
	if _, err := collect([]module{m, {"example.org/bare v1", bare, nil}}); !errors.Is(err, errNone) || !strings.Contains(err.Error(), "example.org/bare v1") {
		t.Errorf("error %v", err)
	}
}

// TestLinked checks that the file has the licence of every module that the compiler links.
func TestLinked(t *testing.T) {
	t.Chdir("../..")
	modules, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 30 || !strings.HasPrefix(modules[0].name, "Go ") {
		t.Errorf("%d modules, the first %s", len(modules), modules[0].name)
	}
	text, err := collect(modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/yalue/onnxruntime_go v", "github.com/spf13/cobra v", "Google Inc"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
}
