// Package ortlib finds the library of ONNX Runtime and the NVIDIA libraries that ONNX Runtime needs. It checks
// libraries in the cache against the published hashes. It does not load any library.
package ortlib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// Version is the version of ONNX Runtime that 'rscert setup' installs and that the tests use.
const Version = "1.29.0"

// Env is the name of the environment variable that holds the path of the library.
const Env = "RSCERT_ONNXRUNTIME"

// PythonEnv is the name of the environment variable that holds the path of the library in the installed Python package
// onnxruntime. The launcher of rscert's Python package checks this library and then sets the variable.
const PythonEnv = "RSCERT_ONNXRUNTIME_PYTHON"

// Place is one place where FindFor looks for the ONNX Runtime library.
type Place struct {
	Source string // "onnxruntime" (the parameter), "$RSCERT_ONNXRUNTIME", "python", "cache" or "system"
	Path   string
	Err    error // reason why the library is not here; nil if it is here
}

// NotFoundError says that no ONNX Runtime library was found. It lists the places that FindFor searched.
type NotFoundError struct {
	Looked  []Place
	library Build // the requested build
}

func (e *NotFoundError) Error() string { return e.Spell(param.Plain) }

// Spell returns the text of Error, except that the function s spells the parameter 'onnxruntime'.
func (e *NotFoundError) Spell(s param.Spelling) string {
	last := e.Looked[len(e.Looked)-1]
	if e.named() {
		return fmt.Sprintf("no ONNX Runtime library at %s: %v", last.spelledSource(s), last.Err)
	}
	var dirs []string
	for _, p := range e.Looked {
		if p.Path == "" {
			continue
		}
		if dir := filepath.Dir(p.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return "no ONNX Runtime library found; looked in " + strings.Join(dirs, ", ")
}

// The method 'named' reports whether the user named the library's file. FindFor then searches no other place.
func (e *NotFoundError) named() bool {
	return e.Looked[0].Source == sourceParameter || e.Looked[0].Source == sourceEnv
}

// Hint explains how to fix the error.
func (e *NotFoundError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint, except that the function s spells the names of parameters.
func (e *NotFoundError) SpellHint(s param.Spelling) string {
	if e.named() {
		return "name the library file itself, or omit " + e.Looked[0].spelledSource(s) + " to use the library that 'rscert setup' fetches"
	}
	return param.Textf("run '%s' to fetch ONNX Runtime %s, or name a library with %s PATH or $%s",
		e.library.setupCommand(), e.library.version, param.ONNXRuntime, Env).Spell(s)
}

// spelledSource returns the source. If the source is a parameter, the function s spells the parameter's name.
func (p Place) spelledSource(s param.Spelling) string {
	if p.Source == sourceParameter {
		return s(param.ONNXRuntime)
	}
	return p.Source
}

const (
	sourceParameter = string(param.ONNXRuntime)
	sourceEnv       = "$" + Env
	sourcePython    = "python"
	sourceCache     = "cache"
	sourceSystem    = "system"
)

// FindFor returns the path of the ONNX Runtime library of build f. It looks in this order: the argument 'explicit' (the
// flag's value), $RSCERT_ONNXRUNTIME, the Python package's library, the user's cache, the system folders. If the user
// names a file by the flag or else by the variable, FindFor takes this file. Otherwise it takes the first library that
// exists in the other places. If the user names a file by the flag or the variable, the file must exist. FindFor does
// not fall back to another file. It takes the Python package's library only if this library has the build's provider;
// see providedBy. It searches the system folders only for the build Plain. If there is no library, the error is a
// *NotFoundError.
func FindFor(f Build, explicit string) (string, error) {
	f = f.chosen()
	places := f.places(explicit)
	last := places[len(places)-1]
	if last.Err != nil {
		return "", &NotFoundError{places, f}
	}
	return last.Path, nil
}

// Places returns, in order, the places where FindFor looks for the build Plain. The list ends with the first place that
// holds a library.
func Places(explicit string) []Place { return Plain.places(explicit) }

func (f Build) places(explicit string) []Place {
	if explicit != "" {
		return []Place{{sourceParameter, explicit, RegularFile(explicit)}}
	}
	if path := os.Getenv(Env); path != "" {
		if !filepath.IsAbs(path) { // a relative path would name a different file in each working directory
			return []Place{{sourceEnv, path, fmt.Errorf("%s: not an absolute path", quote.Name(path))}}
		}
		return []Place{{sourceEnv, path, RegularFile(path)}}
	}
	var candidates []Place
	add := func(source, dir string) {
		for _, name := range libraryNames() {
			candidates = append(candidates, Place{Source: source, Path: filepath.Join(dir, name)})
		}
	}
	if path := os.Getenv(PythonEnv); filepath.IsAbs(path) && f.providedBy(path) {
		candidates = append(candidates, Place{Source: sourcePython, Path: path})
	}
	if path, err := f.cachePath(); err != nil {
		candidates = append(candidates, Place{Source: sourceCache, Err: err})
	} else {
		add(sourceCache, filepath.Dir(path))
	}
	for _, dir := range systemDirs() {
		if f != Plain { // a library in a system folder is used only as the plain build
			break
		}
		if filepath.IsAbs(dir) { // skip relative folders and "", which means the working directory
			add(sourceSystem, dir)
		}
	}
	for i := range candidates {
		if candidates[i].Err != nil {
			continue
		}
		candidates[i].Err = RegularFile(candidates[i].Path)
		if candidates[i].Err == nil {
			return candidates[:i+1]
		}
	}
	return candidates
}

// providedBy reports whether a library has the Build's provider. Every library has the CPU provider of the build Plain.
// The CUDA provider is a file in the library's folder. For OpenVINO, providedBy returns false, because the Python
// packages with the OpenVINO provider contain older versions of ONNX Runtime.
func (f Build) providedBy(library string) bool {
	switch f {
	case Plain:
		return true
	case CUDA:
		return RegularFile(filepath.Join(filepath.Dir(library), CUDAProviderFile)) == nil
	}
	return false
}

// cachePath returns the path at which 'rscert setup' installs the library:
// CACHE/rscert/onnxruntime/FOLDER/GOOS-GOARCH/FILE. It returns an error if os.UserCacheDir fails or returns a relative
// path.
func (f Build) cachePath() (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, f.folder(), runtime.GOOS+"-"+runtime.GOARCH, libraryNames()[0]), nil
}

// cacheRoot returns the folder for libraries in the user's cache.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil && !filepath.IsAbs(cache) { // this happens if $HOME is relative
		err = fmt.Errorf("the user's cache folder, %s, is not an absolute path", quote.Name(cache))
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "rscert", "onnxruntime"), nil
}

// libraryNames lists the library's possible file names. The name in the cache comes first.
func libraryNames() []string {
	if runtime.GOOS == "darwin" {
		return []string{"libonnxruntime.dylib", "libonnxruntime.1.dylib"}
	}
	return []string{"libonnxruntime.so", "libonnxruntime.so.1"}
}

func systemDirs() []string {
	if runtime.GOOS == "darwin" {
		return append(filepath.SplitList(os.Getenv("DYLD_LIBRARY_PATH")), "/usr/local/lib", "/opt/homebrew/lib")
	}
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	dirs = append(dirs, "/usr/local/lib", "/usr/lib64", "/usr/lib")
	if triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]; triplet != "" {
		dirs = append(dirs, filepath.Join("/usr/lib", triplet))
	}
	return dirs
}

// RegularFile returns nil if path is a regular file or a link to a regular file.
func RegularFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: no such file", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a file", path)
	}
	return nil
}
