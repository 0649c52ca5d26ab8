// Package hint makes errors that know what their user can do about them: one line that says what is wrong, and a hint.
package hint

import (
	"errors"
	"fmt"
)

// Hinted is an error with a hint.
type Hinted interface {
	error
	Hint() string
}

// Error is an error to which a hint was added.
type Error struct {
	err  error
	hint string
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// Hint says what to do about the error.
func (e *Error) Hint() string { return e.hint }

// New returns an error with a hint.
func New(problem, hint string) error { return &Error{errors.New(problem), hint} }

// Add adds a hint to err, which goes before one that err has.
func Add(err error, format string, args ...any) error {
	return &Error{err, fmt.Sprintf(format, args...)}
}

// Of returns the outermost hint of err and whether it has one.
func Of(err error) (hint string, ok bool) {
	var h Hinted
	if !errors.As(err, &h) {
		return "", false
	}
	return h.Hint(), true
}
