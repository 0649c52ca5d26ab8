package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rscert/rscert/internal/hint"
)

// flavour is a published build of ONNX Runtime.
type flavour struct {
	device  string // of 'rscert setup --device'
	version string
	suffix  string // of the version in the cache's folder
}

var (
	plainLibrary    = flavour{device: "cpu", version: LibraryVersion}
	openvinoLibrary = flavour{device: "openvino", version: "1.24.1", suffix: "-openvino"}
	cudaLibrary     = flavour{device: "cuda", version: "1.31.1", suffix: "-cuda"}
)

// folder is the flavour's folder in the cache, below which the platforms' are.
func (f flavour) folder() string { return f.version + f.suffix }

// setupCommand fetches the flavour.
func (f flavour) setupCommand() string {
	if f == plainLibrary {
		return "rscert setup"
	}
	return "rscert setup --device " + f.device
}

// library is the flavour that can run models on the device. CUDA's is many times larger: --device auto takes it where it
// is in the cache and there is a GPU.
func (d Device) library() flavour {
	if d.provider != nil {
		return d.provider.library
	}
	if path, err := cudaLibrary.cachePath(); err == nil && regularFile(path) == nil {
		if _, err := os.Stat("/dev/nvidiactl"); err == nil {
			return cudaLibrary
		}
	}
	return plainLibrary
}

// Published is the build of ONNX Runtime for a device that is published for this platform, and its place in the
// user's cache, where FindLibraryFor looks for it.
type Published struct {
	Device  string // cpu, openvino or cuda
	Version string
	// Platform is GOOS-GOARCH.
	Platform string
	Folder   string
	// Library is the path of the library itself, Files the SHA-256s in hex of it and of all that has to lie beside it, by
	// name; any of a file's will do.
	Library string
	Files   map[string][]string
}

// PublishedFor returns the build for a device.
func PublishedFor(d Device) (Published, error) {
	f := plainLibrary
	if d.provider != nil {
		f = d.provider.library
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
		return Published{}, hint.New(fmt.Sprintf("no ONNX Runtime %s for device %s is published for %s", f.version, f.device, platform),
			fmt.Sprintf("build it from source and name it with --onnxruntime or $%s; on Windows, use WSL", LibraryEnv))
	}
	return p, nil
}

// Check returns nil if the build is in the cache as it was published.
func (p Published) Check() error { return checkFiles(p.Folder, p.Files) }
