package dataset

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// array is a NumPy array with random access to its data.
type array struct {
	name string // "file" or "file: member"
	*npy.Header
	data io.ReaderAt
}

// elementAt describes the location of element e in the file, for use in errors. Elements are counted in the order of
// the file.
func (a *array) elementAt(e int) string {
	return fmt.Sprintf("%s: byte %d", a.name, a.Offset+int64(e)*int64(a.Width))
}

// parseNPY parses the header of a .npy file at the beginning of r. The argument 'length' is the length of the whole
// file. parseNPY returns an error unless the header and the data together have this length.
func parseNPY(name string, r io.Reader, length int64) (*array, error) {
	h, err := npy.ReadHeader(r)
	if err == nil {
		err = h.Check(length)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &array{name: name, Header: h}, nil
}

// readAt fills dst with the bytes of the elements from e on.
func (a *array) readAt(dst []byte, e int) error {
	n, err := a.data.ReadAt(dst, a.Offset+int64(e)*int64(a.Width))
	if n == len(dst) {
		return nil
	}
	return fmt.Errorf("%s: %w", a.elementAt(e), err)
}

// noLabels returns a placeholder label for each example of data without labels.
func (a *array) noLabels() ([]int, error) {
	if len(a.Shape) == 0 || memory.Check(8*int64(min(a.Shape[0], math.MaxInt32))) != nil || a.Shape[0] > math.MaxInt32 {
		return nil, fmt.Errorf("%s: shape %v: %w", a.name, a.Shape, memory.Check(-1))
	}
	return make([]int, a.Shape[0]), nil
}

// The method 'labels' returns the labels in the array. The array holds class numbers [N] or [N,1], or one-hot rows
// [N,C].
func (a *array) labels() ([]int, error) {
	columns := 1
	if len(a.Shape) == 2 {
		columns = a.Shape[1]
	}
	if n := len(a.Shape); n != 1 && n != 2 || a.Fortran && columns > 1 {
		return nil, fmt.Errorf("%s: labels of shape %v; want one class number an example, [N]", a.name, a.Shape)
	}
	const bytes = 8 // bytes of a label
	if a.Shape[0] > math.MaxInt32 || columns > math.MaxInt32/(a.Width+8) {
		return nil, fmt.Errorf("%s: %w", a.name, memory.Check(-1))
	}
	if err := memory.Check(int64(a.Shape[0])*bytes + int64(columns)*int64(a.Width+8)); err != nil {
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	row, values := make([]byte, columns*a.Width), make([]float64, columns)
	labels := make([]int, a.Shape[0])
	for i := range labels {
		if err := a.readAt(row, i*columns); err != nil {
			return nil, err
		}
		npy.Decode(a.Type, values, row)
		var err error
		if columns > 1 {
			labels[i], err = hot(columns, func(j int) float64 { return values[j] })
		} else if labels[i], err = wholeLabel(values[0]); err != nil {
			err = fmt.Errorf("label %v %w", values[0], err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.elementAt(i*columns), err)
		}
	}
	return labels, nil
}

// labelAt describes the location of label i, for use in errors.
func (a *array) labelAt(i int) string {
	if len(a.Shape) == 2 {
		i *= a.Shape[1]
	}
	return a.elementAt(i)
}

// The method 'dataset' returns the dataset that consists of the inputs x and the labels. The function labelAt describes
// the location of label i, for errors.
func (x *array) dataset(format string, labels []int, labelAt func(int) string) (*Dataset, error) {
	if x.Kind != 'f' && !(x.Kind == 'u' && x.Width == 1) {
		return nil, fmt.Errorf("%s: inputs of NumPy type %c%d: save bytes as uint8, which are scaled to [0,1], or values as float32, which are taken as they are",
			x.name, x.Kind, x.Width)
	}
	if len(x.Shape) < 2 || len(x.Shape) > 4 {
		return nil, fmt.Errorf("%s: inputs of shape %v; want [N,C,H,W], [N,H,W,C], [N,H,W] or [N,D]", x.name, x.Shape)
	}
	if len(labels) != x.Shape[0] {
		return nil, fmt.Errorf("%s: %d labels for the %d inputs of %s", labelAt(min(len(labels), x.Shape[0])), len(labels), x.Shape[0], x.name)
	}
	if err := checkExample(x.Shape[1:]); err != nil {
		return nil, fmt.Errorf("%s: an example of shape %v %w", x.name, x.Shape[1:], err)
	}
	inputs, channelsLast := x.examples()
	d := &Dataset{format: format, labels: labels, labelAt: labelAt, shape: inputs.shape, values: inputs.values}
	if inputs.Kind == 'f' && inputs.Width == 8 {
		d.roundings = inputs.roundings
	}
	if channelsLast {
		d.addNote("shape %v read as [N,H,W,C]", x.Shape)
	}
	if x.Kind == 'f' {
		d.addNote("values as they are")
	} else {
		d.bytes = true
		d.addNote("bytes scaled to [0,1]")
	}
	return d, nil
}

// arrayExamples reads examples from an array and returns their values in the order [C,H,W].
type arrayExamples struct {
	*array
	shape    []int // shape of an example
	stride   int   // number of elements in the file from one example to the next
	places   []int // offset of each value from the example's first value, in elements of the file
	permuted bool  // the elements of an example are contiguous, but in another order
}

func (x *array) examples() (e *arrayExamples, channelsLast bool) {
	// strides[k] is the distance, in elements of the file, between neighbours in dimension k of the result.
	strides, step := make([]int, len(x.Shape)), 1
	for k := range x.Shape {
		if !x.Fortran {
			k = len(x.Shape) - 1 - k
		}
		strides[k] = step
		step *= x.Shape[k]
	}
	e = &arrayExamples{array: x, shape: slices.Clone(x.Shape[1:]), stride: strides[0], places: []int{0}}
	dims, strides := e.shape, strides[1:]
	switch {
	case len(dims) == 2:
		e.shape, strides = []int{1, dims[0], dims[1]}, []int{0, strides[0], strides[1]}
	case len(dims) == 3 && channels(dims[2]) && !channels(dims[0]):
		e.shape, strides = []int{dims[2], dims[0], dims[1]}, []int{strides[2], strides[0], strides[1]}
		channelsLast = true
	}
	for k, n := range e.shape {
		next := make([]int, 0, len(e.places)*n)
		for _, p := range e.places {
			for i := range n {
				next = append(next, p+i*strides[k])
			}
		}
		e.places = next
	}
	e.permuted = !x.Fortran && !slices.IsSorted(e.places)
	return e, channelsLast
}

// The method 'values' fills dst with example i.
func (e *arrayExamples) values(i int, dst []float32) error {
	data, err := e.example(i)
	if err != nil {
		return err
	}
	return e.convert(dst, data, i*e.stride)
}

// The method 'roundings' fills dst with |x − float32(x)| for each float64 element x of example i, in the order of the
// file. The result 'named' reports whether every x is a usual spelling of its float32 (isNamed).
func (e *arrayExamples) roundings(i int, dst []float64) (named bool, err error) {
	data, err := e.example(i)
	if err != nil {
		return false, err
	}
	npy.Decode(e.Type, dst, data)
	named = true
	for j, v := range dst {
		v32 := float32(v)
		dst[j] = math.Abs(v - float64(v32))
		named = named && (dst[j] == 0 || isNamed(v, v32))
	}
	return named, nil
}

// example returns the bytes of example i's elements. In C order the elements are contiguous. In Fortran order they are
// spread over the whole array, and the array is in memory.
func (e *arrayExamples) example(i int) ([]byte, error) {
	first, data := i*e.stride, make([]byte, len(e.places)*e.Width)
	if !e.Fortran {
		return data, e.readAt(data, first)
	}
	for j, p := range e.places {
		if err := e.readAt(data[j*e.Width:(j+1)*e.Width], first+p); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// convert turns the elements of an example into values. The argument 'first' is the index of the example's first
// element in the array.
func (e *arrayExamples) convert(dst []float32, data []byte, first int) error {
	elements := dst
	if e.permuted {
		elements = make([]float32, len(e.places))
	}
	npy.Decode(e.Type, elements, data)
	for j, p := range e.places {
		k := j
		if e.permuted {
			k = p
		}
		dst[j] = elements[k]
		if e.Kind == 'u' {
			dst[j] = unit[uint8(dst[j])]
		} else if !finite(dst[j]) {
			var v [1]float64
			npy.Decode(e.Type, v[:], data[k*e.Width:])
			return fmt.Errorf("%s: %v is not a finite float32", e.elementAt(first+p), v[0])
		}
	}
	return nil
}

func channels(n int) bool { return n == 1 || n == 3 }

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// readArray reads the header of a .npy file. Data in C order stay in the file. Data in Fortran order are read into
// memory, because Fortran order spreads an example over the whole file.
func readArray(ctx context.Context, path string) (_ *array, _ contents, err error) {
	f, err := openChecked(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	whole := io.NewSectionReader(f, 0, f.size())
	a, err := parseNPY(path, whole, f.size())
	if err != nil {
		return nil, nil, err
	}
	a.data = f
	if a.Fortran {
		_, _ = whole.Seek(0, io.SeekStart)
		if a.data, err = hold(contextReader{ctx, whole}, f.size()); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return a, f, nil
}

// The function 'hold' reads at most 'length' bytes of r into memory.
func hold(r io.Reader, length int64) (pieces, error) {
	if err := memory.Check(length); err != nil {
		return nil, fmt.Errorf("%w; numpy.savez and numpy.save keep it on the disk, uncompressed and in C order", err)
	}
	return readPieces(r, length)
}

func readLabelsNPY(ctx context.Context, path string) ([]int, func(i int) string, error) {
	a, f, err := readArray(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	labels, err := a.labels()
	return labels, a.labelAt, err
}

// npyLabelsFor returns the path of the labels that belong to a file of inputs. It knows inputs named …_x.npy, x_….npy
// or …images….npy, and the names in arrayNames. The labels must be in the same folder.
func npyLabelsFor(path string) (string, error) {
	dir, name := filepath.Split(path)
	stem := name[:len(name)-len(".npy")]
	var candidates []string
	for _, pair := range arrayNames {
		if stem == pair[0] {
			candidates = append(candidates, pair[1]+".npy")
		}
	}
	lower := strings.ToLower(stem)
	switch {
	case strings.HasPrefix(lower, "x_"):
		candidates = append(candidates, "y"+stem[1:]+".npy")
	case strings.HasSuffix(lower, "_x"):
		candidates = append(candidates, stem[:len(stem)-1]+"y.npy")
	case strings.Contains(stem, "images"):
		candidates = append(candidates, strings.Replace(stem, "images", "labels", 1)+".npy")
	case len(candidates) == 0:
		return "", param.Errorf("%s: cannot tell the labels file from this name; name it by %s", path, param.Labels)
	}
	for _, labels := range candidates {
		if file := filepath.Join(dir, labels); exists(file) {
			return file, nil
		}
	}
	return "", param.Errorf("%s: no labels file %s beside it; name it by %s", path, candidates[0], param.Labels)
}

func openNPY(ctx context.Context, path string, opt Options) (*Dataset, error) {
	labels := opt.Labels
	if labels == "" {
		var err error
		if labels, err = npyLabelsFor(path); err != nil {
			return nil, err
		}
	}
	x, f, err := readArray(ctx, path)
	if err != nil {
		return nil, err
	}
	var y []int
	labelAt := unplaced
	if opt.unlabelled() {
		y, err = x.noLabels()
	} else {
		y, labelAt, err = readLabels(ctx, labels)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	d, err := x.dataset("NumPy .npy", y, labelAt)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	d.closer = f
	return d, nil
}

// Each entry of arrayNames holds two names: one of inputs and one of their labels. The entries are tried in this order:
// rscert's own names, names of test data, names of data that are not split into parts, and names of validation data.
// The names are usual in Keras, MedMNIST, scikit-learn, Hugging Face and elsewhere.
var arrayNames = [][2]string{
	{"x", "y"}, {"x_test", "y_test"}, {"X_test", "y_test"}, {"test_images", "test_labels"}, {"test_data", "test_labels"},
	{"images_test", "labels_test"}, {"X", "y"}, {"X", "Y"}, {"images", "labels"}, {"data", "target"}, {"data", "labels"}, {"data", "label"},
	{"image", "label"}, {"images", "targets"}, {"data", "targets"}, {"inputs", "targets"}, {"inputs", "labels"}, {"features", "labels"},
	{"features", "target"}, {"x_val", "y_val"}, {"X_val", "y_val"}, {"val_images", "val_labels"},
}

func openNPZ(ctx context.Context, path string, opt Options) (_ *Dataset, err error) {
	f, err := openChecked(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	x, y, err := inputsAndLabels(path, f, opt.Labels != "")
	if err != nil {
		return nil, err
	}
	var labels []int
	var labelAt func(int) string
	switch {
	case opt.unlabelled():
		labelAt = unplaced
	case opt.Labels != "":
		labels, labelAt, err = readLabels(ctx, opt.Labels)
	default:
		var a *array
		if a, err = readMember(ctx, path, f, y); err == nil {
			labels, err = a.labels()
			labelAt = a.labelAt
		}
	}
	if err != nil {
		return nil, err
	}
	inputs, err := readMember(ctx, path, f, x)
	if err != nil {
		return nil, err
	}
	if opt.unlabelled() {
		if labels, err = inputs.noLabels(); err != nil {
			return nil, err
		}
	}
	d, err := inputs.dataset("NumPy .npz", labels, labelAt)
	if err != nil {
		return nil, err
	}
	d.closer = f
	d.addNote("inputs %s", npy.ArrayName(x))
	return d, nil
}

// inputsAndLabels finds the inputs x and the labels y in an archive by the names in arrayNames. The result y may be nil
// if the labels are in another file.
func inputsAndLabels(path string, f contents, labelsApart bool) (x, y *zip.File, err error) {
	archive, err := zip.NewReader(f, f.size())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: not a whole .npz file: %w", path, err)
	}
	members := map[string]*zip.File{}
	var names []string
	for _, m := range archive.File {
		name := npy.ArrayName(m)
		if members[name] != nil {
			return nil, nil, fmt.Errorf("%s: array %s appears twice", path, quote.Name(name))
		}
		members[name] = m
		names = append(names, name)
	}
	for _, pair := range arrayNames {
		x, y = members[pair[0]], members[pair[1]]
		if x != nil && (y != nil || labelsApart) {
			return x, y, nil
		}
	}
	return nil, nil, fmt.Errorf("%s: has no arrays x and y, but %s; numpy.savez(FILE, x=…, y=…) names them", path, quote.Name(strings.Join(names, ", ")))
}

// readMember opens an array of an archive. Data that are uncompressed and in C order stay in the file. readMember holds
// other data in memory, with the type that they have in the file.
func readMember(ctx context.Context, path string, file io.ReaderAt, m *zip.File) (*array, error) {
	name := path + ": " + m.Name
	if err := npy.CheckMember(m); err != nil {
		return nil, fmt.Errorf("%s: byte 0: %w", name, err)
	}
	length := int64(m.UncompressedSize64)
	r, err := m.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	var header bytes.Buffer
	a, err := parseNPY(name, io.TeeReader(r, &header), length)
	if err != nil {
		return nil, err
	}
	whole := contextReader{ctx, io.MultiReader(&header, r)}
	if m.Method != zip.Store || a.Fortran {
		held, err := hold(whole, length)
		if err != nil {
			return nil, fmt.Errorf("%s: byte %d: %w", name, held.size(), err)
		}
		a.data = held
		return a, nil
	}
	// Reading the whole member checks its checksum.
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
