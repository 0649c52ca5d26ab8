package onnx

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An empty home: no library in the cache. Those of the system stay.
func emptyHome(t *testing.T) (home string) {
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(LibraryEnv, "")
	return home
}

func touch(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindLibraryOrder(t *testing.T) {
	home := emptyHome(t)
	system := filepath.Join(home, "system")
	t.Setenv("LD_LIBRARY_PATH", system)
	t.Setenv("DYLD_LIBRARY_PATH", system)
	find := func(explicit, want string) {
		t.Helper()
		if got, err := FindLibrary(explicit); got != want || err != nil {
			t.Errorf("found %q, %v, want %q", got, err, want)
		}
	}
	inSystem := touch(t, filepath.Join(system, libraryNames()[0]))
	find("", inSystem)
	inCache := touch(t, CachePath())
	find("", inCache)
	if !strings.HasPrefix(inCache, home) || !strings.Contains(inCache, LibraryVersion) {
		t.Errorf("cache path %s", inCache)
	}
	named := touch(t, filepath.Join(home, "named"))
	t.Setenv(LibraryEnv, named)
	find("", named)
	explicit := touch(t, filepath.Join(home, "explicit"))
	find(explicit, explicit)

	// A file that is named but not there is an error, with others at hand.
	missing := filepath.Join(home, "missing")
	if path, err := FindLibrary(missing); err == nil {
		t.Errorf("the flag names no file: found %s", path)
	}
	if path, err := FindLibrary(home); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("the flag names a folder: found %s, %v", path, err)
	}
	t.Setenv(LibraryEnv, missing)
	var e *LibraryError
	if path, err := FindLibrary(""); !errors.As(err, &e) || len(e.Looked) != 1 || !strings.Contains(err.Error(), "$"+LibraryEnv) {
		t.Errorf("the variable names no file: found %s, %v", path, err)
	}
}

func TestFindLibraryNowhere(t *testing.T) {
	home := emptyHome(t)
	path, err := FindLibrary("")
	if err == nil {
		t.Skipf("this system has a library of its own: %s", path)
	}
	var e *LibraryError
	if !errors.As(err, &e) || e.Looked[0].Path != CachePath() || !strings.Contains(err.Error(), home) || !strings.Contains(err.Error(), "/usr/local/lib") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(e.Hint(), "make onnxruntime") || !strings.Contains(e.Hint(), "--onnxruntime") {
		t.Errorf("hint %q", e.Hint())
	}
}

func TestOpen(t *testing.T) {
	r := openRuntime(t)
	if r.Version() != LibraryVersion && os.Getenv(LibraryEnv) == "" {
		t.Errorf("version %s, want %s", r.Version(), LibraryVersion)
	}
	if !slices.Contains(r.Providers(), cpuProvider) {
		t.Errorf("providers %v", r.Providers())
	}
	if again, err := Open(r.Path()); again != r || err != nil {
		t.Errorf("opened again: %v, %v", again, err)
	}
	if _, err := Open("elsewhere.so"); err == nil || !strings.Contains(err.Error(), "already open") {
		t.Errorf("another library: %v", err)
	}
	// Closed and opened again, as in one test after another.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	load(t, testModel(t, "nchw"), LoadOptions{})
}

// compile builds a shared library.
func compile(t *testing.T, source string) string {
	t.Helper()
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(t.TempDir(), "lib.c"), filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(in, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(string(cc)), "-shared", "-fPIC", "-o", out, in)
	if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func TestAskErrors(t *testing.T) {
	other := compile(t, `int answer(void) { return 42; }`)
	old := compile(t, `
		static const void *get_api(unsigned version) { static int api; return version <= 10 ? &api : 0; }
		static const char *get_version(void) { return "1.10.0"; }
		static const struct { const void *(*a)(unsigned); const char *(*v)(void); } base = {get_api, get_version};
		const void *OrtGetApiBase(void) { return &base; }`)
	text := touch(t, filepath.Join(t.TempDir(), "text.so"))
	for path, want := range map[string]string{
		other: "a library, but not ONNX Runtime",
		old:   "ONNX Runtime 1.10.0 is too old: need 1.24 or newer",
		text:  "cannot be loaded: ",
	} {
		if _, _, err := ask(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
