package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullStdout runs several commands with stdout on a full disk. Each command must print one line of error and end
// with exit code 1.
func TestFullStdout(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	scores := filepath.Join(t.TempDir(), "scores.csv")
	if err := os.WriteFile(scores, []byte("score,label\n0.9,1\n0.2,0\n0.7,1\n0.4,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"--version", "--help", "metrics --help", "help methods", "completion bash", "metrics " + scores, "metrics --json " + scores,
		"perturb --bandwidth 0.1 " + scores, "perturb --auroc 0.1 " + scores, "ce --monotone --quiet " + scores, "calibrate --quiet " + scores,
	} {
		var stderr strings.Builder
		code := execute(strings.Fields(args), streams{in: strings.NewReader(""), out: full, err: &stderr})
		if want := "rscert: cannot write to stdout: no space left on device\n"; code != exitFailed || stderr.String() != want {
			t.Errorf("%s: exit code %d, %q; want %d, %q", args, code, &stderr, exitFailed, want)
		}
	}
}

// limitedWriter accepts some bytes, then fails once.
type limitedWriter struct {
	strings.Builder
	left int
}

var errLimit = errors.New("limit")

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left == 0 {
		w.left = -1
		return 0, errLimit
	}
	if w.left > 0 {
		p = p[:min(len(p), w.left)]
		w.left -= len(p)
	}
	return w.Builder.Write(p)
}

// TestOutput checks that an output writes nothing more after a write has failed.
func TestOutput(t *testing.T) {
	w := limitedWriter{left: 3}
	out := output{w: &w, strict: new(strictness)}
	for range 3 {
		_, _ = out.Write([]byte("abc"))
	}
	if w.String() != "abc" || !errors.Is(out.err, errLimit) {
		t.Errorf("%q, %v", &w.Builder, out.err)
	}
}
