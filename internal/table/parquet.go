package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/quote"
)

// readParquet reads the wanted columns of a Parquet file: flat ones of numbers or booleans. The file is read from its
// end, so it is taken into memory first; its pages are decoded one at a time.
func (t *Table) readParquet(r io.Reader, opt Options) (err error) {
	data, err := t.readWhole(r)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	defer func() { // the decoder panics on some damaged pages
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged: %v", t.Path, p)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	if n := file.NumRows(); n < 0 || n > math.MaxInt32*64 {
		return fmt.Errorf("%s: %d rows are out of range", t.Path, n)
	}
	t.N = int(file.NumRows())
	fields := file.Schema().Fields()
	for _, f := range fields {
		t.header = append(t.header, f.Name())
	}
	for _, f := range fields {
		name := opt.knownName(f.Name(), t.header)
		if name == "" {
			continue
		}
		if _, dup := t.columns[name]; dup {
			return fmt.Errorf("%s: column %s appears twice", t.Path, quote.Field(name))
		}
		if !f.Leaf() || f.Repeated() {
			return fmt.Errorf("%s: %s: want a column of numbers, not of lists or groups", t.Path, quote.Name(name))
		}
		if err := t.hold(int64(t.N)); err != nil {
			return err
		}
		leaf, _ := file.Schema().Lookup(f.Name())
		column := make([]float64, 0, min(t.N, 1<<20)) // the number of rows is a claim
		for _, group := range file.RowGroups() {
			if column, err = appendChunk(column, group.ColumnChunks()[leaf.ColumnIndex], t.N, opt); err != nil {
				return t.Errorf(len(column), "%s: %v", quote.Name(name), err)
			}
		}
		if len(column) != t.N {
			return fmt.Errorf("%s: %s: %d values of %d rows", t.Path, quote.Name(name), len(column), t.N)
		}
		t.columns[name] = column
		t.names = append(t.names, name)
	}
	for _, name := range opt.Required {
		if _, ok := t.columns[name]; !ok {
			return fmt.Errorf("%s: no column %q (columns: %s)", t.Path, name, listed(t.header))
		}
	}
	if t.N == 0 {
		return fmt.Errorf("%s: no rows", t.Path)
	}
	return nil
}

// appendChunk appends the values of one row group's part of a column, of at most so many in all.
func appendChunk(column []float64, chunk parquet.ColumnChunk, most int, opt Options) ([]float64, error) {
	pages := chunk.Pages()
	defer pages.Close()
	var buffer [1024]parquet.Value
	for {
		page, err := pages.ReadPage()
		if err == io.EOF {
			return column, nil
		}
		if err != nil {
			return column, err
		}
		values := page.Values()
		for {
			n, err := values.ReadValues(buffer[:])
			for _, v := range buffer[:n] {
				x, bad := parquetNumber(v, opt.AllowNonFinite)
				if bad == nil && len(column) == most {
					bad = errors.New("more values than rows")
				}
				if bad != nil {
					parquet.Release(page)
					return column, bad
				}
				column = append(column, x)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				parquet.Release(page)
				return column, err
			}
		}
		parquet.Release(page)
	}
}

// parquetNumber is a value as a number.
func parquetNumber(v parquet.Value, nonFinite bool) (float64, error) {
	if v.IsNull() {
		return 0, errEmpty
	}
	var x float64
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			x = 1
		}
	case parquet.Int32:
		x = float64(v.Int32())
	case parquet.Int64:
		x = float64(v.Int64())
	case parquet.Float:
		x = float64(v.Float())
	case parquet.Double:
		x = v.Double()
	default:
		return 0, fmt.Errorf("want numbers, not %s", v.Kind())
	}
	if !nonFinite && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return 0, fmt.Errorf("%v %w", x, errNonFinite)
	}
	return x, nil
}
