//go:build cgo

// Package cgo is empty. Without cgo it has no file at all, so the error of the go command shows the package's path.
// This path says what the build of rscert needs. A compile error with a sentence would never be printed: onnxruntime_go
// consists of cgo files alone, so the go command refuses to load it before it compiles anything. The go command would
// name that package if this package did not come first.
package cgo
