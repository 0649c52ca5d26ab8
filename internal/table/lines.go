package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"sort"

	"github.com/rscert/rscert/internal/checksum"
)

// maxLine is how long a line may be, in bytes: a file without ends of lines must not claim all memory.
const maxLine = 64 << 20

var errLineTooLong = fmt.Errorf("line longer than %d MiB", maxLine>>20)

// lineReader yields the lines that hold something, without surrounding space,
// and counts all.
type lineReader struct {
	in   *bufio.Reader
	line int // of the last line returned, from 1
	long []byte
}

// next returns a line that is valid until the following call, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			l.long = append(l.long[:0], line...)
			for err == bufio.ErrBufferFull {
				if len(l.long) > maxLine {
					l.line++
					return nil, errLineTooLong
				}
				line, err = l.in.ReadSlice('\n')
				l.long = append(l.long, line...)
			}
			line = l.long
		}
		if err != nil && err != io.EOF {
			l.line++
			return nil, err
		}
		if len(line) == 0 {
			return nil, io.EOF
		}
		l.line++
		if l.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // byte order mark
		}
		line = bytes.TrimLeft(bytes.TrimRight(line, " \r\n"), " ") // tabs separate columns
		if len(line) > 0 {
			return line, nil
		}
	}
}

// check takes a row's checksum for granted only if the rows before had one, too.
func (t *Table) check(state checksum.State) error {
	switch {
	case state == checksum.Bad:
		return fmt.Errorf("line has changed since it was written: its checksum does not match (%s)", acceptEdited)
	case t.N == 0:
		t.checked = state == checksum.Good
	case t.checked && state == checksum.Absent:
		return fmt.Errorf("line has no checksum, though the lines before it have (%s)", acceptEdited)
	case !t.checked && state == checksum.Good:
		return fmt.Errorf("line has a checksum, though the lines before it have none (%s)", acceptEdited)
	}
	return nil
}

const acceptEdited = `deleting "` + checksum.Column + `" from every line, header included, accepts the edited file`

// lineMap gives the line of a row. Rows on consecutive lines cost nothing; each
// gap (header, blank line) costs one entry.
type lineMap struct {
	rows, at []int // from row rows[k] on, line = row + at[k]
}

func (m *lineMap) add(row, line int) {
	if k := len(m.at); k == 0 || m.at[k-1] != line-row {
		m.rows = append(m.rows, row)
		m.at = append(m.at, line-row)
	}
}

func (m *lineMap) line(row int) int {
	k := sort.SearchInts(m.rows, row+1) - 1
	if k < 0 {
		return 0
	}
	return row + m.at[k]
}
