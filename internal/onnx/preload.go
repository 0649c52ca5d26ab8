package onnx

// This file finds the libraries of NVIDIA that ONNX Runtime's CUDA provider needs, without environment variables, and
// loads them before it. What is loaded under a name (its SONAME) is what the loader then takes for that name.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/rscert/rscert/internal/hint"
)

// nvidiaOrder are the names of the libraries in the order in which they are loaded: each after those that it needs.
// cuDNN finds its own parts beside itself.
var nvidiaOrder = []string{"libcudart", "libnvrtc-builtins", "libnvrtc", "libcublasLt", "libcublas", "libcurand", "libcufft", "libcusparse", "libcusolver", "libcudnn"}

// cudnnLibrary is needed by most models. ONNX Runtime from 1.31 on does without it, by other kernels or not at all: what
// is certified should not depend on whether it was found.
const cudnnLibrary = "libcudnn.so.9"

// nvidiaLibrary is a library of CUDA or cuDNN by its SONAME; not the driver's.
var nvidiaLibrary = regexp.MustCompile(`^(lib(?:cu|nv)\w+)\.so\.(\d+)$`)

// cudaNeeds lists what the provider's file needs, in the order in which it is to be loaded. The optional ones come with
// others: cuDNN compiles some kernels with nvrtc.
func cudaNeeds(provider string) (needed []string, optional string, err error) {
	file, err := elf.Open(provider)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	imported, err := file.ImportedLibraries()
	if err != nil {
		return nil, "", err
	}
	cudnn := false
	for _, name := range imported {
		parts := nvidiaLibrary.FindStringSubmatch(name)
		if parts == nil || name == driverLibrary {
			continue
		}
		needed = append(needed, name)
		cudnn = cudnn || parts[1] == "libcudnn"
		if parts[1] == "libcudart" {
			optional = "libnvrtc.so." + parts[2]
		}
	}
	if len(needed) > 0 && !cudnn {
		needed = append(needed, cudnnLibrary)
	}
	slices.SortStableFunc(needed, func(a, b string) int { return loadRank(a) - loadRank(b) })
	return needed, optional, nil
}

// loadRank is the place of a library in nvidiaOrder; unknown ones come before cuDNN.
func loadRank(name string) int {
	stem, _, _ := strings.Cut(name, ".so")
	if i := slices.Index(nvidiaOrder, stem); i >= 0 {
		return i
	}
	return len(nvidiaOrder) - 1
}

// preloader loads libraries from where they are found first: where the loader looks, then in folders.
type preloader struct {
	folders func() []string // asked only if the loader does not find one
	looked  []string
	missing []string
	checked map[string]error // folders of the cache
}

// open loads a library for the whole process: by its name, or else the file in a folder.
func (p *preloader) open(name string) error {
	if dlopen(name) == nil {
		return nil
	}
	if p.looked == nil {
		p.looked = p.folders()
	}
	for _, folder := range p.looked {
		path := filepath.Join(folder, name)
		if regularFile(path) != nil {
			continue
		}
		if err := p.check(folder, path); err != nil {
			return err
		}
		if stem, _, _ := strings.Cut(name, ".so"); stem == "libnvrtc" { // it looks for them where the loader does
			if builtins, _ := filepath.Glob(filepath.Join(folder, "libnvrtc-builtins.so.*")); len(builtins) > 0 {
				_ = dlopen(builtins[0])
			}
		}
		return dlopen(path)
	}
	p.missing = append(p.missing, name)
	return nil
}

// check checks the folder of a file once, if it is one of the cache.
func (p *preloader) check(folder, path string) error {
	err, done := p.checked[folder]
	if !done {
		err = checkPinned(path)
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
	runtime.LockOSThread() // dlerror is the thread's
	defer runtime.UnlockOSThread()
	if C.dlopen(name, C.RTLD_NOW|C.RTLD_GLOBAL) == nil {
		return fmt.Errorf("%s: %s", path, printable(strings.TrimPrefix(C.GoString(C.dlerror()), path+": ")))
	}
	return nil
}

// load loads all that a provider's file needs.
func (p *preloader) load(provider string) error {
	needed, optional, err := cudaNeeds(provider)
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
		return missingLibraries(p.missing, p.looked)
	}
	return nil
}

// missingLibraries names libraries that were not found, and how to get them.
func missingLibraries(names, looked []string) error {
	where := "the loader's folders"
	for _, folder := range looked {
		where += ", " + printable(folder)
	}
	are := "is"
	if len(names) > 1 {
		are = "are"
	}
	return hint.New(fmt.Sprintf("%s of CUDA and cuDNN %s not here: looked in %s", strings.Join(names, ", "), are, where), cudaLibrariesHint)
}

const cudaLibrariesHint = "run 'rscert setup --device cuda --with-cuda', or pip install 'onnxruntime-gpu[cuda,cudnn]', or install CUDA 13 and cuDNN 9"

// missingLibrary is how the loader says that it does not find a library.
var missingLibrary = regexp.MustCompile(`(lib[\w.+-]+\.so[\w.]*): cannot open shared object file`)

// cudaFailure is how CUDA's own errors are passed on, with the place in the sources behind them.
var cudaFailure = regexp.MustCompile(`CUDA failure \d+: [^;]*[^; ]`)

// explainCUDA says what is missing where ONNX Runtime could not load its provider.
func explainCUDA(err error) error {
	if err == nil {
		return nil
	}
	found := missingLibrary.FindStringSubmatch(err.Error())
	failure := cudaFailure.FindString(err.Error())
	switch {
	case strings.Contains(failure, "driver version is insufficient"):
		return hint.New(failure, "update the driver of the GPU: CUDA 13 needs version 580 or newer")
	case failure != "":
		return errors.New(failure)
	case found == nil:
		return err
	case found[1] == driverLibrary:
		return hint.New("no driver of NVIDIA is here: its library "+driverLibrary+" is missing", "install the driver of the GPU, or use --device cpu")
	case nvidiaLibrary.MatchString(found[1]):
		return missingLibraries(found[1:2], nil)
	}
	return err
}

// libraryPath is the path of the library that ask opened last.
var libraryPath string

// preloads are the outcomes of preloading, by provider.
var preloads sync.Map

// preloadCUDA loads the libraries that the opened ONNX Runtime's provider needs, once.
func preloadCUDA() error {
	dir := filepath.Dir(libraryPath)
	if real, err := filepath.EvalSymlinks(libraryPath); err == nil {
		dir = filepath.Dir(real)
	}
	provider := filepath.Join(dir, cudaProviderFile)
	if runtime.GOOS != "linux" || regularFile(provider) != nil {
		return nil // ONNX Runtime says so
	}
	load, _ := preloads.LoadOrStore(provider, sync.OnceValue(func() error {
		if err := dlopen(driverLibrary); err != nil {
			return explainCUDA(err)
		}
		p := preloader{folders: cudaFolders}
		return p.load(provider)
	}))
	return load.(func() error)()
}

// cudaProviderFile is the file of ONNX Runtime's CUDA provider, beside the library.
const cudaProviderFile = "libonnxruntime_providers_cuda.so"

// cudaFolders are where NVIDIA's libraries may lie besides the loader's folders: beside ONNX Runtime, in the packages of
// a Python, in the cache.
func cudaFolders() (folders []string) {
	add := func(found ...string) {
		for _, folder := range found {
			if !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	add(filepath.Dir(libraryPath))
	for _, packages := range sitePackages() {
		found, _ := filepath.Glob(filepath.Join(packages, "nvidia", "*", "lib"))
		add(found...)
	}
	if folder, err := cudaLibrariesFolder(); err == nil {
		add(folder)
	}
	return folders
}

// sitePackages are the folders of Python's packages: that which ONNX Runtime is from, those of $VIRTUAL_ENV, and those of
// python3.
func sitePackages() (folders []string) {
	for _, library := range []string{libraryPath, os.Getenv(PythonEnv)} {
		for dir := filepath.Dir(library); filepath.IsAbs(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if base := filepath.Base(dir); base == "site-packages" || base == "dist-packages" {
				folders = append(folders, dir)
			}
		}
	}
	if env := os.Getenv("VIRTUAL_ENV"); filepath.IsAbs(env) {
		found, _ := filepath.Glob(filepath.Join(env, "lib", "python3*", "site-packages"))
		folders = append(folders, found...)
	}
	return append(folders, pythonPackages()...)
}

// pythonPatience is how long python3 may take to say where its packages are.
const pythonPatience = 10 * time.Second

// pythonPackages asks the python3 that a shell would call.
func pythonPackages() (folders []string) {
	ctx, cancel := context.WithTimeout(context.Background(), pythonPatience)
	defer cancel()
	const program = "import site, sysconfig; print(*[sysconfig.get_path('purelib'), *site.getsitepackages(), site.getusersitepackages()], sep='\\n')"
	out, err := exec.CommandContext(ctx, "python3", "-c", program).Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if dir := strings.TrimSpace(line); filepath.IsAbs(dir) {
			folders = append(folders, dir)
		}
	}
	return folders
}
