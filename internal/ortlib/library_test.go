package ortlib

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// emptyHome sets an empty home folder, so that the cache has no library. System libraries remain.
func emptyHome(t *testing.T) (home string) {
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(Env, "")
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
		if got, err := FindFor(Build{}, explicit); got != want || err != nil {
			t.Errorf("found %q, %v, want %q", got, err, want)
		}
	}
	inSystem := touch(t, filepath.Join(system, libraryNames()[0]))
	find("", inSystem)
	inCache := touch(t, cachePath(t))
	find("", inCache)
	if !strings.HasPrefix(inCache, home) || !strings.Contains(inCache, Version) {
		t.Errorf("cache path %s", inCache)
	}
	python := touch(t, filepath.Join(home, "python", "libonnxruntime.so.1.31.1"))
	t.Setenv(PythonEnv, python)
	find("", python)
	named := touch(t, filepath.Join(home, "named"))
	t.Setenv(Env, named)
	find("", named)
	explicit := touch(t, filepath.Join(home, "explicit"))
	find(explicit, explicit)

	// If the user names a file that does not exist, FindFor must fail, even if other libraries are present.
	missing := filepath.Join(home, "missing")
	if path, err := FindFor(Build{}, missing); err == nil {
		t.Errorf("the flag names no file: found %s", path)
	}
	if path, err := FindFor(Build{}, home); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("the flag names a folder: found %s, %v", path, err)
	}
	t.Setenv(Env, missing)
	var e *NotFoundError
	if path, err := FindFor(Build{}, ""); !errors.As(err, &e) || len(e.Looked) != 1 || !strings.Contains(err.Error(), "$"+Env) {
		t.Errorf("the variable names no file: found %s, %v", path, err)
	}
}

// If the library of a Python package has a device's provider, FindFor must take this library for the device.
func TestLibraryOfPython(t *testing.T) {
	home := emptyHome(t)
	python := touch(t, filepath.Join(home, "python", "libonnxruntime.so.1.31.1"))
	t.Setenv(PythonEnv, python)
	first := func(f Build) string { return f.places("")[0].Path }
	if first(Plain) != python || first(OpenVINO) == python || first(CUDA) == python {
		t.Errorf("without other providers: %q, %q, %q", first(Plain), first(OpenVINO), first(CUDA))
	}
	touch(t, filepath.Join(home, "python", "libonnxruntime_providers_cuda.so"))
	if first(CUDA) != python || first(OpenVINO) == python {
		t.Errorf("with CUDA's: %q, %q", first(CUDA), first(OpenVINO))
	}
	t.Setenv(PythonEnv, "python/libonnxruntime.so.1.31.1")
	if p := first(Plain); strings.Contains(p, "python") {
		t.Errorf("a relative path is taken: %s", p)
	}
	t.Setenv(PythonEnv, filepath.Join(home, "missing"))
	inCache := touch(t, cachePath(t))
	if path, err := FindFor(Build{}, ""); path != inCache || err != nil {
		t.Errorf("the package has lost its library: %s, %v", path, err)
	}
	var e *NotFoundError
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "empty"))
	if path, err := FindFor(Build{}, ""); errors.As(err, &e) && !strings.Contains(e.Hint(), "rscert setup") {
		t.Errorf("%s: hint %q", path, e.Hint())
	}
}

func TestFindLibraryNowhere(t *testing.T) {
	home := emptyHome(t)
	path, err := FindFor(Build{}, "")
	if err == nil {
		t.Skipf("this system has a library of its own: %s", path)
	}
	var e *NotFoundError
	if !errors.As(err, &e) || e.Looked[0].Path != cachePath(t) || !strings.Contains(err.Error(), home) || !strings.Contains(err.Error(), "/usr/local/lib") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(e.Hint(), "rscert setup") || !strings.Contains(e.Hint(), "onnxruntime PATH") {
		t.Errorf("hint %q", e.Hint())
	}
}

// cachePath returns the library's path in the cache.
func cachePath(t *testing.T) string {
	t.Helper()
	path, err := Plain.cachePath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPinned checks the list of hashes of published libraries.
func TestPinned(t *testing.T) {
	for folder, file := range map[string]string{"linux-amd64": "libonnxruntime.so", "linux-arm64": "libonnxruntime.so", "darwin-arm64": "libonnxruntime.dylib"} {
		hashes := pinned(Version + "/" + folder)[file]
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

// TestNoRelativePlaces checks that rscert does not follow relative paths in the environment. The paths in this test
// lead to libraries in the working directory.
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
		Env:               {Env: libraryNames()[0]},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			for _, p := range Places("") {
				if p.Err == nil && (!filepath.IsAbs(p.Path) || strings.HasPrefix(p.Path, home)) {
					t.Errorf("found %s", p.Path)
				}
			}
		})
	}
	// If the user gives a file name without a slash, the file in the working directory must be used, not a file that
	// the loader finds elsewhere.
	if path, err := FindFor(Build{}, libraryNames()[0]); err != nil || path != libraryNames()[0] {
		t.Errorf("%s, %v", path, err)
	}
}

// BenchmarkCheckPinned measures how long it takes to hash the cached library and to compare the hash with the published
// hashes.
func BenchmarkCheckPinned(b *testing.B) {
	path, err := Plain.cachePath()
	if err == nil {
		err = RegularFile(path)
	}
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		if err := CheckPinned(path); err != nil {
			b.Fatal(err)
		}
	}
}
