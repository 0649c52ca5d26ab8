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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/runfolder"
)

// asProgram is an environment variable. If it is set, the test binary acts as rscert.
const asProgram = "RSCERT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"rscert": checkedMain})
}

// TestScripts runs the real program, with at least one testscript per command. In a script, $TESTDATA is the testdata
// folder of the repository. $SHARED is the folder of research data; the condition [shared] tells whether this folder
// exists.
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
			// Scripts have their own home folder. But the library ONNX Runtime is in the cache of the real user.
			env.Setenv("XDG_CACHE_HOME", cache)
			env.Setenv("RSCERT_ONNXRUNTIME", os.Getenv("RSCERT_ONNXRUNTIME"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "document": document, "reseal": reseal, "sealdocument": sealDocument, "short": short, "keys": writeKeys, "digits": writeDigits,
			"commands": commands, "steps": steps, "certificates": certificates, "same": same,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared":
				return haveShared, nil
			case "openvino":
				return haveOpenVINO(), nil
			case "bf16":
				return computesBF16(t), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// haveOpenVINO reports whether the OpenVINO library is installed.
func haveOpenVINO() bool {
	device, err := onnx.ParseDevice("openvino")
	if err == nil {
		_, err = ortlib.FindFor(device.Build(), "")
	}
	return err == nil
}

// computesBF16 asks 'rscert doctor' once whether OpenVINO computes in bfloat16 on this processor.
var computesBF16 = func() func(t *testing.T) bool {
	var once sync.Once
	var computes bool
	return func(t *testing.T) bool {
		once.Do(func() {
			out, err := program(t, "doctor", "--json").Output()
			if err != nil {
				t.Fatal(err)
			}
			var found examination
			if err := json.Unmarshal(out, &found); err != nil {
				t.Fatal(err)
			}
			computes = slices.ContainsFunc(found.Speeds, func(s speedReport) bool {
				return strings.HasPrefix(s.Device, "openvino") && s.Precision == onnx.BF16 && s.Rate > 0
			})
		})
		return computes
	}
}()

// exits is the script command 'exits CODE PROGRAM ARGS…'. It works like exec, but the program must end with the exit
// code CODE.
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

// document is the script command 'document REGEXP'. The last command must have printed a single JSON document. This
// script command removes the spaces between the tokens of the document. The rest must match REGEXP. The command '!
// document REGEXP' demands a document that does not match.
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

// certificates is the script command 'certificates FILE1 FILE2'. The two files must hold the same certificates. The
// command ignores the checksum of each line. It also ignores the number of sampled examples, because a run keeps this
// number in run.json, not in the lines.
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

// same is the script command 'same FILE1 FILE2'. Both files are results of runs. They must have the same lines, apart
// from the checksums. The checksums differ between runs, because they depend on the run.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same file1 file2")
	}
	aside := regexp.MustCompile(`crc32c:[0-9a-f]{8}`)
	first, second := aside.ReplaceAllString(ts.ReadFile(args[0]), ""), aside.ReplaceAllString(ts.ReadFile(args[1]), "")
	if first != second || first == "" {
		ts.Fatalf("%s and %s differ:\n%s\n%s", args[0], args[1], first, second)
	}
}

// reseal is the script command 'reseal FILE'. It corrects the checksum of every JSON line or CSV row, as a forger
// could. If the folder of FILE has a run.json, the new checksums say that the lines belong to this run.
func reseal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: reseal file")
	}
	var seed checksum.Seed
	if run, err := runfolder.Read(filepath.Dir(ts.MkAbs(args[0]))); err == nil {
		seed = run.Seed()
	}
	var sealed, header []byte
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if text := []byte(strings.TrimSuffix(line, "\n")); filepath.Ext(args[0]) == ".csv" {
			if header == nil {
				header = text
				sealed = append(sealed, line...)
				continue
			}
			body, _ := checksum.Seed(0).VerifyCSV(header, text)
			sealed = append(append(sealed, seed.AppendCSV(header, body)...), '\n')
			continue
		}
		body, _ := checksum.Seed(0).VerifyJSON([]byte(strings.TrimSuffix(line, "\n")))
		sealed = append(append(sealed, seed.AppendJSON(body)...), '\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), sealed, 0o644))
}

// sealDocument is the script command 'sealdocument FILE'. It corrects the checksum of a document such as run.json.
func sealDocument(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sealdocument file")
	}
	body, _ := checksum.VerifySealed([]byte(ts.ReadFile(args[0])))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), checksum.Seal(body), 0o644))
}

// short is the script command 'short'. The last command must have printed its error as one line of at most 240 bytes.
// It may also have printed one hint.
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
