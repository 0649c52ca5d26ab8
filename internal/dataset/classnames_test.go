package dataset

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReadClassNames checks that ReadClassNames finds the readable names in every form of file.
func TestReadClassNames(t *testing.T) {
	for text, want := range map[string][]string{
		"cat\ndog\n": {"cat", "dog"},
		"n01440764 tench, Tinca tinca\nn01443537 goldfish":       {"tench, Tinca tinca", "goldfish"},
		`{"0": ["n01440764", "tench"], "1": ["n0", "goldfish"]}`: {"tench", "goldfish"},
		`["a", "b"]`: {"a", "b"},
		"one":        nil, // fewer than 2 classes
	} {
		path := filepath.Join(t.TempDir(), "names")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadClassNames(path); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: names %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := ReadClassNames(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there has names")
	}
}
