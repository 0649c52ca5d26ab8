// Package table reads columns of numbers from tables: CSV with a header (columns in any order; comma, semicolon or
// tab), JSON lines, npz archives and Parquet files. Text may be compressed with gzip. Read finds the format by the
// content, so standard input works like a file. Read matches a column by its exact name. In CSV and Parquet, a wanted
// name in lower case, such as 'score', also matches a column such as 'Score', unless the file has a column called
// exactly 'score'.
//
// Read keeps the wanted columns, which take 8 bytes per value. On request, it also keeps the other columns, as text.
// While it reads an npz archive or a Parquet file, it also holds the whole file in memory. All this together takes at
// most memory.Limit bytes. If a line has a checksum (package checksum), Read verifies it. If the content is wrong, the
// error states the place: "scores.csv:17: score: …".
//
// Callers that need more than float64 columns can stream the same files. Records returns the rows of a CSV file as
// text. Parquet returns the values of a Parquet file's leaf columns, row by row. Neither Records nor Parquet converts a
// value. Writer writes CSV.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// Options selects the columns of a file. Other columns may hold anything, including text.
type Options struct {
	Required []string // a missing column is an error
	Optional []string // kept if the file has them
	// Texts lists the columns whose values may be text in CSV and JSON lines. GroupRows can group rows by such texts.
	// Column returns NaN for a value that is not a number.
	Texts []string
	// Match, if not nil, selects additional columns by name. Read does not call Match for npz archives.
	Match func(name string) bool
	// Matrices lists the arrays of an npz archive that may be 2-D. Matrices has no effect on other formats.
	Matrices []string
	// KeepOthers also keeps all other columns, as text. Commands that copy a file get them from Table.Others. A CSV
	// file cannot hold the lists and groups of a Parquet file, or arrays of several dimensions. So Read drops these
	// columns, and also arrays of text.
	KeepOthers bool
	// AllowNonFinite accepts NaN and ±Inf, which are errors otherwise.
	AllowNonFinite bool
	// Progress, if not nil, is called with the number of bytes that were read from the file since the previous call.
	// For a compressed file, these are compressed bytes.
	Progress func(bytes int64)
	// Input is the input for the path "-". If it is nil, os.Stdin is used.
	Input io.Reader
}

func (o *Options) wants(name string) bool {
	return slices.Contains(o.Required, name) || slices.Contains(o.Optional, name) || slices.Contains(o.Texts, name) ||
		(o.Match != nil && o.Match(name))
}

// knownName returns the name that the caller uses for a column, or "" if the caller does not want the column. The
// argument 'name' is the column's name in the file. If the caller wants this name, knownName returns it unchanged.
// Otherwise, knownName tries the name in lower case. It returns the lower-case name if the caller wants it and no other
// column of the file has it.
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
	Path string // path in errors
	N    int    // number of rows

	header  []string // all columns or arrays of the file
	columns []*column
	index   map[string]*column
	others  []*TextColumn // the other columns, as text, if Options.KeepOthers is set
	lines   lineMap
	binary  bool // rows have no line numbers
	checked bool // rows have checksums
	seed    checksum.Seed
}

// column holds the values of a column or 2-D array that the caller wants.
type column struct {
	name string
	Matrix
	matrix bool // wanted as a 2-D array, whatever the dimensions in the file
	// The slice 'text' has one string for each row: "" if the row's value is a number, and otherwise the value itself.
	// If the last rows hold numbers, the slice may be shorter than Data.
	text []string
}

// Matrix is a 2-D array, row-major.
type Matrix struct {
	Rows, Cols int
	Data       []float64
}

// Row returns row i without copying it.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// Column returns the named column without copying it. The second result reports whether the file had this column.
func (t *Table) Column(name string) ([]float64, bool) {
	if c := t.index[name]; c != nil && !c.matrix {
		return c.Data, true
	}
	return nil, false
}

// Matrix returns the named 2-D array. The second result reports whether the file had this array.
func (t *Table) Matrix(name string) (Matrix, bool) {
	if c := t.index[name]; c != nil && c.matrix {
		return c.Matrix, true
	}
	return Matrix{}, false
}

// Names returns the names of the wanted columns that the file has, in the order of the file.
func (t *Table) Names() []string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return names
}

// Header returns the names of all columns or arrays of the file, wanted or not. It returns nil for JSON lines.
func (t *Table) Header() []string { return t.header }

// Checked reports whether the rows have checksums (package checksum). Read has verified these checksums. Read refuses a
// file in which only some rows have a checksum.
func (t *Table) Checked() bool { return t.checked }

// Line returns the line of row i (from 0) in the file. It returns 0 for npz archives and Parquet files, which have no
// lines.
func (t *Table) Line(i int) int {
	if t.binary {
		return 0
	}
	return t.lines.line(i)
}

// Errorf returns an error about row i. The text begins with the place of the row.
func (t *Table) Errorf(i int, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if t.binary {
		return fmt.Errorf("%s: row %d: %s", t.Path, t.origin(i), msg)
	}
	return fmt.Errorf("%s:%d: %s", t.Path, t.Line(i), msg)
}

func (t *Table) add(c *column) {
	t.columns = append(t.columns, c)
	t.index[c.name] = c
}

// A reader reads a file of any supported format into its Table.
type reader struct {
	*Table
	opt   Options
	held  int64 // bytes in memory: the columns and, for a binary format, the whole file
	limit int64 // limit of 'held'
}

// choose returns the column for a name in the header, or nil if the name is not wanted.
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

// require returns an error about the first required column that is missing. The argument 'format' is the text of the
// error, with one verb for the column's name and one for the list of the names in the file.
func (r *reader) require(format string, has []string) error {
	for _, name := range r.opt.Required {
		if r.index[name] == nil { // quote.Name limits the list to about one line of printable text
			return fmt.Errorf(format, name, quote.Name(strings.Join(has, ", ")))
		}
	}
	return nil
}

// hold reserves memory for values. It returns an error if the reader would then hold more than its limit.
func (r *reader) hold(values int64) error {
	const bytes = 8
	if values > (r.limit-r.held)/bytes {
		return memory.Check(-1)
	}
	r.held += bytes * values
	return nil
}

// holdFile reads a file of a binary format into memory.
func (r *reader) holdFile(src io.Reader) ([]byte, error) {
	r.binary = true
	// While its buffer grows, ReadAll can hold twice the bytes that it has read. So holdFile stops it at half of the
	// limit.
	data, err := io.ReadAll(io.LimitReader(src, r.limit/2))
	if err == nil && int64(len(data)) >= r.limit/2 {
		err = memory.Check(-1)
	}
	r.held = int64(len(data))
	return data, err
}
