package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rscert/rscert/internal/signature/signaturetest"
)

// writeKeys is the script command 'keys NAME [PASSWORD]': it makes a pair of minisign keys in the files NAME.key and
// NAME.pub.
func writeKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: keys name [password]")
	}
	_, _, err := signaturetest.Keys(ts.MkAbs("."), args[0], append(args, "")[1])
	ts.Check(err)
}
