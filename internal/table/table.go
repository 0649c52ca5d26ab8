// Package table reads columns of numbers from the files in which people keep tables: CSV with a header (columns in any
// order; comma, semicolon or tab), JSON lines, npz archives and Parquet files. Text may be compressed with gzip. Read
// tells the format from the content, so standard input works like a file. A column is matched by its exact name or, in
// CSV and Parquet where no other column has that name, by its name in lower case.
//
// All formats are streamed, by row or by column. Read keeps the columns that are asked for, 8 bytes a value, at most
// memory.Limit in all; lines that carry a checksum (package checksum) must match it. Every error about content says
// where: "scores.csv:17: score: …".
//
// Readers that keep other things than float64 columns stream from the same sources: Records are the rows of a CSV file
// as text, Parquet is a file whose leaf columns are given value by value and row by row. Neither converts a value.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// Options say which columns of a file are wanted. Columns that are not asked
// for may hold anything, text included.
type Options struct {
	Required []string // an error when missing
	Optional []string // read when there
	// Match, when not nil, asks for further columns by name. In an npz archive
	// it is not consulted.
	Match func(name string) bool
	// Matrices are names that may be 2-D arrays in an npz archive. They are not
	// looked for in text.
	Matrices []string
	// AllowNonFinite lets NaN and ±Inf through; otherwise they are errors.
	AllowNonFinite bool
	// Progress, when not nil, is called with the bytes of the file read since
	// its last call (compressed bytes, if the file is compressed).
	Progress func(bytes int64)
	// Input is what "-" reads; os.Stdin when nil.
	Input io.Reader
}

func (o *Options) wants(name string) bool {
	return slices.Contains(o.Required, name) || slices.Contains(o.Optional, name) ||
		(o.Match != nil && o.Match(name))
}

// knownName is the name under which a column of the file is asked for: its own or, where no other column of the file has
// it, its own in lower case. It is empty for a column that is not wanted.
func (o *Options) knownName(name string, header []string) string {
	if o.wants(name) {
		return name
	}
	if lower := strings.ToLower(name); o.wants(lower) && !slices.Contains(header, lower) {
		return lower
	}
	return ""
}

// Table holds columns of equal length.
type Table struct {
	Path string // as shown in errors
	N    int    // rows

	header  []string // all columns or arrays of the file
	columns []*column
	index   map[string]*column
	lines   lineMap
	binary  bool // rows have no lines
	checked bool
}

// column is a column that was asked for, or a 2-D array.
type column struct {
	name string
	Matrix
	matrix bool // asked for as a 2-D array, whatever it is
}

// Matrix is a 2-D array, row-major.
type Matrix struct {
	Rows, Cols int
	Data       []float64
}

// Row returns row i, not a copy.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// Column returns the named column, not a copy, and whether the file had it.
func (t *Table) Column(name string) ([]float64, bool) {
	if c := t.index[name]; c != nil && !c.matrix {
		return c.Data, true
	}
	return nil, false
}

// Matrix returns the named 2-D array and whether the file had it.
func (t *Table) Matrix(name string) (Matrix, bool) {
	if c := t.index[name]; c != nil && c.matrix {
		return c.Matrix, true
	}
	return Matrix{}, false
}

// Names are the columns that were read, in the order of the file.
func (t *Table) Names() []string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return names
}

// Header are all columns or arrays of the file, also those that were not asked for; nil for JSON lines.
func (t *Table) Header() []string { return t.header }

// Checked reports whether the rows carried checksums (package checksum), which were
// right. A file of which some rows have one and others have none is refused.
func (t *Table) Checked() bool { return t.checked }

// Line is the line of the file on which row i (from 0) stands; 0 in an npz
// archive or a Parquet file, which have no lines.
func (t *Table) Line(i int) int {
	if t.binary {
		return 0
	}
	return t.lines.line(i)
}

// Errorf returns an error about row i that says where it is.
func (t *Table) Errorf(i int, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if t.binary {
		return fmt.Errorf("%s: row %d: %s", t.Path, t.place(i), msg)
	}
	return fmt.Errorf("%s:%d: %s", t.Path, t.Line(i), msg)
}

func (t *Table) add(c *column) {
	t.columns = append(t.columns, c)
	t.index[c.name] = c
}

// reader fills a table. A format tells it the columns that the file has and gives it their values.
type reader struct {
	*Table
	opt   Options
	held  int64 // bytes of the columns, and of a file that is held whole
	limit int64 // what they may be
}

// choose returns the column for a name in the header; nil if it is not wanted.
func (r *reader) choose(name string) (*column, error) {
	name = r.opt.knownName(name, r.header)
	if name == "" {
		return nil, nil
	}
	if r.index[name] != nil {
		return nil, fmt.Errorf("column %s appears twice", quote.Field(name))
	}
	c := &column{name: name}
	r.add(c)
	return c, nil
}

// require returns an error about the first required column that the file has not; format takes its name and those that
// the file has.
func (r *reader) require(format string, has []string) error {
	for _, name := range r.opt.Required {
		if r.index[name] == nil { // listed on one line, whatever the names hold, and not too long
			return fmt.Errorf(format, name, quote.Name(strings.Join(has, ", ")))
		}
	}
	return nil
}

// hold counts values that are about to be kept.
func (r *reader) hold(values int64) error {
	const bytes = 8
	if values > (r.limit-r.held)/bytes {
		return memory.Check(-1)
	}
	r.held += bytes * values
	return nil
}

// holdFile takes a file of a binary format into memory.
func (r *reader) holdFile(src io.Reader) ([]byte, error) {
	r.binary = true
	data, err := io.ReadAll(io.LimitReader(src, r.limit/2)) // which takes up to twice that to grow
	if err == nil && int64(len(data)) >= r.limit/2 {
		err = memory.Check(-1)
	}
	r.held = int64(len(data))
	return data, err
}
