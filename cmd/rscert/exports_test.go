package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExports runs models that 'make models' wrote with the snippets of docs/my-model.md. It compares every prediction
// with the prediction of ONNX Runtime in Python.
func TestExports(t *testing.T) {
	const folder = "../../testdata/exports"
	text, err := os.ReadFile(filepath.Join(folder, "predictions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var exports map[string]struct {
		Data        string
		Predictions []int
	}
	if err := json.Unmarshal(text, &exports); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/my-model.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(exports) < 6 {
		t.Fatalf("only %d models", len(exports))
	}
	for name, want := range exports {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(page), "<!-- snippet: "+name+" "+want.Data+" -->") {
				t.Errorf("docs/my-model.md has no snippet %s", name)
			}
			out := filepath.Join(t.TempDir(), "run")
			var stderr bytes.Buffer
			code := execute([]string{
				"certify", "--model", filepath.Join(folder, name, "my.onnx"), "--data", filepath.Join(folder, want.Data),
				"--sigma", "0.001", "--n", "1", "--n0", "1", "--seed", "1", "--device", "cpu", "--out", out,
			}, streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &stderr})
			if code != exitDone {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			if got := cleanPredictions(t, filepath.Join(out, "votes.jsonl")); !slices.Equal(got, want.Predictions) {
				t.Errorf("predictions %v, in Python %v", got, want.Predictions)
			}
		})
	}
}

// cleanPredictions reads a file of votes and returns the predictions for the inputs without noise.
func cleanPredictions(t *testing.T, path string) (predictions []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var votes struct{ Clean int }
		if err := json.Unmarshal(line, &votes); err != nil {
			t.Fatal(err)
		}
		predictions = append(predictions, votes.Clean)
	}
	return predictions
}
