package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const page = "# Page\n\n<!-- made: a -->\n\nold\n\n<!-- end: a -->\nprose\n<!-- made: b -->\nold b\n<!-- end: b -->\n"

func TestReplace(t *testing.T) {
	got, err := replace(page, "talk\n<!-- made: b -->\nnew b\n\n| x |\n<!-- end: b -->\nmore talk\n<!-- made: a -->\n\n\n| 1 |\n\n<!-- end: a -->\n")
	want := "# Page\n\n<!-- made: a -->\n\n| 1 |\n\n<!-- end: a -->\nprose\n<!-- made: b -->\n\nnew b\n\n| x |\n\n<!-- end: b -->\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	for made, want := range map[string]string{
		"nothing":                                "nothing is marked",
		"<!-- made: a -->\nx":                    "a is cut off",
		"<!-- made: a":                           "a mark has no end",
		"<!-- made: c -->\nx\n<!-- end: c -->\n": "no place for c",
	} {
		if _, err := replace(page, made); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", made, err, want)
		}
	}
}

// A study that ended early must leave the page unchanged.
func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := update(path, strings.NewReader("<!-- made: a -->\nx\n<!-- end: a -->\n<!-- made: b -->\nx")); err == nil {
		t.Error("no error")
	}
	if got, _ := os.ReadFile(path); string(got) != page {
		t.Errorf("changed to\n%s", got)
	}
	if err := update(path, strings.NewReader("<!-- made: a -->\nx\n<!-- end: a -->\n")); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); !strings.Contains(string(got), "\n\nx\n\n<!-- end: a -->\nprose") {
		t.Errorf("changed to\n%s", got)
	}
}
