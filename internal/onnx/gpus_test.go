package onnx

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// DescribeGPUs must return the lines that nvidia-smi prints. Without nvidia-smi, the list may be empty but must not be
// nil.
func TestDescribeGPUs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no shell scripts")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf 'NVIDIA A, 1.2, 3 MiB\\n NVIDIA B, 1.2, 4 MiB \\n'\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if got, want := DescribeGPUs(t.Context()), []string{"NVIDIA A, 1.2, 3 MiB", "NVIDIA B, 1.2, 4 MiB"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("PATH", t.TempDir())
	if DescribeGPUs(t.Context()) == nil {
		t.Error("without nvidia-smi the list is nil, which JSON prints as null")
	}
}

func TestLinesOf(t *testing.T) {
	text := "Model: \t NVIDIA A\nIRQ: 5\nModel:  NVIDIA B"
	if got, want := linesOf(text, "Model:"), []string{"NVIDIA A", "NVIDIA B"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
