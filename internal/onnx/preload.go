package onnx

// This file finds and loads the NVIDIA libraries that ONNX Runtime's CUDA provider needs. It loads them before the
// provider itself and needs no environment variables. When the provider asks for a library by its name (SONAME), the
// system's loader uses the library that is already loaded.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"
import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/quote"
)

// A preloader loads libraries. The system's loader first looks for each library on its own search path. If it does not
// find the library there, the preloader looks in the folders that the function 'folders' returns.
type preloader struct {
	folders func() []string // called only if the loader cannot find a library by itself
	looked  []string
	missing []string
	checked map[string]error // results of the method 'check', by folder
}

// open loads a library for the whole process. It first passes the library's name to the loader. If the loader does not
// find the library, open looks for the file in the folders.
func (p *preloader) open(name string) error {
	if dlopen(name) == nil {
		return nil
	}
	if p.looked == nil {
		p.looked = p.folders()
	}
	for _, folder := range p.looked {
		path := filepath.Join(folder, name)
		if ortlib.RegularFile(path) != nil {
			continue
		}
		if err := p.check(folder, path); err != nil {
			return err
		}
		if stem, _, _ := strings.Cut(name, ".so"); stem == "libnvrtc" {
			// Load the builtins library of nvrtc here. nvrtc itself would look for the builtins library only on the
			// loader's search path.
			if builtins := ortlib.Glob(folder, "libnvrtc-builtins.so.*"); len(builtins) > 0 {
				_ = dlopen(builtins[0])
			}
		}
		return dlopen(path)
	}
	p.missing = append(p.missing, name)
	return nil
}

// If the folder is in the cache, the method 'check' compares the folder's files with the published hashes. It checks
// each folder only once.
func (p *preloader) check(folder, path string) error {
	err, done := p.checked[folder]
	if !done {
		err = ortlib.CheckPinned(path)
		if p.checked == nil {
			p.checked = map[string]error{}
		}
		p.checked[folder] = err
	}
	return err
}

// dlopen loads a library and keeps it loaded.
func dlopen(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	runtime.LockOSThread() // each system thread has its own dlerror
	defer runtime.UnlockOSThread()
	if C.dlopen(name, C.RTLD_NOW|C.RTLD_GLOBAL) == nil {
		return fmt.Errorf("%s: %s", path, quote.Name(strings.TrimPrefix(C.GoString(C.dlerror()), path+": ")))
	}
	return nil
}

// load loads all libraries that a provider's file needs.
func (p *preloader) load(provider string) error {
	needed, optional, err := ortlib.CUDANeeds(provider)
	if err != nil {
		return err
	}
	if optional != "" && !slices.Contains(needed, optional) {
		if err := p.open(optional); err != nil {
			return err
		}
		p.missing = nil
	}
	for _, name := range needed {
		if err := p.open(name); err != nil {
			return err
		}
	}
	if len(p.missing) > 0 {
		return ortlib.MissingLibraries(p.missing, p.looked)
	}
	return nil
}

// libraryPath is the absolute path of the library that Open opened last.
var libraryPath string

// The map 'preloads' holds the results of preloading, by provider file.
var preloads sync.Map

// preloadCUDA loads the libraries that the CUDA provider of the opened ONNX Runtime needs. It loads the libraries only
// once.
func preloadCUDA() error {
	dir := filepath.Dir(libraryPath)
	if real, err := filepath.EvalSymlinks(libraryPath); err == nil {
		dir = filepath.Dir(real)
	}
	provider := filepath.Join(dir, ortlib.CUDAProviderFile)
	if runtime.GOOS != "linux" || ortlib.RegularFile(provider) != nil {
		return nil // the caller then gets ONNX Runtime's error about the missing provider
	}
	load, _ := preloads.LoadOrStore(provider, sync.OnceValue(func() error {
		if err := dlopen(ortlib.DriverLibrary); err != nil {
			return ortlib.ExplainCUDA(err)
		}
		p := preloader{folders: func() []string { return ortlib.CUDAFolders(libraryPath) }}
		return p.load(provider)
	}))
	return load.(func() error)()
}
