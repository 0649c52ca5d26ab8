// Package onnxpb holds the protocol buffers of ONNX models, reduced to the messages and fields that rscert reads or
// edits.
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative onnx.proto
