package onnx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
)

// The function 'link' builds a shared library from C source with the C compiler that Go uses. The new library needs the
// libraries in the argument 'needs', which are in the same folder. Without a compiler, link skips the test.
func link(t *testing.T, folder, name, source string, needs ...string) {
	t.Helper()
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(string(cc)), "-shared", "-fPIC", "-xc", "-", "-xnone", "-o", filepath.Join(folder, name))
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skip(err)
	}
	if runtime.GOOS == "linux" {
		args = append(args, "-Wl,--no-as-needed,-soname,"+name)
	}
	for _, other := range needs {
		args = append(args, filepath.Join(folder, other))
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// The function 'noting' returns the C source of a library. When this library is loaded, it appends a line to a file.
// The line contains the argument 'name'.
func noting(file, name string) string {
	return fmt.Sprintf(`#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { FILE *f = fopen("%s", "a"); fputs("%s\n", f); fclose(f); }`, file, name)
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("CUDA is for Linux")
	}
}

// fakeCUDA builds libraries in several folders, and a provider that needs them. The libraries have the names of
// NVIDIA's libraries and a version that does not exist. The function returns the provider, the folders and the file to
// which the libraries write their names.
func fakeCUDA(t *testing.T, version string) (provider string, folders []string, note string) {
	t.Helper()
	dir := t.TempDir()
	note = filepath.Join(dir, "loaded")
	build := filepath.Join(dir, "build") // the libraries are built here and then move to other folders
	name := func(stem string) string { return stem + ".so." + version }
	place := map[string]string{"libcudnn": "packages/nvidia/cudnn/lib", "libcublas": "packages/nvidia/cu13/lib", "libcublasLt": "packages/nvidia/cu13/lib",
		"libcudart": "cache", "libcurand": "cache", "libnvrtc": "cache", "libnvrtc-builtins": "cache"}
	makeOne := func(stem string, needs ...string) {
		for i := range needs {
			needs[i] = name(needs[i])
		}
		link(t, build, name(stem), noting(note, stem), needs...)
	}
	makeOne("libcudart")
	makeOne("libcublasLt", "libcudart")
	makeOne("libcublas", "libcublasLt", "libcudart")
	makeOne("libcurand")
	makeOne("libnvrtc-builtins")
	makeOne("libnvrtc")
	makeOne("libcudnn", "libcublas")
	// The provider lists the libraries in a wrong order: some libraries come before the libraries that they need.
	link(t, build, ortlib.CUDAProviderFile, "int provider;", name("libcudnn"), name("libcurand"), name("libcublas"), name("libcublasLt"), name("libcudart"))
	for stem, folder := range place {
		folder = filepath.Join(dir, folder)
		if !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(build, name(stem)), filepath.Join(folder, name(stem))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(build, ortlib.CUDAProviderFile), folders, note
}

// TestPreload loads libraries from several folders that are not on the search path of the system's loader. Each library
// must be loaded after the libraries that it needs. Then the provider must load, although its file names no folder in
// which the loader could search.
func TestPreload(t *testing.T) {
	onLinux(t)
	provider, folders, note := fakeCUDA(t, "9137")
	if err := dlopen(provider); err == nil {
		t.Fatal("the loader finds the libraries by itself")
	}
	p := preloader{folders: func() []string { return folders }}
	if err := p.load(provider); err != nil {
		t.Fatal(err)
	}
	loaded, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	order := strings.Fields(string(loaded))
	for _, pair := range [][2]string{{"libcudart", "libcublasLt"}, {"libcublasLt", "libcublas"}, {"libcublas", "libcudnn"}, {"libnvrtc-builtins", "libnvrtc"},
		{"libnvrtc", "libcudnn"}, {"libcurand", "libcudnn"}} {
		if i, j := slices.Index(order, pair[0]), slices.Index(order, pair[1]); i < 0 || j < 0 || i > j {
			t.Errorf("loaded %v: %s is not before %s", order, pair[0], pair[1])
		}
	}
	if err := dlopen(provider); err != nil {
		t.Error(err)
	}
	again := preloader{folders: func() []string { t.Error("folders are asked for what is loaded"); return nil }}
	if err := again.load(provider); err != nil {
		t.Error(err)
	}
}

// TestPreloadMissing checks that the error names the missing libraries, the searched folders and a remedy. The library
// nvrtc is missing too, but the error must not name it, because it is optional.
func TestPreloadMissing(t *testing.T) {
	onLinux(t)
	provider, folders, _ := fakeCUDA(t, "9138")
	for _, folder := range folders {
		for _, stem := range []string{"libcublasLt", "libcurand", "libnvrtc"} {
			_ = os.Remove(filepath.Join(folder, stem+".so.9138"))
		}
		// libcublas and libcudnn could not be loaded without libcublasLt. So the test replaces them by libraries that
		// need no other library.
		for _, stem := range []string{"libcublas", "libcudnn"} {
			if file := filepath.Join(folder, stem+".so.9138"); ortlib.RegularFile(file) == nil {
				link(t, folder, stem+".so.9138", "int x;")
			}
		}
	}
	p := preloader{folders: func() []string { return folders }}
	err := p.load(provider)
	if err == nil || !strings.Contains(err.Error(), "libcublasLt.so.9138, libcurand.so.9138 of CUDA and cuDNN are not here: looked in the loader's folders, ") ||
		!strings.Contains(err.Error(), folders[0]) || strings.Contains(err.Error(), "nvrtc") {
		t.Errorf("error %v", err)
	}
	if advice, _ := hint.Of(err); !strings.Contains(advice, "rscert setup device cuda with-cuda") {
		t.Errorf("hint %q", advice)
	}

	// If a library exists but cannot be loaded, the error must say why.
	file := filepath.Join(folders[0], "libcublasLt.so.9138")
	if err := os.WriteFile(file, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	p = preloader{folders: func() []string { return folders[:1] }}
	if err := p.open("libcublasLt.so.9138"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
}

// If NVIDIA libraries in the cache are not the published files, preloading must fail.
func TestPreloadChecksTheCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	published, err := ortlib.CUDALibraries()
	if err != nil || !strings.HasPrefix(published[0].Folder, home) {
		t.Skipf("there are none for this platform: %v, %v", published, err)
	}
	folder := published[0].Folder
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "libcurand.so.10"), nil)
	p := preloader{}
	if err := p.check(folder, filepath.Join(folder, "libcurand.so.10")); err == nil || !strings.Contains(err.Error(), "the published library") {
		t.Errorf("error %v", err)
	}
	if err := p.check(home, filepath.Join(home, "libcurand.so.10")); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
}

// TestGPUs asks a fake driver library for GPUs.
func TestGPUs(t *testing.T) {
	dir := t.TempDir()
	const driver = `#include <string.h>
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int *n) { *n = 3; return 0; }
int cuDeviceGet(int *device, int i) { *device = 10 + i; return 0; }
int cuDeviceGetName(char *name, int size, int device) {
	if (device == 11) return 1;
	strncpy(name, device == 10 ? "NVIDIA A" : "NVIDIA B", size);
	return 0;
}`
	link(t, dir, "libdriver.so.1", strings.ReplaceAll(driver, "INIT", "0"))
	if got, want := gpusOf(filepath.Join(dir, "libdriver.so.1")), []string{"NVIDIA A", "GPU 1", "NVIDIA B"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	link(t, dir, "libdriver.so.2", strings.ReplaceAll(driver, "INIT", "100"))
	link(t, dir, "libdriver.so.3", "int x;")
	for _, name := range []string{"libdriver.so.2", "libdriver.so.3", "libdriver.so.4"} {
		if got := gpusOf(filepath.Join(dir, name)); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestCUDAOptions checks all options that rscert passes to the CUDA provider.
func TestCUDAOptions(t *testing.T) {
	for _, c := range []struct {
		s    settings
		want map[string]string
	}{
		{settings{unit: "0"}, map[string]string{"device_id": "0", "use_tf32": "0", "prefer_nhwc": "0", "cudnn_conv_algo_search": "HEURISTIC"}},
		{settings{unit: "3", precision: TF32}, map[string]string{"device_id": "3", "use_tf32": "1", "prefer_nhwc": "0", "cudnn_conv_algo_search": "HEURISTIC"}},
		{settings{unit: "1", tuning: Tuning{PreferNHWC: true, ConvSearch: ExhaustiveSearch}},
			map[string]string{"device_id": "1", "use_tf32": "0", "prefer_nhwc": "1", "cudnn_conv_algo_search": "EXHAUSTIVE"}},
		{settings{unit: "0", tuning: Tuning{ConvSearch: DefaultSearch}},
			map[string]string{"device_id": "0", "use_tf32": "0", "prefer_nhwc": "0", "cudnn_conv_algo_search": "DEFAULT"}},
	} {
		if got := cudaOptions(c.s); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
}

// Devices must refuse settings that they do not support. The device CUDA must accept TF32 and the settings of Tuning,
// which the CPU and OpenVINO refuse.
func TestDeviceCheck(t *testing.T) {
	for _, c := range []struct {
		device string
		p      Precision
		tuning Tuning
		want   string
	}{
		{"cuda", TF32, Tuning{PreferNHWC: true, ConvSearch: DefaultSearch}, ""}, {"cuda:0,1", F32, Tuning{}, ""}, {"cuda", BF16, Tuning{}, "in f32, tf32, not in bf16"},
		{"auto", TF32, Tuning{PreferNHWC: true}, ""}, {"cpu", F32, Tuning{}, ""},
		{"cpu", TF32, Tuning{}, "computes in f32, not in tf32"}, {"openvino", TF32, Tuning{}, "not in tf32"},
		{"cpu", F32, Tuning{PreferNHWC: true}, "device cpu has no prefer-nhwc"}, {"openvino:CPU", F32, Tuning{ConvSearch: ExhaustiveSearch}, "device openvino has no conv-search"},
	} {
		err := device(t, c.device).Check(c.p, c.tuning)
		if advice, _ := hint.Of(err); (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || advice == "") {
			t.Errorf("%+v: error %v, hint %q", c, err, advice)
		}
	}
	for _, s := range ConvSearches.Values() {
		var read ConvSearch
		if err := read.UnmarshalText([]byte(s.String())); err != nil || read != s {
			t.Errorf("%v is read as %v: %v", s, read, err)
		}
	}
	if new(ConvSearch).UnmarshalText([]byte("EXHAUSTIVE")) == nil {
		t.Error("capitals are read")
	}
	// Without CUDA, --device auto must explain why CUDA is missing.
	without := &Runtime{providers: []string{cpuProvider.name}}
	for _, opt := range []LoadOptions{{Precision: TF32}, {Tuning: Tuning{PreferNHWC: true}}} {
		if _, err := without.devices(opt); err == nil || !strings.Contains(err.Error(), "device cuda: the ONNX Runtime library has no CUDA provider") {
			t.Errorf("%+v: error %v", opt, err)
		}
	}
	if _, err := without.devices(LoadOptions{Precision: F16}); err == nil || !strings.Contains(err.Error(), "device cpu computes in f32, not in f16") {
		t.Errorf("error %v", err)
	}
}

// The needed libraries must include cuDNN, even if the provider loads cuDNN by itself or works without it. The needed
// libraries must not include the driver, because the driver is not part of CUDA.
func TestCUDANeeds(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	for _, name := range []string{"libcublas.so.12", "libcudart.so.12", ortlib.DriverLibrary, "libother.so.1"} {
		link(t, dir, name, "int x;")
	}
	link(t, dir, ortlib.CUDAProviderFile, "int provider;", "libother.so.1", "libcublas.so.12", ortlib.DriverLibrary, "libcudart.so.12")
	needed, optional, err := ortlib.CUDANeeds(filepath.Join(dir, ortlib.CUDAProviderFile))
	if want := []string{"libcudart.so.12", "libcublas.so.12", "libcudnn.so.9"}; err != nil || !slices.Equal(needed, want) || optional != "libnvrtc.so.12" {
		t.Errorf("needs %q and %q, %v; want %q", needed, optional, err, want)
	}
}
