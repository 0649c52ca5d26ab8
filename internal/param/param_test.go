package param

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func flag(n Name) string { return "--" + string(n) }

// table is an error that implements speller. Its text names two parameters.
type table struct{ path string }

func (t table) Error() string { return t.Spell(Plain) }
func (t table) Spell(s Spelling) string {
	return t.path + ": " + s("delta") + " needs " + s("examples")
}

type marked struct{ error }

func (m marked) Unwrap() error { return m.error }

func TestSpell(t *testing.T) {
	sigma := Errorf("%s %v: %w", Name("sigma"), -1, fs.ErrInvalid)
	for _, test := range []struct {
		err         error
		plain, want string
	}{
		{fs.ErrNotExist, "file does not exist", "file does not exist"},
		{sigma, "sigma -1: invalid argument", "--sigma -1: invalid argument"},
		{marked{sigma}, "sigma -1: invalid argument", "--sigma -1: invalid argument"},
		{fmt.Errorf("example 3: %w", sigma), "example 3: sigma -1: invalid argument", "example 3: --sigma -1: invalid argument"},
		{fmt.Errorf("%w (%w)", marked{sigma}, table{"x.csv"}), "sigma -1: invalid argument (x.csv: delta needs examples)",
			"--sigma -1: invalid argument (x.csv: --delta needs --examples)"},
		{errors.Join(fs.ErrClosed, sigma), "file already closed\nsigma -1: invalid argument", "file already closed\n--sigma -1: invalid argument"},
		{Errorf("%s: %w", Name("data"), fmt.Errorf("in a folder: %w", sigma)), "data: in a folder: sigma -1: invalid argument",
			"--data: in a folder: --sigma -1: invalid argument"},
		{Errorf("%s: %v", Name("data"), table{"y"}), "data: y: delta needs examples", "--data: y: --delta needs --examples"},
		{fmt.Errorf("no parameter: %v", sigma), "no parameter: sigma -1: invalid argument", "no parameter: sigma -1: invalid argument"},
	} {
		if got := test.err.Error(); got != test.plain {
			t.Errorf("plain %q, want %q", got, test.plain)
		}
		if got := Spell(test.err, flag); got != test.want {
			t.Errorf("as flags %q, want %q", got, test.want)
		}
	}
	if err := Errorf("%s: %w", Name("data"), marked{sigma}); !errors.Is(err, fs.ErrInvalid) || !errors.As(err, new(marked)) {
		t.Error("the error that is wrapped is not found")
	}
	if err := Errorf("%s: %v", Name("data"), sigma); errors.Is(err, fs.ErrInvalid) {
		t.Error("a text wraps an error that it only names")
	}
}

func TestText(t *testing.T) {
	text := Textf("go on with %s, or %d more of %s", Name("resume"), 3, Name("n"))
	if got := text.Spell(flag); got != "go on with --resume, or 3 more of --n" {
		t.Error(got)
	}
	if got := text.Spell(Plain); got != "go on with resume, or 3 more of n" {
		t.Error(got)
	}
}
