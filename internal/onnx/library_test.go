package onnx

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

// An empty home: no library in the cache. Those of the system stay.
func emptyHome(t *testing.T) (home string) {
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(LibraryEnv, "")
	t.Setenv(PythonEnv, "")
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
	inCache := touch(t, cachePath(t))
	find("", inCache)
	if !strings.HasPrefix(inCache, home) || !strings.Contains(inCache, LibraryVersion) {
		t.Errorf("cache path %s", inCache)
	}
	python := touch(t, filepath.Join(home, "python", "libonnxruntime.so.1.31.1"))
	t.Setenv(PythonEnv, python)
	find("", python)
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

// The library of a Python package serves a device if it has the device's provider.
func TestLibraryOfPython(t *testing.T) {
	home := emptyHome(t)
	python := touch(t, filepath.Join(home, "python", "libonnxruntime.so.1.31.1"))
	t.Setenv(PythonEnv, python)
	first := func(f flavour) string { return f.places("")[0].Path }
	if first(plainLibrary) != python || first(openvinoLibrary) == python || first(cudaLibrary) == python {
		t.Errorf("without other providers: %q, %q, %q", first(plainLibrary), first(openvinoLibrary), first(cudaLibrary))
	}
	touch(t, filepath.Join(home, "python", "libonnxruntime_providers_cuda.so"))
	if first(cudaLibrary) != python || first(openvinoLibrary) == python {
		t.Errorf("with CUDA's: %q, %q", first(cudaLibrary), first(openvinoLibrary))
	}
	t.Setenv(PythonEnv, "python/libonnxruntime.so.1.31.1")
	if p := first(plainLibrary); strings.Contains(p, "python") {
		t.Errorf("a relative path is taken: %s", p)
	}
	t.Setenv(PythonEnv, filepath.Join(home, "missing"))
	inCache := touch(t, cachePath(t))
	if path, err := FindLibrary(""); path != inCache || err != nil {
		t.Errorf("the package has lost its library: %s, %v", path, err)
	}
	var e *LibraryError
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "empty"))
	if path, err := FindLibrary(""); errors.As(err, &e) && !strings.Contains(e.Hint(), "rscert setup") {
		t.Errorf("%s: hint %q", path, e.Hint())
	}
}

func TestFindLibraryNowhere(t *testing.T) {
	home := emptyHome(t)
	path, err := FindLibrary("")
	if err == nil {
		t.Skipf("this system has a library of its own: %s", path)
	}
	var e *LibraryError
	if !errors.As(err, &e) || e.Looked[0].Path != cachePath(t) || !strings.Contains(err.Error(), home) || !strings.Contains(err.Error(), "/usr/local/lib") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(e.Hint(), "rscert setup") || !strings.Contains(e.Hint(), "--onnxruntime") {
		t.Errorf("hint %q", e.Hint())
	}
}

func TestOpen(t *testing.T) {
	r := openRuntime(t)
	if r.Version() != LibraryVersion && os.Getenv(LibraryEnv) == "" {
		t.Errorf("version %s, want %s", r.Version(), LibraryVersion)
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
	// Closed and opened again, as in one test after another.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	load(t, testModel(t, "nchw"), LoadOptions{})
}

// compile builds a shared library.
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
	text := touch(t, filepath.Join(t.TempDir(), "text.so"))
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

// cachePath is where the library is looked for in the cache.
func cachePath(t *testing.T) string {
	t.Helper()
	path, err := CachePath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpenDamaged refuses a library in the cache that is not the published one,
// also by its path, and takes the user's own files as they are.
func TestOpenDamaged(t *testing.T) {
	if pinned(LibraryVersion+"/"+runtime.GOOS+"-"+runtime.GOARCH) == nil {
		t.Skip("no library is published for this platform")
	}
	if opened.Runtime != nil {
		if err := opened.Runtime.Close(); err != nil {
			t.Fatal(err)
		}
	}
	home := emptyHome(t)
	path := touch(t, cachePath(t))
	_, err := Open(path)
	var e *hint.Error
	if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), path+": damaged: its SHA-256 e3b0c442") || !strings.Contains(e.Hint(), "rscert setup") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(touch(t, filepath.Join(home, "own.so"))); err == nil || !strings.Contains(err.Error(), "cannot be loaded") {
		t.Errorf("error %v", err)
	}
}

// TestPinned checks the list of published libraries.
func TestPinned(t *testing.T) {
	for folder, file := range map[string]string{"linux-amd64": "libonnxruntime.so", "linux-arm64": "libonnxruntime.so", "darwin-arm64": "libonnxruntime.dylib"} {
		hashes := pinned(LibraryVersion + "/" + folder)[file]
		if len(hashes) < 2 {
			t.Errorf("%s: %d hashes", folder, len(hashes))
		}
		for _, h := range hashes {
			if len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
				t.Errorf("%s: hash %q", folder, h)
			}
		}
	}
}

// TestNoRelativePlaces has libraries in the working directory where relative
// paths of the environment would find them.
func TestNoRelativePlaces(t *testing.T) {
	home := emptyHome(t)
	t.Chdir(home)
	touch(t, libraryNames()[0])
	touch(t, filepath.Join("lib", libraryNames()[0]))
	cached, err := filepath.Rel(home, cachePath(t))
	if err != nil {
		t.Fatal(err)
	}
	touch(t, cached)
	touch(t, filepath.Join("~", cached))
	for name, env := range map[string]map[string]string{
		"LD_LIBRARY_PATH": {"LD_LIBRARY_PATH": ":lib:.", "DYLD_LIBRARY_PATH": ":lib:.", "HOME": filepath.Join(home, "none")},
		"XDG_CACHE_HOME":  {"XDG_CACHE_HOME": ".cache", "HOME": filepath.Join(home, "none")},
		"no HOME":         {"HOME": ""},
		"relative HOME":   {"HOME": "."},
		LibraryEnv:        {LibraryEnv: libraryNames()[0]},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			for _, p := range LibraryPlaces("") {
				if p.Err == nil && (!filepath.IsAbs(p.Path) || strings.HasPrefix(p.Path, home)) {
					t.Errorf("found %s", p.Path)
				}
			}
		})
	}
	// Named by the user, a name without a slash is the file here, not one that
	// the loader finds elsewhere.
	if path, err := FindLibrary(libraryNames()[0]); err != nil || path != libraryNames()[0] {
		t.Errorf("%s, %v", path, err)
	}
}

// BenchmarkCheckPinned checks the library in the cache, as each Open does.
func BenchmarkCheckPinned(b *testing.B) {
	path, err := CachePath()
	if err == nil {
		err = regularFile(path)
	}
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		if err := checkPinned(path); err != nil {
			b.Fatal(err)
		}
	}
}
