package onnx

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/programs"
)

// DescribeGPUs names the NVIDIA GPUs, with driver and memory if nvidia-smi works. Without it, the names come from the
// kernel's driver, else from CUDA's. No GPU: an empty list, not nil.
func DescribeGPUs(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // nvidia-smi hangs if the driver does
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

// linesOf returns what follows the prefix on each line that has it, without spaces around it.
func linesOf(text, prefix string) []string {
	found := []string{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}
