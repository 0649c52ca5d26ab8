package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
)

// noValue means that a line contains no value. A decoder returns noValue in place of the size of the value in memory.
const noValue = -1

// valueReader reads the values of a file of lines, one at a time, up to the first damaged line.
type valueReader[T any] struct {
	path  string
	file  io.Closer
	lines *lineScanner
	// The result 'held' is the number of bytes of memory that the value refers to. It is noValue if the line has no
	// value.
	decode func(line) (v T, held int, err error)
	// may be nil; checks each value, and reading stops at the first error that it returns
	check func(turn int, v T) error

	last   int64   // offset after the last line
	padded int     // number of the first line that asWritten refuses; 0: none
	turn   int     // number of values read
	number int     // line number of the last value
	end    int64   // offset after the last value
	held   int     // memory that the last value refers to, in bytes
	damage *damage // the first damaged line, once all lines are read; nil: none
	ended  bool
}

// openValues opens a file of lines.
func openValues[T any](path string, decode func(line) (v T, held int, err error)) (*valueReader[T], error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	r := newValueReader(f, decode)
	r.path, r.file = path, f
	return r, nil
}

func newValueReader[T any](r io.Reader, decode func(line) (v T, held int, err error)) *valueReader[T] {
	return &valueReader[T]{lines: newLineScanner(r), decode: decode}
}

// noValues returns a reader for a missing file. The reader has no values.
func noValues[T any](path string) *valueReader[T] {
	r := newValueReader[T](strings.NewReader(""), nil)
	r.path = path
	return r
}

// next returns the next value. It returns false after the last value.
func (r *valueReader[T]) next() (v T, ok bool, err error) {
	for !r.ended {
		l, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			r.ended = true
			break
		}
		if err != nil {
			return v, false, r.named(err)
		}
		v, held, err := r.decode(l)
		r.measure(l, err == nil)
		switch {
		case err != nil:
			return v, false, r.endDamaged(l, err)
		case held == noValue:
			continue
		}
		r.number, r.end, r.held = l.number, l.end, held
		if r.check != nil {
			if err := r.check(r.turn, v); err != nil {
				return v, false, fmt.Errorf("%s:%d: %w", r.path, l.number, err)
			}
		}
		r.turn++
		return v, true, nil
	}
	return v, false, nil
}

// endDamaged records the first damaged line and searches for intact lines after it. If the damaged line contains NUL
// bytes (0x00), endDamaged omits this search, because only a power cut leaves NUL bytes.
func (r *valueReader[T]) endDamaged(first line, cause error) error {
	r.ended = true
	r.damage = &damage{line: first.number, err: cause, tail: true}
	if bytes.IndexByte(first.text, 0) >= 0 {
		return nil
	}
	for {
		l, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.named(err)
		}
		_, _, err = r.decode(l)
		r.measure(l, err == nil)
		r.damage.tail = r.damage.tail && err != nil
	}
}

// measure records the number of the first intact line that begins or ends with blanks, or that follows a blank line.
func (r *valueReader[T]) measure(l line, intact bool) {
	if written := int64(len(bytes.TrimSpace(l.text))) + 1; r.padded == 0 && intact && l.end != r.last+written {
		r.padded = l.number
	}
	r.last = l.end
}

// asWritten returns an error if an intact line begins or ends with blanks, or follows a blank line. Readers skip these
// blanks and blank lines, but rscert never writes them. A resumed run must refuse the file: the run does not rewrite
// lines, but its finished files must have the same bytes as the files of an uninterrupted run.
func (r *valueReader[T]) asWritten() error {
	if r.padded == 0 {
		return nil
	}
	return hint.New(fmt.Sprintf("%s:%d: blanks or blank lines were added before or in this line", r.path, r.padded),
		"remove them, or restore the file")
}

// The method 'named' adds the path to an error from reading.
func (r *valueReader[T]) named(err error) error {
	if r.path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", r.path, err)
}

// drain reads the remaining values.
func (r *valueReader[T]) drain() error {
	for {
		if _, ok, err := r.next(); !ok || err != nil {
			return err
		}
	}
}

func (r *valueReader[T]) close() {
	if r != nil && r.file != nil {
		_ = r.file.Close() // the file was only read, so no data can be lost
	}
}

// content holds the values of a file's intact lines.
type content[T any] struct {
	values []T
	lines  []int   // line numbers of the values
	ends   []int64 // for each value, the offset in the file where its line ends
	*damage
}

// collect reads all values, within the memory limit for an input, and closes the file.
func (r *valueReader[T]) collect() (c content[T], err error) {
	defer r.close()
	total, limit := int64(0), memory.Limit()
	for {
		v, ok, err := r.next()
		if !ok || err != nil {
			c.damage = r.damage
			return c, err
		}
		if total += int64(r.held) + int64(unsafe.Sizeof(v)+unsafe.Sizeof(r.number)+unsafe.Sizeof(r.end)); total > limit {
			return c, r.named(fmt.Errorf("line %d: %w", r.number, &memory.LimitError{Need: -1, Limit: limit}))
		}
		c.values, c.lines, c.ends = append(c.values, v), append(c.lines, r.number), append(c.ends, r.end)
	}
}
