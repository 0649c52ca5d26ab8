// Package onnx runs classifiers with ONNX Runtime. It opens the library, loads models onto devices, checks them in
// trial runs and runs batches. It is the only package that calls C. Package graph parses and edits the models, and
// package ortlib finds the library.
package onnx

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
)

// Runtime is an open ONNX Runtime library.
type Runtime struct {
	path, version string
	sum           string // SHA-256 of the library's file, in hex
	providers     []string
	cuda          func() error // runs the check of CUDA once and then repeats its result
	checked       sync.Map     // devices and precisions whose arithmetic passed checkArithmetic
}

// The variable 'opened' holds the only runtime of the process, because ONNX Runtime's environment is global.
var opened struct {
	sync.Mutex
	*Runtime
}

// libraries holds the open files of all libraries that Open opened. On Linux, Open may load a library from a path that
// contains the number of the library's file descriptor (see ortlib.Opened.Path). If the file were closed, another
// library could get the same path.
var libraries []*ortlib.Opened

// Open opens the library at path for the whole process. Until Close, opening the same library again returns the same
// Runtime, and opening another library fails. A library in the cache of 'rscert setup' must be unchanged since it was
// published.
func Open(path string) (*Runtime, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.Runtime != nil {
		if opened.path != path {
			return nil, fmt.Errorf("%s: ONNX Runtime is already open from %s", path, opened.path)
		}
		return opened.Runtime, nil
	}
	library, err := ortlib.OpenLibrary(path)
	if err != nil {
		return nil, err
	}
	libraries = append(libraries, library)
	if err := disableTelemetry(); err != nil {
		return nil, err
	}
	// Path returns an absolute path. If the path had no slash, the system's dynamic loader would look for the file only
	// on its own search path.
	file := library.Path()
	version, providers, err := ask(file)
	if err == nil {
		err = library.Unchanged()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if libraryPath, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	ort.SetSharedLibraryPath(file)
	// ONNX Runtime returns its errors as values, so it need not print them.
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &Runtime{path: path, version: version, sum: library.SHA256(), providers: providers}
	r.cuda = sync.OnceValue(func() error { return r.works(Device{provider: &cudaProvider}) })
	opened.Runtime = r
	return opened.Runtime, nil
}

// Version returns the library's version, for example "1.29.0".
func (r *Runtime) Version() string { return r.version }

// SHA256 returns the SHA-256 of the library's file, in hex.
func (r *Runtime) SHA256() string { return r.sum }

// Path returns the library's path.
func (r *Runtime) Path() string { return r.path }

// Providers returns the library's built-in execution providers, for example "CPUExecutionProvider". A provider in this
// list may still lack its driver or its libraries.
func (r *Runtime) Providers() []string { return slices.Clone(r.providers) }

// CUDA returns nil if the library can run models on an NVIDIA GPU, or the reason why it cannot.
func (r *Runtime) CUDA() error { return r.cuda() }

// Close ends the runtime. Callers must close all models before they call Close.
func (r *Runtime) Close() error {
	opened.Lock()
	defer opened.Unlock()
	if opened.Runtime != r || abandoned.Load() {
		return nil
	}
	opened.Runtime = nil
	thread := &cpuProvider
	if slices.Contains(r.providers, openvinoProvider.name) {
		thread = &openvinoProvider
	}
	var err error
	thread.runOnThread(func() { err = ort.DestroyEnvironment() })
	return err
}
