package table

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/quote"
)

// readNpz reads the wanted arrays of an archive. A zip is read from its end, so
// it is taken into memory first.
func (t *Table) readNpz(r io.Reader, opt Options) error {
	data, err := t.readWhole(r)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	zr, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	var names []string
	first := ""
	for _, f := range zr.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		names = append(names, name)
		matrix := slices.Contains(opt.Matrices, name)
		if !matrix && !slices.Contains(opt.Required, name) && !slices.Contains(opt.Optional, name) {
			continue
		}
		fail := func(err error) error { return fmt.Errorf("%s: %s: %w", t.Path, quote.Name(name), err) }
		if slices.Contains(names[:len(names)-1], name) {
			return fail(errors.New("array appears twice"))
		}
		if f.CompressedSize64 > uint64(len(data)) {
			return fail(errors.New("ends before its data"))
		}
		m, dims, err := t.readNpy(f)
		if err != nil {
			return fail(err)
		}
		if dims == 2 && !matrix {
			return fail(errors.New("is a 2-D array, must be 1-D"))
		}
		if !opt.AllowNonFinite {
			for i, x := range m.Data {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return fail(fmt.Errorf("row %d: %v %w", i/m.Cols, x, errNonFinite))
				}
			}
		}
		if first == "" {
			first, t.N = name, m.Rows
		}
		if m.Rows != t.N {
			return fail(fmt.Errorf("%d rows, %s has %d", m.Rows, first, t.N))
		}
		if matrix {
			t.matrices[name] = m
		} else {
			t.columns[name] = m.Data
		}
		t.names = append(t.names, name)
	}
	t.header = names
	for _, name := range opt.Required {
		_, vector := t.columns[name]
		if _, matrix := t.matrices[name]; !vector && !matrix {
			return fmt.Errorf("%s: no array %q (arrays: %s)", t.Path, name, listed(names))
		}
	}
	if t.N == 0 {
		return fmt.Errorf("%s: no rows", t.Path)
	}
	return nil
}

// readNpy reads a 1-D or 2-D array. The shape that is claimed must fit the sizes in the archive's
// directory, which npy.Open compares with the bytes that are there.
func (t *Table) readNpy(f *zip.File) (m Matrix, dims int, err error) {
	r, err := npy.Open(f)
	if err != nil {
		return m, 0, err
	}
	defer r.Close()
	switch dims = len(r.Shape); dims {
	case 1:
		m.Rows, m.Cols = r.Shape[0], 1
	case 2:
		m.Rows, m.Cols = r.Shape[0], r.Shape[1]
	default:
		return m, 0, fmt.Errorf("is a %d-D array, must be 1-D or 2-D", dims)
	}
	total, ok := r.Len()
	if !ok || m.Cols == 0 {
		return m, 0, fmt.Errorf("shape %v is out of range", r.Shape)
	}
	if total > 0 {
		if err := r.Check(int64(f.UncompressedSize64)); err != nil {
			return m, 0, err
		}
	}
	copies := 1
	if r.Fortran && dims == 2 {
		copies = 2
	}
	if err := t.hold(int64(copies) * int64(total)); err != nil {
		return m, 0, err
	}
	m.Data = make([]float64, total)
	if n, err := npy.Read(r, m.Data); err != nil {
		return m, 0, fmt.Errorf("ends after %d of %d values: %w", n, total, err)
	}
	if err := r.End(); err != nil {
		return m, 0, err
	}
	if r.Fortran && dims == 2 && total > 0 {
		m.Data = transpose(m)
	}
	return m, dims, nil
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
