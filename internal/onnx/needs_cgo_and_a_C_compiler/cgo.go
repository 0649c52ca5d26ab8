//go:build cgo

// Package cgo is empty. Without cgo it has no file at all: go's error then shows the package's path, which says what
// rscert needs to be built. A compile error with a sentence would never be printed: go refuses to load onnxruntime_go,
// which is cgo alone, before it compiles anything, and names that package unless this one comes first.
package cgo
