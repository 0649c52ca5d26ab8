package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/quote"
)

// Parquet streams the leaf columns of a Parquet file, with one page in memory at a time. It can also read a single
// value by its row. The Parquet library panics on some damaged files, so call the methods of this type inside a
// function that Guard runs. Call CheckPages before you read a column.
type Parquet struct {
	*parquet.File
	src io.ReaderAt
}

// OpenParquet reads the footer of a Parquet file. The argument 'size' is the file's length in bytes. The caller must
// keep src open.
func OpenParquet(src io.ReaderAt, size int64) (*Parquet, error) {
	file, err := parquet.OpenFile(src, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	return &Parquet{file, src}, err
}

// Guard calls f and turns a panic into an error, because the Parquet library panics on some damaged files.
func Guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return f()
}

// Each reads a leaf column of one row group and calls f with each value, in the order of the rows. The bytes of a value
// are valid until f returns. A row with several values is an error.
func (p *Parquet) Each(ctx context.Context, group, column int, f func(row int, v parquet.Value) error) error {
	pages := p.RowGroups()[group].ColumnChunks()[column].Pages()
	defer pages.Close()
	buffer := make([]parquet.Value, 64)
	for row := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := pages.ReadPage()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			row, err = eachOf(page, buffer, row, f)
		}
		if err != nil {
			return err
		}
	}
}

// eachOf calls f with each value of a page. The argument 'row' is the number of the first row of the page. eachOf
// returns the number of the first row after the page.
func eachOf(page parquet.Page, buffer []parquet.Value, row int, f func(int, parquet.Value) error) (int, error) {
	defer parquet.Release(page)
	values := page.Values()
	for {
		n, err := values.ReadValues(buffer)
		for _, v := range buffer[:n] {
			if v.RepetitionLevel() > 0 {
				return row, fmt.Errorf("row %d: several values in a row", row)
			}
			if err := f(row, v); err != nil {
				return row, err
			}
			row++
		}
		switch {
		case err == io.EOF:
			return row, nil
		case err != nil:
			return row, err
		case n == 0:
			return row, io.ErrNoProgress
		}
	}
}

// Value reads one value of a leaf column. The argument 'row' counts from the first row of the row group.
func (p *Parquet) Value(group, column, row int) (v parquet.Value, err error) {
	pages := p.RowGroups()[group].ColumnChunks()[column].Pages()
	defer pages.Close()
	if err := pages.SeekToRow(int64(row)); err != nil {
		return v, err
	}
	page, err := pages.ReadPage()
	if err != nil {
		return v, err
	}
	defer parquet.Release(page)
	var one [1]parquet.Value
	if n, err := page.Values().ReadValues(one[:]); n != 1 {
		return v, errors.Join(errors.New("no value in this row"), err)
	}
	return one[0].Clone(), nil
}

// readParquet reads the wanted columns of a file. These columns must be flat and hold numbers or booleans. readParquet
// first reads the whole file into memory, because a Parquet file must be read from its end.
func (r *reader) readParquet(ctx context.Context, src io.Reader) error {
	data, err := r.holdFile(src)
	if err != nil {
		return err
	}
	return Guard(func() error {
		file, err := OpenParquet(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		return r.addColumns(ctx, file)
	})
}

func (r *reader) addColumns(ctx context.Context, file *Parquet) error {
	if n := file.NumRows(); n < 0 || n > math.MaxInt32*64 {
		return fmt.Errorf("%d rows are out of range", n)
	}
	r.N = int(file.NumRows())
	fields := file.Schema().Fields()
	for _, f := range fields {
		r.header = append(r.header, f.Name())
	}
	for _, f := range fields {
		c, err := r.choose(f.Name())
		if err == nil && c != nil {
			err = r.addLeaf(ctx, c, file, f)
		}
		if err == nil && c == nil {
			err = r.addOtherLeaf(ctx, file, f)
		}
		if err != nil {
			return err
		}
	}
	return r.require("no column %q (columns: %s)", r.header)
}

// addLeaf reads the values of a column. It returns an error unless the column has one value for each row.
func (r *reader) addLeaf(ctx context.Context, c *column, file *Parquet, f parquet.Field) error {
	name := quote.Name(c.name)
	if !f.Leaf() || f.Repeated() {
		return fmt.Errorf("%s: want a column of numbers, not of lists or groups", name)
	}
	if err := r.hold(int64(r.N)); err != nil {
		return err
	}
	leaf, _ := file.Schema().Lookup(f.Name())
	if err := file.CheckPages(ctx, leaf.ColumnIndex); err != nil {
		return err
	}
	// the capacity is limited, because a damaged file may state a false r.N
	c.Data = make([]float64, 0, min(r.N, 1<<20))
	add := func(_ int, v parquet.Value) error {
		x, ok := Number(v)
		err := r.checkFinite(x)
		switch {
		case v.IsNull():
			return errEmpty
		case !ok:
			return fmt.Errorf("want numbers, not %s", v.Kind())
		case err == nil && len(c.Data) == r.N:
			return errors.New("more values than rows")
		case err == nil:
			c.Data = append(c.Data, x)
		}
		return err
	}
	for g := range file.RowGroups() {
		if err := file.Each(ctx, g, leaf.ColumnIndex, add); err != nil {
			return fmt.Errorf("row %d: %s: %w", len(c.Data), name, err)
		}
	}
	if len(c.Data) != r.N {
		return fmt.Errorf("%s: %d values of %d rows", name, len(c.Data), r.N)
	}
	return nil
}

// Number returns a value as a float64: 1 for true and 0 for false. The result 'ok' is false for values that are neither
// numbers nor booleans.
func Number(v parquet.Value) (x float64, ok bool) {
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
		return 0, false
	}
	return x, true
}
