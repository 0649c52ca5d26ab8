package main

import (
	"testing"

	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

func TestModelName(t *testing.T) {
	for path, want := range map[string]string{
		"models/cnn.onnx": "cnn", "cnn": "cnn", "builtin:mnist-gaussian-0.25": "mnist-gaussian-0.25",
	} {
		name, err := modelName(run.PredictPlan{Spec: spec.Spec{Model: path}})
		if err != nil || name != want {
			t.Errorf("%s: %q, %v; want %q", path, name, err, want)
		}
	}
}
