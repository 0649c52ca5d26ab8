package hint

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

// The type 'typed' is an error that has its own hint.
type typed struct{ error }

func (typed) Hint() string { return "own" }

// TestSpelled checks that the caller chooses how a hint spells parameters. This must also work if another error wraps
// the error that has the hint.
func TestSpelled(t *testing.T) {
	err := fmt.Errorf("run: %w", Add(fs.ErrNotExist, "go on with %s", param.Resume))
	for want, spelling := range map[string]param.Spelling{
		"go on with resume": param.Plain, "go on with --resume": func(n param.Name) string { return "--" + string(n) },
	} {
		if got, ok := Spelled(err, spelling); !ok || got != want {
			t.Errorf("hint %q, want %q", got, want)
		}
	}
	if got, _ := Spelled(typed{err}, func(param.Name) string { return "x" }); got != "own" {
		t.Errorf("a hint without parameters is %q", got)
	}
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		err           error
		message, hint string
	}{
		{fs.ErrNotExist, "file does not exist", ""},
		{New("no model", "name one"), "no model", "name one"},
		{fmt.Errorf("run: %w", New("no model", "name one")), "run: no model", "name one"},
		{Add(fs.ErrNotExist, "name %d", 2), "file does not exist", "name 2"},
		{Add(New("no model", "inner"), "outer"), "no model", "outer"},
		{errors.Join(fs.ErrNotExist, New("b", "second")), "file does not exist\nb", "second"},
		{fmt.Errorf("run: %w", typed{fs.ErrNotExist}), "run: file does not exist", "own"},
	} {
		got, ok := Of(tt.err)
		if tt.err.Error() != tt.message || got != tt.hint || ok != (tt.hint != "") {
			t.Errorf("%q with hint %q, %v; want %q with %q", tt.err, got, ok, tt.message, tt.hint)
		}
	}
	if !errors.Is(Add(fs.ErrNotExist, "name another"), fs.ErrNotExist) {
		t.Error("a hint hides the error that it was added to")
	}
}
