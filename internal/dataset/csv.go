package dataset

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// openCSV reads a label and then values in every line, after an optional header.
//
// If all values of the file are integers from 0 to 255 and one is above 1, they
// are bytes and are scaled to [0,1]; otherwise they are taken as they are. (All
// 0 or 1 may be a binary image in either unit, and is left alone.) Note says
// what was decided.
func openCSV(ctx context.Context, path string) (*Dataset, error) {
	data, err := contents(path)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.ReuseRecord = true
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	var (
		labels, lines []int
		values        []float32
		columns       int
		isBytes       = true
		top           float32
	)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		record, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			var p *csv.ParseError
			if errors.As(err, &p) {
				return nil, fmt.Errorf("%s: line %d, column %d: %w", path, p.Line, p.Column, p.Err)
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		if first {
			columns = len(record)
			if columns < 2 {
				return nil, fmt.Errorf("%s: line %d: one field; a line is a label, then values, separated by commas", path, line)
			}
			header, err := isHeader(record)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
			}
			if header {
				continue
			}
		}
		if len(record) != columns {
			return nil, fmt.Errorf("%s: line %d: %d fields, but the first line has %d", path, line, len(record), columns)
		}
		label, err := parseLabel(record[0])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
		}
		labels = append(labels, label)
		lines = append(lines, line)
		for k, field := range record[1:] {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				line, column := r.FieldPos(k + 1)
				return nil, fmt.Errorf("%s: line %d, column %d: %q is not a finite number", path, line, column, field)
			}
			isBytes = isBytes && v >= 0 && v <= 255 && v == math.Trunc(v)
			top = max(top, float32(v))
			values = append(values, float32(v))
		}
	}
	d := &Dataset{format: "CSV", shape: []int{columns - 1}, labels: labels}
	d.labelAt = func(i int) string { return fmt.Sprintf("%s: line %d", path, lines[i]) }
	if isBytes && top > 1 {
		for i, v := range values {
			values[i] = unit[uint8(v)]
		}
		d.addNote("%s, all values are whole numbers from 0 to 255: bytes, scaled to [0,1]", filepath.Base(path))
	} else {
		d.addNote("%s, values as they are", filepath.Base(path))
	}
	d.values = func(i int, dst []float32) error {
		copy(dst, values[i*len(dst):])
		return nil
	}
	return d, nil
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
			return false, fmt.Errorf("label %q is not a number", record[0])
		}
	}
	return true, nil
}

// parseLabel accepts 7 and, because numpy.savetxt writes it, 7.0e+00.
func parseLabel(field string) (int, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	if err != nil {
		return 0, fmt.Errorf("label %q is not a number", field)
	}
	label, err := wholeLabel(v)
	if err != nil {
		return 0, fmt.Errorf("label %q %w", field, err)
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
