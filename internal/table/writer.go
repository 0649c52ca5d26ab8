package table

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Writer writes CSV that Read takes: a header, then rows of numbers, each the shortest decimal that reads back as it.
// Errors stay with it until Flush.
//
//	w := table.NewWriter(f)
//	w.Header("index", "lower", "upper")
//	w.Int(7)
//	w.Float(0.25)
//	w.Float(0.5)
//	w.EndRow()
//	err := w.Flush()
//
// Rows without a header go on with a file that has one.
type Writer struct {
	out     *bufio.Writer
	line    []byte // the row so far, a comma after each field
	fields  int    // of the row so far
	columns int    // of the header, or of the first row; 0 before
	err     error
}

// NewWriter returns a writer of rows to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriter(w)} }

// Header names the columns; names are quoted where RFC 4180 asks for it.
func (w *Writer) Header(names ...string) {
	w.columns = len(names)
	header := csv.NewWriter(w.out)
	_ = header.Write(names) // an error of w.out comes back from its Flush
	header.Flush()
}

// Float ends a field with x.
func (w *Writer) Float(x float64) { w.add(strconv.AppendFloat(w.line, x, 'g', -1, 64)) }

// Int ends a field with x.
func (w *Writer) Int(x int) { w.add(strconv.AppendInt(w.line, int64(x), 10)) }

// Uint ends a field with x.
func (w *Writer) Uint(x uint64) { w.add(strconv.AppendUint(w.line, x, 10)) }

// Bool ends a field with 1 for true and 0 for false.
func (w *Writer) Bool(x bool) {
	digit := byte('0')
	if x {
		digit = '1'
	}
	w.add(append(w.line, digit))
}

// Text ends a field with s, quoted where RFC 4180 asks for it.
func (w *Writer) Text(s string) {
	var field strings.Builder
	quoted := csv.NewWriter(&field)
	_ = quoted.Write([]string{s}) // a Builder takes everything
	quoted.Flush()
	w.add(append(w.line, strings.TrimSuffix(field.String(), "\n")...))
}

// Empty ends a field without a value.
func (w *Writer) Empty() { w.add(w.line) }

func (w *Writer) add(line []byte) {
	line = append(line, ',')
	w.line = line
	w.fields++
}

// EndRow ends the row. All rows have a field for each column.
func (w *Writer) EndRow() {
	if w.columns == 0 {
		w.columns = w.fields
	}
	if w.err == nil && (w.fields == 0 || w.fields != w.columns) {
		w.err = fmt.Errorf("csv: a row of %d fields for %d columns", w.fields, w.columns)
	}
	if w.err == nil {
		w.line[len(w.line)-1] = '\n'
		_, _ = w.out.Write(w.line) // an error comes back from Flush
	}
	w.line, w.fields = w.line[:0], 0
}

// Flush writes what is held back and returns the first error.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); w.err == nil {
		w.err = err
	}
	if w.err == nil && w.fields != 0 {
		w.err = fmt.Errorf("csv: the last row has no end")
	}
	return w.err
}
