package spec

import (
	"context"
	"errors"

	"github.com/rscert/rscert/internal/param"
)

// InputError is an error in a parameter or a file that the user gave.
type InputError struct{ error }

func (e InputError) Unwrap() error { return e.error }

// BadInput wraps err as an InputError. If err is nil or context.Canceled, BadInput returns err unchanged.
func BadInput(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return InputError{err}
}

// BadInputf returns an InputError. It formats the message as param.Errorf does.
func BadInputf(format string, args ...any) error {
	return BadInput(param.Errorf(format, args...))
}
