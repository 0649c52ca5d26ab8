package dataset

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// openCSV reads lines that hold a label and values, after an optional header. The code in labelcolumn.go finds the
// column of labels.
//
// openCSV scales the values as bytes to [0,1] if all input values of the file are integers from 0 to 255 and at least
// one is above 1. Otherwise the values are not scaled. In particular, openCSV does not scale a file of zeros and ones,
// because such a file does not show whether its values are bytes or already in [0,1]. The method Dataset.Note returns a
// text that states the decision.
func openCSV(ctx context.Context, path string, opt Options) (*Dataset, error) {
	file, records, err := openText(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if opt.unlabelled() && opt.LabelColumn == "" {
		opt.LabelColumn = "none"
	}
	t := csvTable{path: path, opt: opt, limit: memory.Limit()}
	err = t.read(records)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return t.dataset(ctx)
}

// openText opens a CSV file. It returns the open file and a reader that returns the fields of each row as text.
func openText(ctx context.Context, path string) (io.Closer, *table.Records, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	records, err := table.NewRecords(contextReader{ctx, io.LimitReader(file, size)})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return file, records, nil
}

// csvTable holds the rows of a CSV file.
type csvTable struct {
	path  string
	opt   Options
	limit int64 // number of bytes left for further rows

	header  []string // nil if there is none
	columns int
	watched []int // columns that may hold the labels, ascending

	lines  []int     // line number of each row
	values []float32 // [rows·columns], row by row; NaN where the column is watched and the field is not a number
	misses []float32 // [rows·columns], upper bounds on |number in the file − value|; nil if all bounds are 0
	// odd[i] is true if a number in row i is not a usual spelling of the float32 stored for it (isNamed)
	odd   []bool
	cells []cells // cells of each watched column
}

// The method 'rows' returns the number of rows.
func (t *csvTable) rows() int { return len(t.lines) }

// row returns the values of row i.
func (t *csvTable) row(i int) []float32 { return t.values[i*t.columns : (i+1)*t.columns] }

// cell is a field that may be a label.
type cell struct {
	text   string
	number float64 // NaN if the text is not a number
	column int     // position of the field's first byte in the line, counted from 1; 0 if unknown
}

// The type 'cells' holds the cells of one column. Each cell takes 20 bytes plus its text.
type cells struct {
	texts   []byte // texts of all cells, one after another
	ends    []int  // end of each text in 'texts'
	numbers []float64
	columns []int32
}

func (c *cells) add(text string, number float64, column int) {
	c.texts = append(c.texts, text...)
	c.ends = append(c.ends, len(c.texts))
	c.numbers = append(c.numbers, number)
	c.columns = append(c.columns, int32(column))
}

func (c *cells) len() int { return len(c.ends) }

// The method 'at' returns the cell of row i.
func (c *cells) at(i int) cell {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return cell{string(c.texts[start:c.ends[i]]), c.numbers[i], int(c.columns[i])}
}

func (t *csvTable) read(r *table.Records) error {
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = r.Comma != '\t'
	for {
		record, line, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var p *csv.ParseError
			if errors.As(err, &p) {
				return fmt.Errorf("%s: line %d, column %d: %w", t.path, p.Line, p.Column, p.Err)
			}
			return fmt.Errorf("%s: byte %d: %w", t.path, r.Bytes(), err)
		}
		header := false
		if t.columns == 0 {
			header, err = t.begin(line, record)
		}
		if err == nil && !header {
			err = t.add(r.Reader, line, record)
		}
		if err != nil {
			return err
		}
	}
}

// begin reads the first line and reports whether it is a header.
func (t *csvTable) begin(line int, record []string) (header bool, err error) {
	t.columns = len(record)
	if t.columns < 2 && t.opt.LabelColumn != "none" {
		return false, fmt.Errorf("%s: line %d: one field; a line is a label and values, separated by commas, semicolons or tabs", t.path, line)
	}
	if header, err = isHeader(record); err != nil {
		return false, fmt.Errorf("%s: line %d: %w", t.path, line, err)
	}
	if header {
		for _, name := range record {
			t.header = append(t.header, strings.TrimSpace(name))
		}
	}
	if t.watched, err = watchedColumns(t.header, t.columns, t.opt.LabelColumn); err != nil {
		return false, fmt.Errorf("%s: line %d: %w", t.path, line, err)
	}
	t.cells = make([]cells, len(t.watched))
	return header, nil
}

// add adds a row that begins on the given line.
func (t *csvTable) add(r *csv.Reader, line int, record []string) error {
	if len(record) != t.columns {
		return fmt.Errorf("%s: line %d: %d fields, but the first line has %d", t.path, line, len(record), t.columns)
	}
	// The constants are the numbers of bytes for a row, a value and a cell. The factor 2 allows for growing slices:
	// while a slice is copied to a larger slice, both slices are in memory.
	const rowSize, valueSize, cellSize = 2 * 9, 2 * 4, 2 * 20
	t.limit -= rowSize + valueSize*int64(len(record)) + cellSize*int64(len(t.watched))
	odd := false
	for k, field := range record {
		field = strings.TrimSpace(field)
		v, err := strconv.ParseFloat(field, 64)
		if w := slices.Index(t.watched, k); w >= 0 {
			if err != nil {
				v = math.NaN()
			}
			_, column := r.FieldPos(k)
			t.cells[w].add(field, v, column)
			t.limit -= 2 * int64(len(field))
		} else if v32 := float32(v); err != nil || !finite(v32) {
			return fmt.Errorf("%s: %w", t.path, notFinite(r, k, record))
		}
		value, miss := narrow(field, v), float32(0)
		if v == v && float64(value) != v {
			miss = miss32(v, value)
			odd = odd || !isNamed(v, value)
		}
		t.addValue(value, miss)
	}
	if t.limit < 0 {
		return fmt.Errorf("%s: line %d: %w", t.path, line, memory.Check(-1))
	}
	t.lines, t.odd = append(t.lines, line), append(t.odd, odd)
	return nil
}

// addValue adds a value and its miss, which is an upper bound on |number in the file − value|. The field 'misses' stays
// nil until a miss differs from 0.
func (t *csvTable) addValue(value, miss float32) {
	if t.misses == nil && miss != 0 {
		t.misses = make([]float32, len(t.values), cap(t.values))
		t.limit -= 8 * int64(len(t.values))
	}
	t.values = append(t.values, value)
	if t.misses != nil {
		t.misses = append(t.misses, miss)
		t.limit -= 8
	}
}

// The function 'narrow' returns the float32 nearest to the decimal in the argument 'field'. The argument v is the
// float64 nearest to this decimal. If v is an integer with |v| < 2²⁴, this float32 equals v.
func narrow(field string, v float64) float32 {
	if v == math.Trunc(v) && math.Abs(v) < 1<<24 {
		return float32(v)
	}
	v32, _ := strconv.ParseFloat(field, 32) // rounds once; float32(v) would round twice
	if math.IsNaN(v) {
		v32 = v
	}
	return float32(v32)
}

func notFinite(r *csv.Reader, k int, record []string) error {
	line, column := r.FieldPos(k)
	err := fmt.Errorf("line %d, column %d: %s is not a finite number", line, column, quote.Field(record[k]))
	switch {
	case r.Comma == ';' && strings.Contains(record[k], ","):
		return fmt.Errorf("%w; write decimal points, not commas", err)
	case record[k] == "":
		return fmt.Errorf("%w; the value is missing", err)
	}
	return err
}

// dataset builds the dataset from the rows.
func (t *csvTable) dataset(ctx context.Context) (*Dataset, error) {
	d := &Dataset{format: "CSV", table: true}
	d.labelAt = func(i int) string { return fmt.Sprintf("%s: line %d", t.path, t.lines[i]) }
	if t.rows() == 0 {
		return d, nil // the caller returns an error for an empty dataset
	}
	used, err := t.takeLabels(ctx, d)
	if err != nil {
		return nil, err
	}
	columns := t.valueColumns(used)
	if t.header != nil {
		for _, k := range columns {
			d.columns = append(d.columns, t.header[k])
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%s: no column of values beside the labels", t.path)
	}
	d.shape = []int{len(columns)}
	scaled, err := t.scaled(columns)
	if err != nil {
		return nil, err
	}
	t.cells = nil // no longer needed
	if scaled {
		d.bytes = true
		d.addNote("%s, all values are whole numbers from 0 to 255: bytes, scaled to [0,1]", filepath.Base(t.path))
	} else {
		d.addNote("%s, values as they are", filepath.Base(t.path))
	}
	d.roundings = func(i int, dst []float64) (named bool, err error) {
		clear(dst)
		if t.misses != nil {
			for j, k := range columns {
				dst[j] = float64(t.misses[i*t.columns+k])
			}
		}
		return !t.odd[i], nil
	}
	d.values = func(i int, dst []float32) error {
		for j, k := range columns {
			v := t.row(i)[k]
			if scaled {
				v = unit[uint8(v)]
			}
			dst[j] = v
		}
		return nil
	}
	return d, nil
}

// valueColumns returns the columns that hold input values, ascending. These are the columns that are not in the list
// 'used'.
func (t *csvTable) valueColumns(used []int) (columns []int) {
	for k := range t.columns {
		if !slices.Contains(used, k) {
			columns = append(columns, k)
		}
	}
	return columns
}

// The method 'scaled' reports whether all values are bytes and at least one is above 1. It returns an error if a value
// is not finite. Such a value can only be in a watched column, because the method 'add' refuses it in all other
// columns.
func (t *csvTable) scaled(columns []int) (bool, error) {
	isBytes, top := true, float32(0)
	for i := range t.rows() {
		for _, k := range columns {
			v := t.row(i)[k]
			if !finite(v) {
				c := t.cells[slices.Index(t.watched, k)].at(i)
				return false, fmt.Errorf("%s: line %d, column %d: %s is not a finite number", t.path, t.lines[i], c.column, quote.Field(c.text))
			}
			isBytes = isBytes && v >= 0 && v <= 255 && v == float32(math.Trunc(float64(v)))
			top = max(top, v)
		}
	}
	return isBytes && top > 1, nil
}

// wholeLabel returns v as a label, or an error if v is not an integer from 0 to 2³¹−1.
func wholeLabel(v float64) (int, error) {
	switch {
	case v < 0:
		return 0, errors.New("is negative")
	case v != math.Trunc(v) || math.IsInf(v, 0):
		return 0, errors.New("is not an integer")
	case v > math.MaxInt32:
		return 0, errors.New("is too large")
	}
	return int(v), nil
}
