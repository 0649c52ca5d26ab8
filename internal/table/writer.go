package table

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Writer writes CSV for Read: a header, then rows of numbers. It writes each number as the shortest decimal that Read
// parses to exactly the same number. Flush returns the first error.
//
//	w := table.NewWriter(f)
//	w.Header("index", "lower", "upper")
//	w.Int(7)
//	w.Float(0.25)
//	w.Float(0.5)
//	w.EndRow()
//	err := w.Flush()
//
// Without a call of Header, the Writer writes rows that continue a file with a header.
type Writer struct {
	out     *bufio.Writer
	line    []byte // current row, with a comma after each field
	fields  int    // number of fields in the current row
	columns int    // number of columns in the header or the first row; 0 before that
	err     error
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriter(w)} }

// Header writes the header, which holds the names of the columns. It quotes names where RFC 4180 requires it.
func (w *Writer) Header(names ...string) {
	w.columns = len(names)
	header := csv.NewWriter(w.out)
	_ = header.Write(names) // the method Flush of w.out returns the error
	header.Flush()
}

// Float adds a field with the number x to the current row.
func (w *Writer) Float(x float64) { w.add(strconv.AppendFloat(w.line, x, 'g', -1, 64)) }

// Int adds the field x.
func (w *Writer) Int(x int) { w.add(strconv.AppendInt(w.line, int64(x), 10)) }

// Uint adds the field x.
func (w *Writer) Uint(x uint64) { w.add(strconv.AppendUint(w.line, x, 10)) }

// Bool adds the field 1 for true and 0 for false.
func (w *Writer) Bool(x bool) {
	digit := byte('0')
	if x {
		digit = '1'
	}
	w.add(append(w.line, digit))
}

// Text adds the field s. It quotes s where RFC 4180 requires it.
func (w *Writer) Text(s string) {
	var field strings.Builder
	quoted := csv.NewWriter(&field)
	_ = quoted.Write([]string{s}) // a Builder never fails
	quoted.Flush()
	w.add(append(w.line, strings.TrimSuffix(field.String(), "\n")...))
}

// Empty adds an empty field.
func (w *Writer) Empty() { w.add(w.line) }

func (w *Writer) add(line []byte) {
	line = append(line, ',')
	w.line = line
	w.fields++
}

// EndRow ends the row. It is an error if the number of fields in the row differs from the number of columns.
func (w *Writer) EndRow() {
	if w.columns == 0 {
		w.columns = w.fields
	}
	if w.err == nil && (w.fields == 0 || w.fields != w.columns) {
		w.err = fmt.Errorf("csv: a row of %d fields for %d columns", w.fields, w.columns)
	}
	if w.err == nil {
		w.line[len(w.line)-1] = '\n'
		_, _ = w.out.Write(w.line) // if Write fails, the later call of Flush returns the error
	}
	w.line, w.fields = w.line[:0], 0
}

// Flush writes buffered rows and returns the first error.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); w.err == nil {
		w.err = err
	}
	if w.err == nil && w.fields != 0 {
		w.err = fmt.Errorf("csv: the last row has no end")
	}
	return w.err
}
