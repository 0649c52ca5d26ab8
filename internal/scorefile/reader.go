package scorefile

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Reader reads a file of scores, an example after the other. Members may be stored or
// deflated, scores float32 or float64 (rounded to float32), labels and index of any
// integer type of 4 or 8 bytes.
type Reader struct {
	Shape
	HasIndex bool

	path           string
	zip            *zip.ReadCloser
	labels, index  *array
	scores0, score *array
	next           int
	left           [2]int64 // samples of the example not read yet, by array
	row            []float32
}

// array is a member that is being read.
type array struct {
	name  string
	kind  byte // 'i', 'u' or 'f'
	width int
	shape []int64
	file  io.ReadCloser
	r     *bufio.Reader
	buf   []byte
}

// Open opens a file of scores. The caller must Close it.
func Open(path string) (*Reader, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &Reader{path: path, zip: z}
	if err := r.open(); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Reader) open() error {
	for _, a := range []struct {
		name     string
		to       **array
		dims     int
		float    bool
		required bool
	}{
		{"scores", &r.score, 3, true, true},
		{"labels", &r.labels, 1, false, true},
		{"index", &r.index, 1, false, false},
		{"scores0", &r.scores0, 3, true, false},
	} {
		var err error
		if *a.to, err = r.openArray(a.name, a.dims, a.float); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if *a.to == nil && a.required {
			return fmt.Errorf("no array %q (a file of scores has scores [N,n,m] and labels [N])", a.name)
		}
	}
	s := r.score.shape
	r.Shape = Shape{Examples: int(s[0]), N: s[1], Classes: int(s[2])}
	r.HasIndex = r.index != nil
	for _, a := range []*array{r.labels, r.index, r.scores0} {
		if a != nil && a.shape[0] != s[0] {
			return fmt.Errorf("%s has %d examples, scores %d", a.name, a.shape[0], s[0])
		}
	}
	if r.scores0 != nil {
		if r.scores0.shape[2] != s[2] {
			return fmt.Errorf("scores0 has %d classes, scores %d", r.scores0.shape[2], s[2])
		}
		r.N0 = r.scores0.shape[1]
	}
	return r.validate()
}

// openArray opens a member; nil if there is none.
func (r *Reader) openArray(name string, dims int, float bool) (*array, error) {
	for _, f := range r.zip.File {
		if f.Name != name+".npy" && f.Name != name {
			continue
		}
		file, err := f.Open()
		if err != nil {
			return nil, err
		}
		a := &array{name: name, file: file, r: bufio.NewReaderSize(file, 1<<20)}
		if err := a.readHeader(f.UncompressedSize64); err != nil {
			_ = file.Close()
			return nil, err
		}
		if len(a.shape) != dims {
			_ = file.Close()
			return nil, fmt.Errorf("has shape %v, want %d dimensions", a.shape, dims)
		}
		if (a.kind == 'f') != float {
			_ = file.Close()
			return nil, errors.New("has the wrong type: scores are floats, labels and index integers")
		}
		return a, nil
	}
	return nil, nil
}

var (
	npyDescr   = regexp.MustCompile(`'descr':\s*'([<|>=])([fiu])(\d+)'`)
	npyFortran = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape':\s*\(([^)]*)\)`)
)

// maxHeader is far above the header of any array of three dimensions.
const maxHeader = 1 << 16

// readHeader reads the header of an array file whose length is size.
func (a *array) readHeader(size uint64) error {
	var head [12]byte
	if _, err := io.ReadFull(a.r, head[:10]); err != nil {
		return fmt.Errorf("not an npy array: %w", err)
	}
	if string(head[:6]) != "\x93NUMPY" {
		return errors.New("not an npy array")
	}
	length, read := int(binary.LittleEndian.Uint16(head[8:])), 10
	if head[6] > 1 {
		if _, err := io.ReadFull(a.r, head[10:]); err != nil {
			return err
		}
		length, read = int(binary.LittleEndian.Uint32(head[8:])), 12
	}
	if length > maxHeader {
		return fmt.Errorf("npy header of %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(a.r, text); err != nil {
		return err
	}
	descr, fortran, shape := npyDescr.FindSubmatch(text), npyFortran.FindSubmatch(text), npyShape.FindSubmatch(text)
	if descr == nil || fortran == nil || shape == nil {
		return fmt.Errorf("npy header %q cannot be used: want little-endian floats or integers", strings.TrimSpace(string(text)))
	}
	width, err := strconv.Atoi(string(descr[3]))
	if err != nil || descr[1][0] == '>' || (width != 4 && width != 8) {
		return fmt.Errorf("type %s%s%s cannot be used: want 4 or 8 bytes, little-endian", descr[1], descr[2], descr[3])
	}
	a.kind, a.width = descr[2][0], width
	total := uint64(width)
	for _, d := range strings.Split(string(shape[1]), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		n, err := strconv.ParseInt(d, 10, 40)
		if err != nil || n < 1 {
			return fmt.Errorf("shape (%s) cannot be used", shape[1])
		}
		if total > 1<<60/uint64(n) {
			return fmt.Errorf("shape (%s) is too large", shape[1])
		}
		total *= uint64(n)
		a.shape = append(a.shape, n)
	}
	if string(fortran[1]) == "True" && len(a.shape) > 1 {
		return errors.New("is in Fortran order: save it with numpy.ascontiguousarray")
	}
	if total+uint64(length+read) != size {
		return fmt.Errorf("has %d bytes, its shape (%s) needs %d", size, shape[1], total+uint64(length+read))
	}
	return nil
}

// bytes reads the next k numbers.
func (a *array) bytes(k int) ([]byte, error) {
	if n := k * a.width; cap(a.buf) < n {
		a.buf = make([]byte, n)
	}
	b := a.buf[:k*a.width]
	_, err := io.ReadFull(a.r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	return b, nil
}

func (a *array) integer() (int, error) {
	b, err := a.bytes(1)
	if err != nil {
		return 0, err
	}
	if a.width == 8 {
		return int(int64(binary.LittleEndian.Uint64(b))), nil
	}
	if a.kind == 'u' {
		return int(binary.LittleEndian.Uint32(b)), nil
	}
	return int(int32(binary.LittleEndian.Uint32(b))), nil
}

func (a *array) floats(to []float32) error {
	b, err := a.bytes(len(to))
	if err != nil {
		return err
	}
	for i := range to {
		if a.width == 8 {
			to[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		} else {
			to[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return nil
}

// Next goes to the next example and returns its index (its place, if the file has no
// index) and its label; io.EOF behind the last.
func (r *Reader) Next() (index, label int, err error) {
	if r.next > 0 {
		for i := range r.left {
			if err := r.scores(i, func([]float32) error { return nil }); err != nil {
				return 0, 0, err
			}
		}
	}
	if r.next == r.Examples {
		return 0, 0, r.finish()
	}
	index = r.next
	if r.HasIndex {
		if index, err = r.index.integer(); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", r.path, err)
		}
	}
	if label, err = r.labels.integer(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", r.path, err)
	}
	r.next++
	r.left = [2]int64{r.N0, r.N}
	return index, label, nil
}

// finish reads the ends of the arrays, where the archive's checksums are compared, and
// returns io.EOF if all is well.
func (r *Reader) finish() error {
	for _, a := range []*array{r.labels, r.index, r.scores0, r.score} {
		if a == nil {
			continue
		}
		if _, err := a.r.ReadByte(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %s: %w", r.path, a.name, err)
		}
	}
	return io.EOF
}

// Selection gives the selection samples of the example to take, a few rows at a time.
// The slice is used again.
func (r *Reader) Selection(take func(probs []float32) error) error { return r.scores(0, take) }

// Estimation is Selection for the estimation samples.
func (r *Reader) Estimation(take func(probs []float32) error) error { return r.scores(1, take) }

// chunk is about how many numbers are read at once.
const chunk = 1 << 14

func (r *Reader) scores(which int, take func([]float32) error) error {
	a := []*array{r.scores0, r.score}[which]
	rows := int64(max(1, chunk/r.Classes))
	for r.left[which] > 0 {
		k := min(rows, r.left[which])
		if n := int(k) * r.Classes; cap(r.row) < n {
			r.row = make([]float32, n)
		}
		row := r.row[:int(k)*r.Classes]
		if err := a.floats(row); err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		r.left[which] -= k
		if err := take(row); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error {
	var errs []error
	for _, a := range []*array{r.labels, r.index, r.scores0, r.score} {
		if a != nil {
			errs = append(errs, a.file.Close())
		}
	}
	return errors.Join(append(errs, r.zip.Close())...)
}
