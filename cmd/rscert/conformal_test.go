package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/conformalfile"
)

// If a signal ends a fit, the fit must leave no predictor and no temporary file. A SIGINT gives exit code 130.
func TestConformalFitKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		dir := t.TempDir()
		out := filepath.Join(dir, "c.json")
		cmd := program(t, "conformal", "fit", "--model", "../../testdata/mnist-cnn.onnx", "--data",
			"../../testdata/mnist", "--sigma", "0.5",
			"--radius", "0.5", "--calibration-draws", "10000", "--draws", "20", "--out", out)
		var printed strings.Builder
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 1<<12)
		for !strings.Contains(printed.String(), "noise: ") { // the fit prints this text just before it samples
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

// A server with a predictor must answer with prediction sets in addition to classes. The sets must have the predictor's
// guarantee, and a replay of the log must repeat them.
func TestServeSets(t *testing.T) {
	folder, dir := servedRun(t), t.TempDir()
	fitted, log := filepath.Join(dir, "c.json"), filepath.Join(dir, "log")
	if out, err := program(t, "conformal", "fit", "--model", "../../testdata/mnist-cnn.onnx", "--data",
		"../../testdata/mnist", "--sigma", "0.5",
		"--radius", "0.5", "--miss", "0.05", "--score", "aps", "--shard", "1/2", "--batch", "8", "--quiet", "--out",
		fitted).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := startServer(t, "--run", folder, "--conformal", fitted, "--log", log)
	images, _ := digits(t, 20)
	_, labels := unpackDigits(t)
	var inputs []string
	for i := 0; i < 20; i += 2 {
		inputs = append(inputs, string(jsonBytes(images[i])))
	}
	resp, err := http.Post(s.model+"/infer", "", strings.NewReader(fmt.Sprintf(
		`{"inputs":[{"name":"input","shape":[10,1,28,28],"datatype":"UINT8","data":[%s]}],"outputs":[{"name":"set"},{"name":"prediction_set"}]}`,
		strings.Join(inputs, ","))))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Outputs []struct {
			Name  string
			Shape []int
			Data  json.RawMessage
		}
	}
	var in []int
	var lines []string
	if text, err := io.ReadAll(resp.Body); err != nil || json.Unmarshal(text,
		&answer) != nil || len(answer.Outputs) != 2 ||
		json.Unmarshal(answer.Outputs[0].Data, &in) != nil || json.Unmarshal(answer.Outputs[1].Data,
		&lines) != nil || len(in) != 100 || len(lines) != 10 {
		t.Fatalf("%v: %s\n%s", err, text, s.stderr)
	}
	covered := 0
	for i, line := range lines {
		var set conformalfile.Set
		if err := json.Unmarshal([]byte(line), &set); err != nil {
			t.Fatal(err)
		}
		for y := range 10 {
			if slices.Contains(set.Set, y) != (in[10*i+y] == 1) {
				t.Errorf("input %d: set %v, tensor %v", i, set.Set, in[10*i:10*i+10])
			}
		}
		if slices.Contains(set.Set, int(labels[2*i])) {
			covered++
		}
		if !set.Sound || set.Radius != .5 || set.Index != i || set.Draws < 1 {
			t.Errorf("input %d: %s", i, line)
		}
	}
	if covered < 7 {
		t.Errorf("only %d of 10 sets contain the label", covered)
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.stderr)
	}
	for _, more := range [][]string{nil, {"--conformal", fitted}} {
		out, err := program(t, append([]string{"predict", "--run", folder, "--data", "../../testdata/mnist", "--replay",
			log, "--quiet"}, more...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "10 repeated bit by bit, 0 different") {
			t.Errorf("replay %v: %v\n%s", more, err, out)
		}
	}
}

func TestParagraph(t *testing.T) {
	for sentence, want := range map[string]string{
		"a b":    "A b.",
		"a.":     "A.",
		"é b. C": "É b. C.",
		strings.TrimSpace(strings.Repeat("word ", 40)): strings.TrimSuffix("Word "+strings.Repeat("word ", 16),
			" ") + "\n" + strings.TrimSuffix(strings.Repeat("word ", 17),
			" ") + "\n" + strings.TrimSuffix(strings.Repeat("word ", 6), " ") + ".",
		strings.Repeat("x", 90) + " y": "X" + strings.Repeat("x", 89) + "\ny.",
	} {
		if got := paragraph(sentence); got != want {
			t.Errorf("%.20q…: %q, want %q", sentence, got, want)
		}
	}
}
