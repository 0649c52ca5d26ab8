// Package oip has the messages and the gRPC service of the Open Inference Protocol v2, generated from oip.proto.
package oip

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative oip.proto
