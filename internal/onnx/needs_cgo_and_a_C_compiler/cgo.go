//go:build cgo

// Package cgo is empty. Only its path matters, because the path says what the build of rscert needs. Without cgo, this
// package has no files, so the go command prints an error with the path. The go command loads this package before
// onnxruntime_go, so the error names this package. A compile error could explain more, but it would never be printed.
// Without cgo, the go command stops before it compiles anything, because onnxruntime_go consists only of cgo files.
package cgo
