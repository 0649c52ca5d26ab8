// Package memory says how much of an input may be held in memory, so that a small file which promises or unpacks to
// a large one is refused with an error before the system ends the process.
package memory

import (
	"fmt"
	"math"
	"runtime/debug"
)

// most is the limit where nothing is known of the machine: more than data sets need that are not read from the disk.
// Who has a larger one says so by GOMEMLIMIT.
const most = 2 << 30

// Limit is how many bytes an input may take: half of GOMEMLIMIT where that is set; otherwise 2 GiB, or a quarter of
// Available if that is less, because the garbage collector lets as much again pile up.
func Limit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit / 2
	}
	return limit(Available())
}

// limit is Limit with so much memory available.
func limit(bytes uint64, known bool) int64 {
	if !known {
		return most
	}
	return int64(min(most, bytes/4))
}

// Check returns an error if bytes are more than Limit, or negative: more than can be counted.
func Check(bytes int64) error {
	if limit := Limit(); bytes < 0 || bytes > limit {
		return &LimitError{bytes, limit}
	}
	return nil
}

// LimitError says that an input is too large to be held in memory.
type LimitError struct {
	Need, Limit int64 // bytes; Need is negative if all that is known is that it is more
}

func (e *LimitError) Error() string {
	if e.Need < 0 {
		return fmt.Sprintf("needs more than the %s of memory that are taken for an input (%s)", size(e.Limit), advice)
	}
	return fmt.Sprintf("needs %s of memory, and at most %s are taken for an input (%s)", size(e.Need), size(e.Limit), advice)
}

const advice = "half of GOMEMLIMIT, where that is set"

func size(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
