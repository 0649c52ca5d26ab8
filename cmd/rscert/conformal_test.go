package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fit that a signal ends leaves no file: neither a predictor nor a temporary file. A SIGINT gives exit code 130.
func TestConformalFitKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		dir := t.TempDir()
		out := filepath.Join(dir, "c.json")
		cmd := program(t, "conformal", "fit", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist", "--sigma", "0.5",
			"--radius", "0.5", "--calibration-draws", "100000", "--draws", "20", "--out", out)
		var printed strings.Builder
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 1<<12)
		for !strings.Contains(printed.String(), "noise: ") { // sampling follows
			n, err := stderr.Read(buffer)
			printed.Write(buffer[:n])
			if err != nil {
				t.Fatalf("%v ended before it sampled: %v\n%s", signal, err, &printed)
			}
		}
		time.Sleep(200 * time.Millisecond)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); err == nil || signal == syscall.SIGINT && code != exitInterrupted {
			t.Errorf("%v: %v, exit code %d", signal, err, code)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v left a predictor: %v", signal, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v left %v (%v)", signal, left, err)
		}
	}
}

func TestParagraph(t *testing.T) {
	for sentence, want := range map[string]string{
		"a b":                          "A b.",
		"a.":                           "A.",
		"é b. C":                       "É b. C.",
		strings.Repeat("word ", 40):    strings.TrimSuffix("Word "+strings.Repeat("word ", 16), " ") + "\n" + strings.TrimSuffix(strings.Repeat("word ", 17), " ") + "\n" + strings.TrimSuffix(strings.Repeat("word ", 6), " ") + ".",
		strings.Repeat("x", 90) + " y": "X" + strings.Repeat("x", 89) + "\ny.",
	} {
		if got := paragraph(sentence); got != want {
			t.Errorf("%.20q…: %q, want %q", sentence, got, want)
		}
	}
}
