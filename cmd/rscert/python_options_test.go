package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write python/src/rscert/_options.py")

// pythonOptions describes a Python class. The class holds the options of a Python function. Each option is a flag of a
// command.
type pythonOptions struct {
	class, command string
	// omitted lists the flags that the class leaves out. Some of these flags are arguments of the Python function. The
	// Python function sets the others itself or does not offer them.
	omitted []string
}

var pythonClasses = []pythonOptions{
	{"CertifyOptions", "certify", []string{
		"model", "data", "sigma", "out", "point", "check", "check-image", "plan", "deadline", "junit", "code-quality", "annotations", "radii", "norms",
		"per-class", "json", "quiet",
	}},
	{"RadiusOptions", "radius", []string{
		"sigma", "out", "combine", "temperature", "n0", "sizes", "repeats", "seed", "radii", "by", "per-class", "gain-over",
		"plot", "curve", "plot-size", "json", "quiet",
	}},
	{"CceOptions", "acce", []string{"radius", "same-examples", "require", "junit", "code-quality", "annotations", "json", "quiet"}},
	{"MetricsOptions", "metrics", []string{"probabilities", "models", "json", "quiet"}},
}

// TestPythonOptions compares the typed options of the Python functions with the flags of the commands.
func TestPythonOptions(t *testing.T) {
	const path = "../../python/src/rscert/_options.py"
	var started bool
	root := newRoot(streams{}, &started)
	want := pythonHeader
	for _, o := range pythonClasses {
		cmd, _, err := root.Find([]string{o.command})
		if err != nil {
			t.Fatal(err)
		}
		want += "\n\n" + o.python(t, cmd)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the flags: go test ./cmd/rscert -run TestPythonOptions -update", path)
	}
}

const pythonHeader = `"""The options of the functions of this package.

'go test ./cmd/rscert -run TestPythonOptions -update' makes this file from the flags of the program.
"""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Union

import numpy as np
import numpy.typing as npt

StrPath: TypeAlias = Union[str, "os.PathLike[str]"]
Floats: TypeAlias = Union[float, Sequence[float], "npt.NDArray[np.floating[Any]]"]
`

// pythonKeywords lists keywords of Python. If a flag has the name of a keyword, the Python option has this name with _
// at its end.
var pythonKeywords = []string{"and", "as", "class", "def", "except", "from", "import", "in", "is", "lambda", "not", "or", "with"}

// python returns the Python class. Its docstring has the usage text of each flag.
func (o pythonOptions) python(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var members, doc strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(o.omitted, f.Name) || f.Name == "help" {
			return
		}
		name := strings.ReplaceAll(f.Name, "-", "_")
		if slices.Contains(pythonKeywords, name) {
			name += "_"
		}
		members.WriteString(brokenLines(fmt.Sprintf("    %s: %s", name, pythonType(f))))
		doc.WriteString(brokenLines(fmt.Sprintf("    %s: %s", name, pythonUsage(f))))
	})
	for _, name := range o.omitted {
		if cmd.LocalFlags().Lookup(name) == nil {
			t.Errorf("%s has no flag --%s", o.command, name)
		}
	}
	return fmt.Sprintf("class %s(TypedDict, total=False):\n    \"\"\"The options are flags of ``rscert %s``.\n\n%s    \"\"\"\n\n%s",
		o.class, o.command, doc.String(), members.String())
}

var flagInUsage = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// pythonUsage returns the usage text of a flag and the default value. If the text names a flag, pythonUsage replaces
// this name by the name of the Python option.
func pythonUsage(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	usage = flagInUsage.ReplaceAllStringFunc(usage, func(name string) string {
		return "``" + strings.ReplaceAll(name[len("--"):], "-", "_") + "``"
	})
	if text := shownDefault(f); text != "" {
		usage += fmt.Sprintf(" (default %s)", text)
	}
	return usage
}

// brokenLines breaks a text at spaces into lines of at most 118 characters. All lines but the first are indented.
func brokenLines(text string) string {
	const indent, width = "        ", 118
	var b strings.Builder
	length := 0
	for i, word := range strings.SplitAfter(text, " ") {
		if n := utf8.RuneCountInString(strings.TrimRight(word, " ")); i > 0 && length+n > width {
			b.WriteString("\n" + indent)
			length = len(indent)
		}
		b.WriteString(word)
		length += utf8.RuneCountInString(word)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n") + "\n"
}

// pythonType returns the Python type of a flag's value.
func pythonType(f *pflag.Flag) string {
	one := "str"
	if word, _ := pflag.UnquoteUsage(f); slices.Contains([]string{"file", "folder", "path"}, word) {
		one = "StrPath"
	}
	kind := fmt.Sprintf("%T", inner(f))
	if strings.Contains(kind, "choiceValue[") || strings.Contains(kind, "choiceList[") {
		one = fmt.Sprintf(`Literal["%s"]`, strings.Join(choicesOf(f), `", "`))
	}
	switch f.Value.Type() {
	case "bool":
		return "bool"
	case "int":
		return "int"
	case "float64":
		return "float"
	case "float64Slice":
		return "Floats"
	case listType:
		return one + " | Sequence[str]"
	case "stringSlice", "requirement":
		return fmt.Sprintf("%s | Sequence[%s]", one, one)
	}
	return one
}
