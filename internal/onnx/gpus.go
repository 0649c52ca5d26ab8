package onnx

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/programs"
)

// DescribeGPUs lists the names of the NVIDIA GPUs. If nvidia-smi works, each line also holds the driver's version and
// the memory. Otherwise the names come from the kernel driver or, if that fails, from CUDA's driver library. Without a
// GPU the list is empty, but not nil.
func DescribeGPUs(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // nvidia-smi hangs if the driver hangs
	defer cancel()
	out, err := programs.Command(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output()
	if err == nil {
		return linesOf(string(out), "")
	}
	names := []string{}
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		names = append(names, linesOf(string(text), "Model:")...)
	}
	if len(names) == 0 {
		names = append(names, GPUs()...)
	}
	return names
}

// linesOf finds the lines that have the prefix. It returns the text after the prefix, without surrounding spaces.
func linesOf(text, prefix string) []string {
	found := []string{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}
