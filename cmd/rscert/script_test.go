package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
)

// asProgram, set in the environment, makes the test binary be rscert.
const asProgram = "RSCERT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"rscert": checkedMain})
}

// TestScripts runs the real program; one testscript or more a command.
// In a script $TESTDATA is the repository's testdata folder and $SHARED the
// folder of research data, set only where it exists ([shared] tests for it).
func TestScripts(t *testing.T) {
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := filepath.Abs("../../../shared")
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := filepath.Abs("../../docs/schemas")
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(shared)
	haveShared := err == nil
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TESTDATA", testdata)
			env.Setenv(schemasEnv, schemas)
			if haveShared {
				env.Setenv("SHARED", shared)
			}
			// Scripts have a home of their own, but the library is in the user's cache.
			env.Setenv("XDG_CACHE_HOME", cache)
			env.Setenv("RSCERT_ONNXRUNTIME", os.Getenv("RSCERT_ONNXRUNTIME"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "document": document, "reseal": reseal, "sealdocument": sealDocument, "short": short, "digits": writeDigits,
			"commands": commands, "steps": steps, "certificates": certificates,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared":
				return haveShared, nil
			case "openvino":
				return haveOpenVINO(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// haveOpenVINO reports whether the library of the OpenVINO provider is here.
func haveOpenVINO() bool {
	device, err := onnx.ParseDevice("openvino")
	if err == nil {
		_, err = ortlib.FindFor(device.Build(), "")
	}
	return err == nil
}

// exits is the script command 'exits CODE PROGRAM ARGS…': like exec, for a
// program that ends with the given exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	code := "0"
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// document is the script command 'document REGEXP': the last command printed one JSON document, and nothing else, which
// matches when the spaces between its tokens are left out. '! document REGEXP' wants one that does not match.
func document(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: document regexp")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(ts.ReadFile("stdout"))); err != nil {
		ts.Fatalf("not one JSON document: %v", err)
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	if pattern.Match(compact.Bytes()) == neg {
		ts.Fatalf("match of %s is %v, want %v:\n%s", pattern, neg, !neg, &compact)
	}
}

// certificates is the script command 'certificates RUNS OTHERS': two files have the same certificates, but for how many
// examples were sampled, which run.json says of a run's.
func certificates(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificates file1 file2")
	}
	aside := regexp.MustCompile(`,"(sampled":[0-9]+|check":"[^"]*")`)
	first, second := aside.ReplaceAllString(ts.ReadFile(args[0]), ""), aside.ReplaceAllString(ts.ReadFile(args[1]), "")
	if first != second || first == "" {
		ts.Fatalf("%s and %s differ:\n%s\n%s", args[0], args[1], first, second)
	}
}

// reseal is the script command 'reseal FILE': it gives every line of a file of JSON lines the checksum that is right for
// it, as someone who edits it on purpose can.
func reseal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: reseal file")
	}
	var sealed []byte
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		body, _ := checksum.VerifyJSON([]byte(strings.TrimSuffix(line, "\n")))
		sealed = append(append(sealed, checksum.AppendJSON(body)...), '\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), sealed, 0o644))
}

// sealDocument is the script command 'sealdocument FILE': reseal for a document such as run.json.
func sealDocument(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sealdocument file")
	}
	body, _ := checksum.VerifySealed([]byte(ts.ReadFile(args[0])))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), checksum.Seal(body), 0o644))
}

// short is the script command 'short': the last command printed one line of error, not longer than three of a terminal's,
// besides a hint.
func short(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: short")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stderr"), "\n"), "\n")
	if len(lines) > 1 && strings.HasPrefix(lines[1], "hint: ") {
		lines = append(lines[:1], lines[2:]...)
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "rscert: ") || len(lines[0]) > 240 {
		ts.Fatalf("want one line of error, not\n%.2000s", ts.ReadFile("stderr"))
	}
}
