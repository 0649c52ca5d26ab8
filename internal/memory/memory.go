// Package memory limits the memory for an input. A small file may claim a large size or unpack to a large size. Check
// returns an error for such an input. Without this error, the system might kill the process for lack of memory.
package memory

import (
	"fmt"
	"math"
	"runtime/debug"
)

// If GOMEMLIMIT is not set, the constant 'most' is the largest limit on the memory for an input, in bytes. It is also
// the limit if the available memory is not known. Almost every data set that rscert must hold in memory is smaller than
// this. For a larger data set, a user can set GOMEMLIMIT.
const most = 2 << 30

// Limit returns the number of bytes that an input may take. If GOMEMLIMIT is set, this is half of GOMEMLIMIT. Otherwise
// it is the smaller of 2 GiB and a quarter of Available. Twice the limit must fit into memory, because the garbage
// collector lets an equal amount of garbage pile up.
func Limit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit / 2
	}
	return limit(Available())
}

// limit computes the limit from the available memory, for the case that GOMEMLIMIT is not set.
func limit(bytes uint64, known bool) int64 {
	if !known {
		return most
	}
	return int64(min(most, bytes/4))
}

// Check returns a *LimitError if the number 'bytes' exceeds Limit. A negative number stands for an overflow and gives
// the same error.
func Check(bytes int64) error {
	if limit := Limit(); bytes < 0 || bytes > limit {
		return &LimitError{bytes, limit}
	}
	return nil
}

// LimitError means that an input needs more memory than Limit allows.
type LimitError struct {
	Need, Limit int64 // bytes; a negative Need means an unknown amount above Limit
}

func (e *LimitError) Error() string {
	if e.Need < 0 {
		return fmt.Sprintf("needs more than %s of memory, the limit for an input (%s)", size(e.Limit), advice)
	}
	return fmt.Sprintf("needs %s of memory, but the limit for an input is %s (%s)", size(e.Need), size(e.Limit), advice)
}

const advice = "half of GOMEMLIMIT, if set"

func size(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
