//go:build cgo

// Package cgo is empty. Without cgo it has no file at all: go's error then shows the package's path, which says what
// rscert needs to be built.
package cgo
