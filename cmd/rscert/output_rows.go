package main

import (
	"bytes"
	"io"
	"path/filepath"

	"github.com/rscert/rscert/internal/durable"
)

// rowWriters write rows in the formats of --out.
type rowWriters[T any] struct{ lines, csv, parquet func(io.Writer, []T) error }

// choose returns the writer for the file's extension, or nil if path is empty.
func (w rowWriters[T]) choose(path string) (func(io.Writer, []T) error, error) {
	switch filepath.Ext(path) {
	case ".jsonl":
		return w.lines, nil
	case ".csv":
		return w.csv, nil
	case ".parquet":
		return w.parquet, nil
	}
	if path != "" {
		return nil, badInputf("--out %s: want a .jsonl, .csv or .parquet file", path)
	}
	return nil, nil
}

// write writes the rows to a file, unless path is empty.
func (w rowWriters[T]) write(path string, rows []T) error {
	write, err := w.choose(path)
	if err != nil || write == nil {
		return err
	}
	var b bytes.Buffer
	if err := write(&b, rows); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}
