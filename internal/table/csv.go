package table

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/quote"
)

// maxColumns is far above what tables have; splitting a line takes tens of bytes a column.
const maxColumns = 1 << 20

// readCSV reads lines after the header.
func (t *Table) readCSV(lines *lineReader, header []byte, opt Options) error {
	header = bytes.Clone(header) // the next line takes its place
	comma := separator(header)
	if n := bytes.Count(header, []byte{comma}) + 1; n > maxColumns {
		return fmt.Errorf("%d columns; at most %d are read", n, maxColumns)
	}
	names, err := splitQuoted(header, comma)
	if err != nil {
		return err
	}
	wanted := int64(0)
	// column[j] collects field j; nil where the field is not wanted.
	column := make([]*[]float64, len(names))
	for j, name := range names {
		names[j] = strings.TrimSpace(name)
	}
	t.header = slices.Clone(names)
	for j, name := range names {
		if name = opt.knownName(name, t.header); name == "" {
			continue
		}
		names[j] = name
		if _, dup := t.columns[name]; dup {
			return fmt.Errorf("column %s appears twice", quote.Field(name))
		}
		t.columns[name] = nil
		t.names = append(t.names, name)
		column[j] = new([]float64)
		wanted++
	}
	for _, name := range opt.Required {
		if _, ok := t.columns[name]; !ok {
			return fmt.Errorf("no column %q in the header (%s)", name, listed(t.header))
		}
	}
	for {
		line, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		_, state := checksum.VerifyCSV(header, line)
		if err := t.check(state); err != nil {
			return err
		}
		if err := t.hold(wanted); err != nil {
			return err
		}
		if bytes.IndexByte(line, '"') >= 0 {
			err = t.quotedRow(line, comma, names, column, opt)
		} else {
			err = t.row(line, comma, names, column, opt)
		}
		if err != nil {
			return err
		}
		t.lines.add(t.N, lines.line)
		t.N++
	}
	for j, c := range column {
		if c != nil {
			t.columns[names[j]] = *c
		}
	}
	return nil
}

// separator is the one of comma, semicolon and tab that the header has, in that order.
func separator(header []byte) byte {
	for _, c := range []byte{',', ';', '\t'} {
		if bytes.IndexByte(header, c) >= 0 {
			return c
		}
	}
	return ','
}

func (t *Table) row(line []byte, comma byte, names []string, column []*[]float64, opt Options) error {
	j := 0
	for rest, more := line, true; more; j++ {
		var field []byte
		if k := bytes.IndexByte(rest, comma); k >= 0 {
			field, rest = rest[:k], rest[k+1:]
		} else {
			field, more = rest, false
		}
		if j >= len(column) || column[j] == nil {
			continue
		}
		x, ok := parseDecimal(field)
		if !ok {
			var err error
			if x, err = parseValue(bytes.TrimSpace(field), opt.AllowNonFinite); err != nil {
				return fmt.Errorf("%s: %w", quote.Name(names[j]), err)
			}
		}
		*column[j] = append(*column[j], x)
	}
	if j != len(names) {
		return fieldCount(j, len(names))
	}
	return nil
}

func fieldCount(got, want int) error {
	return fmt.Errorf("%d fields, the header has %d", got, want)
}

// quotedRow is row for a line with quotes in it.
func (t *Table) quotedRow(line []byte, comma byte, names []string, column []*[]float64, opt Options) error {
	if n := bytes.Count(line, []byte{comma}) + 1; n > 2*maxColumns { // some may be quoted
		return fieldCount(n, len(names))
	}
	fields, err := splitQuoted(line, comma)
	if err != nil {
		return err
	}
	if len(fields) != len(names) {
		return fieldCount(len(fields), len(names))
	}
	for j, field := range fields {
		if column[j] == nil {
			continue
		}
		x, err := parseValue([]byte(strings.TrimSpace(field)), opt.AllowNonFinite)
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(names[j]), err)
		}
		*column[j] = append(*column[j], x)
	}
	return nil
}

// splitQuoted splits one line by the rules of RFC 4180. A quoted field cannot
// run over the end of its line.
func splitQuoted(line []byte, comma byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = rune(comma)
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err != nil {
		var pe *csv.ParseError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, err
	}
	return fields, nil
}
