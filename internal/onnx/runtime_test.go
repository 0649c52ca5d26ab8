package onnx

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
)

func TestOpen(t *testing.T) {
	r := openRuntime(t)
	if r.Version() != ortlib.Version && os.Getenv(ortlib.Env) == "" {
		t.Errorf("version %s, want %s", r.Version(), ortlib.Version)
	}
	if !slices.Contains(r.Providers(), cpuProvider.name) {
		t.Errorf("providers %v", r.Providers())
	}
	if again, err := Open(r.Path()); again != r || err != nil {
		t.Errorf("opened again: %v, %v", again, err)
	}
	if _, err := Open("elsewhere.so"); err == nil || !strings.Contains(err.Error(), "already open") {
		t.Errorf("another library: %v", err)
	}
	// The library is closed and opened again, as happens when one test follows another.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	load(t, testModel(t, "nchw"), LoadOptions{})
}

// The function 'compile' builds a shared library.
func compile(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	link(t, folder, "lib.so", source)
	return filepath.Join(folder, "lib.so")
}

func TestAskErrors(t *testing.T) {
	other := compile(t, `int answer(void) { return 42; }`)
	old := compile(t, `
		static const void *get_api(unsigned version) { static int api; return version <= 10 ? &api : 0; }
		static const char *get_version(void) { return "1.10.0"; }
		static const struct { const void *(*a)(unsigned); const char *(*v)(void); } base = {get_api, get_version};
		const void *OrtGetApiBase(void) { return &base; }`)
	text := writeFile(t, filepath.Join(t.TempDir(), "text.so"), nil)
	for path, want := range map[string]string{
		other: "a library, but not ONNX Runtime",
		old:   "ONNX Runtime 1.10.0 is too old: need 1.24 or newer",
		text:  "cannot be loaded: ",
	} {
		if _, _, err := ask(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestOpenDamaged writes a wrong file to the published library's path in the cache. Open must notice that the file
// differs from the published library and refuse it, even if the user names this path. Open must not check the user's
// own files in this way.
func TestOpenDamaged(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	published, err := ortlib.PublishedFor(ortlib.Plain)
	if err != nil {
		t.Skip("no library is published for this platform")
	}
	if opened.Runtime != nil {
		if err := opened.Runtime.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := published.Library
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, nil)
	_, err = Open(path)
	var e *hint.Error
	if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), path+": damaged: its SHA-256 e3b0c442") || !strings.Contains(e.Hint(), "rscert setup") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(writeFile(t, filepath.Join(home, "own.so"), nil)); err == nil || !strings.Contains(err.Error(), "cannot be loaded") {
		t.Errorf("error %v", err)
	}
}
