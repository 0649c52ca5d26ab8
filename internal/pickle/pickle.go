// Package pickle reads the pickles of image batches: dictionaries of NumPy arrays, lists and names. An example is a
// batch of CIFAR. A pickle is a program for a stack machine. Such a program may call any Python function, but this
// package runs none. Its stack machine knows only the instructions that Python 2 and 3 write for image batches
// (protocols 2 to 5). It also knows four constructors of arrays, types and bytes (calls.go). Python's pickletools
// describes every instruction.
//
// Strings and arrays stay in the file, and Read returns their offsets. Memory grows with the number of instructions,
// and the size of the file limits this number. Memory never grows with a length that the file states.
//
// The alternative nlpodyssey/gopickle (v0.2.0, 1,500 lines) allocates memory for any length that a file states, and
// panics on damaged files. To use gopickle safely, this package would have to check all instructions first, which would
// need nearly all of the present code.
package pickle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// ErrOther means that a pickle is not a batch of images as this package knows it. For example, the pickle uses a
// function, a type or an instruction that this package does not know, or it has too many instructions.
var ErrOther = errors.New("not the pickle of a batch of images")

type otherError struct{ error }

func (otherError) Is(target error) bool { return target == ErrOther }

// None is the None of Python.
type None struct{}

// Int is an integer or a truth value. False is 0, and True is 1.
type Int struct {
	Value int64
	At    int64 // offset in the file, in bytes
}

// Text is a string or bytes in the file.
type Text struct {
	At, Len int64 // offset and length in the file, in bytes
	UTF8    bool  // a 'str' of Python 3 or a 'unicode' of Python 2, in UTF-8
	Latin1  bool  // each character stands for one byte
}

// Tuple is a tuple of values.
type Tuple []any

// List is a list. It may contain itself.
type List struct{ Items []any }

// Dict is a dictionary whose keys are texts. It may contain itself.
type Dict struct{ values map[string]any }

// Get returns the value of a key, or nil if the key is missing. The value is a *Dict, *List, Tuple, *Array, Text, Int
// or None, or a value of an unexported type.
func (d *Dict) Get(key string) any { return d.values[key] }

// maxKey is the maximum length of a key, module or name, in bytes.
const maxKey = 64

// machine is the stack machine that carries out a pickle's instructions. The field 'err' holds the first failure. After
// a failure, the machine reads only zeros.
type machine struct {
	r        io.ReaderAt
	size     int64
	at       int64 // offset of the next byte
	op       int64 // offset of the current instruction
	protocol byte
	stack    []any
	marks    []int // heights of the stack at the marks
	memo     map[uint64]any
	err      error
	buffer   [maxKey + 1]byte
	last     Text   // cached argument of the method 'text'; many calls read the same "latin1"
	lastText string // cached result of the method 'text'
}

// A file may have at most freeSteps instructions, plus one instruction for every bytesAStep bytes. A real batch has
// about ten instructions for each image of 3,072 bytes. An instruction takes less than stepMemory bytes of memory,
// including the memory of its value on the stack, in a list and in the memo.
const (
	freeSteps  = 1 << 14
	bytesAStep = 128
	stepMemory = 256 // in bytes
)

// Read reads the pickle in r and returns its value. The argument 'size' is the length of r in bytes. The comment on
// Dict.Get lists the types of values. Every error about the pickle states the offset of the instruction that failed.
func Read(ctx context.Context, r io.ReaderAt, size int64) (any, error) {
	m := &machine{r: r, size: size, memo: map[uint64]any{}}
	most := freeSteps + size/bytesAStep
	room := memory.Limit() / stepMemory
	for steps := int64(0); ; steps++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m.op = m.at
		switch steps {
		case most:
			m.other("it has more than %d instructions before this byte", steps)
		case room:
			m.fail("%w", memory.Check(-1))
		}
		code := byte(m.uint(1))
		if m.err == nil && code == stop {
			return m.end()
		}
		if m.err == nil {
			m.step(code)
		}
		if m.err != nil {
			return nil, fmt.Errorf("byte %d: %w", m.op, m.err)
		}
	}
}

func (m *machine) step(code byte) {
	do := instructions[code]
	switch {
	case m.op == 0 && code != proto:
		m.other("it does not begin with its protocol")
	case do == nil:
		m.other("instruction %#x", code)
	default:
		do(m)
	}
}

// end returns the value of the pickle: the only value left on the stack.
func (m *machine) end() (any, error) {
	switch {
	case len(m.stack) != 1 || len(m.marks) > 0:
		m.fail("damaged: it stops with %d values on the stack and %d marks", len(m.stack), len(m.marks))
	case m.at != m.size:
		m.fail("%d bytes after the end of the pickle", m.size-m.at)
	default:
		return m.stack[0], nil
	}
	return nil, fmt.Errorf("byte %d: %w", m.op, m.err)
}

// The method 'fail' records the first failure.
func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// The method 'other' records a failure with ErrOther.
func (m *machine) other(format string, args ...any) {
	m.fail("%w", otherError{fmt.Errorf(format, args...)})
}

// The method 'skip' moves over the next n bytes and returns their offset.
func (m *machine) skip(n uint64) (at int64) {
	if n > uint64(m.size-m.at) {
		m.fail("ends within an instruction: it promises %d bytes, and %d follow", n, m.size-m.at)
		return m.at
	}
	at = m.at
	m.at += int64(n)
	return at
}

// The method 'read' returns n ≤ maxKey + 1 bytes at an offset. The bytes are valid until the next call of 'read'.
func (m *machine) read(at int64, n int) []byte {
	b := m.buffer[:n]
	if m.err == nil {
		if k, err := m.r.ReadAt(b, at); k < n {
			m.fail("%w", err)
		}
	}
	if m.err != nil {
		clear(b)
	}
	return b
}

// uint reads an unsigned integer of n ≤ 8 bytes, little-endian.
func (m *machine) uint(n int) uint64 {
	var b [8]byte
	copy(b[:], m.read(m.skip(uint64(n)), n))
	return binary.LittleEndian.Uint64(b[:])
}

// line reads up to the next newline, and returns the line, which is the name of a module or of a function.
func (m *machine) line() string {
	b := m.read(m.at, int(min(maxKey+1, m.size-m.at)))
	line, _, found := strings.Cut(string(b), "\n")
	if !found {
		m.fail("damaged or too long: no end of line after %s", quote.Field(b))
		return ""
	}
	m.skip(uint64(len(line) + 1))
	return line
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

// floor returns the height of the stack at the last mark.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// pop removes the top n values from the stack and returns them.
func (m *machine) pop(n int) []any {
	if n > len(m.stack)-m.floor() {
		m.fail("damaged: the stack has fewer than %d values", n)
		return make([]any, n)
	}
	top := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return top
}

// popMark removes and returns the values above the last mark. It also removes the mark.
func (m *machine) popMark() []any {
	if len(m.marks) == 0 {
		m.fail("damaged: no mark on the stack")
		return nil
	}
	values := m.pop(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return values
}

// The method 'top' returns the value on top of the stack.
func (m *machine) top() any {
	v := m.pop(1)[0]
	m.push(v)
	return v
}

// recall pushes a value from the memo.
func (m *machine) recall(index uint64) {
	v, ok := m.memo[index]
	if !ok {
		m.fail("damaged: nothing is remembered by the number %d", index)
		return
	}
	m.push(v)
}

func (m *machine) append(items []any) {
	list, ok := m.top().(*List)
	if !ok {
		m.other("it appends to something that is no list")
		return
	}
	list.Items = append(list.Items, items...)
}

// The method 'set' adds items to the dictionary on top of the stack. The items are alternately keys and values.
func (m *machine) set(items []any) {
	dict, ok := m.top().(*Dict)
	if !ok || len(items)%2 != 0 {
		m.other("it sets items of something that is no dictionary")
		return
	}
	for i := 0; i < len(items); i += 2 {
		key := m.text(items[i])
		if _, ok := dict.values[key]; ok {
			m.fail("key %s appears twice", quote.Field(key))
		}
		dict.values[key] = items[i+1]
	}
}

// text returns the characters of the text v, which must have at most maxKey bytes.
func (m *machine) text(v any) string {
	t, ok := v.(Text)
	if !ok || t.Len > maxKey {
		m.other("a key or name that is not a text of at most %d bytes", maxKey)
		return ""
	}
	if t != m.last {
		m.last, m.lastText = t, string(m.read(t.At, int(t.Len)))
	}
	return m.lastText
}
