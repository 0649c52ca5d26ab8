//go:build cgo

// Package cgo is empty. Without cgo it has no files, so the go command's error shows the package's path. The path says
// what the build of rscert needs. A compile error with a longer explanation would never be printed. The package
// onnxruntime_go consists only of cgo files, so without cgo the go command refuses to load it before it compiles
// anything. The go command loads this package first, so the error names this package and not onnxruntime_go.
package cgo
