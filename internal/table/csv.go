package table

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
)

// maxColumns is the largest number of columns that a CSV file may have. Without this limit, a long line could claim all
// memory, because splitting takes tens of bytes per column. Real tables have far fewer columns.
const maxColumns = 1 << 20

// csvRows parses the header and adds the later lines to the table as rows.
type csvRows struct {
	*reader
	first  []byte // the header line
	comma  byte
	fields []*column     // nil for a field that is not wanted
	copied []*TextColumn // nil for a field that is not kept as text
}

func (r *csvRows) readHeader(line []byte) error {
	r.first = bytes.Clone(line) // a copy, because the next line overwrites the bytes of 'line'
	r.comma = separator(line)
	if n := bytes.Count(line, []byte{r.comma}) + 1; n > maxColumns {
		return fmt.Errorf("%d columns; at most %d are read", n, maxColumns)
	}
	names, err := splitQuoted(line, r.comma)
	if err != nil {
		return err
	}
	for j, name := range names {
		names[j] = strings.TrimSpace(name)
	}
	r.header, r.fields, r.copied = names, make([]*column, len(names)), make([]*TextColumn, len(names))
	for j, name := range names {
		if r.fields[j], err = r.choose(name); err == nil && r.fields[j] == nil {
			r.copied[j] = r.keep(name)
		}
		if err != nil {
			return err
		}
	}
	return r.require("no column %q in the header (%s)", names)
}

// separator looks in the header for a comma, then for a semicolon, then for a tab. It returns the first of them that it
// finds. If it finds none, it returns a comma.
func separator(header []byte) byte {
	for _, c := range []byte{',', ';', '\t'} {
		if bytes.IndexByte(header, c) >= 0 {
			return c
		}
	}
	return ','
}

func (r *csvRows) add(line []byte) error {
	if r.N == 0 {
		r.takeSeed(checksum.FindCSV(r.first, line))
	}
	_, state := r.seed.VerifyCSV(r.first, line)
	if err := r.check(state); err != nil {
		return err
	}
	if err := r.hold(int64(len(r.columns))); err != nil {
		return err
	}
	if bytes.IndexByte(line, '"') >= 0 {
		return r.addQuoted(line)
	}
	j := 0
	for more := true; more; j++ {
		var field []byte
		field, line, more = bytes.Cut(line, []byte{r.comma})
		if j < len(r.fields) {
			if err := r.addTo(j, field); err != nil {
				return err
			}
		}
	}
	return r.checkFields(j)
}

// addTo adds a field to column j of the file, if this column is wanted or kept.
func (r *csvRows) addTo(j int, field []byte) error {
	switch {
	case r.fields[j] != nil:
		return r.addField(r.fields[j], field)
	case r.copied[j] != nil:
		return r.addOther(r.copied[j], r.N, string(field))
	}
	return nil
}

func (r *csvRows) checkFields(n int) error {
	if n != len(r.fields) {
		return fmt.Errorf("%d fields, the header has %d", n, len(r.fields))
	}
	return nil
}

// addQuoted adds a line that contains quotes.
func (r *csvRows) addQuoted(line []byte) error {
	// The limit is twice maxColumns, because n also counts the separators within quotes.
	if n := bytes.Count(line, []byte{r.comma}) + 1; n > 2*maxColumns {
		return r.checkFields(n)
	}
	fields, err := splitQuoted(line, r.comma)
	if err == nil {
		err = r.checkFields(len(fields))
	}
	for j := 0; err == nil && j < len(fields); j++ {
		err = r.addTo(j, []byte(fields[j]))
	}
	return err
}

// splitQuoted splits one line by the rules of RFC 4180. A quoted field must end on the line where it begins.
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
