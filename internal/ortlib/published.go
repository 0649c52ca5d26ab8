package ortlib

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// Build is a published build of ONNX Runtime. The zero value lets FindFor choose between the CUDA build and the plain
// build; see the method 'chosen'.
type Build struct {
	device  string // the value of --device in 'rscert setup'
	version string
	suffix  string // appended to the version in the cache's folder name
}

// These are the published builds. Plain serves the CPU. Every other build serves one device.
var (
	Plain    = Build{device: "cpu", version: Version}
	OpenVINO = Build{device: "openvino", version: "1.24.1", suffix: "-openvino"}
	CUDA     = Build{device: "cuda", version: "1.31.1", suffix: "-cuda"}
)

// folder returns the name of the Build's folder in the cache. This folder contains one folder per platform.
func (f Build) folder() string { return f.version + f.suffix }

// setupCommand returns the command that installs the Build.
func (f Build) setupCommand() param.Text {
	if f == Plain {
		return param.Textf("rscert setup")
	}
	return param.Textf("rscert setup %s %s", param.Device, f.device)
}

// The method 'chosen' returns f, unless f is the zero Build. For the zero Build it chooses a build. It chooses the CUDA
// build only if this build is in the cache and there is a GPU. Otherwise it chooses the plain build, so that nobody has
// to download the CUDA build, which is many times larger.
func (f Build) chosen() Build {
	if f != (Build{}) {
		return f
	}
	if path, err := CUDA.cachePath(); err == nil && RegularFile(path) == nil {
		if _, err := os.Stat("/dev/nvidiactl"); err == nil {
			return CUDA
		}
	}
	return Plain
}

// Published describes published libraries for this platform: a build of ONNX Runtime, or the NVIDIA libraries in one
// Python package. It also gives their folder in the user's cache.
type Published struct {
	Device  string // cpu, openvino or cuda
	Version string
	// Platform is GOOS-GOARCH.
	Platform string
	Folder   string
	// Library is the path of the library itself. Files maps file names to SHA-256s in hex. Files covers the library and
	// all other files that must be in its folder. A file is valid if its SHA-256 is one of the hashes that Files holds
	// for its name.
	Library string
	Files   map[string][]string
	// Wheel is the Python package that contains the library. It is set only for NVIDIA's libraries.
	Wheel Wheel
}

// Wheel holds a package's name on PyPI, its version and its file name.
type Wheel struct{ Project, Version, File string }

// PublishedFor describes a build as it is published for this platform. For the zero Build it describes the plain build.
func PublishedFor(f Build) (Published, error) {
	if f == (Build{}) {
		f = Plain
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	path, err := f.cachePath()
	if err != nil {
		return Published{}, err
	}
	p := Published{
		Device: f.device, Version: f.version, Platform: platform, Folder: filepath.Dir(path), Library: path,
		Files: pinned(f.folder() + "/" + platform),
	}
	if len(p.Files) == 0 {
		return Published{}, hint.Add(fmt.Errorf("no ONNX Runtime %s for device %s is published for %s", f.version, f.device, platform),
			"build it from source and name it with %s or $%s; on Windows, use WSL", param.ONNXRuntime, Env)
	}
	return p, nil
}

// cudaVersion is the version of NVIDIA's libraries that 'rscert setup --with-cuda' installs. ONNX Runtime's builds for
// CUDA 13 work with all versions of CUDA 13. The constant is the first version of CUDA 13, because this version accepts
// the oldest drivers.
const cudaVersion = "13.0"

// cudaWheels lists NVIDIA's Python packages with the libraries that ONNX Runtime's CUDA provider needs.
var cudaWheels = []Wheel{
	{"nvidia-cuda-runtime", "13.0.96", "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"},
	{"nvidia-cuda-nvrtc", "13.0.88", "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl"},
	{"nvidia-cublas", "13.1.1.3", "nvidia_cublas-13.1.1.3-py3-none-manylinux_2_27_x86_64.whl"},
	{"nvidia-curand", "10.4.0.35", "nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_x86_64.whl"},
	{"nvidia-cudnn-cu13", "9.24.0.43", "nvidia_cudnn_cu13-9.24.0.43-py3-none-manylinux_2_27_x86_64.whl"},
}

// cudaLibrariesFolder returns the cache folder for NVIDIA's libraries.
func cudaLibrariesFolder() (string, error) {
	root, err := cacheRoot()
	return filepath.Join(root, cudaLibrariesName()), err
}

func cudaLibrariesName() string {
	return "cuda-" + cudaVersion + "/" + runtime.GOOS + "-" + runtime.GOARCH
}

// CUDALibraries describes the NVIDIA libraries that a CUDA build needs. There is one entry per Python package. The
// libraries of all packages are in the same folder.
func CUDALibraries() ([]Published, error) {
	folder, err := cudaLibrariesFolder()
	if err != nil {
		return nil, err
	}
	var all []Published
	for _, w := range cudaWheels {
		files := pinnedIn(cudaLibrariesName(), w.Project)
		if len(files) == 0 {
			return nil, hint.New(fmt.Sprintf("no CUDA %s is published for %s-%s here", cudaVersion, runtime.GOOS, runtime.GOARCH), "install CUDA 13 and cuDNN 9")
		}
		all = append(all, Published{
			Device: CUDA.device, Version: w.Version, Platform: runtime.GOOS + "-" + runtime.GOARCH, Folder: folder,
			Library: filepath.Join(folder, slices.Sorted(maps.Keys(files))[0]), Files: files, Wheel: w,
		})
	}
	return all, nil
}

// Check returns nil if Folder holds all files that Files lists, and each of them matches one of its hashes.
func (p Published) Check() error { return checkFiles(p.Folder, p.Files) }
