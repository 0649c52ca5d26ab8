package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"sort"

	"github.com/rscert/rscert/internal/checksum"
)

// maxLine is the maximum length of a line in bytes. It prevents a file without newlines from claiming all memory.
const maxLine = 64 << 20

var errLineTooLong = fmt.Errorf("line longer than %d MiB", maxLine>>20)

// lineReader returns the lines that are not blank, without surrounding space. It counts all lines.
type lineReader struct {
	in   *bufio.Reader
	line int // number of the last returned line, counted from 1
	long []byte
}

// next returns the next line, or io.EOF. The line is valid until the following call.
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
		line = bytes.TrimLeft(bytes.TrimRight(line, " \r\n"), " ") // tabs stay, because they separate columns
		if len(line) > 0 {
			return line, nil
		}
	}
}

// takeSeed keeps the Seed that FindCSV or FindJSON found in the first row. Read cannot compute the Seed itself, because
// it does not know which run wrote the file. It checks all rows with the Seed of the first row.
func (t *Table) takeSeed(s checksum.Seed, found bool) {
	if found {
		t.seed = s
	}
}

// check returns an error for a wrong checksum, or for a file in which only some rows have a checksum.
func (t *Table) check(state checksum.State) error {
	switch {
	case state == checksum.Foreign:
		return fmt.Errorf("line is of another run than the lines before it: its checksum fits that one (%s)", acceptEdited)
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

// lineMap maps rows to lines. It has one entry for the first row. It has another entry for each row that is not on the
// line directly after the previous row, for example after a blank line.
type lineMap struct {
	rows, shifts []int // from row rows[k] on, line = row + shifts[k]
}

func (m *lineMap) add(row, line int) {
	if k := len(m.shifts); k == 0 || m.shifts[k-1] != line-row {
		m.rows = append(m.rows, row)
		m.shifts = append(m.shifts, line-row)
	}
}

func (m *lineMap) line(row int) int {
	k := sort.SearchInts(m.rows, row+1) - 1
	if k < 0 {
		return 0
	}
	return row + m.shifts[k]
}
