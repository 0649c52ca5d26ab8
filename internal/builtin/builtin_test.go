package builtin

import (
	"crypto/sha256"
	"os"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

func TestModels(t *testing.T) {
	all := paths()
	if len(all) == 0 {
		t.Fatal("no models")
	}
	for _, path := range all {
		name, ok := Name(path)
		if !ok {
			t.Fatal(path)
		}
		model, err := Model(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile("models/" + name + ".onnx")
		if err != nil || sha256.Sum256(file) != sha256.Sum256(model) {
			t.Errorf("%s is another model: %v", name, err)
		}
		if len(model) > 2<<20 {
			t.Errorf("%s has %d bytes, want at most 2 MiB", name, len(model))
		}
	}
}

func TestNames(t *testing.T) {
	for _, path := range []string{"", "model.onnx", "builtin", "./builtin:x", "models/builtin:x"} {
		if name, ok := Name(path); ok {
			t.Errorf("%s: %s", path, name)
		}
	}
	for _, name := range []string{"", "x", "../models/mnist-gaussian-0.5", "mnist-gaussian-0.5.onnx", "."} {
		_, err := Model(name)
		if err == nil || !strings.Contains(err.Error(), "builtin:"+name+":") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if advice, _ := hint.Spelled(err, nil); !strings.Contains(advice, "builtin:mnist-gaussian-0.25") {
			t.Errorf("%s: %s", name, advice)
		}
	}
}
