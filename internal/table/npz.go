package table

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/quote"
)

// readNpz reads the wanted arrays of an archive. It first reads the whole archive into memory, because a zip file must
// be read from its end.
func (r *reader) readNpz(src io.Reader) error {
	data, err := r.holdFile(src)
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		name := npy.ArrayName(f)
		r.header = append(r.header, name)
		matrix := slices.Contains(r.opt.Matrices, name)
		if !matrix && !slices.Contains(r.opt.Required, name) && !slices.Contains(r.opt.Optional, name) {
			if err := r.addOtherArray(name, f); err != nil {
				return err
			}
			continue
		}
		if f.CompressedSize64 > uint64(len(data)) {
			err = errors.New("ends before its data")
		} else {
			err = r.addArray(&column{name: name, matrix: matrix}, f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(name), err)
		}
	}
	r.dropShort()
	return r.require("no array %q (arrays: %s)", r.header)
}

// addArray adds an array. The array must have as many rows as the arrays that were added before.
func (r *reader) addArray(c *column, f *zip.File) (err error) {
	if r.index[c.name] != nil {
		return errors.New("array appears twice")
	}
	if c.Matrix, err = r.readArray(f, c.matrix); err != nil {
		return err
	}
	for i, x := range c.Data {
		if err := r.checkFinite(x); err != nil {
			return fmt.Errorf("row %d: %w", i/c.Cols, err)
		}
	}
	if len(r.columns) > 0 && c.Rows != r.N {
		return fmt.Errorf("%d rows, %s has %d", c.Rows, r.columns[0].name, r.N)
	}
	r.N = c.Rows
	r.add(c)
	return nil
}

// checkFinite returns an error for NaN and ±Inf unless Options.AllowNonFinite is set.
func (r *reader) checkFinite(x float64) error {
	if !r.opt.AllowNonFinite && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return fmt.Errorf("%v %w", x, errNonFinite)
	}
	return nil
}

// readArray reads a 1-D array. If the argument 'matrix' is true, the array may also be 2-D. The zip archive states the
// unpacked size of the array in bytes. npy.Open checks that the packed data can have this unpacked size. The array's
// shape must agree with the size.
func (r *reader) readArray(f *zip.File, matrix bool) (m Matrix, err error) {
	a, err := npy.Open(f)
	if err != nil {
		return m, err
	}
	defer a.Close()
	switch dims := len(a.Shape); dims {
	case 1:
		m.Rows, m.Cols = a.Shape[0], 1
	case 2:
		m.Rows, m.Cols = a.Shape[0], a.Shape[1]
	default:
		return m, fmt.Errorf("is a %d-D array, must be 1-D or 2-D", dims)
	}
	total, ok := a.Len()
	if !ok || m.Cols == 0 {
		return m, fmt.Errorf("shape %v is out of range", a.Shape)
	}
	if total > 0 {
		if err := a.Check(int64(f.UncompressedSize64)); err != nil {
			return m, err
		}
	}
	transposed := a.Fortran && len(a.Shape) == 2
	copies := 1
	if transposed {
		copies = 2
	}
	if err := r.hold(int64(copies) * int64(total)); err != nil {
		return m, err
	}
	m.Data = make([]float64, total)
	if n, err := npy.Read(a, m.Data); err != nil {
		return m, fmt.Errorf("ends after %d of %d values: %w", n, total, err)
	}
	if err := a.End(); err != nil {
		return m, err
	}
	if len(a.Shape) == 2 && !matrix {
		return m, errors.New("is a 2-D array, must be 1-D")
	}
	if transposed {
		m.Data = transpose(m)
	}
	return m, nil
}

func transpose(m Matrix) []float64 {
	out := make([]float64, len(m.Data))
	for j := range m.Cols {
		for i := range m.Rows {
			out[i*m.Cols+j] = m.Data[j*m.Rows+i]
		}
	}
	return out
}
