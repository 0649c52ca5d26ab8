package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const page = `# Page

## Table 1

<!-- needs: there -->
<!-- needs: missing -->
<!-- run by: make papers -->

    echo skipped

<!-- made: skipped -->
<!-- end: skipped -->

<!-- run by: make papers -->

    echo hidden >file

    pwd >&2

Text.

    rscert not-run

## Figure 2

<!-- needs: file -->
<!-- run by: make papers -->

    cat file
    echo '| 1 |'

<!-- made: figure -->

` + "```\nold\n```" + `

<!-- end: figure -->
`

func TestSteps(t *testing.T) {
	want := []step{
		{"Table 1", []string{"there", "missing"}, "echo skipped\n", "skipped"},
		{"Table 1", nil, "echo hidden >file\n\npwd >&2\n", ""},
		{"Figure 2", []string{"file"}, "cat file\necho '| 1 |'\n", "figure"},
	}
	same := func(a, b step) bool {
		return a.heading == b.heading && slices.Equal(a.needs, b.needs) && a.script == b.script && a.part == b.part
	}
	if got := steps(page); !slices.EqualFunc(got, want, same) {
		t.Errorf("%q", got)
	}
}

// The test runs the three blocks of a page. The first block needs a missing file. The page has no place for the output
// of the second block, but it has a place for the output of the third block. The test also runs a block that is not in
// the page. A part of a pipe fails in this block, so run must return an error.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "there"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, s := range steps(page) {
		if err := s.run(folder, &out); err != nil {
			t.Fatal(err)
		}
	}
	want := "<!-- made: figure -->\n\n```\nhidden\n| 1 |\n```\n\n<!-- end: figure -->\n"
	if out.String() != want {
		t.Errorf("%s", &out)
	}
	if err := (step{script: "false | cat; true"}).run(folder, &out); err == nil {
		t.Error("a part of a pipe failed, and run returned no error")
	}
}

func TestMarked(t *testing.T) {
	if got, want := marked("x", "\n| 1 |\n"), "<!-- made: x -->\n\n| 1 |\n\n<!-- end: x -->\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestPrepare(t *testing.T) {
	folder, target := filepath.Join(t.TempDir(), "a/b"), t.TempDir()
	links := map[string]string{"here": target, "missing": filepath.Join(target, "x"), "unset": ""}
	for range 2 { // the second call replaces the links that the first call made
		if err := prepare(folder, links); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 || entries[0].Name() != "here" {
		t.Errorf("%v, error %v", entries, err)
	}
}
