package hint

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// typed has a hint of its own.
type typed struct{ error }

func (typed) Hint() string { return "own" }

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
