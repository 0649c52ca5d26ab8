// Package hint adds hints to errors. The error states the problem in one line, and the hint states a remedy.
package hint

import (
	"errors"

	"github.com/rscert/rscert/internal/param"
)

// Hinted is an error with a hint.
type Hinted interface {
	error
	Hint() string
}

// Error is an error with an added hint.
type Error struct {
	err  error
	hint param.Text
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// Hint returns text that says what to do about the error.
func (e *Error) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the same text as Hint, but the function s spells the parameter names.
func (e *Error) SpellHint(s param.Spelling) string { return e.hint.Spell(s) }

// New returns an error with a hint.
func New(problem, hint string) error { return Add(errors.New(problem), "%s", hint) }

// Add adds a hint to err. The new hint takes precedence over a hint that err already has. The arguments may include
// names of parameters. SpellHint spells these names.
func Add(err error, format string, args ...any) error {
	return &Error{err, param.Textf(format, args...)}
}

// Of returns the outermost hint of err. The result ok is false if err has no hint.
func Of(err error) (hint string, ok bool) { return Spelled(err, param.Plain) }

// Spelled does the same as the function Of, but the function s spells the parameter names.
func Spelled(err error, s param.Spelling) (hint string, ok bool) {
	var h Hinted
	if !errors.As(err, &h) {
		return "", false
	}
	if named, ok := h.(interface{ SpellHint(param.Spelling) string }); ok {
		return named.SpellHint(s), true
	}
	return h.Hint(), true
}
