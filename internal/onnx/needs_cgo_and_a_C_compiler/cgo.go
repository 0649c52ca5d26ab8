//go:build cgo

// Package cgo is empty. Without cgo, this package has no files, so the go command prints an error with the path of this
// package. The path says what the build of rscert needs. A compile error with a longer explanation would never be
// printed. The package onnxruntime_go consists only of cgo files, so without cgo the go command refuses to load it
// before it compiles anything. The go command loads this package first, so the error names this package and not
// onnxruntime_go.
package cgo
