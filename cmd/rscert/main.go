// Command rscert certifies classifiers with randomized smoothing.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
