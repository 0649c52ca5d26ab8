package tabular

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/x448/float16"
)

// readNpz reads the wanted arrays of an archive. A zip is read from its end, so
// it is taken into memory first.
func (t *Table) readNpz(r io.Reader, opt Options) error {
	t.binary = true
	data, err := io.ReadAll(r)
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
		fail := func(err error) error { return fmt.Errorf("%s: %s: %w", t.Path, name, err) }
		if slices.Contains(names[:len(names)-1], name) {
			return fail(errors.New("array appears twice"))
		}
		m, dims, err := readNpy(f)
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
	for _, name := range opt.Required {
		_, vector := t.columns[name]
		if _, matrix := t.matrices[name]; !vector && !matrix {
			return fmt.Errorf("%s: no array %q (arrays: %s)", t.Path, name, strings.Join(names, ", "))
		}
	}
	if t.N == 0 {
		return fmt.Errorf("%s: no rows", t.Path)
	}
	return nil
}

// dtype says how to read one element of a numpy array.
type dtype struct {
	size int
	at   func(b []byte, o binary.ByteOrder) float64
}

var dtypes = map[string]dtype{
	"f2": {2, func(b []byte, o binary.ByteOrder) float64 {
		return float64(float16.Frombits(o.Uint16(b)).Float32())
	}},
	"f4": {4, func(b []byte, o binary.ByteOrder) float64 { return float64(math.Float32frombits(o.Uint32(b))) }},
	"f8": {8, func(b []byte, o binary.ByteOrder) float64 { return math.Float64frombits(o.Uint64(b)) }},
	"i1": {1, func(b []byte, _ binary.ByteOrder) float64 { return float64(int8(b[0])) }},
	"i2": {2, func(b []byte, o binary.ByteOrder) float64 { return float64(int16(o.Uint16(b))) }},
	"i4": {4, func(b []byte, o binary.ByteOrder) float64 { return float64(int32(o.Uint32(b))) }},
	"i8": {8, func(b []byte, o binary.ByteOrder) float64 { return float64(int64(o.Uint64(b))) }},
	"u1": {1, func(b []byte, _ binary.ByteOrder) float64 { return float64(b[0]) }},
	"u2": {2, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint16(b)) }},
	"u4": {4, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint32(b)) }},
	"u8": {8, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint64(b)) }},
	"b1": {1, func(b []byte, _ binary.ByteOrder) float64 {
		if b[0] != 0 {
			return 1
		}
		return 0
	}},
}

var (
	descrRE   = regexp.MustCompile(`'descr':\s*'([<>|=]?)([a-zA-Z]\d+)'`)
	fortranRE = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	shapeRE   = regexp.MustCompile(`'shape':\s*\(([\d,\s]*)\)`)
)

const maxNpyHeader = 1 << 16

// readNpy reads a 1-D or 2-D array (NEP 1, versions 1 to 3). Memory follows the
// bytes that are there, not the shape that is claimed.
func readNpy(f *zip.File) (m Matrix, dims int, err error) {
	rc, err := f.Open()
	if err != nil {
		return m, 0, err
	}
	defer rc.Close()
	r := bufio.NewReaderSize(rc, bufferSize)
	head := make([]byte, 8)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:6]) != "\x93NUMPY" {
		return m, 0, errors.New("not a numpy array")
	}
	length := make([]byte, 4)
	if head[6] == 1 {
		_, err = io.ReadFull(r, length[:2])
	} else {
		_, err = io.ReadFull(r, length)
	}
	n := binary.LittleEndian.Uint32(length)
	if err != nil || head[6] == 0 || head[6] > 3 || n > maxNpyHeader {
		return m, 0, errors.New("not a numpy array of format version 1, 2 or 3")
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return m, 0, errors.New("the numpy header is not complete")
	}
	descr, fortran, shape := descrRE.FindSubmatch(header), fortranRE.FindSubmatch(header), shapeRE.FindSubmatch(header)
	if descr == nil || fortran == nil || shape == nil {
		return m, 0, fmt.Errorf("cannot read numpy header %q", header)
	}
	dt, ok := dtypes[string(descr[2])]
	if !ok {
		return m, 0, fmt.Errorf("dtype %s is not numeric", descr[2])
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(descr[1]) == ">" {
		order = binary.BigEndian
	}
	sizes := []int{}
	for field := range strings.SplitSeq(string(shape[1]), ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		size, err := strconv.Atoi(field)
		if err != nil || size > math.MaxInt32*64 {
			return m, 0, fmt.Errorf("shape (%s) is too large", shape[1])
		}
		sizes = append(sizes, size)
	}
	switch len(sizes) {
	case 1:
		m.Rows, m.Cols = sizes[0], 1
	case 2:
		m.Rows, m.Cols = sizes[0], sizes[1]
	default:
		return m, 0, fmt.Errorf("is a %d-D array, must be 1-D or 2-D", len(sizes))
	}
	if m.Cols == 0 || (m.Rows > 0 && m.Cols > math.MaxInt64/16/m.Rows) {
		return m, 0, fmt.Errorf("shape (%s) is out of range", shape[1])
	}
	total := m.Rows * m.Cols
	m.Data = make([]float64, 0, min(total, 1<<16))
	cell := make([]byte, dt.size)
	for len(m.Data) < total {
		if _, err := io.ReadFull(r, cell); err != nil {
			return m, 0, fmt.Errorf("ends after %d of %d values", len(m.Data), total)
		}
		m.Data = append(m.Data, dt.at(cell, order))
	}
	if string(fortran[1]) == "True" && len(sizes) == 2 {
		m.Data = transpose(m)
	}
	return m, len(sizes), nil
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
