// Package tabular reads numeric tables with named columns: CSV with a header
// (columns in any order; comma, semicolon or tab), JSON lines, npz archives and
// Parquet files. Names are matched exactly or, in CSV and Parquet where nothing
// else has that name, in lower case. Text may be compressed with gzip. The format is told from the content, so standard
// input works like a file.
//
// Rows stream through: only the wanted columns are kept, 8 bytes a value, at most
// memory.Limit in all. Rows that carry a checksum (package checksum) must match it.
// Every error about content says where: "scores.csv:17: score: …".
package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

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

// knownName is the name by which a column of the file is asked for: its own, or that in lower case where the file has
// no column of that name. "" if it is not wanted.
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

	names    []string // in the order of the file
	header   []string // all columns or arrays of the file
	columns  map[string][]float64
	matrices map[string]Matrix
	lines    lineMap
	binary   bool
	checked  bool
	held     int64 // bytes of the columns
	limit    int64 // what they may be
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
	c, ok := t.columns[name]
	return c, ok
}

// Names are the columns that were read, in the order of the file.
func (t *Table) Names() []string { return t.names }

// Header are all columns or arrays of the file, also those that were not asked for; nil for JSON lines.
func (t *Table) Header() []string { return t.header }

// Matrix returns the named 2-D array and whether the file had it.
func (t *Table) Matrix(name string) (Matrix, bool) {
	m, ok := t.matrices[name]
	return m, ok
}

// Checked reports whether the rows carried checksums (package checksum), which were
// right. A file of which some rows have one and others have none is refused.
func (t *Table) Checked() bool { return t.checked }

// readWhole takes a file of a binary format into memory.
func (t *Table) readWhole(r io.Reader) ([]byte, error) {
	t.binary = true
	data, err := io.ReadAll(io.LimitReader(r, t.limit/2)) // which takes up to twice that to grow
	if err == nil && int64(len(data)) >= t.limit/2 {
		err = memory.Check(-1)
	}
	t.held = int64(len(data))
	return data, err
}

// hold counts values that are about to be kept.
func (t *Table) hold(values int64) error {
	const bytes = 8
	if values > (t.limit-t.held)/bytes {
		return memory.Check(-1)
	}
	t.held += bytes * values
	return nil
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

// Read reads the table in the file at path.
func Read(ctx context.Context, path string, opt Options) (*Table, error) {
	t := &Table{Path: path, columns: map[string][]float64{}, matrices: map[string]Matrix{}, limit: memory.Limit()}
	var src io.Reader
	if path == Stdin {
		t.Path = "stdin"
		src = opt.Input
		if src == nil {
			src = os.Stdin
		}
		waiting := interruptible(ctx, src)
		defer waiting.Close()
		src = waiting
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, quote.Error(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, quote.Error(fmt.Errorf("%s: is a folder, not a file", path))
		}
		src = f
	}
	err := t.read(&countingReader{ctx: ctx, r: src, progress: opt.Progress}, opt)
	switch {
	case err == nil:
		return t, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, quote.Error(err)
}

// interruptible returns a reader of r whose reads end when ctx does, also while r
// waits for someone to write or type. One read of r may outlive it.
func interruptible(ctx context.Context, r io.Reader) *io.PipeReader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err) // nil reads as the end of the file
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// countingReader reports progress and ends the read when the context does.
type countingReader struct {
	ctx      context.Context
	r        io.Reader
	progress func(int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if c.progress != nil && n > 0 {
		c.progress(int64(n))
	}
	return n, err
}

const bufferSize = 1 << 18

func (t *Table) read(src io.Reader, opt Options) error {
	br := bufio.NewReaderSize(src, bufferSize)
	head, err := br.Peek(2)
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path, err)
		}
		defer zr.Close()
		br = bufio.NewReaderSize(zr, bufferSize)
		if head, err = br.Peek(2); err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", t.Path, err)
		}
	}
	if string(head) == "PK" {
		return t.readNpz(br, opt)
	}
	if magic, _ := br.Peek(4); string(magic) == "PAR1" {
		return t.readParquet(br, opt)
	}
	lines := &lineReader{br: br}
	first, err := lines.next()
	if err == io.EOF {
		return fmt.Errorf("%s: empty file", t.Path)
	}
	if err != nil {
		return t.lineError(lines, err)
	}
	if first[0] == '{' {
		err = t.readJSONLines(lines, first, opt)
	} else {
		err = t.readCSV(lines, first, opt)
	}
	if err != nil {
		return t.lineError(lines, err)
	}
	if t.N == 0 {
		return fmt.Errorf("%s: no rows", t.Path)
	}
	return nil
}

func (t *Table) known() string {
	if len(t.names) == 0 {
		return "none that is known"
	}
	return listed(t.names)
}

// listed joins names of a file for an error: on one line, whatever they hold,
// and not too long.
func listed(names []string) string { return quote.Name(strings.Join(names, ", ")) }

func (t *Table) lineError(lines *lineReader, err error) error {
	return fmt.Errorf("%s:%d: %w", t.Path, lines.line, err)
}

var errLineTooLong = errors.New("line longer than 64 MiB")

const maxLine = 64 << 20

// lineReader yields the lines that hold something, without surrounding space,
// and counts all.
type lineReader struct {
	br   *bufio.Reader
	line int // of the last line returned, from 1
	long []byte
}

// next returns a line that is valid until the following call, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.br.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			l.long = append(l.long[:0], line...)
			for err == bufio.ErrBufferFull {
				if len(l.long) > maxLine {
					l.line++
					return nil, errLineTooLong
				}
				line, err = l.br.ReadSlice('\n')
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
		if line = trimLine(line); len(line) > 0 {
			return line, nil
		}
	}
}

// trimLine drops the end of line and spaces at both ends. Tabs stay: they
// separate columns.
func trimLine(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}
