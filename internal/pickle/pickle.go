// Package pickle reads the pickles of image batches (dictionaries of NumPy arrays, lists and names, as CIFAR is
// published) and runs nothing: a pickle is a program for a stack machine that may call any function of Python. This
// machine has the instructions that the picklers of Python 2 and 3 write for such batches, protocols 2 to 5, and calls
// none but the four constructors of arrays, types and bytes that are written out in calls.go. It follows pickletools
// of Python's library, where every instruction is described.
//
// Strings and arrays stay in the file: what is returned says where they are. Memory grows with the number of
// instructions, which is limited by the file's size, and never with a length that the file states.
//
// nlpodyssey/gopickle (v0.2.0, 1,500 lines) allocates the lengths that a file states and panics on damaged ones. The
// pass over the instructions that must come before it is nearly all of this package.
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

// ErrOther is the error of a pickle that asks for more than a batch of images does: another function, type or
// instruction.
var ErrOther = errors.New("not the pickle of a batch of images")

type otherError struct{ error }

func (otherError) Is(target error) bool { return target == ErrOther }

// None is Python's None.
type None struct{}

// Int is an integer, or a truth value: False is 0 and True 1.
type Int struct {
	Value int64
	At    int64 // byte of the file where it is written
}

// Text is a string or bytes in the file.
type Text struct {
	At, Len int64
	UTF8    bool // str of Python 3 and unicode of Python 2: in UTF-8
	Latin1  bool // the text stands for bytes, one for each of its characters
}

// Tuple holds Values. So does a List.
type Tuple []any

// List is a list; it may hold itself.
type List struct{ Items []any }

// Dict is a dictionary whose keys are texts. It may hold itself.
type Dict struct{ values map[string]any }

// Get returns the value of a key: *Dict, *List, Tuple, *Array, Text, Int, None or what only constructors need; nil if
// there is none.
func (d *Dict) Get(key string) any { return d.values[key] }

// maxKey is the longest key of a dictionary, module or name that is read, in bytes.
const maxKey = 64

// machine is the stack machine. After a failure, which is in err, it reads zeros and pushes nothing.
type machine struct {
	r        io.ReaderAt
	size     int64
	at       int64 // of the next byte
	op       int64 // byte at which the current instruction stands
	protocol byte
	stack    []any
	marks    []int // heights of the stack
	memo     map[uint64]any
	err      error
	buffer   [maxKey + 1]byte
	last     Text   // the text that was asked for last, as "latin1" is for all bytes of a file, far from where it stands
	lastText string // what it is
}

// A file may have freeSteps instructions, and one for every bytesAStep of it: a batch has about ten for an image of
// 3,072 bytes. What an instruction takes of memory (a value on the stack, in a list and in the memo) is below stepMemory.
const (
	freeSteps  = 1 << 14
	bytesAStep = 128
	stepMemory = 256 // bytes
)

// Read reads the pickle that r holds, of size bytes, and returns its value. Every error says at which byte.
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

// end returns the value that is left when the machine stops.
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

// fail keeps the first failure.
func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// other is fail with ErrOther.
func (m *machine) other(format string, args ...any) {
	m.fail("%w", otherError{fmt.Errorf(format, args...)})
}

// skip returns where the next n bytes begin.
func (m *machine) skip(n uint64) (at int64) {
	if n > uint64(m.size-m.at) {
		m.fail("ends within an instruction: it promises %d bytes, and %d follow", n, m.size-m.at)
		return m.at
	}
	at = m.at
	m.at += int64(n)
	return at
}

// read returns n ≤ maxKey + 1 bytes at a place of the file, until it is called again.
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

// line reads to the next newline: a module or a name.
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

// floor is how far down the stack the values behind the last mark reach.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// pop takes the last n values.
func (m *machine) pop(n int) []any {
	if n > len(m.stack)-m.floor() {
		m.fail("damaged: the stack has fewer than %d values", n)
		return make([]any, n)
	}
	top := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return top
}

// popMark takes the values behind the last mark.
func (m *machine) popMark() []any {
	if len(m.marks) == 0 {
		m.fail("damaged: no mark on the stack")
		return nil
	}
	values := m.pop(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return values
}

// top returns the last value.
func (m *machine) top() any {
	v := m.pop(1)[0]
	m.push(v)
	return v
}

// recall pushes what an instruction has put into the memo.
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

// set puts keys and values, which alternate, into the dictionary that is on the stack.
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

// text returns a short text itself.
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
