package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rscert/rscert/internal/ortlib"
)

// TestNoTelemetry checks that a run writes no file into the user's home if its run folder is elsewhere. If telemetry
// were on, ONNX Runtime would store an identifier of the machine and a queue of reports in the home.
func TestNoTelemetry(t *testing.T) {
	library, err := ortlib.FindFor(ortlib.Build{}, "")
	if err != nil {
		t.Skip(err)
	}
	home := t.TempDir()
	cmd := exec.Command(os.Args[0], "certify", "--model", "../../testdata/mnist-torch.onnx", "--data", "../../testdata/mnist",
		"--sigma", "0.5", "--n", "50", "--n0", "5", "--max", "2", "--device", "cpu", "--out", filepath.Join(t.TempDir(), "run"))
	cmd.Env = []string{asProgram + "=1", "HOME=" + home, "RSCERT_ONNXRUNTIME=" + library, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s was written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
