package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/spec"
)

// models is the value of --model: the path of one model or, if the flag is repeated, of several models.
type models struct {
	first   *string
	further *[]string
}

// modelFlag adds --model, and stores the paths of the models in s.
func modelFlag(f *pflag.FlagSet, s *spec.Spec, usage string) {
	modelsFlag(f, &s.Model, &s.Further, usage)
}

// modelsFlag adds --model.
func modelsFlag(f *pflag.FlagSet, first *string, further *[]string, usage string) {
	what, initial, found := strings.Cut(usage, "; default: ")
	usage = what + "; give the flag several times to average several models (docs/ensembles.md)"
	if found {
		usage += "; default: " + initial
	}
	f.Var(models{first, further}, "model", usage)
}

func (m models) Set(path string) error {
	if *m.first == "" {
		*m.first = path
	} else {
		*m.further = append(*m.further, path)
	}
	return nil
}

// The method 'replace' makes the model at the given path the only model.
func (m models) replace(path string) error {
	*m.first, *m.further = path, nil
	return nil
}

func (m models) String() string {
	if m.first == nil { // pflag calls String on a zero value
		return ""
	}
	return strings.Join(append([]string{*m.first}, *m.further...), " + ")
}

func (models) Type() string { return "string" }
