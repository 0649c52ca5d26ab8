package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
)

// initOptions are the flags of init.
type initOptions struct {
	out      string
	sigma    float64
	required []gate.Requirement
}

func newInit(s streams) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init MODEL DATA",
		Short: "Write a config file, a gate script and a CI file for a model",
		Long: `This command writes three files for a model and its test data:

  rscert.yaml                     holds the flags of certify (see --config)
  gate.sh                         certifies the model; its exit code is 3 if a
                                  requirement is not met
  .github/workflows/rscert.yml    runs gate.sh in GitHub Actions

If one of the files exists, the command writes nothing. Before you run gate.sh, edit
rscert.yaml: set σ, the requirements, and the flags that say how the data are read.
docs/gate.md explains requirements.`,
		Example: `  rscert init model.onnx test/
  rscert init model.onnx test.npz --sigma 0.5 --require 'certified:certified-accuracy@0.5>=0.6'
  rscert init model.onnx test/ --out project`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want a model and data")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runInit(s, args[0], args[1], o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.out, "out", ".", "`folder` to which rscert writes the files, such as the root of the repository")
	f.Float64Var(&o.sigma, "sigma", 0.25, "standard deviation σ of the noise, in the units of the data")
	f.Var(requirementList{&o.required}, "require", "`requirement` that gate.sh checks, such as certified-accuracy@0.5>=0.60; the flag can be repeated; default: certified accuracy of at least 0.5 at the radius σ/2")
	return cmd
}

// initFiles are the files that init writes, with their templates.
var initFiles = []struct{ name, text string }{
	{"rscert.yaml", `# The flags of 'rscert certify'. 'rscert certify --config rscert.yaml --check' looks without sampling.
schema: ` + configSchema + `
certify:
  model: {{yaml .Model}}
  data: {{yaml .Data}}
  sigma: {{.Sigma}} # in the units of the data: images have values in [0,1]
  n: 10000 # samples per example
  max: 200 # examples
  require: # docs/gate.md
{{- range .Required}}
    - {{yaml .}}
{{- end}}
`},
	{"gate.sh", `#!/bin/sh
# Certifies the model and checks the requirements in rscert.yaml. The exit code is 3 if a requirement is not met.
# usage: sh gate.sh [RUN]; an interrupted run goes on
set -eu
cd "$(dirname "$0")"
exec rscert certify --config rscert.yaml --out "${1:-certified}" --resume --junit gate.xml
`},
	{".github/workflows/rscert.yml", `name: certified robustness
on: [push, pull_request]
permissions:
  contents: read
jobs:
  gate:
    runs-on: [self-hosted, rscert] # a machine with rscert and ONNX Runtime
    steps:
      - uses: actions/checkout@v4
      - run: sh gate.sh certified
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: certificates
          path: |
            certified
            gate.xml
`},
}

func runInit(s streams, model, data string, o initOptions) error {
	for _, input := range []string{model, data} {
		if _, err := os.Stat(input); err != nil {
			return badInput(err)
		}
	}
	values, err := o.values(model, data)
	if err != nil {
		return err
	}
	var paths []string
	for _, f := range initFiles {
		path := filepath.Join(o.out, filepath.FromSlash(f.name))
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = hint.Add(fmt.Errorf("%s exists already", path), "move it away, or name another folder: --out FOLDER; nothing has been written")
			}
			return badInput(err)
		}
		paths = append(paths, path)
	}
	for k, f := range initFiles {
		var text bytes.Buffer
		t := template.Must(template.New(f.name).Funcs(template.FuncMap{"yaml": yamlScalar}).Parse(f.text))
		if err := t.Execute(&text, values); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(paths[k]), 0o777); err != nil {
			return badInput(err)
		}
		if err := durable.WriteFile(paths[k], text.Bytes()); err != nil {
			return err
		}
	}
	s.wrote(paths...)
	fmt.Fprintf(s.out, "next: rscert certify --config %s --check   (looks without sampling; works in %s)\n      sh %s   (certifies, and checks the requirements)\n",
		filepath.Base(paths[0]), quote.Line(o.out), quote.Shell(paths[1]))
	return nil
}

// initValues are the values in the templates.
type initValues struct {
	Model, Data string // paths relative to the folder that the files are written to
	Sigma       float64
	Required    []string
}

func (o initOptions) values(model, data string) (v initValues, err error) {
	v.Sigma = o.sigma
	if !(o.sigma > 0) {
		return v, badInputf("--sigma %v: want a number above 0", o.sigma)
	}
	if v.Model, err = pathFrom(o.out, model); err == nil {
		v.Data, err = pathFrom(o.out, data)
	}
	for _, r := range o.required {
		v.Required = append(v.Required, r.String())
	}
	if len(v.Required) == 0 {
		v.Required = []string{fmt.Sprintf("certified:certified-accuracy@%v>=0.5", o.sigma/2)}
	}
	return v, err
}

// pathFrom returns the path that leads from a folder to a file.
func pathFrom(folder, file string) (string, error) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	path, err := filepath.Rel(from, to)
	if err != nil {
		return to, nil // the file is on another volume
	}
	return filepath.ToSlash(path), nil
}

// yamlScalar returns a text as a YAML scalar.
func yamlScalar(text string) (string, error) {
	scalar, err := yaml.Marshal(text)
	return strings.TrimSuffix(string(scalar), "\n"), err
}
