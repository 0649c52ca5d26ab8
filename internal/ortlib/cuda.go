package ortlib

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/programs"
	"github.com/rscert/rscert/internal/quote"
)

// This file lists the NVIDIA libraries that ONNX Runtime's CUDA provider needs, and the folders that may hold them.

// nvidiaOrder lists the libraries in the order in which they must be loaded. Each library comes after the libraries
// that it needs. cuDNN finds its parts by itself in its own folder.
var nvidiaOrder = []string{"libcudart", "libnvrtc-builtins", "libnvrtc", "libcublasLt", "libcublas", "libcurand", "libcufft", "libcusparse", "libcusolver", "libcudnn"}

// cudnnLibrary is cuDNN's main library. Most models need it. Without cuDNN, ONNX Runtime 1.31 and later use other
// kernels or refuse some models. rscert requires cuDNN, because a certificate should not depend on the presence of
// cuDNN.
const cudnnLibrary = "libcudnn.so.9"

// nvidiaLibrary matches the SONAME of a CUDA or cuDNN library. It also matches the driver's SONAME, libcuda.so.1, so
// its users must exclude DriverLibrary.
var nvidiaLibrary = regexp.MustCompile(`^(lib(?:cu|nv)\w+)\.so\.(\d+)$`)

// CUDANeeds lists the CUDA and cuDNN libraries that the provider's file needs, in loading order. If the file needs such
// libraries but does not name cuDNN, CUDANeeds adds cuDNN's main library. It also returns the optional library nvrtc.
// cuDNN compiles some kernels with nvrtc.
func CUDANeeds(provider string) (needed []string, optional string, err error) {
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
		if parts == nil || name == DriverLibrary {
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

// loadRank returns a library's index in nvidiaOrder. An unknown library gets the index of cuDNN, the last library.
func loadRank(name string) int {
	stem, _, _ := strings.Cut(name, ".so")
	if i := slices.Index(nvidiaOrder, stem); i >= 0 {
		return i
	}
	return len(nvidiaOrder) - 1
}

// MissingLibraries returns an error that names the missing libraries and explains how to get them.
func MissingLibraries(names, looked []string) error {
	where := "the loader's folders"
	for _, folder := range looked {
		where += ", " + quote.Name(folder)
	}
	are := "is"
	if len(names) > 1 {
		are = "are"
	}
	return hint.Add(fmt.Errorf("%s of CUDA and cuDNN %s not here: looked in %s", strings.Join(names, ", "), are, where), "%s", cudaLibrariesHint)
}

var cudaLibrariesHint = param.Textf("run 'rscert setup %s cuda %s', or pip install 'onnxruntime-gpu[cuda,cudnn]', or install CUDA 13 and cuDNN 9",
	param.Device, param.WithCUDA)

// missingLibrary matches the loader's message about a library that it cannot find.
var missingLibrary = regexp.MustCompile(`(lib[\w.+-]+\.so[\w.]*): cannot open shared object file`)

// cudaFailure matches an error message of CUDA itself. ONNX Runtime passes such a message on and appends a source
// location.
var cudaFailure = regexp.MustCompile(`CUDA failure \d+: [^;]*[^; ]`)

// ExplainCUDA explains why ONNX Runtime could not load its CUDA provider.
func ExplainCUDA(err error) error {
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
	case found[1] == DriverLibrary:
		return hint.Add(errors.New("no driver of NVIDIA is here: its library "+DriverLibrary+" is missing"), "install the driver of the GPU, or use %s cpu", param.Device)
	case nvidiaLibrary.MatchString(found[1]):
		return MissingLibraries(found[1:2], nil)
	}
	return err
}

// CUDAProviderFile is the file name of ONNX Runtime's CUDA provider. The file is in the library's folder.
const CUDAProviderFile = "libonnxruntime_providers_cuda.so"

// CUDAFolders lists the folders that may hold NVIDIA's libraries: the folder of ONNX Runtime's library, folders of
// Python packages, and the folder in the cache. It omits the folders that the system's loader searches by itself.
func CUDAFolders(library string) (folders []string) {
	add := func(found ...string) {
		for _, folder := range found {
			if !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	add(filepath.Dir(library))
	for _, packages := range sitePackages(library) {
		add(Glob(packages, "nvidia/*/lib")...)
	}
	if folder, err := cudaLibrariesFolder(); err == nil {
		add(folder)
	}
	return folders
}

// sitePackages lists folders of Python packages: the package folder of the given library, the package folder of the
// library that $RSCERT_ONNXRUNTIME_PYTHON names, the folders of $VIRTUAL_ENV, and the folders that python3 reports.
func sitePackages(library string) (folders []string) {
	for _, library := range []string{library, os.Getenv(PythonEnv)} {
		for dir := filepath.Dir(library); filepath.IsAbs(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if base := filepath.Base(dir); base == "site-packages" || base == "dist-packages" {
				folders = append(folders, dir)
			}
		}
	}
	if env := os.Getenv("VIRTUAL_ENV"); filepath.IsAbs(env) {
		folders = append(folders, Glob(env, "lib/python3*/site-packages")...)
	}
	return append(folders, pythonPackages()...)
}

// Glob returns the paths in a folder that match a pattern. Unlike filepath.Glob, it gives special characters in the
// folder's name no special meaning.
func Glob(folder, pattern string) []string {
	found, _ := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range found {
		found[i] = filepath.Join(folder, name)
	}
	return found
}

// pythonPatience is the time limit for python3 to report its package folders.
const pythonPatience = 10 * time.Second

// pythonPackages asks the python3 on the PATH for its package folders. It uses isolated mode (-I), because otherwise
// Python would run a sysconfig.py in the current folder.
func pythonPackages() (folders []string) {
	ctx, cancel := context.WithTimeout(context.Background(), pythonPatience)
	defer cancel()
	const script = "import site, sysconfig; print(*[sysconfig.get_path('purelib'), *site.getsitepackages(), site.getusersitepackages()], sep='\\n')"
	out, err := programs.Command(ctx, "python3", "-I", "-c", script).Output()
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

// DriverLibrary is the SONAME of NVIDIA's driver library.
const DriverLibrary = "libcuda.so.1"
