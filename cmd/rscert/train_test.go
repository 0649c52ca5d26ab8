package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

func TestFindPythonWithoutPython(t *testing.T) {
	t.Setenv(pythonVariable, "")
	t.Setenv("PATH", t.TempDir())
	_, err := findPython(t.Context())
	if err == nil || err.Error() != "no Python was found: training needs Python and PyTorch" {
		t.Fatal(err)
	}
	if advice, ok := hint.Spelled(err, asFlag); !ok || !strings.HasPrefix(advice, "pip install 'rscert[train]'") {
		t.Error(advice)
	}
}

func TestErrorLine(t *testing.T) {
	var passed bytes.Buffer
	w := errorLine{to: &passed}
	for _, part := range []string{"epoch", " 1\nrscert: first\nwarning: rscert: x\nrsc", "ert: second\n", "end"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	if want := "epoch 1\nwarning: rscert: x\nend"; passed.String() != want || w.found != "second" {
		t.Errorf("passed %q, found %q", passed.String(), w.found)
	}
}
