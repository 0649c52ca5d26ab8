package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// Records reads the rows of a CSV file as text (RFC 4180). Commas, semicolons or tabs separate the fields. Quoted
// fields may hold newlines. FieldPos returns the place of a field. Set the options of the csv.Reader before the first
// call of Next.
type Records struct {
	*csv.Reader
	text lineLimit
}

// NewRecords returns the rows of src. The text may be compressed with gzip and may begin with a byte order mark.
func NewRecords(src io.Reader) (*Records, error) {
	in, err := uncompressed(src, 1<<16)
	if err != nil {
		return nil, err
	}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	r := &Records{text: lineLimit{r: in}}
	r.Reader = csv.NewReader(&r.text)
	r.ReuseRecord = true
	r.Comma, err = unquotedSeparator(in)
	return r, err
}

// Next returns the fields of the next row and the line on which the row begins. The fields are valid until the
// following call. The error is io.EOF after the last row, and a *csv.ParseError for malformed text.
func (r *Records) Next() (fields []string, line int, err error) {
	fields, err = r.Read()
	r.text.through = r.InputOffset()
	if err != nil {
		return nil, 0, err
	}
	line, _ = r.FieldPos(0)
	return fields, line, nil
}

// Bytes returns the number of bytes of text read so far.
func (r *Records) Bytes() int64 { return r.text.n }

// lineLimit passes on the bytes of r. It returns an error once a line or a quoted field is longer than maxLine.
type lineLimit struct {
	r       io.Reader
	n       int64 // number of bytes returned so far
	through int64 // number of the bytes returned so far that belong to rows that Next has read
}

var errLongLine = fmt.Errorf("a line of more than %d MiB", maxLine>>20)

func (l *lineLimit) Read(p []byte) (int, error) {
	if l.n-l.through > maxLine {
		return 0, errLongLine
	}
	n, err := l.r.Read(p)
	l.n += int64(n)
	return n, err
}

// unquotedSeparator finds the separator in the first line, outside quotes. It is a tab, a semicolon or a comma.
// (Spreadsheets with a decimal comma write semicolons.)
func unquotedSeparator(in *bufio.Reader) (rune, error) {
	line, _ := in.Peek(in.Size())
	line, _, _ = bytes.Cut(line, []byte("\n"))
	quoted := false
	seen := map[rune]bool{}
	for _, r := range string(line) {
		quoted = quoted != (r == '"')
		seen[r] = seen[r] || !quoted
	}
	switch {
	case seen['\t']:
		return '\t', nil
	case seen[';']:
		return ';', nil
	case !seen[','] && len(bytes.Fields(line)) > 1:
		return 0, errors.New(`line 1: fields separated by spaces; write them with commas: numpy.savetxt(FILE, a, delimiter=",")`)
	}
	return ',', nil
}
