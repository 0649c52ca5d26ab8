// Command rscert certifies classifiers with randomized smoothing.
package main

import (
	"os"

	_ "github.com/rscert/rscert/internal/onnx/needs_cgo_and_a_C_compiler"
)

func main() {
	os.Exit(execute(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
