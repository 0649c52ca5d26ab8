package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// openCSV reads a label and then values in every line, after an optional header.
//
// If all values of the file are integers from 0 to 255 and one is above 1, they
// are bytes and are scaled to [0,1]; otherwise they are taken as they are. (All
// 0 or 1 may be a binary image in either unit, and is left alone.) Note says
// what was decided.
func openCSV(ctx context.Context, path string) (*Dataset, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in, err := plainText(contextReader{ctx, io.LimitReader(file, size)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := csvTable{path: path, text: &lineLimit{r: in}, isBytes: true, limit: memory.Limit()}
	if err := t.read(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return t.dataset(), nil
}

// plainText returns what a file holds, without compression and byte order mark.
func plainText(file io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(file, 1<<16)
	if magic, _ := in.Peek(2); bytes.Equal(magic, gzipMagic) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	return in, nil
}

// maxLine is how long a line may be, in bytes: a file without ends of lines must not claim all memory.
const maxLine = 64 << 20

// lineLimit passes on what it reads while nobody waits for the end of a line, or of quotes, for more than maxLine.
type lineLimit struct {
	r       io.Reader
	n       int64 // bytes passed on
	through int64 // bytes of them in complete lines
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

// csvTable is what is read of a CSV file.
type csvTable struct {
	path  string
	text  *lineLimit
	limit int64 // bytes of the rows

	columns int
	labels  []int
	lines   []int // of the labels
	rows    [][]float32
	isBytes bool // so far
	top     float32
}

func (t *csvTable) read() error {
	r := csv.NewReader(t.text)
	r.ReuseRecord = true
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	for first := true; ; first = false {
		record, err := r.Read()
		t.text.through = r.InputOffset()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var p *csv.ParseError
			if errors.As(err, &p) {
				return fmt.Errorf("%s: line %d, column %d: %w", t.path, p.Line, p.Column, p.Err)
			}
			return fmt.Errorf("%s: byte %d: %w", t.path, t.text.n, err)
		}
		line, _ := r.FieldPos(0)
		if first {
			t.columns = len(record)
			if t.columns < 2 {
				return fmt.Errorf("%s: line %d: one field; a line is a label, then values, separated by commas", t.path, line)
			}
			header, err := isHeader(record)
			if err != nil {
				return fmt.Errorf("%s: line %d: %w", t.path, line, err)
			}
			if header {
				continue
			}
		}
		if len(record) != t.columns {
			return fmt.Errorf("%s: line %d: %d fields, but the first line has %d", t.path, line, len(record), t.columns)
		}
		if err := t.add(r, line, record); err != nil {
			return err
		}
	}
}

// add adds a row. line is where it begins.
func (t *csvTable) add(r *csv.Reader, line int, record []string) error {
	label, err := parseLabel(record[0])
	if err != nil {
		return fmt.Errorf("%s: line %d: %w", t.path, line, err)
	}
	const overhead = 128 // of a row: its label, its line, its slice, and what the lists of them leave when they grow
	if t.limit -= overhead + 4*int64(len(record)); t.limit < 0 {
		return fmt.Errorf("%s: line %d: %w", t.path, line, memory.Check(-1))
	}
	row := make([]float32, len(record)-1)
	for k, field := range record[1:] {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			line, column := r.FieldPos(k + 1)
			return fmt.Errorf("%s: line %d, column %d: %s is not a finite number", t.path, line, column, quote.Field(field))
		}
		t.isBytes = t.isBytes && v >= 0 && v <= 255 && v == math.Trunc(v)
		t.top = max(t.top, float32(v))
		row[k] = float32(v)
	}
	t.labels, t.lines, t.rows = append(t.labels, label), append(t.lines, line), append(t.rows, row)
	return nil
}

func (t *csvTable) dataset() *Dataset {
	d := &Dataset{format: "CSV", shape: []int{t.columns - 1}, labels: t.labels}
	d.labelAt = func(i int) string { return fmt.Sprintf("%s: line %d", t.path, t.lines[i]) }
	scaled := t.isBytes && t.top > 1
	if scaled {
		d.bytes = true
		d.addNote("%s, all values are whole numbers from 0 to 255: bytes, scaled to [0,1]", filepath.Base(t.path))
	} else {
		d.addNote("%s, values as they are", filepath.Base(t.path))
	}
	d.values = func(i int, dst []float32) error {
		for k, v := range t.rows[i] {
			if scaled {
				v = unit[uint8(v)]
			}
			dst[k] = v
		}
		return nil
	}
	return d
}

// isHeader reports whether the first line names the columns. A line is not
// dropped because its label is damaged: in a header no other field is a number
// either, or they are the running numbers that pandas writes.
func isHeader(record []string) (bool, error) {
	if _, err := strconv.ParseFloat(strings.TrimSpace(record[0]), 64); err == nil {
		return false, nil
	}
	if record[0] == "" {
		return false, errors.New("the first column has no name, as when pandas writes its index: write the file with index=False")
	}
	offset := 0
	for k, field := range record[1:] {
		v, err := strconv.Atoi(strings.TrimSpace(field))
		if k == 0 && err == nil {
			offset = v
		}
		numbered := err == nil && v == k+offset && (offset == 0 || offset == 1)
		if _, err := strconv.ParseFloat(strings.TrimSpace(field), 64); err == nil && !numbered {
			return false, fmt.Errorf("label %s is not a number", quote.Field(record[0]))
		}
	}
	return true, nil
}

// parseLabel accepts 7 and, because numpy.savetxt writes it, 7.0e+00.
func parseLabel(field string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	if err != nil {
		return 0, fmt.Errorf("label %s is not a number", quote.Field(field))
	}
	label, err := wholeLabel(v)
	if err != nil {
		return 0, fmt.Errorf("label %s %w", quote.Field(field), err)
	}
	return label, nil
}

// wholeLabel returns v as a label if it is one; NaN is not.
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
