package dataset

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/x448/float16"
)

// array is a NumPy array whose data can be read at any place.
type array struct {
	name    string // file, or file: member
	shape   []int
	kind    byte // NumPy's: 'f', 'u', 'i' or 'b'
	width   int  // bytes of an element
	order   binary.ByteOrder
	fortran bool // the first index runs fastest
	data    io.ReaderAt
	offset  int64 // of the first element, in data
}

// at says where element e is written, in the order of the file.
func (a *array) at(e int) string {
	return fmt.Sprintf("%s: byte %d", a.name, a.offset+int64(e)*int64(a.width))
}

// The header is a Python literal, always written by the same few lines of
// numpy.lib.format.
var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=])([a-zA-Z])(\d+)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([^()]*)\)`)
)

// maxHeader is far above what NumPy writes for plain arrays (128 bytes).
const maxHeader = 1 << 16

// parseNPY reads the header of a .npy file, versions 1 to 3, at the beginning of
// r. length is that of the whole file: the data must fill the rest of it.
func parseNPY(name string, r io.Reader, length int64) (*array, error) {
	var start [12]byte
	if n, err := io.ReadFull(r, start[:10]); err != nil {
		return nil, fmt.Errorf("%s: byte %d: ends within the header of a .npy file", name, n)
	}
	if string(start[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("%s: byte 0: not a .npy file", name)
	}
	headerLen, offset := int64(binary.LittleEndian.Uint16(start[8:])), int64(10)
	switch start[6] {
	case 1:
	case 2, 3:
		if _, err := io.ReadFull(r, start[10:]); err != nil {
			return nil, fmt.Errorf("%s: byte 10: ends within the header of a .npy file", name)
		}
		headerLen, offset = int64(binary.LittleEndian.Uint32(start[8:])), 12
	default:
		return nil, fmt.Errorf("%s: byte 6: .npy version %d.%d is unknown", name, start[6], start[7])
	}
	if headerLen > maxHeader {
		return nil, fmt.Errorf("%s: byte 8: a header of %d bytes is not that of a plain array", name, headerLen)
	}
	header := make([]byte, headerLen)
	if n, err := io.ReadFull(r, header); err != nil {
		return nil, fmt.Errorf("%s: byte %d: ends within the header of a .npy file", name, offset+int64(n))
	}
	a := &array{name: name, offset: offset + headerLen}

	descr, fortran, shape := npyDescr.FindSubmatch(header), npyFortran.FindSubmatch(header), npyShape.FindSubmatch(header)
	if descr == nil || fortran == nil || shape == nil {
		return nil, fmt.Errorf("%s: byte %d: the header is not that of an array of numbers", name, offset)
	}
	a.order = binary.LittleEndian
	if descr[1][0] == '>' {
		a.order = binary.BigEndian
	}
	a.kind = descr[2][0]
	a.width, _ = strconv.Atoi(string(descr[3]))
	switch dtype := string(descr[2]) + string(descr[3]); dtype {
	case "f2", "f4", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "b1":
	default:
		return nil, fmt.Errorf("%s: byte %d: elements of type %s are not read", name, offset, descr[0])
	}
	a.fortran = string(fortran[1]) == "True"

	room := (length - a.offset) / int64(a.width)
	product := int64(1)
	for field := range strings.SplitSeq(string(shape[1]), ",") {
		field = strings.TrimSuffix(strings.TrimSpace(field), "L") // of Python 2
		if field == "" {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s: byte %d: %q is not a dimension", name, offset, field)
		}
		if n == 0 {
			return nil, fmt.Errorf("%s: byte %d: the array is empty, of shape (%s)", name, offset, shape[1])
		}
		if n > room/product {
			return nil, fmt.Errorf("%s: byte %d: ends before the data of an array of shape (%s)", name, length, shape[1])
		}
		product *= n
		a.shape = append(a.shape, int(n))
	}
	if end := a.offset + product*int64(a.width); end != length {
		return nil, fmt.Errorf("%s: byte %d: %d bytes more than an array of shape (%s) has", name, end, length-end, shape[1])
	}
	return a, nil
}

// element returns element e of data that starts with element 0.
func (a *array) element(data []byte, e int) float64 {
	p := data[e*a.width : (e+1)*a.width]
	switch a.width {
	case 1:
		if a.kind == 'i' {
			return float64(int8(p[0]))
		}
		return float64(p[0])
	case 2:
		v := a.order.Uint16(p)
		switch a.kind {
		case 'f':
			return float64(float16.Frombits(v).Float32())
		case 'i':
			return float64(int16(v))
		}
		return float64(v)
	case 4:
		v := a.order.Uint32(p)
		switch a.kind {
		case 'f':
			return float64(math.Float32frombits(v))
		case 'i':
			return float64(int32(v))
		}
		return float64(v)
	default:
		v := a.order.Uint64(p)
		switch a.kind {
		case 'f':
			return math.Float64frombits(v)
		case 'i':
			return float64(int64(v))
		}
		return float64(v)
	}
}

// labels reads the array as labels, [N] or [N,1].
func (a *array) labels() ([]int, error) {
	if n := len(a.shape); n != 1 && !(n == 2 && a.shape[1] == 1) {
		return nil, fmt.Errorf("%s: labels of shape %v; want one class number an example, [N]", a.name, a.shape)
	}
	data := make([]byte, a.shape[0]*a.width)
	if _, err := a.data.ReadAt(data, a.offset); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	labels := make([]int, a.shape[0])
	for i := range labels {
		v := a.element(data, i)
		var err error
		if labels[i], err = wholeLabel(v); err != nil {
			return nil, fmt.Errorf("%s: label %v %w", a.at(i), v, err)
		}
	}
	return labels, nil
}

// dataset joins inputs x and labels y. labelAt says where label i is.
func (x *array) dataset(format string, labels []int, labelAt func(int) string) (*Dataset, error) {
	if x.kind != 'f' && !(x.kind == 'u' && x.width == 1) {
		return nil, fmt.Errorf("%s: inputs of NumPy type %c%d: save bytes as uint8, which are scaled to [0,1], or values as float32, which are taken as they are",
			x.name, x.kind, x.width)
	}
	if len(x.shape) < 2 || len(x.shape) > 4 {
		return nil, fmt.Errorf("%s: inputs of shape %v; want [N,C,H,W], [N,H,W,C], [N,H,W] or [N,D]", x.name, x.shape)
	}
	if len(labels) != x.shape[0] {
		return nil, fmt.Errorf("%s: %d labels for the %d inputs of %s", labelAt(min(len(labels), x.shape[0])), len(labels), x.shape[0], x.name)
	}
	d := &Dataset{format: format, labels: labels, labelAt: labelAt}
	// strides[k] is how far apart, in elements of the file, neighbours in
	// dimension k of the result are.
	strides, step := make([]int, len(x.shape)), 1
	for k := range x.shape {
		if !x.fortran {
			k = len(x.shape) - 1 - k
		}
		strides[k] = step
		step *= x.shape[k]
	}
	dims := slices.Clone(x.shape[1:])
	first, strides := strides[0], strides[1:]
	switch {
	case len(dims) == 2:
		dims, strides = []int{1, dims[0], dims[1]}, []int{0, strides[0], strides[1]}
	case len(dims) == 3 && channels(dims[2]) && !channels(dims[0]):
		dims, strides = []int{dims[2], dims[0], dims[1]}, []int{strides[2], strides[0], strides[1]}
		d.addNote("shape %v read as [N,H,W,C]", x.shape)
	}
	d.shape = dims
	if x.kind == 'f' {
		d.addNote("values as they are")
	} else {
		d.addNote("bytes scaled to [0,1]")
	}
	// Places of an example's values, relative to its first one.
	places := []int{0}
	for k, n := range dims {
		next := make([]int, 0, len(places)*n)
		for _, p := range places {
			for i := range n {
				next = append(next, p+i*strides[k])
			}
		}
		places = next
	}
	span := (slices.Max(places) + 1) * x.width
	d.values = func(i int, dst []float32) error {
		if x.fortran {
			// An example is spread over the whole array, which is in memory.
			data := make([]byte, x.width)
			for j, p := range places {
				if _, err := x.data.ReadAt(data, x.offset+int64(i*first+p)*int64(x.width)); err != nil && err != io.EOF {
					return fmt.Errorf("%s: %w", x.at(i*first+p), err)
				}
				v := x.element(data, 0)
				if dst[j] = x.value(v); !finite(dst[j]) {
					return fmt.Errorf("%s: %v is not a finite float32", x.at(i*first+p), v)
				}
			}
			return nil
		}
		data := make([]byte, span)
		if _, err := x.data.ReadAt(data, x.offset+int64(i*first)*int64(x.width)); err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", x.at(i*first), err)
		}
		for j, p := range places {
			v := x.element(data, p)
			if dst[j] = x.value(v); !finite(dst[j]) {
				return fmt.Errorf("%s: %v is not a finite float32", x.at(i*first+p), v)
			}
		}
		return nil
	}
	return d, nil
}

func channels(n int) bool { return n == 1 || n == 3 }

// value is element v as an input value.
func (a *array) value(v float64) float32 {
	if a.kind == 'u' {
		return unit[uint8(v)]
	}
	return float32(v)
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// readArray reads the header of a .npy file and leaves the data in it.
func readArray(path string) (*array, *os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileError(err)
	}
	a, err := func() (*array, error) {
		info, err := f.Stat()
		if err != nil {
			return nil, fileError(err)
		}
		a, err := parseNPY(path, f, info.Size())
		if err != nil || !a.fortran {
			return a, err
		}
		whole, err := readMemory(io.NewSectionReader(f, 0, info.Size()), info.Size())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		a.data = whole
		return a, nil
	}()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	if a.data == nil {
		a.data = f
	}
	return a, f, nil
}

func readLabelsNPY(path string) ([]int, func(i int) string, error) {
	a, f, err := readArray(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	labels, err := a.labels()
	return labels, a.at, err
}

// npyLabelsFor finds the labels beside x.npy, …_x.npy, x_….npy or …images….npy.
func npyLabelsFor(path string) (string, error) {
	dir, name := filepath.Split(path)
	stem := name[:len(name)-len(".npy")]
	var labels string
	switch {
	case stem == "x" || strings.HasPrefix(stem, "x_"):
		labels = "y" + stem[1:] + ".npy"
	case strings.HasSuffix(stem, "_x"):
		labels = stem[:len(stem)-1] + "y.npy"
	case strings.Contains(stem, "images"):
		labels = strings.Replace(stem, "images", "labels", 1) + ".npy"
	default:
		return "", fmt.Errorf("%s: cannot tell the labels file from this name; name it", path)
	}
	if file := filepath.Join(dir, labels); exists(file) {
		return file, nil
	}
	return "", fmt.Errorf("%s: no labels file %s beside it", path, labels)
}

func openNPY(path, labels string) (*Dataset, error) {
	if labels == "" {
		var err error
		if labels, err = npyLabelsFor(path); err != nil {
			return nil, err
		}
	}
	y, at, err := readLabels(labels)
	if err != nil {
		return nil, err
	}
	x, f, err := readArray(path)
	if err != nil {
		return nil, err
	}
	d, err := x.dataset("NumPy .npy", y, at)
	if err != nil {
		f.Close()
		return nil, err
	}
	d.closer = f
	return d, nil
}

// npzNames are the names by which inputs and labels go together, in the order
// in which they are looked for: as documented here, then as keras and MedMNIST
// write them.
var npzNames = [][2]string{{"x", "y"}, {"x_test", "y_test"}, {"test_images", "test_labels"}, {"images", "labels"}}

func openNPZ(ctx context.Context, path, labels string) (_ *Dataset, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(err)
	}
	archive, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: not a whole .npz file: %w", path, err)
	}
	members := map[string]*zip.File{}
	var names []string
	for _, m := range archive.File {
		name := strings.TrimSuffix(m.Name, ".npy")
		members[name] = m
		names = append(names, name)
	}
	var x, y *zip.File
	for _, pair := range npzNames {
		x, y = members[pair[0]], members[pair[1]]
		if x != nil && (y != nil || labels != "") {
			break
		}
	}
	if x == nil || y == nil && labels == "" {
		return nil, fmt.Errorf("%s: has no arrays x and y, but %s", path, strings.Join(names, ", "))
	}
	var classes []int
	var at func(int) string
	if labels != "" {
		classes, at, err = readLabels(labels)
	} else {
		var a *array
		if a, err = readMember(ctx, path, f, y); err == nil {
			classes, err = a.labels()
			at = a.at
		}
	}
	if err != nil {
		return nil, err
	}
	inputs, err := readMember(ctx, path, f, x)
	if err != nil {
		return nil, err
	}
	d, err := inputs.dataset("NumPy .npz", classes, at)
	if err != nil {
		return nil, err
	}
	d.closer = f
	d.addNote("inputs %s", strings.TrimSuffix(x.Name, ".npy"))
	return d, nil
}

// readMember reads an array of an archive. The data of an array that is stored
// uncompressed and in order are left in the file; others are kept in memory, in
// their own type.
func readMember(ctx context.Context, path string, file io.ReaderAt, m *zip.File) (*array, error) {
	name := path + ": " + m.Name
	if m.UncompressedSize64 > math.MaxInt64 {
		return nil, fmt.Errorf("%s: byte 0: a size of %d bytes is not believable", name, m.UncompressedSize64)
	}
	length := int64(m.UncompressedSize64)
	open := func() (io.ReadCloser, error) {
		r, err := m.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return r, nil
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	a, err := parseNPY(name, r, length)
	r.Close()
	if err != nil {
		return nil, err
	}
	if r, err = open(); err != nil {
		return nil, err
	}
	defer r.Close()
	whole := contextReader{ctx, r}
	if m.Method != zip.Store || a.fortran {
		memory, err := readMemory(whole, length)
		if err != nil {
			return nil, fmt.Errorf("%s: byte %d: %w", name, memory.size(), err)
		}
		a.data = memory
		return a, nil
	}
	// Going through the member once compares its checksum.
	if n, err := io.Copy(io.Discard, whole); err != nil {
		return nil, fmt.Errorf("%s: byte %d: %w", name, n, err)
	}
	start, err := m.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a.data = io.NewSectionReader(file, start, length)
	return a, nil
}

// contextReader stops reading when the context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// memory holds a file in pieces, so that reading it neither trusts the length
// that its header gives nor ever copies what was read.
type memory [][]byte

const piece = 1 << 24

func readMemory(r io.Reader, length int64) (memory, error) {
	var m memory
	for left := length; left > 0; left -= piece {
		p := make([]byte, min(left, piece))
		n, err := io.ReadFull(r, p)
		m = append(m, p[:n])
		if err != nil {
			return m, err
		}
	}
	// Read to the end, where a checksum is compared.
	if n, err := io.Copy(io.Discard, r); err != nil {
		return m, err
	} else if n > 0 {
		return m, errors.New("more data than the archive says")
	}
	return m, nil
}

func (m memory) size() int64 {
	n := 0
	for _, p := range m {
		n += len(p)
	}
	return int64(n)
}

// ReadAt implements io.ReaderAt.
func (m memory) ReadAt(p []byte, offset int64) (int, error) {
	n := 0
	for n < len(p) {
		k := int((offset + int64(n)) / piece)
		if k >= len(m) {
			return n, io.EOF
		}
		from := int((offset + int64(n)) % piece)
		if from >= len(m[k]) {
			return n, io.EOF
		}
		n += copy(p[n:], m[k][from:])
	}
	return n, nil
}
