package ortlib

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

// TestExplainCUDA uses error messages of ONNX Runtime about a provider that it cannot load.
func TestExplainCUDA(t *testing.T) {
	const failed = "[ONNXRuntimeError] : 1 : FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: "
	for _, c := range []struct{ said, want, advice string }{
		{failed + "libcublasLt.so.13: cannot open shared object file: No such file or directory", "libcublasLt.so.13 of CUDA and cuDNN is not here", "with-cuda"},
		{failed + "libcuda.so.1: cannot open shared object file: No such file or directory", "no driver of NVIDIA is here", "install the driver"},
		{failed + "libz.so.1: cannot open shared object file: No such file or directory", "libz.so.1: cannot open shared object file", ""},
		{"provider_options_utils.h:187 Parse Failed to parse provider option \"device_id\": CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=vm ; file=x",
			"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", "update the driver"},
		{"Parse Failed to parse provider option \"device_id\": CUDA failure 101: invalid device ordinal ; GPU=9 ; file=x", "CUDA failure 101: invalid device ordinal", ""},
	} {
		err := ExplainCUDA(fmt.Errorf("%s", c.said))
		advice, _ := hint.Of(err)
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hostname") || !strings.Contains(advice, c.advice) || (advice == "") != (c.advice == "") {
			t.Errorf("%s\nis explained as %v, hint %q", c.said, err, advice)
		}
	}
	if ExplainCUDA(nil) != nil {
		t.Error("no error is explained")
	}
}

// TestSitePackages checks that sitePackages finds all kinds of folders: the package folders that contain ONNX Runtime's
// library, the folders of a virtual environment, and the folders of python3.
func TestSitePackages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	libraryPath := filepath.Join(dir, "a/site-packages/onnxruntime/capi/libonnxruntime.so.1")
	t.Setenv(PythonEnv, filepath.Join(dir, "b/dist-packages/onnxruntime/capi/libonnxruntime.so.1"))
	t.Setenv("VIRTUAL_ENV", filepath.Join(dir, "c"))
	t.Setenv("PATH", dir)
	program := "#!/bin/sh\necho '" + filepath.Join(dir, "d") + "'\necho relative\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "c/lib/python3.12/site-packages/nvidia/cu13/lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "a/site-packages"), filepath.Join(dir, "b/dist-packages"), filepath.Join(dir, "c/lib/python3.12/site-packages"), filepath.Join(dir, "d")}
	if got := sitePackages(libraryPath); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	folders := CUDAFolders(libraryPath)
	if len(folders) != 3 || folders[0] != filepath.Dir(libraryPath) || folders[1] != filepath.Join(want[2], "nvidia/cu13/lib") || !strings.Contains(folders[2], "cuda-") {
		t.Errorf("folders %q", folders)
	}
}

// TestPythonPackagesRunsNothingPlanted asks the real python3 for its folders. The test plants modules in the current
// folder. They have the names of modules that python3 imports, but none of them may run.
func TestPythonPackagesRunsNothingPlanted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, module := range []string{"sysconfig.py", "site.py", "sitecustomize.py", "os.py", "nvidia.py"} {
		if err := os.WriteFile(module, []byte("open('"+ran+"', 'a').write('"+module+"\\n')\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Python's isolated mode (-I) also ignores this absolute folder, although the user chose it
	t.Setenv("PYTHONPATH", ":.:"+dir)
	if len(pythonPackages()) == 0 {
		t.Skip("no python3")
	}
	if names, err := os.ReadFile(ran); err == nil {
		t.Errorf("ran %s", names)
	}
}
