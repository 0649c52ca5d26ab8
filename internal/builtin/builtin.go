// Package builtin holds the small models that are part of the program, so that users can try it without a model of
// their own. scripts/ready_models.py and scripts/ready_cifar.py made the models; docs/training.md describes them.
package builtin

import (
	"embed"
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/hint"
)

// prefix marks the path of a model that is part of the program.
const prefix = "builtin:"

const suffix = ".onnx"

//go:embed models/*.onnx
var files embed.FS

// Name removes the prefix "builtin:" from a path and returns the rest, the name of the model. The result ok is false
// for paths without this prefix.
func Name(path string) (name string, ok bool) { return strings.CutPrefix(path, prefix) }

// Model returns the content of the model with this name.
func Model(name string) ([]byte, error) {
	if model, err := files.ReadFile("models/" + name + suffix); err == nil {
		return model, nil
	}
	return nil, hint.New(fmt.Sprintf("%s%s: no model of this name is part of rscert", prefix, name), "give "+choice.Or(paths()))
}

// paths lists the paths of all models.
func paths() []string {
	entries, err := files.ReadDir("models")
	if err != nil {
		panic(err) // cannot happen: the folder is embedded in the program
	}
	var all []string
	for _, e := range entries {
		all = append(all, prefix+strings.TrimSuffix(e.Name(), suffix))
	}
	return all
}
