package certify

import "errors"

// ErrStopped means that votes whose number was decided while sampling were
// given to a method for a fixed number.
var ErrStopped = errors.New("the votes were stopped early: only the anytime bound of their stopping rule is valid for them")
